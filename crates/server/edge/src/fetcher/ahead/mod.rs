//! Fetching ahead: what a viewer is about to request is fetched while no viewer waits for the origin.
//!
//! The server passes on what players announce (CMCD), and which path a viewer has requested, so that what follows in its playlist can be found.
//! Expected objects wait in a short [`queue`]. Each is fetched like any viewer's request without passwords and cookies, and kept like any other
//! response.
//!
//! Invariants:
//! - No viewer waits for this: a fetch begins only while the origin's slots are half empty and no request waits, and it brings a slot of its own.
//! - Only what is bounded is fetched: [`AHEAD_BYTES_MAX`] of a film, and other responses of at most a block, by their `Content-Length`. What turns
//!   out to be longer is given up at once.
//! - The origin is asked once for what is fetched ahead: a viewer who requests it meanwhile gets it from there.
//! - The server learns of what was fetched ahead when a viewer requests it. So each first use is seen, and [`outcomes`] knows what was wasted.
//!
//! Locks are taken in this order: responses, [`Outcomes`], known objects, and the blocks of an object. [`Outcomes`] is locked while blocks are marked
//! as being fetched, so a viewer who finds them marked is known to wait for them.

mod numbered;
mod outcomes;
mod playlists;
mod queue;
mod tallies;

use super::passing::AT_ONCE_MAX as PASSING_MAX;
use super::receiving::Ready;
use super::{Helper, answering};
use crate::contract::{
    AHEAD_BYTES_MAX, AheadHint, BLOCK_BYTES, EdgeTold, ForwardedRequest, Trouble,
};
use crate::http_cache::{ResponseKind, is_blocking_reload};
use crate::inquiry::FetchedAhead;
use crate::store::{Runs, Stored};
use numbered::EndedSeries;
use outcomes::{AheadCounts, Outcomes};
use playlists::{PLAYLIST_BYTES_MAX, Playlists};
use queue::{AheadQueue, AheadSource, WantedAhead};
use reqwest::Response;
use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::{interval, sleep};

/// The number in place of a viewer's: theirs begin at 1.
pub(super) const NO_VIEWER: u64 = 0;

/// The most objects at the same time. Each has a slot of its own, in addition to those for viewers.
const AT_ONCE_MAX: usize = 4;

/// The most requests, in all and of one client, that wait until it has been looked up what follows them in a playlist. Further ones are dropped.
const FOLLOWED_MAX: usize = 64;
const FOLLOWED_BY_CLIENT_MAX: usize = 8;

/// How often to look whether viewers still wait.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// How often figures are reported, and time is looked at.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Who an object is fetched ahead for, and why.
pub(super) type AheadFor = (IpAddr, AheadSource);

/// The state of fetching ahead.
pub(super) struct Ahead {
    queue: Mutex<AheadQueue>,
    news: Notify,
    followed: Mutex<VecDeque<Followed>>,
    has_followed: Notify,
    playlists: Mutex<Playlists>,
    ended: Mutex<EndedSeries>,
    outcomes: Mutex<Outcomes>,
    at_once: Arc<Semaphore>,
}

/// A request whose next segments are wanted.
struct Followed {
    client: IpAddr,
    path: String,
    segments: u8,
    numbered: u8,
}

impl Default for Ahead {
    fn default() -> Self {
        let (queue, news, followed, has_followed) = Default::default();
        let (playlists, ended, outcomes) = Default::default();
        let at_once = Arc::new(Semaphore::new(AT_ONCE_MAX));
        Self { queue, news, followed, has_followed, playlists, ended, outcomes, at_once }
    }
}

impl Ahead {
    /// A block has arrived. Returns whether no viewer waits for it, because it was fetched ahead.
    pub(super) fn arrive(&self, number: u64, block: u64, bytes: u64) -> bool {
        self.outcomes().arrive(number, block, bytes, Instant::now())
    }

    /// Blocks that were not fetched.
    pub(super) fn fail(&self, number: u64, blocks: &Range<u64>) {
        self.outcomes().fail(number, blocks);
    }

    /// A viewer takes all of a response that is no object.
    pub(super) fn take_response(&self, number: u64) {
        self.outcomes().take(number, 0..1, Instant::now());
    }

    /// A viewer takes blocks of an object, or waits for them, or has them fetched.
    pub(super) fn take(&self, object: &Stored, blocks: Range<u64>) -> Runs {
        let mut outcomes = self.outcomes();
        outcomes.take(object.number, blocks.clone(), Instant::now());
        object.take(blocks)
    }

    /// A viewer takes this block first. Returns the blocks from there on that were fetched ahead. It takes the others as it reads them.
    pub(super) fn take_first(&self, number: u64, block: u64) -> Option<(u64, u64)> {
        let mut outcomes = self.outcomes();
        let end = outcomes.there_until(number, block)?;
        outcomes.take(number, block..block + 1, Instant::now());
        Some((block, end))
    }

