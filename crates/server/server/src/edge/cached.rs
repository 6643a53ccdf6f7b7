//! One version of an object, and the origin's latest answer about it.

use super::response_space::Taken;
use disk::PresentBlocks;
use edge::contract::{BLOCK_BYTES, Described, EdgeAsk, RESPONSES_FROM, Trouble};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{
    AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// One version of an object, fresh or stale.
pub(crate) struct Live {
    pub(super) number: u64,
    pub(super) file: OwnedFd,
    pub(super) arrived: Arc<PresentBlocks>,
    is_ended: AtomicBool,
    /// How often it has been made stale before its time.
    times_outdated: AtomicU64,
    /// How often a request may have changed it at the origin.
    times_invalid: AtomicU64,
    /// Set for a response whose length is known only at its end.
    growth: Option<Growth>,
}

/// How much of a response has arrived that doesn't say how long it is.
pub(super) struct Growth {
    bytes: AtomicU64,
    is_whole: AtomicBool,
    /// There is no room for the rest.
    is_too_long: AtomicBool,
    taken: Mutex<Taken>,
    /// Whether its file is a ring.
    is_ring: bool,
    /// For the operator.
    path: String,
    /// Names its viewer to the helper, once that needs no more.
    ticket: u64,
    asks: Sender<EdgeAsk>,
}

impl Growth {
    /// Nothing so far of the response at `path`. It takes its space from `taken`. If there is no more, a message in `asks` tells the helper that the
    /// viewer with this `ticket` needs no more.
    pub(super) fn new(
        path: String,
        (taken, is_ring): (Taken, bool),
        ticket: u64,
        asks: Sender<EdgeAsk>,
    ) -> Self {
        let (bytes, is_whole, is_too_long) = Default::default();
        let taken = Mutex::new(taken);
        Self { bytes, is_whole, is_too_long, taken, is_ring, path, ticket, asks }
    }
}

impl Live {
    pub(super) fn new(number: u64, file: OwnedFd, arrived: PresentBlocks) -> Self {
        let (is_ended, times_outdated, times_invalid) = Default::default();
        let arrived = Arc::new(arrived);
        Self { number, file, arrived, is_ended, times_outdated, times_invalid, growth: None }
    }

    /// A response whose length is not known yet.
    pub(super) fn growing(number: u64, file: OwnedFd, growth: Growth) -> Self {
        Self { growth: Some(growth), ..Self::new(number, file, PresentBlocks::new(0)) }
    }

    /// `bytes` of a response whose length was not known have arrived, and that is all of it if it `is_whole`. Returns how many are new; none, once,
    /// if there is no room for them.
    pub(super) fn grow(&self, bytes: u64, is_whole: bool) -> Option<u64> {
        let growth = self.growth.as_ref().filter(|growth| !growth.is_too_long.load(Acquire));
        let Some(growth) = growth else { return Some(0) };
        // The helper's places bound the space of rings.
        let has_space = growth.is_ring
            || growth.taken.lock().expect("no holder of this lock can panic").grow(bytes);
        if !has_space {
            growth.is_too_long.store(true, Release);
            // Its viewer may take long to notice. If there is no receiver, the helper is gone.
            let _ = growth.asks.send(EdgeAsk::Left { ticket: growth.ticket });
            return None;
        }
        let before = growth.bytes.fetch_max(bytes, Release);
        // A report for another viewer may be older than the end.
        growth.is_whole.fetch_or(is_whole, Release);
        Some(bytes.saturating_sub(before))
    }

    /// The path of a response whose length was not known.
    pub(super) fn path(&self) -> &str {
        self.growth.as_ref().map_or("", |growth| &growth.path)
    }

    /// How many bytes have arrived of a response whose length was not known, and whether that is all of it.
    pub(super) fn grown(&self) -> (u64, bool) {
        let Some(growth) = &self.growth else { return (0, true) };
        // In this order: the length is no older than the end.
        let is_whole = growth.is_whole.load(Acquire);
        (growth.bytes.load(Acquire), is_whole)
    }

    /// Why no more of a response whose length was not known can be read, if so.
    pub(super) fn cut_off(&self) -> Option<u8> {
        let is_too_long = |growth: &Growth| growth.is_too_long.load(Acquire);
        match self.growth.as_ref().is_some_and(is_too_long) {
            true => Some(Trouble::Full.number()),
            false => self.arrived.ended(),
        }
    }

    /// Whether its length was not known when it began to arrive.
    pub(super) fn is_growing(&self) -> bool {
        self.growth.is_some()
    }

    /// Whether more of it is to arrive.
    pub(super) fn is_arriving(&self) -> bool {
        let is_whole = match &self.growth {
            Some(growth) => growth.is_whole.load(Acquire),
            None => self.arrived.is_whole(),
        };
        !is_whole && self.arrived.ended().is_none()
    }

    /// It is stale from now on, although its time isn't over: it has to be revalidated, unless the origin can't be reached and allows that. This
    /// concerns every answer about it so far, also those that only a worker still has.
    pub(super) fn make_stale(&self) {
        self.times_outdated.fetch_add(1, Relaxed);
    }

    /// A request may have changed it at the origin: it has to be revalidated before it is served again. As [`Self::make_stale`], this concerns every
    /// answer about it so far.
    pub(super) fn invalidate(&self) {
        self.times_invalid.fetch_add(1, Relaxed);
    }

    /// Whether it is the file of a response that is no object. All of it is on its way from the beginning, and the helper can't be asked for it.
    pub(super) fn is_response(&self) -> bool {
        self.number >= RESPONSES_FROM
    }

    /// The helper could not fetch `blocks`, because of `why`. Those of an object are asked for again; nothing more of a response arrives.
    pub(super) fn fail(&self, blocks: Range<u64>, why: Trouble) {
        match self.is_response() {
            true => self.end(why),
            false => self.arrived.note_failed(blocks, why.number()),
        }
    }

    /// The helper has ended, and what it fetched does not arrive. The next one is asked for an object's blocks.
    pub(super) fn forget_helper(&self) {
        match self.is_response() {
            true => self.end(Trouble::Unreachable),
            false => self.arrived.forget_asked(),
        }
    }

    /// The helper can't start: nothing that was asked for arrives.
    pub(super) fn fail_asked(&self, why: Trouble) {
        match self.is_response() {
            true => self.end(why),
            false => self.arrived.fail_asked(why.number()),
        }
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
    /// The object's counts when the origin answered.
    times_outdated: u64,
    times_invalid: u64,
}

impl Cached {
    /// The origin's current answer.
    pub(super) fn new(live: Arc<Live>, described: Described) -> Self {
        let times_outdated = live.times_outdated.load(Relaxed);
        let times_invalid = live.times_invalid.load(Relaxed);
        if let Some((first, _)) = described.present {
            live.arrived.note(first..first.saturating_add(1));
        }
        Self { live, described, at: Instant::now(), times_outdated, times_invalid }
    }

    /// Whether it was fetched before a viewer requested it, and has just been requested for the first time.
    pub(super) fn was_ahead(&self) -> bool {
        self.described.present.is_some()
    }

    /// Whether all of `range` was fetched ahead. The helper has to be asked for it all the same, apart from its first block, so that it knows what
    /// viewers take.
    pub(crate) fn was_fetched_ahead(&self, range: &Range<u64>) -> bool {
        self.described.present.is_some_and(|(first, end)| {
            first <= range.start / BLOCK_BYTES && range.end.div_ceil(BLOCK_BYTES) <= end
        })
    }

    /// Whether all of these bytes have arrived, as far as the object is that long.
    pub(super) fn has(&self, bytes: Range<u64>) -> bool {
        let arrived = &self.live.arrived;
        let bytes = bytes.start..bytes.end.min(arrived.size());
        bytes.is_empty() || arrived.has(&bytes)
    }

    /// Whether it may be served without revalidation.
    pub(crate) fn is_fresh(&self, now: Instant) -> bool {
        self.is_within(Duration::ZERO, now)
    }

    /// Whether it may be served while it is being revalidated, because the origin says so. A film that was made stale, or is served because the
    /// origin can't be reached, may not.
    pub(super) fn may_be_revalidated_later(&self, now: Instant) -> bool {
        !self.described.is_stale
            && self.is_within(Duration::from_millis(self.described.revalidating_ms), now)
    }

    /// Whether its time, and `more` than that, is not over.
    fn is_within(&self, more: Duration, now: Instant) -> bool {
        let fresh = Duration::from_millis(self.described.fresh_ms).saturating_add(more);
        let is_young = now.saturating_duration_since(self.at) < fresh;
        let is_current = self.live.times_outdated.load(Relaxed) == self.times_outdated;
        is_young && is_current && self.may_be_used()
    }

    fn may_be_used(&self) -> bool {
        !self.is_ended() && self.live.times_invalid.load(Relaxed) == self.times_invalid
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

    /// For how many seconds it is fresh, or has been stale if this is negative.
    pub(crate) fn ttl(&self, now: Instant) -> i64 {
        let Described { fresh_ms, expired_ms, .. } = self.described;
        let since = now.saturating_duration_since(self.at);
        let fresh = Duration::from_millis(fresh_ms);
        let over = match self.described.is_stale {
            // It counts as fresh until the origin, which can't be reached, is asked again.
            true => Duration::from_millis(expired_ms).saturating_add(since),
            false if self.is_fresh(now) => return fresh.saturating_sub(since).as_secs() as i64,
            false => since.saturating_sub(fresh),
        };
        -(over.as_secs() as i64)
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.live.is_ended.load(Relaxed)
    }

    /// Time since the origin's latest answer.
    pub(crate) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.at) + Duration::from_millis(self.described.age_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(number: u64) -> Live {
        Live::new(number, tempfile::tempfile().unwrap().into(), PresentBlocks::new(1 << 30))
    }

    /// A viewer who needs a block only after the failure asks for an object's again. A response is over: it would wait for its time-out.
    #[test]
    fn the_rest_of_a_response_that_breaks_off_is_over_and_that_of_an_object_is_not() {
        let breaks: [fn(&Live); 3] = [
            |live| live.fail(5..9, Trouble::Unreachable),
            Live::forget_helper,
            |live| live.fail_asked(Trouble::Unreachable),
        ];
        for breaks in breaks {
            let [object, response] = [1, RESPONSES_FROM].map(live);
            for one in [&object, &response] {
                one.arrived.note(0..5);
                breaks(one);
                assert_eq!(
                    one.arrived.ended(),
                    one.is_response().then(|| Trouble::Unreachable.number())
                );
                assert!(one.arrived.has(&(0..5)), "what has arrived can be read");
            }
        }
    }
}
