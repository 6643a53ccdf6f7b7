//! The buffer and the playhead: how much is buffered ahead, and when playback stops. Pure arithmetic on time.
//!
//! Media drains at the speed of the clock. The playhead stops exactly when the first buffer that is still being filled runs empty, no
//! matter when the caller checks. The caller retrieves what has happened meanwhile ([`Playback::advance`]) before it does anything else.
//!
//! Invariants:
//! - The playhead never passes missing media, except over a gap, which it jumps.
//! - Between two turns the position is a linear function of time, so nothing has to be updated while time passes.

use crate::Time;
use std::ops::Range;
use std::time::Duration;

/// Pictures and sound.
pub(crate) const TRACKS_MAX: usize = 2;

/// Times in manifests are rounded, so a smaller hole does not count: hls.js's `maxBufferHole`.
const GAP_MIN: Duration = Duration::from_millis(100);

/// How much media a browser keeps behind the playhead; a longer jump back fetches again.
const BACK_BUFFER_MAX: Duration = Duration::from_secs(30);

/// The state of the playhead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It waits for media.
    Waiting(Wait),
    /// It moves.
    Playing,
    /// The viewer stopped it.
    Paused {
        /// When the viewer resumes.
        until: Time,
    },
    /// The session is over.
    Over,
}

/// The kind of a wait, and when it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) since: Time,
    pub(crate) kind: WaitKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitKind {
    Start,
    Stall,
    Seek,
}

/// A change of the playhead's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// There is enough media, so it moves from now on.
    Resumed(Wait),
    /// A buffer ran empty at this time.
    Stalled { at: Time },
    /// It jumped over a gap.
    Skipped { position: Duration, length: Duration },
    /// The viewer ended the pause.
    Unpaused,
    /// It reached the film's end.
    Ended,
}

/// The buffer of one track.
#[derive(Clone, Copy, Debug, Default)]
struct Buffer {
    from: Duration,
    end: Duration,
    /// There is no media after `end`.
    is_complete: bool,
}

/// The tracks' buffers, and the playhead over them.
#[derive(Clone, Debug)]
pub(crate) struct Playback {
    state: State,
    /// The playhead's position at `at`.
    position: Duration,
    at: Time,
    /// When it will turn without a call: run dry, reach a gap, or end a pause.
    turn_at: Time,
    buffers: [Buffer; TRACKS_MAX],
    tracks: usize,
    /// Gaps, in order. There are hardly ever any.
    gaps: Vec<Range<Duration>>,
    played: Duration,
    started_at: Option<Time>,
    start_at: Duration,
    resume_at: Duration,
}

impl Playback {
    /// A playhead that waits for its start.
    pub(crate) fn new(start_at: Duration, resume_at: Duration, now: Time) -> Self {
        Self {
            state: State::Waiting(Wait { since: now, kind: WaitKind::Start }),
            position: Duration::ZERO,
            at: now,
            turn_at: Time::MAX,
            buffers: [Buffer::default(); TRACKS_MAX],
            tracks: 0,
            gaps: Vec::new(),
            played: Duration::ZERO,
            started_at: None,
            start_at,
            resume_at,
        }
    }

    /// Starts over at `position` with empty buffers for this many tracks.
    pub(crate) fn prepare(&mut self, tracks: usize, position: Duration, now: Time) {
        self.rebase(now);
        self.tracks = tracks.min(TRACKS_MAX);
        self.place(position);
        self.plan_turn();
    }

    pub(crate) fn state(&self) -> State {
        self.state
    }

    pub(crate) fn is_playing(&self) -> bool {
        self.state == State::Playing
    }

    /// The viewer's current wait, if any.
    pub(crate) fn wait(&self) -> Option<Wait> {
        match self.state {
            State::Waiting(wait) => Some(wait),
            _ => None,
        }
    }

    /// When playback first began.
    pub(crate) fn started_at(&self) -> Option<Time> {
        self.started_at
    }

    /// The latest time at which [`Playback::advance`] has something to report.
    pub(crate) fn turn_at(&self) -> Option<Time> {
        (self.turn_at < Time::MAX).then_some(self.turn_at)
    }