    /// Whether what the origin sends instead of these blocks was given up: it is more than may be fetched ahead, and no viewer waits for it.
    pub(super) fn gives_up(&self, object: &Stored, blocks: &Range<u64>, sent: &Range<u64>) -> bool {
        if sent.end - sent.start <= AHEAD_BYTES_MAX {
            return false;
        }
        let mut outcomes = self.outcomes();
        let is_given_up = outcomes.give_up(object.number, blocks, Instant::now());
        if is_given_up {
            object.give_back(blocks.clone());
        }
        is_given_up
    }

    /// An object or a response is removed.
    pub(super) fn remove(&self, number: u64) {
        self.outcomes().remove(number, Instant::now());
    }

    /// Whether an object was fetched ahead, and what became of it.
    pub(super) fn find(&self, number: u64, now: Instant) -> Option<FetchedAhead> {
        self.outcomes().find(number, now)
    }

    /// There was no answer to keep about `path`.
    pub(super) fn note_refused(&self, path: &str, (client, source): AheadFor, why: Trouble) {
        let now = Instant::now();
        if source == AheadSource::Number && why == Trouble::NotFound {
            return self.ended().note(path, now);
        }
        let mut outcomes = self.outcomes();
        match why.is_failure() {
            true => outcomes.tallies.note_failed(client, now),
            false => outcomes.note_lost(client, 0, now),
        }
    }

    fn add(&self, client: IpAddr, wanted: WantedAhead) {
        self.queue().add(client, wanted, Instant::now());
        self.news.notify_one();
    }

    fn follow(&self, next: Followed) {
        let mut followed = self.followed();
        let of_client = followed.iter().filter(|one| one.client == next.client).count();
        if followed.len() < FOLLOWED_MAX && of_client < FOLLOWED_BY_CLIENT_MAX {
            followed.push_back(next);
            self.has_followed.notify_one();
        }
    }

    fn queue(&self) -> MutexGuard<'_, AheadQueue> {
        self.queue.lock().expect("no holder of this lock can panic")
    }

    fn followed(&self) -> MutexGuard<'_, VecDeque<Followed>> {
        self.followed.lock().expect("no holder of this lock can panic")
    }

    fn playlists(&self) -> MutexGuard<'_, Playlists> {
        self.playlists.lock().expect("no holder of this lock can panic")
    }

    fn ended(&self) -> MutexGuard<'_, EndedSeries> {
        self.ended.lock().expect("no holder of this lock can panic")
    }

    fn outcomes(&self) -> MutexGuard<'_, Outcomes> {
        self.outcomes.lock().expect("no holder of this lock can panic")
    }
}

/// Whether a response that is no film may be fetched ahead: it is all of a short one. Its length has to be known before any of it is received. An
/// error may be over when a viewer asks.
pub(super) fn is_short(answer: &Response) -> bool {
    matches!(answer.status().as_u16(), 200 | 206)
        && answer.content_length().is_some_and(|length| length <= BLOCK_BYTES)
}

impl Helper {
    /// A viewer has requested something, and may request other things next.
    pub(super) fn note_hint(&self, hint: AheadHint) {
        let AheadHint { client, path, announced, segments, numbered, waste_percent_max } = hint;
        self.ahead.outcomes().tallies.waste_percent_max = waste_percent_max;
        for one in announced {
            let Some(bytes) = one.bytes() else { continue };
            let source = AheadSource::Cmcd;
            self.ahead.add(client, WantedAhead { path: one.path, bytes, source });
        }
        if segments > 0 || numbered > 0 {
            self.ahead.follow(Followed { client, path, segments, numbered });
        }
    }

    /// Finds what follows requests, in playlists or by numbers, and reads playlists.
    pub(super) async fn follow_playlists(self: Arc<Self>) {
        loop {
            let next = self.ahead.followed().pop_front();
            let Some(next) = next else {
                self.ahead.has_followed.notified().await;
                continue;
            };
            if ResponseKind::of(&next.path, None) == ResponseKind::Index {
                let helper = Arc::clone(&self);
                // If it fails, that playlist has no segments.
                let _ = spawn_blocking(move || helper.read_playlist(&next.path)).await;
                continue;
            }
            let (following, source) = self.following(&next);
            for path in following {
                let bytes = 0..AHEAD_BYTES_MAX;
                self.ahead.add(next.client, WantedAhead { path, bytes, source });
            }
        }
    }

