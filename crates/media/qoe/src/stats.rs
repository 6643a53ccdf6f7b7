//! Counts of a title's sessions, or of all sessions.

use crate::distribution::Distribution;
use crate::session::{News, Outcome, Session};

/// Figures of sessions.
#[derive(Clone, Debug)]
pub(crate) struct Stats {
    /// Sessions that began.
    pub(crate) sessions_total: u64,
    /// Sessions that ended before anything played.
    pub(crate) not_started_total: u64,
    /// Sessions that ended before their picture was good.
    pub(crate) quality_not_reached_total: u64,
    /// Stalls.
    pub(crate) stalls_total: u64,
    /// Time in stalls.
    pub(crate) stalled_ms_total: u64,
    /// Time played.
    pub(crate) played_ms_total: u64,
    /// Errors that players reported.
    pub(crate) errors_total: u64,
    /// Sessions that have ended and whose players posted events. The next three are parts of these.
    pub(crate) with_events_total: u64,
    /// Sessions that an error ended.
    pub(crate) failed_total: u64,
    /// Sessions that reached the end of the film.
    pub(crate) finished_total: u64,
    /// Sessions whose viewers left while waiting.
    pub(crate) gave_up_total: u64,
    /// The play delay in milliseconds.
    pub(crate) play_delay: Distribution,
    /// The time to quality in milliseconds.
    pub(crate) time_to_quality: Distribution,
    /// The rebuffer ratio of the sessions that have ended, in millionths.
    pub(crate) rebuffer: Distribution,
    /// The bit rate of the sessions that have ended, in kbit/s.
    pub(crate) bitrate: Distribution,
}

/// Bounds for Prometheus' histograms, placed where people notice a difference.
const DELAYS_MS: [u64; 10] = [100, 250, 500, 1000, 2000, 3000, 5000, 10_000, 20_000, 60_000];
const TIMES_TO_QUALITY_MS: [u64; 8] = [1000, 2000, 5000, 10_000, 20_000, 30_000, 60_000, 300_000];
const REBUFFER_MILLIONTHS: [u64; 9] =
    [0, 1000, 2500, 5000, 10_000, 20_000, 50_000, 100_000, 500_000];
const BITRATES_KBPS: [u64; 10] = [250, 500, 1000, 2000, 3000, 5000, 8000, 12_000, 20_000, 40_000];

impl Default for Stats {
    fn default() -> Self {
        Self {
            sessions_total: 0,
            not_started_total: 0,
            quality_not_reached_total: 0,
            stalls_total: 0,
            stalled_ms_total: 0,
            played_ms_total: 0,
            errors_total: 0,
            with_events_total: 0,
            failed_total: 0,
            finished_total: 0,
            gave_up_total: 0,
            play_delay: Distribution::new(&DELAYS_MS),
            time_to_quality: Distribution::new(&TIMES_TO_QUALITY_MS),
            rebuffer: Distribution::new(&REBUFFER_MILLIONTHS),
            bitrate: Distribution::new(&BITRATES_KBPS),
        }
    }
}

impl Stats {
    /// Counts changes that a session reported.
    pub(crate) fn tell(&mut self, news: &News) {
        self.stalls_total += news.stalls;
        self.stalled_ms_total += news.stalled_ms;
        self.played_ms_total += news.played_ms;
        self.errors_total += news.errors;
        if let Some(ms) = news.play_delay_ms {
            self.play_delay.record(ms);
        }
        if let Some(ms) = news.time_to_quality_ms {
            self.time_to_quality.record(ms);
        }
    }

    /// Counts a session, and all of its reports.
    pub(crate) fn begin_and_tell(&mut self, session: &Session) {
        self.sessions_total += 1;
        self.tell(&session.told);
    }

    /// Counts a session that has ended.
    pub(crate) fn end(&mut self, outcome: &Outcome) {
        self.not_started_total += u64::from(outcome.never_started);
        self.quality_not_reached_total += u64::from(outcome.never_good);
        self.with_events_total += u64::from(outcome.has_events);
        self.failed_total += u64::from(outcome.has_failed);
        self.finished_total += u64::from(outcome.has_finished);
        self.gave_up_total += u64::from(outcome.gave_up);
        if let Some(millionths) = outcome.rebuffer_millionths {
            self.rebuffer.record(millionths);
        }
        if let Some(kbps) = outcome.bitrate_kbps {
            self.bitrate.record(kbps);
        }
    }

    /// Adds the counts of `other`.
    pub(crate) fn add(&mut self, other: &Self) {
        self.sessions_total += other.sessions_total;
        self.not_started_total += other.not_started_total;
        self.quality_not_reached_total += other.quality_not_reached_total;
        self.stalls_total += other.stalls_total;
        self.stalled_ms_total += other.stalled_ms_total;
        self.played_ms_total += other.played_ms_total;
        self.errors_total += other.errors_total;
        self.with_events_total += other.with_events_total;
        self.failed_total += other.failed_total;
        self.finished_total += other.finished_total;
        self.gave_up_total += other.gave_up_total;
        self.play_delay.add(&other.play_delay);
        self.time_to_quality.add(&other.time_to_quality);
        self.rebuffer.add(&other.rebuffer);
        self.bitrate.add(&other.bitrate);
    }

    /// Ends a window.
    pub(crate) fn rotate(&mut self) {
        for distribution in
            [&mut self.play_delay, &mut self.time_to_quality, &mut self.rebuffer, &mut self.bitrate]
        {
            distribution.rotate();
        }
    }
}