    /// The playhead's position.
    pub(crate) fn position(&self, now: Time) -> Duration {
        match self.state {
            State::Playing => self.position.saturating_add(now.saturating_sub(self.at)),
            _ => self.position,
        }
    }

    /// Media played so far.
    pub(crate) fn played(&self, now: Time) -> Duration {
        match self.state {
            State::Playing => self.played.saturating_add(now.saturating_sub(self.at)),
            _ => self.played,
        }
    }

    /// The end of the track's buffer.
    pub(crate) fn end(&self, track: usize) -> Duration {
        self.buffers[track].end
    }

    /// The end of the shortest buffer that is still being filled, not counting the track's own.
    pub(crate) fn end_of_others(&self, track: usize) -> Option<Duration> {
        let others = self.buffers[..self.tracks].iter().enumerate();
        let filling = others.filter(|(index, buffer)| *index != track && !buffer.is_complete);
        filling.map(|(_, buffer)| buffer.end).min()
    }

    /// Media of the track ahead of the playhead, without gaps.
    pub(crate) fn ahead(&self, track: usize, now: Time) -> Duration {
        let position = self.position(now);
        let end = self.buffers[track].end;
        let whole = end.saturating_sub(position);
        if self.gaps.is_empty() {
            return whole;
        }
        // Tracks may lack the same part. It is missing once.
        let (mut missing, mut from) = (Duration::ZERO, position);
        for gap in &self.gaps {
            missing += gap.end.min(end).saturating_sub(gap.start.max(from));
            from = from.max(gap.end);
        }
        whole.saturating_sub(missing)
    }

    /// Time until the viewer waits if no more media arrives on this track.
    pub(crate) fn dry_in(&self, track: usize, now: Time) -> Duration {
        match self.state {
            State::Playing => self.ahead(track, now),
            State::Paused { until } => {
                self.ahead(track, now).saturating_add(until.saturating_sub(now))
            }
            State::Waiting(_) | State::Over => Duration::ZERO,
        }
    }

    /// The track that the viewer waits for: the one with the least media ahead, of those still being filled.
    pub(crate) fn shortest(&self, now: Time) -> usize {
        let filling = (0..self.tracks).filter(|track| !self.buffers[*track].is_complete);
        filling.min_by_key(|track| self.ahead(*track, now)).unwrap_or(0)
    }

    /// Media that a track must have before a waiting viewer's playback starts or resumes.
    pub(crate) fn threshold(&self, kind: WaitKind) -> Duration {
        if kind == WaitKind::Start { self.start_at } else { self.resume_at }
    }

    /// Adds media of the track from `begin` to `end`. Anything between the buffer and `begin` is a gap.
    pub(crate) fn append(
        &mut self,
        track: usize,
        begin: Duration,
        end: Duration,
        now: Time,
    ) -> Option<Turn> {
        let buffer = &mut self.buffers[track];
        if buffer.from == buffer.end {
            buffer.from = buffer.from.min(begin);
        }
        let before = buffer.end;
        buffer.end = buffer.end.max(end);
        if begin.saturating_sub(before) >= GAP_MIN {
            self.leave_out(before..begin);
        }
        self.settle(now)
    }

    /// The track has no media from its buffer's end to `until`: the playhead will jump over that.
    pub(crate) fn skip(&mut self, track: usize, until: Duration, now: Time) -> Option<Turn> {
        let end = self.buffers[track].end;
        if until > end {
            self.buffers[track].end = until;
            self.leave_out(end..until);
        }
        self.settle(now)
    }

    /// The track has no further media.
    pub(crate) fn complete(&mut self, track: usize, now: Time) -> Option<Turn> {
        self.buffers[track].is_complete = true;
        self.settle(now)
    }

    fn leave_out(&mut self, gap: Range<Duration>) {
        let index = self.gaps.partition_point(|other| other.start < gap.start);
        self.gaps.insert(index, gap);
    }