    /// The segments that follow a request: by its playlist if there is one that names it, else by its number.
    fn following(&self, after: &Followed) -> (Vec<String>, AheadSource) {
        let Followed { path, segments, numbered, .. } = after;
        let playlists = self.ahead.playlists();
        if *segments > 0 && playlists.names(path) {
            return (playlists.after(path, (*segments).into()), AheadSource::Playlist);
        }
        drop(playlists);
        let film = self.known().by_path.get(path).cloned();
        // Films may be numbered, too, and the next one is no segment of this one.
        let is_segment = film.is_none_or(|film| film.size <= AHEAD_BYTES_MAX);
        let is_over = || self.ahead.ended().has(path, Instant::now());
        let following = match *numbered > 0 && is_segment && !is_over() {
            true => numbered::after(path, (*numbered).into()),
            false => Vec::new(),
        };
        (following, AheadSource::Number)
    }

    /// Reads a playlist that is kept, unless that has been done.
    fn read_playlist(&self, path: &str) {
        let Some((number, file)) = self.unread_playlist(path) else { return };
        let mut text = String::new();
        // A playlist that is too long or no text has no segments. It is noted all the same, so that it is read once.
        if let Some(file) = file {
            let _ = file.take(PLAYLIST_BYTES_MAX).read_to_string(&mut text);
        }
        let segments = playlists::segments(path, &text);
        self.ahead.playlists().add(path, number, segments);
    }

