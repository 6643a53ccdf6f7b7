//! Counts of what simulated nodes experience.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Counts since the nodes started. Latencies are kept only during a measurement.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    answered: AtomicU64,
    lost: AtomicU64,
    /// Nodes whose heartbeat and inventory the gateway has accepted.
    known: AtomicU64,
    inventories: AtomicU64,
    snapshots: AtomicU64,
    sent_bytes: AtomicU64,
    received_bytes: AtomicU64,
    snapshot_bytes: AtomicU64,
    is_measured: AtomicBool,
    latencies_us: Mutex<Vec<u32>>,
    first_trouble: Mutex<Option<String>>,
}

/// Counts at one moment, or between two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tallied {
    /// Heartbeats that were answered.
    pub(crate) answered: u64,
    /// Heartbeats that were refused, late by a whole interval, or had no connection.
    pub(crate) lost: u64,
    /// Inventories sent.
    pub(crate) inventories: u64,
    /// Snapshots fetched.
    pub(crate) snapshots: u64,
    /// Bytes of requests, before TLS.
    pub(crate) sent_bytes: u64,
    /// Bytes of answers, before TLS, without snapshots.
    pub(crate) received_bytes: u64,
    /// Bytes of snapshots.
    pub(crate) snapshot_bytes: u64,
}

impl Tallied {
    /// The difference from `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            answered: self.answered - earlier.answered,
            lost: self.lost - earlier.lost,
            inventories: self.inventories - earlier.inventories,
            snapshots: self.snapshots - earlier.snapshots,
            sent_bytes: self.sent_bytes - earlier.sent_bytes,
            received_bytes: self.received_bytes - earlier.received_bytes,
            snapshot_bytes: self.snapshot_bytes - earlier.snapshot_bytes,
        }
    }
}

impl Tally {
    pub(super) fn count_traffic(&self, sent: usize, received: u64) {
        self.sent_bytes.fetch_add(sent as u64, Relaxed);
        self.received_bytes.fetch_add(received, Relaxed);
    }

    pub(super) fn count_answer(&self, took: Duration) {
        self.answered.fetch_add(1, Relaxed);
        if self.is_measured.load(Relaxed) {
            let micros = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
            self.latencies_us.lock().unwrap_or_else(PoisonError::into_inner).push(micros);
        }
    }

    pub(super) fn count_lost(&self, why: &io::Error) {
        self.lost.fetch_add(1, Relaxed);
        self.note(why);
    }

    /// Keeps the first problem, which mostly explains the others.
    pub(super) fn note(&self, why: &io::Error) {
        let mut first = self.first_trouble.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(|| why.to_string());
    }

    pub(super) fn count_known(&self) {
        self.known.fetch_add(1, Relaxed);
    }

    pub(super) fn count_inventory(&self) {
        self.inventories.fetch_add(1, Relaxed);
    }

    pub(super) fn count_snapshot(&self, bytes: u64) {
        self.snapshots.fetch_add(1, Relaxed);
        self.snapshot_bytes.fetch_add(bytes, Relaxed);
    }

    /// How many nodes the gateway knows with their inventories.
    pub(crate) fn known(&self) -> u64 {
        self.known.load(Relaxed)
    }

    /// The first problem.
    pub(crate) fn first_trouble(&self) -> Option<String> {
        self.first_trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All counts.
    pub(crate) fn read(&self) -> Tallied {
        Tallied {
            answered: self.answered.load(Relaxed),
            lost: self.lost.load(Relaxed),
            inventories: self.inventories.load(Relaxed),
            snapshots: self.snapshots.load(Relaxed),
            sent_bytes: self.sent_bytes.load(Relaxed),
            received_bytes: self.received_bytes.load(Relaxed),
            snapshot_bytes: self.snapshot_bytes.load(Relaxed),
        }
    }

    /// Starts to keep latencies.
    pub(crate) fn begin_latencies(&self) {
        self.is_measured.store(true, Relaxed);
    }

    /// Stops keeping latencies, and returns them in microseconds, in ascending order.
    pub(crate) fn end_latencies(&self) -> Vec<u32> {
        self.is_measured.store(false, Relaxed);
        let mut kept =
            std::mem::take(&mut *self.latencies_us.lock().unwrap_or_else(PoisonError::into_inner));
        kept.sort_unstable();
        kept
    }
}
