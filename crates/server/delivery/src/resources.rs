//! The resources that a worker provides to its connections.

use crate::handover::Handover;
use crate::memory_budget::MemoryBudget;
use crate::offload::KernelOffload;
use crate::queue_trial::QueueTrial;
use crate::silos::Silos;
use crate::total_rate::TotalRate;
use disk::{Budget, Reader};
use reactor::Pool;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};
use telemetry::Numbers;

/// Bytes read from a socket at once: more than any request head.
const SCRATCH_BYTES: usize = 32 << 10;

/// Limit on bytes being read into the page cache. A guess: 16 viewers with windows of the largest size, each with the most windows requested ahead.
/// More keep no disk busier, and this is little compared with any machine's memory.
const READAHEAD_BYTES_MAX: u64 = 32 << 20;

/// Resources that all connections of one worker use.
pub struct Resources {
    /// The disk.
    pub reader: Reader,
    /// Buffers for sealed records.
    pub send_buffers: Pool,
    /// Reports whether there is memory for more.
    pub memory: MemoryBudget,
    /// Counters.
    pub numbers: Arc<Numbers>,
    /// The silos of disks and NICs; none on a machine with one silo.
    pub silos: Option<Silos>,
    /// Timeouts for slow viewers.
    pub timeouts: ViewerTimeouts,
    /// The work that is left to the kernel.
    pub offload: KernelOffload,
    /// Decides which connections' keys the kernel may have.
    pub handover: Handover,
    /// Switches for how bytes are read and sealed.
    pub features: Features,
    /// Limits on how much is done at once.
    pub limits: DeliveryLimits,
    /// The rate limit for all connections of the server together; none if there is none.
    pub total_rate: Option<Arc<TotalRate>>,
    /// Finds out whether the kernel should hold more unsent bytes for fast viewers.
    pub queue_trial: QueueTrial,
    /// Limits the bytes being read into the page cache at once.
    pub readahead_budget: Budget,
    /// The first destination of bytes from sockets. Borrowed only within one poll.
    pub scratch: RefCell<Vec<u8>>,
    /// The start of this worker.
    pub started: Instant,
}

/// Limits on how much is done at once.
#[derive(Clone, Copy, Debug)]
pub struct DeliveryLimits {
    /// Records per key before rekeying, if the TLS version can do that.
    pub key_records_max: u64,
    /// The listener's limit on unsent bytes (`TCP_NOTSENT_LOWAT`), above which a connection's own limit follows its viewer's rate. `None` keeps the
    /// listener's.
    pub unsent_bytes_min: Option<u32>,
    /// The most bytes read at once for one connection.
    pub window_bytes_max: usize,
    /// The most bytes that one call lets the kernel send from the page cache.
    pub sendfile_bytes_max: usize,
}

/// Timeouts for slow viewers.
#[derive(Clone, Copy, Debug)]
pub struct ViewerTimeouts {
    /// How long a viewer may go without taking a byte.
    pub send: Duration,
    /// How long a stalled window keeps its buffer.
    pub hold: Duration,
}

/// How bytes are read and sealed. Each field is a switch, so that its effect can be measured.
#[derive(Clone, Copy, Debug)]
pub struct Features {
    /// Keeps several reads in flight for a viewer who takes everything.
    pub reads_ahead: bool,
    /// Seals records directly from their source. If false, the plaintext is copied first.
    pub seals_in_one_pass: bool,
    /// Our own TCP reads lost bytes from disk again. If false, it keeps what it has sent.
    pub rereads: bool,
}

impl Resources {
    /// A buffer for received bytes.
    pub fn new_scratch() -> RefCell<Vec<u8>> {
        RefCell::new(vec![0; SCRATCH_BYTES])
    }

    /// A new budget for bytes being read into the page cache.
    pub fn new_readahead_budget() -> Budget {
        Budget::new(READAHEAD_BYTES_MAX)
    }

    /// Bytes being read into the page cache, or there and not sent yet.
    pub fn bringing_bytes(&self) -> u64 {
        READAHEAD_BYTES_MAX - self.readahead_budget.left_bytes()
    }

    /// Microseconds since this worker started, cut to 32 bits: for differences of less than an hour.
    pub(crate) fn clock(&self, at: Instant) -> u32 {
        at.saturating_duration_since(self.started).as_micros() as u32
    }

    /// How long a stalled window may keep its buffer: not at all while other viewers may have to wait for one.
    pub(crate) fn hold_timeout(&self) -> Duration {
        let is_scarce = self.send_buffers.is_scarce() || self.reader.is_scarce();
        if is_scarce { Duration::ZERO } else { self.timeouts.hold }
    }
}
