//! Fetching ahead: what a viewer is about to request is fetched while no viewer waits for the origin.
//!
//! The server passes on what players announce (CMCD), and which path a viewer has requested, so that what follows in its playlist can be found. What is
//! expected waits in a short [`queue`]. It is fetched like any viewer's request without passwords and cookies, and kept like any other response.
//!
//! Invariants:
//! - No viewer waits for this: a fetch begins only while the origin's slots are half empty and no request waits, and it brings a slot of its own.
//! - The origin is asked once: a viewer who requests what is being fetched ahead gets it from there.
//! - The server learns of what was fetched ahead when a viewer requests it. So each first use is seen, and [`brought`] knows what was wasted.

mod brought;
mod playlists;
mod queue;

use super::passing::AT_ONCE_MAX as PASSING_MAX;
use super::receiving::Ready;
use super::{Helper, answering};
use crate::contract::{
    AheadHint, BLOCK_BYTES, EdgeTold, ForwardedRequest, OBJECT_BYTES_MAX, Trouble,
};
use crate::http_cache::{ResponseKind, is_blocking_reload};
use crate::inquiry::BroughtAhead;
use crate::store::Stored;
use brought::Brought;
use playlists::{PLAYLIST_BYTES_MAX, Playlists};
use queue::{AheadQueue, AheadSource, WantedAhead};
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{interval, sleep};

/// The number in place of a viewer's: theirs begin at 1.
pub(super) const NO_VIEWER: u64 = 0;

/// The most objects at the same time. Each has a slot of its own, in addition to those for viewers.
const AT_ONCE_MAX: usize = 4;

/// The most bytes of one object: as far as the server reads ahead for a viewer.
const OBJECT_AHEAD_BYTES_MAX: u64 = 8 << 20;

/// How often to look whether viewers still wait.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// How often figures are reported, and time is looked at.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// How long after a failure of the origin's nothing is fetched ahead: it needs no more requests than viewers make.
const AFTER_FAILURE: Duration = Duration::from_secs(10);

/// Who an object is fetched ahead for, and why.
pub(super) type AheadFor = (IpAddr, AheadSource);

/// What is fetched ahead.
pub(super) struct Ahead {
    queue: Mutex<AheadQueue>,
    playlists: Mutex<Playlists>,
    brought: Mutex<Brought>,
    waste_percent_max: AtomicU8,
    failed_at: Mutex<Option<Instant>>,
    at_once: Arc<Semaphore>,
    news: Notify,
}

impl Default for Ahead {
    fn default() -> Self {
        let (queue, playlists, brought, failed_at, news) = Default::default();
        let waste_percent_max = AtomicU8::new(0);
        let at_once = Arc::new(Semaphore::new(AT_ONCE_MAX));
        Self { queue, playlists, brought, waste_percent_max, failed_at, at_once, news }
    }
}

impl Ahead {
    /// Blocks of an object, or all of another response as block 0, are fetched ahead from now on.
    pub(super) fn expect(&self, number: u64, blocks: Range<u64>, ahead_for: AheadFor) {
        self.brought().expect(number, blocks, ahead_for, Instant::now());
    }

    /// A block has arrived. Returns whether no viewer waits for it, because it was fetched ahead.
    pub(super) fn arrive(&self, number: u64, block: u64, bytes: u64) -> bool {
        self.brought().arrive(number, block, bytes, Instant::now())
    }

    /// Blocks that were not fetched.
    pub(super) fn fail(&self, number: u64, blocks: &Range<u64>) {
        self.brought().fail(number, blocks);
    }

    /// A viewer takes these blocks, or waits for them.
    pub(super) fn take(&self, number: u64, blocks: Range<u64>) {
        self.brought().take(number, blocks, Instant::now());
    }

    /// A viewer begins with this block: takes it with those around it that were fetched ahead.
    pub(super) fn take_around(&self, number: u64, block: u64) -> Option<Range<u64>> {
        let mut brought = self.brought();
        let blocks = brought.there(number, block)?;
        brought.take(number, blocks.clone(), Instant::now());
        Some(blocks)
    }

    /// An object or a response is removed.
    pub(super) fn remove(&self, number: u64) {
        self.brought().remove(number, Instant::now());
    }

    /// Whether an object was fetched ahead, and what became of it.
    pub(super) fn find(&self, number: u64, now: Instant) -> Option<BroughtAhead> {
        self.brought().find(number, now)
    }

