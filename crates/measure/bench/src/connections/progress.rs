//! State that the threads of a run share.

use super::peer::Counted;
use super::server::Sample;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The progress of a run.
#[derive(Default)]
pub(super) struct Progress {
    is_over: AtomicBool,
    begin_counting: AtomicBool,
    end_counting: AtomicBool,
    connected: AtomicU32,
    told: Mutex<Told>,
}

/// Reports from the threads.
#[derive(Default)]
pub(super) struct Told {
    pub(super) counted: Counted,
    pub(super) peer_bytes: usize,
    /// CPU time of the peer's thread at the start and the end of counting, and now.
    peer_cpu: [Duration; 3],
    /// Bytes that each viewer received between the start and the end of counting.
    pub(super) shares: Option<Vec<u32>>,
    /// The server's samples, oldest first.
    pub(super) samples: Vec<Sample>,
    /// Why the server has stopped.
    pub(super) failure: Option<String>,
}

impl Told {
    /// Percentage of a core that the peer used while counting.
    pub(super) fn peer_cpu_percent(&self, from: Instant, to: Instant) -> f64 {
        let [begin, end, _] = self.peer_cpu;
        100.0 * (end - begin).as_secs_f64() / (to - from).as_secs_f64()
    }
}

impl Progress {
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    pub(super) fn begin_counting(&self) {
        self.with(|told| told.peer_cpu[0] = told.peer_cpu[2]);
        self.begin_counting.store(true, Ordering::Relaxed);
    }

    pub(super) fn end_counting(&self) {
        self.with(|told| told.peer_cpu[1] = told.peer_cpu[2]);
        self.end_counting.store(true, Ordering::Relaxed);
    }

    /// For the peer: true once after [`Self::begin_counting`].
    pub(super) fn is_counting_begun(&self) -> bool {
        self.begin_counting.swap(false, Ordering::Relaxed)
    }

    /// For the peer: true once after [`Self::end_counting`].
    pub(super) fn is_counting_ended(&self) -> bool {
        self.end_counting.swap(false, Ordering::Relaxed)
    }

    pub(super) fn connected(&self) -> u32 {
        self.connected.load(Ordering::Relaxed)
    }

    /// For the peer: reports its state.
    pub(super) fn tell(&self, connected: u32, counted: Counted, peer_bytes: usize, cpu: Duration) {
        self.connected.store(connected, Ordering::Relaxed);
        self.with(|told| {
            (told.counted, told.peer_bytes, told.peer_cpu[2]) = (counted, peer_bytes, cpu);
        });
    }

    pub(super) fn tell_shares(&self, shares: Vec<u32>) {
        self.with(|told| told.shares = Some(shares));
    }

    /// Reads or changes what was reported.
    pub(super) fn with<R>(&self, look: impl FnOnce(&mut Told) -> R) -> R {
        look(&mut self.told.lock().expect("no holder of this lock can panic"))
    }
}
