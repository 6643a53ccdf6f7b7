//! What a worker provides to its connections.

use crate::handover::Handover;
use crate::offload::KernelOffload;
use crate::queue_trial::QueueTrial;
use crate::room::Room;
use crate::silos::Silos;
use crate::total_rate::TotalRate;
use disk::{Budget, Reader};
use reactor::Pool;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};
use telemetry::Numbers;

/// Bytes taken from a socket at once: more than any request head.
const SCRATCH_BYTES: usize = 32 << 10;

/// Limit on bytes on their way into the page cache. A guess: 16 viewers with windows of the largest size, each with the
/// largest number asked for ahead. More keep no disk busier, and this is little compared with any memory.
const BRING_BYTES_MAX: u64 = 32 << 20;

/// What all connections of one worker use.
pub struct Resources {
    /// The disk.
    pub reader: Reader,
    /// Buffers for sealed records.
    pub send_buffers: Pool,
    /// Whether there is memory for more.
    pub room: Room,
    /// Counters.
    pub numbers: Arc<Numbers>,
    /// Where disks and network cards are; none on a machine with one silo.
    pub silos: Option<Silos>,
    /// How long a viewer may take.
    pub patience: Patience,
    /// What is left to the kernel.
    pub offload: KernelOffload,
    /// Which connections' keys the kernel may have.
    pub handover: Handover,
    /// How bytes are brought and sealed.
    pub tactics: Tactics,
    /// How much may be done at once.
    pub limits: DeliveryLimits,
    /// What all connections of the server together may send; none if that is not limited.
    pub total_rate: Option<Arc<TotalRate>>,
    /// Whether the kernel may hold more unsent bytes for fast viewers.
    pub queue_trial: QueueTrial,
    /// What may be on its way into the page cache at once.
    pub bring_budget: Budget,
    /// Where bytes from sockets arrive first. Borrowed only within one poll.
    pub scratch: RefCell<Vec<u8>>,
    /// When this worker started.
    pub started: Instant,
}

/// How much may be done at once.
#[derive(Clone, Copy, Debug)]
pub struct DeliveryLimits {
    /// Records per key before the key is changed, if the TLS version can do that.
    pub key_records_max: u64,
    /// The listener's limit on unsent bytes (`TCP_NOTSENT_LOWAT`), above which a connection's own limit follows its viewer's
    /// rate. `None` keeps the listener's.
    pub unsent_bytes_min: Option<u32>,
    /// The most bytes brought at once for one connection.
    pub window_bytes_max: usize,
    /// The most bytes that the kernel is told to send from the page cache at once.
    pub sendfile_bytes_max: usize,
}

/// How long a viewer may take before the server does something about it.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// How long a viewer may go without taking one byte.
    pub send: Duration,
    /// How long a stalled window keeps its buffer.
    pub hold: Duration,
}

/// How bytes are brought and sealed. Each field is a switch, so that its effect can be measured.
#[derive(Clone, Copy, Debug)]
pub struct Tactics {
    /// A viewer who takes everything gets several reads in flight.
    pub reads_ahead: bool,
    /// Records are sealed directly from their source. If false, the plaintext is copied first.
    pub seals_in_one_pass: bool,
    /// Our own TCP reads lost bytes from disk again. If false, it keeps what it has sent.
    pub rereads: bool,
}

impl Resources {
    /// A buffer for what sockets receive.
    pub fn new_scratch() -> RefCell<Vec<u8>> {
        RefCell::new(vec![0; SCRATCH_BYTES])
    }

    /// A new budget for bytes on their way into the page cache.
    pub fn new_bring_budget() -> Budget {
        Budget::new(BRING_BYTES_MAX)
    }

    /// Bytes on their way into the page cache, or there and not sent yet.
    pub fn bringing_bytes(&self) -> u64 {
        BRING_BYTES_MAX - self.bring_budget.left_bytes()
    }

    /// Microseconds since this worker started, cut to 32 bits: for differences of less than an hour.
    pub(crate) fn clock(&self, at: Instant) -> u32 {
        at.saturating_duration_since(self.started).as_micros() as u32
    }

    /// How long a stalled window may keep its buffer: not at all while others may have to wait for one.
    pub(crate) fn hold_patience(&self) -> Duration {
        let is_scarce = self.send_buffers.is_scarce() || self.reader.is_scarce();
        if is_scarce { Duration::ZERO } else { self.patience.hold }
    }
}
