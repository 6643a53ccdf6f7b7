//! One version of an object, and the origin's latest answer about it.

use disk::PresentBlocks;
use edge::contract::{Described, Trouble};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// One version of an object, fresh or stale.
pub(crate) struct Live {
    pub(super) number: u64,
    pub(super) file: OwnedFd,
    pub(super) arrived: Arc<PresentBlocks>,
    is_ended: AtomicBool,
}

impl Live {
    pub(super) fn new(number: u64, file: OwnedFd, arrived: PresentBlocks) -> Self {
        Self { number, file, arrived: Arc::new(arrived), is_ended: AtomicBool::new(false) }
    }

    /// The helper has ended it, because of `why`: no more of it arrives.
    pub(super) fn end(&self, why: Trouble) {
        self.is_ended.store(true, Relaxed);
        self.arrived.end(why.number());
    }
}

/// The origin's latest answer about an object.
pub(crate) struct Cached {
    pub(super) live: Arc<Live>,
    pub(crate) described: Described,
    pub(super) at: Instant,
    is_invalid: AtomicBool,
}

impl Cached {
    /// The origin's current answer.
    pub(super) fn new(live: Arc<Live>, described: Described) -> Self {
        Self { live, described, at: Instant::now(), is_invalid: AtomicBool::new(false) }
    }

    /// Whether it may be served without revalidation.
    pub(crate) fn is_fresh(&self, now: Instant) -> bool {
        let fresh = Duration::from_millis(self.described.fresh_ms);
        now.saturating_duration_since(self.at) < fresh && self.may_be_used()
    }

    /// A request may have changed it at the origin: it has to be revalidated before it is served again.
    pub(super) fn invalidate(&self) {
        self.is_invalid.store(true, Relaxed);
    }

    fn may_be_used(&self) -> bool {
        !self.is_ended() && !self.is_invalid.load(Relaxed)
    }

    /// Whether it may be served while the origin can't be reached.
    pub(super) fn may_be_stale(&self, now: Instant) -> bool {
        let Described { fresh_ms, stale_ms, .. } = self.described;
        let usable =
            Duration::from_millis(fresh_ms).saturating_add(Duration::from_millis(stale_ms));
        now.saturating_duration_since(self.at) < usable && self.may_be_used()
    }

    /// Whether a request made at `since` gets this version only because the origin can't be reached.
    pub(super) fn is_stale(&self, since: Instant) -> bool {
        self.described.is_stale || self.at < since && !self.is_fresh(since)
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.live.is_ended.load(Relaxed)
    }

    /// Time since the origin's latest answer.
    pub(crate) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.at) + Duration::from_millis(self.described.age_ms)
    }
}
