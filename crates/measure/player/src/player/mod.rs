//! The player: does what a viewer's browser does, from the manifest to the last segment.
//!
//! Callers send the requests that [`Player::poll_request`] returns, and report the results through `handle_*`, each with the time. After
//! each `handle_*` they poll: requests, requests to close, events, and [`Player::poll_timeout`]. Nothing happens in between, so thousands
//! of players can run on one thread, in virtual time or over sockets.
//!
//! A request ends in one of these ways, and each frees its slot:
//! - [`handle_end`](Player::handle_end), when the body is over; [`handle_document`](Player::handle_document) for documents;
//! - [`handle_status`](Player::handle_status) with a status other than 200 and 206; the rest of the response is ignored;
//! - [`handle_failure`](Player::handle_failure);
//! - [`poll_cancel`](Player::poll_cancel) names it: the caller closes it.
//!
//! Before [`Player::handle_timeout`], report the bytes that have arrived until now, because the timer may be there to check whether a
//! request is too slow.
//!
//! Invariants:
//! - Per track, one request for media and one for a list are open; in addition one probe, one manifest, one steering request.
//! - The buffer holds no more than `buffer_max`, unless it holds only one segment, or less than a waiting viewer needs to resume.
//! - No answer, and no sequence of answers, makes it panic, or send more than 100 requests per second.
//!
//! Read first: `fetching.rs` for what is fetched next, `viewer.rs` for the viewer's actions, `slow.rs` for when a request is given up.

mod documents;
mod fetching;
mod lists;
mod live;
mod open;
mod outcome;
mod pace;
mod retry;
mod slow;
mod steer;
mod tell;
#[cfg(test)]
mod tests;
mod track;
mod viewer;
#[cfg(test)]
mod world;

use crate::Time;
use crate::estimate::Estimate;
use crate::event::{Ending, PlayerEvent};
use crate::failure::Failure;
use crate::options::PlayerOptions;
use crate::pathways::Pathways;
use crate::playback::Playback;
use crate::presentation::{Presentation, Segments};
use crate::report::{SessionReport, Tally};
use crate::request::{PlayerRequest, RequestId, RequestKind};
use crate::steering::Answer;
use crate::url::Url;
pub(crate) use lists::Reload;
use lists::Timeline;
use live::Followed;
use open::{Open, OpenRequests, Slot};
use pace::Pace;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use steer::Steering;
use tell::Untold;
use track::Track;

/// A parsed document. The caller parses it, so that viewers of the same title share one copy.
#[derive(Clone, Debug)]
pub enum Document {
    /// The result of a request for the manifest.
    Presentation(Arc<Presentation>),
    /// The result of a request for a playlist or an index.
    Segments(Arc<Segments>),
    /// The result of a request to the steering server.
    Steering(Arc<Answer>),
}

/// One viewer's player.
#[derive(Debug)]
pub struct Player {
    options: PlayerOptions,
    /// The time of the last call. It never goes back.
    now: Time,
    manifest: Arc<Url>,
    /// When to request the manifest.
    manifest_at: Time,
    manifest_failures: u32,
    presentation: Option<Arc<Presentation>>,
    /// `None` before there is a presentation.
    pathways: Option<Pathways>,
    estimate: Estimate,
    playback: Playback,
    /// Set once the playhead has its first position.
    is_placed: bool,
    timeline: Timeline,
    followed: Followed,
    tracks: Vec<Track>,
    open: OpenRequests,
    pace: Pace,
    steering: Option<Steering>,
    untold: Untold,
    /// The index of the viewer's next action, and when it is due while the film plays.
    next_act: usize,
    act_at: Time,
    leave_at: Time,
    tally: Tally,
    events: VecDeque<PlayerEvent>,
    cancels: VecDeque<RequestId>,
    ending: Ending,
    /// Something changed during the search for a request, so that a track may have one after all.
    has_changed: bool,
}

/// Turns of the playhead during the search for one request: it may start, and end at once.
const TURNS_MAX: usize = 3;

