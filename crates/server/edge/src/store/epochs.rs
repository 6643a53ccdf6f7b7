//! Which responses are older than an invalidation.
//!
//! A response that was requested before its path was made invalid may show what was there before, and can arrive long after. So each request
//! notes its path's epoch, and its response is stored only if that epoch has not ended.

use super::by_path::common_form;
use super::recent_purges::RecentPurges;
use crate::http_cache::Tags;
use crate::purge::Purge;
use std::hash::{BuildHasher, RandomState};
use std::time::Instant;

/// Paths whose hashes agree share an epoch. Then an invalidation of one also keeps a response of the other from being stored, once.
const EPOCHS: usize = 1024;

/// The time between two invalidations of a path, and between two purges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch {
    changes: u64,
    purges: u64,
    /// When it was noted, just before the request.
    pub(super) asked_at: Instant,
}

/// Why a response that was requested in an earlier epoch is not to be used as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outdated {
    /// A request may have changed it at the origin, or a soft purge covers it: it has to be revalidated.
    Stale,
    /// A purge covers it.
    Purged,
}

/// The current epoch of every path.
pub(super) struct Epochs {
    current: Vec<u64>,
    hashes: RandomState,
    purges: RecentPurges,
}

impl Default for Epochs {
    fn default() -> Self {
        let purges = RecentPurges::default();
        Self { current: vec![0; EPOCHS], hashes: RandomState::new(), purges }
    }
}

impl Epochs {
    /// The current epoch of `path`.
    pub(super) fn of(&self, path: &str) -> Epoch {
        let changes = self.current[self.index(path)];
        Epoch { changes, purges: self.purges.last(), asked_at: Instant::now() }
    }

    /// Ends the epoch of `path`: responses that were requested before are not to be stored.
    pub(super) fn end(&mut self, path: &str) {
        let index = self.index(path);
        self.current[index] += 1;
    }

    /// A purge: what it covers is not to be stored if it was requested before.
    pub(super) fn note_purge(&mut self, purge: &Purge) {
        self.purges.add(purge);
    }

    /// Whether a response with these tags, which was requested in the epoch `asked`, is outdated by now.
    pub(super) fn outdated(&self, path: &str, tags: &Tags, asked: Epoch) -> Option<Outdated> {
        let is_changed = self.current[self.index(path)] != asked.changes;
        let purged = self.purges.since(asked.purges, path, tags);
        purged.or(is_changed.then_some(Outdated::Stale))
    }

    /// All spellings of a path share an epoch.
    fn index(&self, path: &str) -> usize {
        (self.hashes.hash_one(&*common_form(path)) % EPOCHS as u64) as usize
    }
}
