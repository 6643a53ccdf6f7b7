//! What one viewer saw. The terms mean the same as in the server's CMCD tables, seen from the player's side. One difference remains: the
//! server counts each request, and this counts each complete segment once. So bit rate and time to quality agree if no request failed or
//! was given up.
//!
//! - **Play delay**: from the session's first request until playback began.
//! - **Stalls**: the buffer ran empty while the film played. Waits after a seek are counted separately.
//! - **Played**: how far the playhead moved; stalls, pauses and skips do not count.
//! - **Bit rate**: the mean of the fetched pictures, weighted by playing time.
//! - **Time to quality**: from the first request to the request that completes four seconds of pictures in a row at 80%
//!   of the top bit rate or more.

use crate::Time;
use crate::event::{Ending, StallReason};
use crate::failure::Failure;
use crate::live::{LiveSeen, LiveTally};
use crate::pathways::Move;
use std::time::Duration;

/// This much consecutive media makes a good picture.
const GOOD: Duration = Duration::from_secs(4);

/// How many stalls and moves are kept individually. All are counted; a session with more of them is not watchable.
const KEPT_MAX: usize = 1000;

/// One stall.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stall {
    /// When the buffer ran empty.
    pub at: Time,
    /// How long the viewer waited.
    pub length: Duration,
    /// The reason.
    pub reason: StallReason,
    /// The pathway that the missing segment should have come from.
    pub pathway: usize,
}

/// What one viewer saw.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionReport {
    /// When the session began.
    pub began: Time,
    /// How long it lasted.
    pub lasted: Duration,
    /// Time from the beginning until playback began; `None` if it never did.
    pub play_delay: Option<Duration>,
    /// The first thousand stalls.
    pub stalls: Vec<Stall>,
    /// All stalls.
    pub stall_count: u64,
    /// Total time in stalls.
    pub stalled: Duration,
    /// Media played.
    pub played: Duration,
    /// The mean bit rate of the pictures; of the sound if there are no pictures.
    pub bits_per_second: Option<u64>,
    /// How often the bit rate of the pictures changed.
    pub switches: u64,
    /// Time from the beginning until the picture was good; `None` if it never was.
    pub time_to_quality: Option<Duration>,
    /// The renditions of the pictures, lowest first, with the playing time fetched of each.
    pub rungs: Vec<(u64, Duration)>,
    /// Jumps of the viewer.
    pub seeks: u64,
    /// Time spent waiting after these.
    pub seek_waits: Duration,
    /// How long the viewer had been waiting after a seek when the session ended; zero if it played, stalled or was paused.
    pub left_waiting: Duration,
    /// Missing parts of the film that the playhead jumped over.
    pub skips: u64,
    /// Their total playing time.
    pub skipped: Duration,
    /// Requests sent.
    pub requests: u64,
    /// Bytes received by pathway, for all kinds of requests.
    pub bytes_by_pathway: Vec<u64>,
    /// By pathway, segments of the pictures (or of the sound) that came from other pathways after the last one from it: 0 for the last one
    /// in use, `None` for a pathway that delivered no segment.
    pub segments_elsewhere: Vec<Option<u64>>,
    /// Bytes of probes, which are also in the sums above.
    pub probe_bytes: u64,
    /// Bytes of segments that were fetched in vain: given up, damaged, or no longer wanted after a seek.
    pub wasted_bytes: u64,
    /// Failed requests by [`Failure::kind`].
    pub failures: [u64; Failure::KINDS],
    /// The first thousand changes of pathway.
    pub moves: Vec<Move>,
    /// All changes of pathway.
    pub move_count: u64,
    /// What the viewer saw of a live stream; `None` of a film.
    pub live: Option<LiveSeen>,
    /// How the session ended.
    pub ended: Ending,
}

impl SessionReport {
    /// Time in stalls, divided by time in stalls and playing; `None` if it did not play.
    pub fn stall_ratio(&self) -> Option<f64> {
        let both = self.stalled + self.played;
        (!both.is_zero()).then(|| self.stalled.as_secs_f64() / both.as_secs_f64())
    }