impl Player {
    /// A viewer who begins to watch `manifest` now.
    pub fn new(options: PlayerOptions, manifest: Url, now: Time) -> Self {
        let leave_at = options.leave_after.map_or(Time::MAX, |after| now.saturating_add(after));
        // More than zero, or the playhead would start and stall without end.
        let bounded = |at: Duration| at.min(options.buffer_max).max(Duration::from_millis(1));
        Self {
            playback: Playback::new(bounded(options.start_at), bounded(options.resume_at), now),
            options,
            now,
            manifest: Arc::new(manifest),
            manifest_at: now,
            manifest_failures: 0,
            presentation: None,
            pathways: None,
            estimate: Estimate::new(),
            is_placed: false,
            timeline: Timeline::default(),
            followed: Followed::default(),
            tracks: Vec::new(),
            open: OpenRequests::default(),
            pace: Pace::default(),
            steering: None,
            untold: Untold::default(),
            next_act: 0,
            act_at: Time::MAX,
            leave_at,
            tally: Tally::new(now),
            events: VecDeque::new(),
            cancels: VecDeque::new(),
            ending: Ending::Watching,
            has_changed: false,
        }
    }

    /// The next request to send, if there is one. Call this until it returns `None`.
    pub fn poll_request(&mut self, now: Time) -> Option<PlayerRequest> {
        let now = self.pass(now);
        if !self.pace.allows(now) {
            return None;
        }
        let mut request = None;
        // A turn of the playhead may give an already checked track something to fetch, or end the film.
        for _ in 0..TURNS_MAX {
            if self.is_over() {
                break;
            }
            self.has_changed = false;
            request = self.next_request(now);
            if request.is_some() || !self.has_changed {
                break;
            }
            self.pass(now);
        }
        if request.is_some() {
            self.pace.handle_request(now);
            self.tally.request();
        }
        request
    }

    fn next_request(&mut self, now: Time) -> Option<PlayerRequest> {
        if let Some(request) = self.request_manifest(now) {
            return Some(request);
        }
        self.presentation.as_ref()?;
        if let Some(request) = self.request_steering(now) {
            return Some(request);
        }
        for track in 0..self.tracks.len() {
            let media = self.request_media(track, now);
            if let Some(request) = media.or_else(|| self.request_list(track, now)) {
                return Some(request);
            }
            if self.is_over() {
                return None;
            }
        }
        self.request_probe(now)
    }

    /// A request for the caller to close. The player expects nothing more from it.
    pub fn poll_cancel(&mut self) -> Option<RequestId> {
        self.cancels.pop_front()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<PlayerEvent> {
        self.events.pop_front()
    }

    /// The latest time to call [`handle_timeout`](Self::handle_timeout). `None` once the session is over.
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.is_over() {
            return None;
        }
        let mut requests_at = self.manifest_due().min(self.steering_due());
        for track in 0..self.tracks.len() {
            requests_at = requests_at.min(self.media_due(track)).min(self.list_due(track));
        }
        if let Some(at) = self.pace.allows_at(self.now) {
            requests_at = requests_at.max(at);
        }
        let turn_at = self.playback.turn_at().unwrap_or(Time::MAX);
        let at = requests_at.min(turn_at).min(self.open.judge_at()).min(self.viewer_due());
        (at < Time::MAX).then_some(at)
    }

    /// Handles the passing of time.
    pub fn handle_timeout(&mut self, now: Time) {
        let now = self.pass(now);
        if self.open.judge_at() > now {
            return;
        }
        for slot in self.open.used() {
            if self.open.get(slot).is_some_and(|open| open.judge_at <= now) {
                self.judge(slot, now);
            }
        }
    }

    /// Handles the status of a response. A status other than 200 and 206 ends the request.
    pub fn handle_status(
        &mut self,
        id: RequestId,
        status: u16,
        retry_after: Option<Duration>,
        now: Time,
    ) {
        let now = self.pass(now);
        let Some((slot, open)) = self.find(id) else { return };
        open.has_head = true;
        open.heard_at = now;
        // A probe can measure with whatever bytes arrive.
        let needs_range = open.has_range && open.kind != RequestKind::Probe;
        match status {
            200 if needs_range => self.refuse(slot, Failure::OtherRange, now),
            200 | 206 => {}
            status => self.fail(slot, Failure::Status(status), retry_after, now),
        }
    }

    /// Handles the length of a body. Call it after [`handle_status`](Self::handle_status) if the head has a length: the player judges a
    /// request by what is still to come.
    pub fn handle_length(&mut self, id: RequestId, bytes: u64, now: Time) {
        self.pass(now);
        let Some((_, open)) = self.find(id) else { return };
        if matches!(open.kind, RequestKind::Media | RequestKind::Start) {
            open.expected_bytes.get_or_insert(bytes);
        }
    }