    /// The viewer jumps. Returns whether everything needed there is buffered; if not, all buffers start over.
    pub(crate) fn seek(&mut self, to: Duration, now: Time) -> bool {
        self.rebase(now);
        // Media further back is lost, also for a later jump back from the new position.
        let kept = self.position.saturating_sub(BACK_BUFFER_MAX);
        for buffer in &mut self.buffers[..self.tracks] {
            buffer.from = buffer.from.max(kept).min(buffer.end);
        }
        let has = |buffer: &Buffer| {
            buffer.from <= to && (to < buffer.end || (buffer.is_complete && to == buffer.end))
        };
        let is_buffered = self.buffers[..self.tracks].iter().all(has);
        if is_buffered {
            self.position = to;
            self.plan_turn();
        } else {
            self.place(to);
            self.state = State::Waiting(Wait { since: now, kind: WaitKind::Seek });
            self.turn_at = Time::MAX;
        }
        is_buffered
    }

    fn place(&mut self, position: Duration) {
        self.position = position;
        self.buffers = [Buffer { from: position, end: position, is_complete: false }; TRACKS_MAX];
        self.gaps.clear();
    }

    /// The viewer pauses the film until this time.
    pub(crate) fn pause(&mut self, until: Time, now: Time) {
        self.rebase(now);
        self.state = State::Paused { until };
        self.turn_at = until;
    }

    /// The session is over.
    pub(crate) fn stop(&mut self, now: Time) {
        self.rebase(now);
        self.state = State::Over;
        self.turn_at = Time::MAX;
    }

    /// Lets time pass up to the next turn, and returns it. Call it until it returns `None`.
    pub(crate) fn advance(&mut self, now: Time) -> Option<Turn> {
        if now < self.turn_at || self.turn_at == Time::MAX {
            return None;
        }
        self.rebase(self.turn_at);
        if let State::Paused { .. } = self.state {
            self.state = State::Playing;
            self.plan_turn();
            return Some(Turn::Unpaused);
        }
        if let Some(gap) = self.gap_here() {
            return Some(self.jump(gap));
        }
        if self.tracks > 0 && self.is_all_complete() {
            self.state = State::Over;
            self.turn_at = Time::MAX;
            return Some(Turn::Ended);
        }
        let at = self.at;
        self.state = State::Waiting(Wait { since: at, kind: WaitKind::Stall });
        self.turn_at = Time::MAX;
        Some(Turn::Stalled { at })
    }

    /// The first gap that begins at or before the playhead and ends after it.
    fn gap_here(&self) -> Option<Range<Duration>> {
        let here = |gap: &&Range<Duration>| gap.start <= self.position && self.position < gap.end;
        self.gaps.iter().find(here).cloned()
    }

    fn jump(&mut self, gap: Range<Duration>) -> Turn {
        let position = self.position;
        self.position = gap.end;
        self.gaps.retain(|other| other.end > gap.end);
        self.plan_turn();
        Turn::Skipped { position, length: gap.end - position }
    }

    fn is_all_complete(&self) -> bool {
        self.buffers[..self.tracks].iter().all(|buffer| buffer.is_complete)
    }

    /// How far the playhead may go: to the end of the first buffer that is still being filled, or else of the longest.
    fn limit(&self) -> Duration {
        let buffers = &self.buffers[..self.tracks];
        let filling = buffers.iter().filter(|buffer| !buffer.is_complete);
        let limit = filling.map(|buffer| buffer.end).min();
        limit.or(buffers.iter().map(|buffer| buffer.end).max()).unwrap_or(self.position)
    }

    /// Sets the position to where the playhead is at `now`.
    fn rebase(&mut self, now: Time) {
        if self.is_playing() {
            let moved = now.saturating_sub(self.at);
            self.position = self.position.saturating_add(moved);
            self.played = self.played.saturating_add(moved);
        }
        self.at = self.at.max(now);
    }

    fn plan_turn(&mut self) {
        if !self.is_playing() {
            return;
        }
        let mut boundary = self.limit();
        let ahead = |gap: &&Range<Duration>| gap.end > self.position;
        if let Some(gap) = self.gaps.iter().find(ahead) {
            boundary = boundary.min(gap.start);
        }
        self.turn_at = self.at.saturating_add(boundary.saturating_sub(self.position));
    }

