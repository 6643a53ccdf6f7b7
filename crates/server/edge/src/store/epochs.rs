//! Which responses are older than an invalidation.
//!
//! A response that was requested before its path was made invalid may show what was there before, and can arrive long after. So each request
//! notes its path's epoch, and its response is stored only if that epoch has not ended.

use std::hash::{BuildHasher, RandomState};

/// Paths whose hashes agree share an epoch. Then an invalidation of one also keeps a response of the other from being stored, once.
const EPOCHS: usize = 1024;

/// The time between two invalidations of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch(u64);

/// The current epoch of every path.
pub(super) struct Epochs {
    current: Vec<u64>,
    hashes: RandomState,
}

impl Default for Epochs {
    fn default() -> Self {
        Self { current: vec![0; EPOCHS], hashes: RandomState::new() }
    }
}

impl Epochs {
    /// The current epoch of `path`.
    pub(super) fn of(&self, path: &str) -> Epoch {
        Epoch(self.current[self.index(path)])
    }

    /// Ends the epoch of `path`: responses that were requested before are not to be stored.
    pub(super) fn end(&mut self, path: &str) {
        let index = self.index(path);
        self.current[index] += 1;
    }

    fn index(&self, path: &str) -> usize {
        (self.hashes.hash_one(path) % EPOCHS as u64) as usize
    }
}
