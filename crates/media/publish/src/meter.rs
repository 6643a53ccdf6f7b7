//! The progress of a publication.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A progress report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Data has arrived.
    Done {
        /// Bytes in the bucket, including those that were there before.
        done_bytes: u64,
        /// Bytes in all.
        all_bytes: u64,
    },
    /// The store is away, or asks to slow down.
    Waiting {
        /// The store's error.
        why: String,
        /// The pause until the next try.
        pause: Duration,
    },
}

/// Adds up the work of all tasks.
pub(crate) struct Meter {
    done_bytes: AtomicU64,
    kept_bytes: AtomicU64,
    all_bytes: u64,
    tell: Box<dyn Fn(Progress) + Send + Sync>,
}

impl Meter {
    pub(crate) fn new(all_bytes: u64, tell: Box<dyn Fn(Progress) + Send + Sync>) -> Self {
        let (done_bytes, kept_bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { done_bytes, kept_bytes, all_bytes, tell }
    }

    /// `bytes` were sent.
    pub(crate) fn sent(&self, bytes: u64) {
        let done_bytes = self.done_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        (self.tell)(Progress::Done { done_bytes, all_bytes: self.all_bytes });
    }

    /// `bytes` were there already.
    pub(crate) fn kept(&self, bytes: u64) {
        self.kept_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.sent(bytes);
    }

    /// Takes back `bytes`, of which `kept_bytes` were there before: they have to be sent again.
    pub(crate) fn take_back(&self, bytes: u64, kept_bytes: u64) {
        self.done_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.kept_bytes.fetch_sub(kept_bytes, Ordering::Relaxed);
    }

    pub(crate) fn wait(&self, why: String, pause: Duration) {
        (self.tell)(Progress::Waiting { why, pause });
    }

    pub(crate) fn kept_bytes(&self) -> u64 {
        self.kept_bytes.load(Ordering::Relaxed)
    }
}