    /// Stalls per hour of stalls and playing; `None` if it did not play.
    pub fn stalls_per_hour(&self) -> Option<f64> {
        let both = self.stalled + self.played;
        (!both.is_zero()).then(|| self.stall_count as f64 * 3600.0 / both.as_secs_f64())
    }

    /// Failed requests of all kinds.
    pub fn failure_count(&self) -> u64 {
        self.failures.iter().sum()
    }
}

/// A complete segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fetched {
    pub(crate) pathway: usize,
    pub(crate) rendition: usize,
    pub(crate) bits_per_second: u64,
    pub(crate) top_bits_per_second: u64,
    pub(crate) duration: Duration,
    pub(crate) requested_at: Time,
}

/// Counts while the session goes on.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    report: SessionReport,
    pub(crate) live: LiveTally,
    /// The current stall: when, why, where.
    stall: Option<(Time, StallReason, usize)>,
    /// When the current wait after a seek began.
    seeking_since: Option<Time>,
    /// Bits of the media with a known rate, and its playing time in milliseconds.
    bits: u64,
    rated_ms: u64,
    good: Duration,
}

impl Tally {
    pub(crate) fn new(began: Time) -> Self {
        let report = SessionReport {
            began,
            lasted: Duration::ZERO,
            play_delay: None,
            stalls: Vec::new(),
            stall_count: 0,
            stalled: Duration::ZERO,
            played: Duration::ZERO,
            bits_per_second: None,
            switches: 0,
            time_to_quality: None,
            rungs: Vec::new(),
            seeks: 0,
            seek_waits: Duration::ZERO,
            left_waiting: Duration::ZERO,
            skips: 0,
            skipped: Duration::ZERO,
            requests: 0,
            bytes_by_pathway: Vec::new(),
            segments_elsewhere: Vec::new(),
            probe_bytes: 0,
            wasted_bytes: 0,
            failures: [0; Failure::KINDS],
            moves: Vec::new(),
            move_count: 0,
            live: None,
            ended: Ending::Watching,
        };
        Self {
            report,
            live: LiveTally::default(),
            stall: None,
            seeking_since: None,
            bits: 0,
            rated_ms: 0,
            good: Duration::ZERO,
        }
    }

    /// Notes the bit rates of the pictures and the number of pathways, once the manifest is known.
    pub(crate) fn prepare(&mut self, rungs: &[u64], pathways: usize) {
        let known = self.report.rungs.iter().map(|(rung, _)| rung);
        if !known.eq(rungs) {
            self.report.rungs = rungs.iter().map(|rung| (*rung, Duration::ZERO)).collect();
        }
        let bytes = &mut self.report.bytes_by_pathway;
        bytes.resize(bytes.len().max(pathways), 0);
    }

    pub(crate) fn request(&mut self) {
        self.report.requests += 1;
    }

    pub(crate) fn bytes(&mut self, pathway: usize, bytes: u64, is_probe: bool) {
        if let Some(sum) = self.report.bytes_by_pathway.get_mut(pathway) {
            *sum = sum.saturating_add(bytes);
        }
        if is_probe {
            self.report.probe_bytes = self.report.probe_bytes.saturating_add(bytes);
        }
    }

    pub(crate) fn wasted(&mut self, bytes: u64) {
        self.report.wasted_bytes = self.report.wasted_bytes.saturating_add(bytes);
    }