    /// Handles this many more bytes of a body.
    pub fn handle_bytes(&mut self, id: RequestId, bytes: u64, now: Time) {
        let now = self.pass(now);
        let Some((slot, open)) = self.find(id) else { return };
        if bytes == 0 {
            return;
        }
        open.bytes = open.bytes.saturating_add(bytes);
        open.heard_at = now;
        open.first_byte_at.get_or_insert(now);
        let has_all = open.expected_bytes.is_some_and(|expected| open.bytes >= expected);
        let has_more = open.expected_bytes.is_some_and(|expected| open.bytes > expected);
        let (kind, is_due) = (open.kind, open.judge_at <= now);
        match kind {
            RequestKind::Probe if has_more => {
                self.cancel(slot);
                self.finish_probe(slot, now);
            }
            RequestKind::Media | RequestKind::Start if has_more => {
                self.refuse(slot, Failure::WrongLength, now);
            }
            _ if is_due && !has_all => self.judge(slot, now),
            _ => {}
        }
    }

    /// Handles a complete document that could be read. If it could not, call [`handle_failure`](Self::handle_failure) with
    /// [`Failure::Unreadable`].
    pub fn handle_document(&mut self, id: RequestId, document: Document, now: Time) {
        let now = self.pass(now);
        let Some((slot, open)) = self.find(id) else { return };
        match (open.kind, document) {
            (RequestKind::Manifest, Document::Presentation(presentation)) => {
                self.handle_presentation(slot, presentation, now);
            }
            (RequestKind::Playlist | RequestKind::Index, Document::Segments(segments)) => {
                self.handle_list(slot, &segments, now);
            }
            (RequestKind::Steering, Document::Steering(answer)) => {
                self.handle_answer(slot, &answer, now);
            }
            _ => self.fail(slot, Failure::Unreadable, None, now),
        }
    }

    /// Handles the end of a body. For documents, call [`handle_document`](Self::handle_document) instead.
    pub fn handle_end(&mut self, id: RequestId, now: Time) {
        let now = self.pass(now);
        let Some((slot, open)) = self.find(id) else { return };
        let is_right =
            open.bytes > 0 && open.expected_bytes.is_none_or(|expected| open.bytes == expected);
        let kind = open.kind;
        match kind {
            RequestKind::Probe => self.finish_probe(slot, now),
            RequestKind::Start if is_right => self.handle_start(slot),
            RequestKind::Media if is_right => self.handle_segment(slot, now),
            RequestKind::Start | RequestKind::Media => {
                self.fail(slot, Failure::WrongLength, None, now);
            }
            _ => {}
        }
    }

    /// Handles the failure of a request.
    pub fn handle_failure(&mut self, id: RequestId, failure: Failure, now: Time) {
        let now = self.pass(now);
        if let Some((slot, _)) = self.find(id) {
            self.fail(slot, failure, None, now);
        }
    }

    /// The viewer closes the page.
    pub fn leave(&mut self, now: Time) {
        let now = self.pass(now);
        self.end(Ending::Left, now);
    }

    /// Returns true if the session has ended.
    pub fn is_over(&self) -> bool {
        self.ending != Ending::Watching
    }

    /// The title, once the manifest has arrived. Content steering may have added pathways to it.
    pub fn presentation(&self) -> Option<&Arc<Presentation>> {
        self.presentation.as_ref()
    }

    /// What the viewer has seen until now.
    pub fn report(&self, now: Time) -> SessionReport {
        let now = self.now.max(now);
        self.tally.report(self.playback.played(now), now)
    }

    /// Lets time pass up to `now`: moves the playhead and performs the viewer's actions that are due. Returns the current time, which never
    /// goes back.
    fn pass(&mut self, now: Time) -> Time {
        self.now = self.now.max(now);
        let now = self.now;
        if self.is_over() {
            return now;
        }
        while let Some(turn) = self.playback.advance(now) {
            self.handle_turn(turn, now);
        }
        if self.viewer_due() <= now {
            self.act(now);
        }
        now
    }

    fn find(&mut self, id: RequestId) -> Option<(Slot, &mut Open)> {
        let slot = self.open.find(id)?;
        Some((slot, self.open.get_mut(slot)?))
    }

    /// Has the caller close the request. Its slot still has to be closed.
    fn cancel(&mut self, slot: Slot) {
        if let Some(open) = self.open.get(slot) {
            self.cancels.push_back(open.id);
        }
    }

    /// Returns true if there is a choice among pathways.
    fn has_pathways(&self) -> bool {
        self.presentation.as_ref().is_some_and(|presentation| presentation.pathways.len() > 1)
    }
}
