//! A counter or a gauge, written by one thread.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one thread writes and any thread reads.
#[derive(Debug, Default)]
pub struct Number(AtomicU64);

impl Number {
    /// Adds `by`. Only its worker's thread may call this.
    pub fn add(&self, by: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
    }

    /// Subtracts `by`, for gauges. Only its worker's thread may call this.
    pub fn subtract(&self, by: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_sub(by), Ordering::Relaxed);
    }

    /// Sets the value, for gauges and for counters that are kept elsewhere.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// The current value.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