    /// A segment of the track that counts: pictures, or sound if there are none.
    pub(crate) fn fetched(&mut self, fetched: &Fetched) {
        self.came_from(fetched.pathway);
        if let Some((_, time)) = self.report.rungs.get_mut(fetched.rendition) {
            *time = time.saturating_add(fetched.duration);
        }
        let ms = u64::try_from(fetched.duration.as_millis()).unwrap_or(u64::MAX);
        self.rated_ms = self.rated_ms.saturating_add(ms);
        // Bits per second times milliseconds, divided by a thousand: kilobits times milliseconds, as the server counts.
        self.bits = self.bits.saturating_add(fetched.bits_per_second.saturating_mul(ms) / 1000);
        let top = u128::from(fetched.top_bits_per_second);
        let is_near_top = u128::from(fetched.bits_per_second) * 10 >= top * 8;
        self.good =
            if is_near_top { self.good.saturating_add(fetched.duration) } else { Duration::ZERO };
        if self.good >= GOOD && self.report.time_to_quality.is_none() {
            self.report.time_to_quality =
                Some(fetched.requested_at.saturating_sub(self.report.began));
        }
    }

    fn came_from(&mut self, pathway: usize) {
        let elsewhere = &mut self.report.segments_elsewhere;
        elsewhere.iter_mut().flatten().for_each(|segments| *segments += 1);
        elsewhere.resize(elsewhere.len().max(pathway + 1), None);
        elsewhere[pathway] = Some(0);
    }

    pub(crate) fn switched(&mut self) {
        self.report.switches += 1;
    }

    pub(crate) fn failed(&mut self, failure: Failure) {
        self.report.failures[failure.kind()] += 1;
    }

    pub(crate) fn moved(&mut self, pathways_move: &Move) {
        self.report.move_count += 1;
        if self.report.moves.len() < KEPT_MAX {
            self.report.moves.push(*pathways_move);
        }
    }

    pub(crate) fn started(&mut self, at: Time) -> Duration {
        let delay = at.saturating_sub(self.report.began);
        self.report.play_delay = Some(delay);
        delay
    }

    pub(crate) fn stall_began(&mut self, at: Time, reason: StallReason, pathway: usize) {
        self.report.stall_count += 1;
        self.stall = Some((at, reason, pathway));
    }

    /// A request failed during a stall that looked like a slow network, so the failure is the reason.
    pub(crate) fn stall_explained(&mut self, failure: Failure) {
        if let Some((_, reason @ StallReason::SlowNetwork, _)) = &mut self.stall {
            *reason = match failure {
                Failure::Silence => StallReason::Silence,
                _ => StallReason::Failures,
            };
        }
    }

    /// Ends the stall and returns its length.
    pub(crate) fn stall_ended(&mut self, now: Time) -> Option<Duration> {
        let (at, reason, pathway) = self.stall.take()?;
        let length = now.saturating_sub(at);
        self.report.stalled += length;
        if self.report.stalls.len() < KEPT_MAX {
            self.report.stalls.push(Stall { at, length, reason, pathway });
        }
        Some(length)
    }

    /// The viewer jumped, and waits if the target is not buffered.
    pub(crate) fn sought(&mut self, is_buffered: bool, now: Time) {
        self.report.seeks += 1;
        if !is_buffered {
            self.seek_wait_ended(now);
            self.seeking_since = Some(now);
        }
    }

    pub(crate) fn seek_wait_ended(&mut self, now: Time) {
        if let Some(since) = self.seeking_since.take() {
            self.report.seek_waits += now.saturating_sub(since);
        }
    }

    pub(crate) fn skipped(&mut self, length: Duration) {
        self.report.skips += 1;
        self.report.skipped = self.report.skipped.saturating_add(length);
    }

    pub(crate) fn ended(&mut self, ending: Ending, now: Time) {
        self.stall_ended(now);
        let since = self.seeking_since.unwrap_or(now);
        self.report.left_waiting = now.saturating_sub(since);
        self.seek_wait_ended(now);
        self.report.ended = ending;
        self.report.lasted = now.saturating_sub(self.report.began);
    }