    /// There was no answer to keep.
    pub(super) fn note_refused(&self, why: Trouble) {
        let now = Instant::now();
        match why.is_failure() {
            true => *self.failed_at() = Some(now),
            false => self.brought().note_lost(0, now),
        }
    }

    fn has_failed(&self, now: Instant) -> bool {
        self.failed_at().is_some_and(|at| now < at + AFTER_FAILURE)
    }

    fn add(&self, client: IpAddr, wanted: WantedAhead) {
        self.queue().add(client, wanted, Instant::now());
        self.news.notify_one();
    }

    fn may_go_on(&self, client: IpAddr, now: Instant) -> bool {
        let waste_percent_max = self.waste_percent_max.load(Relaxed);
        !self.has_failed(now) && self.brought().may_go_on(client, waste_percent_max, now)
    }

    fn queue(&self) -> MutexGuard<'_, AheadQueue> {
        self.queue.lock().expect("no holder of this lock can panic")
    }

    fn playlists(&self) -> MutexGuard<'_, Playlists> {
        self.playlists.lock().expect("no holder of this lock can panic")
    }

    fn brought(&self) -> MutexGuard<'_, Brought> {
        self.brought.lock().expect("no holder of this lock can panic")
    }

    fn failed_at(&self) -> MutexGuard<'_, Option<Instant>> {
        self.failed_at.lock().expect("no holder of this lock can panic")
    }
}

impl Helper {
    /// A viewer has requested something, and may request other things next.
    pub(super) fn note_hint(&self, hint: AheadHint) {
        let AheadHint { client, path, announced, segments, waste_percent_max } = hint;
        self.ahead.waste_percent_max.store(waste_percent_max, Relaxed);
        for one in announced {
            let end = one.end.unwrap_or(OBJECT_BYTES_MAX);
            let end = end.min(one.first.saturating_add(OBJECT_AHEAD_BYTES_MAX));
            let source = AheadSource::Cmcd;
            self.ahead.add(client, WantedAhead { path: one.path, bytes: one.first..end, source });
        }
        if segments == 0 {
            return;
        }
        if ResponseKind::of(&path, None) == ResponseKind::Index {
            self.read_playlist(&path);
        }
        let following = self.ahead.playlists().after(&path, segments.into());
        for path in following {
            let (bytes, source) = (0..OBJECT_AHEAD_BYTES_MAX, AheadSource::Playlist);
            self.ahead.add(client, WantedAhead { path, bytes, source });
        }
    }

    /// Reads a playlist that is kept, unless that has been done.
    fn read_playlist(&self, path: &str) {
        let Some((number, file)) = self.kept_playlist(path) else { return };
        let mut text = String::new();
        // What is no text has no segments. It is noted all the same, so that it is read once.
        let _ = file.take(PLAYLIST_BYTES_MAX).read_to_string(&mut text);
        self.ahead.playlists().add(path, number, &text);
    }

    /// The file of a whole playlist that has not been read yet.
    fn kept_playlist(&self, path: &str) -> Option<(u64, File)> {
        let is_new = |number: u64| !self.ahead.playlists().has(path, number);
        let film = self.known().by_path.get(path).cloned();
        if let Some(film) = film {
            let is_whole = film.size <= PLAYLIST_BYTES_MAX && film.stored_bytes() >= film.size;
            return (is_whole && is_new(film.number))
                .then(|| film.open().ok())?
                .map(|file| (film.number, file));
        }
        // Variants may be different for each viewer.
        let stored = self.responses().at(path).into_iter().find(|one| one.selecting.is_empty())?;
        let is_wanted =
            stored.status == 200 && stored.size <= PLAYLIST_BYTES_MAX && is_new(stored.number);
        is_wanted.then(|| self.open_body(&stored).ok())?.map(|file| (stored.number, file))
    }

    /// Fetches what is expected, while no viewer waits.
    pub(super) async fn fetch_all_ahead(self: Arc<Self>) {
        loop {
            if self.ahead.queue().is_empty() {
                self.ahead.news.notified().await;
                continue;
            }
            let place = Arc::clone(&self.ahead.at_once).acquire_owned().await;
            let place = place.expect("nothing closes the semaphore");
            let is_passing_idle = self.passing.available_permits() >= PASSING_MAX / 2;
            if !is_passing_idle || !self.slots.are_idle() {
                sleep(LOOK_AGAIN).await;
                continue;
            }
            let now = Instant::now();
            let Some((client, wanted)) = self.ahead.queue().next(now) else { continue };
            if self.is_missing(&wanted) && self.ahead.may_go_on(client, now) {
                tokio::spawn(Arc::clone(&self).fetch_ahead(client, wanted, place));
            }
        }
    }

