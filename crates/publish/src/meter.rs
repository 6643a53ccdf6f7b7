//! How far a publication is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a publisher does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// So much is there.
    Done {
        /// Bytes that are there, those that were there before included.
        done_bytes: u64,
        /// Of so many.
        all_bytes: u64,
    },
    /// The store is away, or asks to slow down.
    Waiting {
        /// What it said.
        why: String,
        /// Until it is asked again.
        pause: Duration,
    },
}

/// Adds up what all tasks have done.
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

    /// So many of them, of which so many were kept, have to be done again.
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