    /// What the viewer has seen until `now`, having played this much.
    pub(crate) fn report(&self, played: Duration, now: Time) -> SessionReport {
        let mut tally = self.clone();
        if tally.report.ended == Ending::Watching {
            tally.ended(Ending::Watching, now);
        }
        let rate = u128::from(tally.bits) * 1000;
        let rate = rate.checked_div(u128::from(tally.rated_ms));
        tally.report.bits_per_second = rate.map(|rate| u64::try_from(rate).unwrap_or(u64::MAX));
        tally.report.played = played;
        tally.report.live = tally.live.seen();
        tally.report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn segment(rendition: usize, bits_per_second: u64, requested_at: u64) -> Fetched {
        Fetched {
            pathway: 0,
            rendition,
            bits_per_second,
            top_bits_per_second: 5_000_000,
            duration: s(2),
            requested_at: s(requested_at),
        }
    }

    #[test]
    fn the_bit_rate_is_weighted_by_how_long_it_plays() {
        let mut tally = Tally::new(s(0));
        tally.prepare(&[1_000_000, 4_000_000, 5_000_000], 1);
        tally.fetched(&Fetched { duration: s(6), ..segment(0, 1_000_000, 1) });
        tally.fetched(&segment(2, 5_000_000, 2));
        let report = tally.report(s(0), s(3));
        assert_eq!(report.bits_per_second, Some(2_000_000));
        assert_eq!(report.rungs, [(1_000_000, s(6)), (4_000_000, s(0)), (5_000_000, s(2))]);
    }

    #[test]
    fn quality_is_four_seconds_in_a_row_near_the_top() {
        let mut tally = Tally::new(s(10));
        for (rate, at) in [(4_000_000, 12), (3_999_999, 13), (4_000_000, 14)] {
            tally.fetched(&segment(1, rate, at));
        }
        assert_eq!(tally.report(s(0), s(20)).time_to_quality, None);
        tally.fetched(&segment(2, 5_000_000, 15));
        tally.fetched(&segment(2, 5_000_000, 16));
        assert_eq!(tally.report(s(0), s(20)).time_to_quality, Some(s(5)));
    }

    #[test]
    fn segments_from_elsewhere_are_counted_since_the_last_one_from_a_pathway() {
        let mut tally = Tally::new(s(0));
        for pathway in [1, 3, 1, 3, 3, 3] {
            tally.fetched(&Fetched { pathway, ..segment(0, 1_000_000, 1) });
        }
        assert_eq!(tally.report(s(0), s(9)).segments_elsewhere, [None, Some(3), None, Some(0)]);
    }

    #[test]
    fn who_leaves_while_waiting_after_a_seek_is_known_to_have_waited() {
        let mut tally = Tally::new(s(0));
        tally.sought(false, s(10));
        let report = tally.report(s(8), s(12));
        assert_eq!((report.left_waiting, report.seek_waits), (s(2), s(2)));
        tally.ended(Ending::Left, s(15));
        assert_eq!(tally.report(s(8), s(20)).left_waiting, s(5));
        let mut tally = Tally::new(s(0));
        tally.sought(false, s(10));
        tally.seek_wait_ended(s(11));
        tally.ended(Ending::Left, s(15));
        assert_eq!(tally.report(s(8), s(20)).left_waiting, s(0));
    }

    #[test]
    fn a_stall_has_a_length_and_a_reason() {
        let mut tally = Tally::new(s(0));
        tally.stall_began(s(10), StallReason::SlowNetwork, 1);
        tally.stall_explained(Failure::Status(503));
        tally.stall_explained(Failure::Silence);
        assert_eq!(tally.stall_ended(s(13)), Some(s(3)));
        tally.stall_began(s(20), StallReason::Manifest, 0);
        tally.stall_explained(Failure::Reset);
        // A viewer who is still waiting has waited until now.
        let report = tally.report(s(15), s(22));
        let stalls: Vec<_> =
            report.stalls.iter().map(|stall| (stall.length, stall.reason)).collect();
        assert_eq!(stalls, [(s(3), StallReason::Failures), (s(2), StallReason::Manifest)]);
        assert_eq!((report.stalled, report.stall_ratio()), (s(5), Some(0.25)));
        assert_eq!(report.stalls_per_hour(), Some(360.0));
        assert_eq!((report.ended, report.lasted), (Ending::Watching, s(22)));
    }
}