    /// Every second: reports what has changed.
    pub(super) async fn sweep_ahead(self: Arc<Self>) {
        let (mut ticks, mut was_paused) = (interval(SWEEP_EVERY), false);
        loop {
            ticks.tick().await;
            let (now, mut brought) = (Instant::now(), self.ahead.brought());
            brought.expire(now);
            let counts = brought.take_counts();
            let is_paused = brought.is_wasteful(self.ahead.waste_percent_max.load(Relaxed), now);
            drop(brought);
            if counts != brought::AheadCounts::default() || is_paused != was_paused {
                let brought::AheadCounts { fetched, used, wasted } = counts;
                self.tell(EdgeTold::Ahead { fetched, used, wasted, is_paused });
            }
            was_paused = is_paused;
        }
    }

    /// Whether some of it is neither kept nor on its way. What is no longer fresh is not asked about: its next viewer does that.
    fn is_missing(&self, wanted: &WantedAhead) -> bool {
        let path = &wanted.path;
        if is_blocking_reload(path) || ResponseKind::of(path, None) == ResponseKind::Index {
            return false;
        }
        self.restore(path);
        let known = self.known();
        match known.by_path.get(path) {
            Some(film) => film.stored_bytes() < film.size && !answering::fresh_left(film).is_zero(),
            None if known.opening.contains_key(path) => false,
            None => {
                drop(known);
                !self.responses().has(path) && !self.growing_responses.has(path)
            }
        }
    }

    async fn fetch_ahead(
        self: Arc<Self>,
        client: IpAddr,
        wanted: WantedAhead,
        _place: OwnedSemaphorePermit,
    ) {
        let WantedAhead { path, bytes, source } = wanted;
        let (slot, ahead_for) = (self.slots.add_one(), (client, source));
        if !self.known().by_path.has(&path) {
            if !self.known().begin_ahead(&path, ahead_for) {
                return;
            }
            let helper = Arc::clone(&self);
            helper.open(path.clone(), bytes.start, NO_VIEWER, ForwardedRequest::get()).await;
        }
        let film = self.known().by_path.get(&path).cloned();
        if let Some(film) = film {
            self.fetch_rest_ahead(film, &bytes, ahead_for).await;
        }
        drop(slot);
    }

    /// Fetches the blocks of an object that are missing.
    async fn fetch_rest_ahead(
        self: Arc<Self>,
        film: Arc<Stored>,
        bytes: &Range<u64>,
        ahead_for: AheadFor,
    ) {
        let blocks = bytes.start / BLOCK_BYTES..bytes.end.min(film.size).div_ceil(BLOCK_BYTES);
        // The beginning comes with the answer about the object. One request at a time: there is one slot.
        while self.ahead.brought().is_arriving(film.number) {
            sleep(LOOK_AGAIN).await;
        }
        for run in film.take_missing(blocks) {
            self.ahead.expect(film.number, run.clone(), ahead_for);
            Arc::clone(&self).fetch(Arc::clone(&film), run, (0, None)).await;
        }
    }

    /// Keeps a response that is no object and was fetched ahead.
    pub(super) fn keep_ahead(self: &Arc<Self>, path: &str, ready: Ready) {
        let (number, status, size) = ready.outline();
        let ahead_for = self.known().opening.get(path).and_then(|opening| opening.ahead_for);
        let is_stored = ready.is_stored() && status == 200;
        let Some(ahead_for) = ahead_for.filter(|_| is_stored) else {
            // An error may be over when a viewer asks.
            self.forget_response(number);
            let bytes = if ready.is_arriving() { 0 } else { size };
            self.ahead.brought().note_lost(bytes, Instant::now());
            return self.give_up(ready);
        };
        self.ahead.expect(number, 0..1, ahead_for);
        let Some(rest) = ready.into_rest() else {
            self.ahead.arrive(number, 0, size);
            return;
        };
        // It goes on as if its viewer had left.
        let Some(alone) = self.alone.take(path) else {
            self.ahead.fail(number, &(0..1));
            return self.forget_response(number);
        };
        let (helper, slot) = (Arc::clone(self), self.slots.add_one());
        tokio::spawn(async move {
            helper.receive_rest(rest).await;
            let kept = helper.responses().current(number);
            match kept {
                Some(kept) => drop(helper.ahead.arrive(number, 0, kept.size)),
                None => helper.ahead.fail(number, &(0..1)),
            }
            drop((slot, alone));
        });
    }
}