    /// Re-evaluates after more media: a waiting viewer may resume, and a playing one can play longer.
    fn settle(&mut self, now: Time) -> Option<Turn> {
        let State::Waiting(wait) = self.state else {
            self.plan_turn();
            return None;
        };
        let threshold = self.threshold(wait.kind);
        let is_enough =
            |track: usize| self.buffers[track].is_complete || self.ahead(track, now) >= threshold;
        if self.tracks == 0 || !(0..self.tracks).all(is_enough) {
            return None;
        }
        self.at = self.at.max(now);
        self.started_at = self.started_at.or(Some(now));
        self.state = State::Playing;
        self.plan_turn();
        Some(Turn::Resumed(wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn two_tracks() -> Playback {
        let mut playback = Playback::new(s(2), s(4), s(10));
        playback.prepare(2, Duration::ZERO, s(0));
        playback
    }

    /// Appends to both tracks, and returns the last turn.
    fn fill(playback: &mut Playback, begin: u64, end: u64, now: u64) -> Option<Turn> {
        assert_eq!(playback.append(0, s(begin), s(end), s(now)), None);
        playback.append(1, s(begin), s(end), s(now))
    }

    #[test]
    fn playback_begins_when_each_track_has_enough() {
        let mut playback = two_tracks();
        assert_eq!(playback.append(0, s(0), s(4), s(11)), None);
        assert_eq!(playback.append(1, s(0), s(1), s(12)), None);
        let wait = Wait { since: s(10), kind: WaitKind::Start };
        assert_eq!(playback.append(1, s(1), s(2), s(13)), Some(Turn::Resumed(wait)));
        assert_eq!((playback.started_at(), playback.turn_at()), (Some(s(13)), Some(s(15))));
        assert_eq!((playback.position(s(14)), playback.ahead(0, s(14))), (s(1), s(3)));
        assert_eq!(playback.shortest(s(14)), 1);
    }

    #[test]
    fn a_stall_begins_when_the_first_buffer_is_empty_however_late_anybody_looks() {
        let mut playback = two_tracks();
        fill(&mut playback, 0, 4, 10);
        playback.append(0, s(4), s(8), s(11));
        assert_eq!(playback.advance(s(13)), None);
        assert_eq!(playback.advance(s(20)), Some(Turn::Stalled { at: s(14) }));
        assert_eq!(playback.advance(s(20)), None);
        assert_eq!((playback.position(s(20)), playback.played(s(20))), (s(4), s(4)));
        // After a stall it waits for four seconds of media, not two.
        assert_eq!(playback.append(1, s(4), s(6), s(21)), None);
        let wait = Wait { since: s(14), kind: WaitKind::Stall };
        assert_eq!(playback.append(1, s(6), s(8), s(22)), Some(Turn::Resumed(wait)));
        assert_eq!(playback.turn_at(), Some(s(26)));
    }

    #[test]
    fn the_film_ends_with_its_longest_track() {
        let mut playback = two_tracks();
        fill(&mut playback, 0, 4, 0);
        playback.append(0, s(4), s(6), s(1));
        playback.complete(1, s(1));
        playback.complete(0, s(1));
        assert_eq!(playback.advance(s(15)), None);
        assert_eq!(playback.advance(s(17)), Some(Turn::Ended));
        assert_eq!((playback.played(s(30)), playback.state()), (s(6), State::Over));
    }

    #[test]
    fn a_short_film_begins_although_it_never_fills_the_threshold() {
        let mut playback = two_tracks();
        fill(&mut playback, 0, 1, 10);
        assert_eq!(playback.complete(0, s(10)), None);
        assert!(matches!(playback.complete(1, s(10)), Some(Turn::Resumed(_))));
        assert_eq!(playback.advance(s(11)), Some(Turn::Ended));
    }

    #[test]
    fn the_playhead_jumps_over_a_gap_and_counts_nothing_of_it_as_buffered() {
        let mut playback = two_tracks();
        fill(&mut playback, 0, 4, 10);
        playback.append(1, s(4), s(12), s(10));
        playback.skip(0, s(8), s(10));
        assert_eq!(playback.ahead(0, s(10)), s(4));
        playback.append(0, s(8), s(12), s(10));
        assert_eq!(playback.ahead(0, s(10)), s(8));
        let skipped = Turn::Skipped { position: s(4), length: s(4) };
        assert_eq!(playback.advance(s(16)), Some(skipped));
        assert_eq!(playback.advance(s(16)), None);
        assert_eq!((playback.position(s(16)), playback.played(s(16))), (s(10), s(6)));
        assert_eq!(playback.advance(s(19)), Some(Turn::Stalled { at: s(18) }));
    }

    #[test]
    fn a_gap_of_both_tracks_counts_once() {
        let mut playback = two_tracks();
        fill(&mut playback, 0, 4, 10);
        playback.append(0, s(8), s(20), s(10));
        playback.append(1, s(10), s(20), s(10));
        assert_eq!((playback.ahead(0, s(10)), playback.ahead(1, s(10))), (s(14), s(14)));
        assert_eq!((playback.ahead(0, s(13)), playback.ahead(1, s(13))), (s(11), s(11)));
    }

    #[test]
    fn a_gap_in_front_of_a_segment_is_found() {
        let mut playback = two_tracks();
        fill(&mut playback, 0, 4, 10);
        playback.append(0, s(6), s(8), s(10));
        playback.append(1, s(4), s(8), s(10));
        assert_eq!(playback.advance(s(14)), Some(Turn::Skipped { position: s(4), length: s(2) }));
        assert_eq!(playback.turn_at(), Some(s(16)));
    }

    #[test]
    fn what_rounding_leaves_between_segments_is_no_gap() {
        let mut playback = two_tracks();
        let nanos = Duration::from_nanos;
        for track in [0, 1] {
            for index in 0..30 {
                let begin = index * 4_010_666_667;
                playback.append(track, nanos(begin), nanos(begin + 4_010_666_666), s(10));
            }
        }
        assert_eq!(playback.advance(s(120)), None);
        assert_eq!(playback.position(s(120)), s(110));
    }

    #[test]
    fn a_seek_into_the_buffer_is_at_once_and_others_begin_anew() {
        let mut playback = two_tracks();
        fill(&mut playback, 0, 20, 10);
        assert!(playback.seek(s(15), s(12)));
        assert_eq!((playback.position(s(13)), playback.turn_at()), (s(16), Some(s(17))));
        assert!(playback.seek(s(1), s(13)));
        assert!(!playback.seek(s(60), s(14)));
        assert_eq!(playback.wait(), Some(Wait { since: s(14), kind: WaitKind::Seek }));
        assert_eq!((playback.end(0), playback.ahead(0, s(15))), (s(60), s(0)));
        // The segment around the target begins before it.
        let turn = fill(&mut playback, 58, 66, 16);
        assert!(matches!(turn, Some(Turn::Resumed(_))));
        assert_eq!((playback.position(s(17)), playback.played(s(17))), (s(61), s(5)));
        assert!(playback.seek(s(58), s(17)), "what was fetched before the target is there as well");
    }

    #[test]
    fn short_jumps_back_reach_no_further_than_a_long_one() {
        let mut playback = two_tracks();
        fill(&mut playback, 0, 200, 10);
        assert_eq!(playback.advance(s(110)), None);
        assert!(playback.seek(s(80), s(110)));
        assert!(playback.seek(s(70), s(110)));
        // 100 s had been played, and only the last half-minute of that is kept.
        assert!(!playback.seek(s(60), s(110)));
    }

    #[test]
    fn a_pause_stops_the_playhead_and_not_the_buffer() {
        let mut playback = two_tracks();
        fill(&mut playback, 0, 4, 10);
        playback.pause(s(100), s(11));
        fill(&mut playback, 4, 8, 50);
        assert_eq!((playback.position(s(60)), playback.turn_at()), (s(1), Some(s(100))));
        assert_eq!(playback.dry_in(0, s(60)), s(47));
        assert_eq!(playback.advance(s(101)), Some(Turn::Unpaused));
        assert_eq!(playback.position(s(101)), s(2));
        assert_eq!(playback.advance(s(107)), Some(Turn::Stalled { at: s(107) }));
    }
}