    /// The number and the file of a whole playlist that has not been read yet; no file if it is too long.
    fn unread_playlist(&self, path: &str) -> Option<(u64, Option<File>)> {
        let is_new = |number: u64| !self.ahead.playlists().has(path, number);
        let film = self.known().by_path.get(path).cloned();
        if let Some(film) = film.filter(|film| is_new(film.number)) {
            if film.size > PLAYLIST_BYTES_MAX {
                return Some((film.number, None));
            }
            let is_whole = film.stored_bytes() >= film.size;
            return is_whole.then(|| (film.number, film.open().ok()));
        }
        // Variants may be different for each viewer.
        let stored = self.responses().at(path).into_iter().find(|one| one.selecting.is_empty());
        let stored = stored.filter(|one| one.status == 200 && is_new(one.number))?;
        let is_short = stored.size <= PLAYLIST_BYTES_MAX;
        Some((stored.number, is_short.then(|| self.open_body(&stored).ok()).flatten()))
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
            let is_over =
                wanted.source == AheadSource::Number && self.ahead.ended().has(&wanted.path, now);
            if !is_over
                && self.is_missing(&wanted)
                && self.ahead.outcomes().tallies.may_go_on(client, now)
            {
                tokio::spawn(Arc::clone(&self).fetch_ahead(client, wanted, place));
            }
        }
    }

    /// Every second: reports what has changed.
    pub(super) async fn sweep_ahead(self: Arc<Self>) {
        let (mut ticks, mut was_paused) = (interval(SWEEP_EVERY), false);
        loop {
            ticks.tick().await;
            let (now, mut outcomes) = (Instant::now(), self.ahead.outcomes());
            outcomes.expire(now);
            let counts = outcomes.take_counts();
            let is_paused = outcomes.tallies.is_paused(now);
            drop(outcomes);
            if counts != AheadCounts::default() || is_paused != was_paused {
                let AheadCounts { fetched, used, wasted } = counts;
                self.tell(EdgeTold::Ahead { fetched, used, wasted, is_paused });
            }
            was_paused = is_paused;
        }
    }

    /// Whether some of it is neither kept nor on its way. The origin is not asked about stale objects: the next viewer does that.
    fn is_missing(&self, wanted: &WantedAhead) -> bool {
        let path = &wanted.path;
        let is_index = ResponseKind::of(path, None) == ResponseKind::Index;
        // By a rule, nothing is kept there, or nothing that is for every viewer.
        let is_for_all = self.origins.rule(path).may_be_for_all();
        if is_blocking_reload(path) || is_index || !is_for_all {
            return false;
        }
        self.restore(path);
        let known = self.known();
        match known.by_path.get(path) {
            Some(film) => film.stored_bytes() < film.size && !answering::fresh_left(film).is_zero(),
            None if known.opening.contains_key(path) => false,
            None => {
                drop(known);
                let is_arriving = self.growing_responses.has(path) || self.alone.has(path);
                !is_arriving && !self.responses().has(path)
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
            // Viewers who come meanwhile wait for it, even those who want no film.
            let Ok(_fetch) = self.under_way.begin(&path) else { return };
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
        while self.ahead.outcomes().is_arriving(film.number) {
            sleep(LOOK_AGAIN).await;
        }
        if film.stored_bytes() == 0 {
            // The beginning was given up, and so would be the rest.
            return;
        }
        for run in self.expect_ahead(&film, ahead_for, || film.take_missing(blocks)) {
            Arc::clone(&self).fetch(Arc::clone(&film), run, (0, None)).await;
        }
    }

    /// Blocks of an object are fetched ahead from now on: those that `mark` marks as being fetched, and returns. None if it has been removed.
    pub(super) fn expect_ahead(
        &self,
        film: &Stored,
        ahead_for: AheadFor,
        mark: impl FnOnce() -> Vec<Range<u64>>,
    ) -> Vec<Range<u64>> {
        let mut outcomes = self.ahead.outcomes();
        if !self.known().by_number.contains_key(&film.number) {
            return Vec::new();
        }
        let runs = mark();
        for run in &runs {
            outcomes.expect(film.number, run.clone(), ahead_for, Instant::now());
        }
        runs
    }

    /// Keeps a response that is no object and was fetched ahead, all of it.
    pub(super) fn keep_ahead(&self, path: &str, ready: &Ready) {
        let Some(ahead_for) = self.ahead_for(path) else { return };
        let (number, size) = (ready.number(), ready.size());
        // It may have been removed meanwhile.
        let responses = self.responses();
        let (now, mut outcomes) = (Instant::now(), self.ahead.outcomes());
        match responses.current(number) {
            Some(_) => {
                outcomes.expect(number, 0..1, ahead_for, now);
                outcomes.arrive(number, 0, size, now);
            }
            None => outcomes.note_lost(ahead_for.0, size, now),
        }
    }

    /// What the origin gives at `path`, with this status, is nothing to fetch ahead.
    pub(super) fn lose_ahead(&self, path: &str, status: u16) {
        let (now, Some((client, source))) = (Instant::now(), self.ahead_for(path)) else { return };
        // A number may be that of a segment that isn't there yet, or is still being made. Only the latter has cost more than a small answer.
        if source == AheadSource::Number {
            self.ahead.ended().note(path, now);
        }
        if source != AheadSource::Number || !matches!(status, 404 | 410) {
            self.ahead.outcomes().note_lost(client, 0, now);
        }
    }

    /// Who the origin is being asked about `path` for, if that is no viewer.
    fn ahead_for(&self, path: &str) -> Option<AheadFor> {
        self.known().opening.get(path)?.ahead_for
    }
}

#[cfg(test)]
mod tests {
    use super::super::HelperOptions;
    use super::*;
    use reqwest::header::{ETAG, HeaderMap};

    /// A viewer once waited for a block that had arrived: it was marked as being fetched, and not yet as fetched ahead.
    #[test]
    #[allow(clippy::single_range_in_vec_init, reason = "a list of runs, of which there may be one")]
    fn a_viewer_is_known_to_wait_for_marked_blocks_and_what_is_removed_is_not_expected() {
        let cache = tempfile::tempdir().unwrap();
        let (helper, _) = Helper::new(HelperOptions::of_test(cache.path(), 1 << 30)).unwrap();
        let header = HeaderMap::from_iter([(ETAG, "\"v\"".parse().unwrap())]);
        let terms = crate::policy::terms("/a", &header, Default::default()).unwrap();
        let film = Arc::new(helper.store.create("/a", 4 * BLOCK_BYTES, terms).unwrap());
        helper.known().add(Arc::clone(&film));
        let ahead_for = (IpAddr::from([192, 0, 2, 1]), AheadSource::Cmcd);
        let runs = helper.expect_ahead(&film, ahead_for, || film.take_missing(0..3));
        assert_eq!(runs, [0..3]);
        assert_eq!(helper.ahead.take(&film, 1..4).fetch, [3..4]);
        assert!(helper.ahead.arrive(film.number, 0, BLOCK_BYTES), "no viewer waits for it");
        assert!(!helper.ahead.arrive(film.number, 1, BLOCK_BYTES), "a viewer waits for it");
        assert_eq!(helper.ahead.take_first(film.number, 0), Some((0, 1)));
        let (long, short) = (0..AHEAD_BYTES_MAX + 1, 0..AHEAD_BYTES_MAX);
        assert!(!helper.ahead.gives_up(&film, &(2..3), &long), "a viewer waits for it");
        helper.ahead.fail(film.number, &(2..3));
        film.give_back(2..3);
        helper.expect_ahead(&film, ahead_for, || film.take_missing(2..3));
        assert!(!helper.ahead.gives_up(&film, &(2..3), &short));
        assert!(helper.ahead.gives_up(&film, &(2..3), &long));
        assert_eq!(helper.ahead.take(&film, 2..3).fetch, [2..3], "the viewer's own fetch");
        helper.end(&film, Trouble::Purged);
        film.give_back(2..3);
        let runs = helper.expect_ahead(&film, ahead_for, || film.take_missing(2..3));
        assert!(runs.is_empty() && helper.ahead.find(film.number, Instant::now()).is_none());
    }
}
