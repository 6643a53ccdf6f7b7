//! The figures of a group of sessions, as counts that add up exactly: over servers, and over time.

use serde::{Deserialize, Serialize};

use crate::interval::{Interval, share};
use crate::session::Session;
use crate::spread::SparseBuckets;

/// The part of a session that is counted: its first five minutes.
pub const COUNTED_MS: u64 = 300_000;

/// The most stalls that a session is counted with: one each second.
const STALLS_MAX: u64 = COUNTED_MS / 1000;

/// The highest bit rate that a player may report, as in `cmcd.rs`.
const KBPS_MAX: u64 = 10_000_000;

/// Sums over sessions. A server of another release may have made them: unknown fields are ignored, and missing ones are 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionSums {
    /// Sessions.
    pub sessions: u64,
    /// Those that never played.
    pub not_started: u64,
    /// Those that stalled.
    pub stalled: u64,
    /// Those that were in a stall when they were counted: the viewer gave up, or waits.
    pub left_stalled: u64,
    /// Those that could have had a good picture, and did not.
    pub no_quality: u64,
    /// Stalls.
    pub stalls: u64,
    /// Time in stalls, in milliseconds.
    pub stalled_ms: u64,
    /// Time played.
    pub played_ms: u64,
    /// Times from the request to play until playback began, in milliseconds.
    pub play_delay_ms: SparseBuckets,
    /// Times until the picture was good.
    pub time_to_quality_ms: SparseBuckets,
    /// Times in stalls, of the sessions that stalled.
    pub stall_ms: SparseBuckets,
    /// Mean bit rates, in kbit/s.
    pub bitrate_kbps: SparseBuckets,
}

impl SessionSums {
    /// Counts a session as it is now.
    pub(crate) fn record(&mut self, session: &Session) {
        let (told, outcome) = (&session.told, session.outcome());
        self.sessions += 1;
        self.no_quality += u64::from(outcome.never_good);
        if let Some(kbps) = outcome.bitrate_kbps {
            self.bitrate_kbps.record(kbps.min(KBPS_MAX));
        }
        if outcome.never_started {
            self.not_started += 1;
            return;
        }
        self.played_ms += told.played_ms.min(COUNTED_MS);
        if let Some(ms) = told.play_delay_ms {
            self.play_delay_ms.record(ms.min(COUNTED_MS));
        }
        if let Some(ms) = told.time_to_quality_ms {
            self.time_to_quality_ms.record(ms.min(COUNTED_MS));
        }
        if told.stalls > 0 {
            let stalled_ms = session.stalled_ms().min(COUNTED_MS);
            self.stalled += 1;
            self.left_stalled += u64::from(session.is_stalled());
            self.stalls += told.stalls.min(STALLS_MAX);
            self.stalled_ms += stalled_ms;
            self.stall_ms.record(stalled_ms);
        }
    }

    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Self) {
        let counts = [
            (&mut self.sessions, other.sessions),
            (&mut self.not_started, other.not_started),
            (&mut self.stalled, other.stalled),
            (&mut self.left_stalled, other.left_stalled),
            (&mut self.no_quality, other.no_quality),
            (&mut self.stalls, other.stalls),
            (&mut self.stalled_ms, other.stalled_ms),
            (&mut self.played_ms, other.played_ms),
        ];
        for (count, more) in counts {
            *count = count.saturating_add(more);
        }
        self.play_delay_ms.add(&other.play_delay_ms);
        self.time_to_quality_ms.add(&other.time_to_quality_ms);
        self.stall_ms.add(&other.stall_ms);
        self.bitrate_kbps.add(&other.bitrate_kbps);
    }

    /// Sessions in which something went wrong: they never played, or stalled.
    pub fn troubled(&self) -> u64 {
        self.not_started.saturating_add(self.stalled)
    }

    /// Their share.
    pub fn trouble(&self) -> Option<Interval> {
        share(self.troubled(), self.sessions)
    }

    /// The share of viewers' time that they spent in stalls; `None` if nothing played.
    pub fn stall_ratio(&self) -> Option<f64> {
        let both_ms = self.stalled_ms as f64 + self.played_ms as f64;
        (both_ms > 0.0).then(|| self.stalled_ms as f64 / both_ms)
    }

    /// How much memory it takes, in buckets.
    pub fn buckets(&self) -> usize {
        let spreads =
            [&self.play_delay_ms, &self.time_to_quality_ms, &self.stall_ms, &self.bitrate_kbps];
        // The fields take as much as some twenty buckets.
        20 + spreads.iter().map(|spread| spread.buckets()).sum::<usize>()
    }

    /// Takes less memory: distributions become coarser ([`SparseBuckets`] with 8 buckets in an octave instead of 64).
    pub fn coarsen(&mut self) {
        self.spreads().into_iter().for_each(SparseBuckets::coarsen);
    }

    /// Takes little memory: only counts are left, without distributions.
    pub fn drop_spreads(&mut self) {
        self.spreads().into_iter().for_each(|spread| *spread = SparseBuckets::default());
    }

    fn spreads(&mut self) -> [&mut SparseBuckets; 4] {
        let Self { play_delay_ms, time_to_quality_ms, stall_ms, bitrate_kbps, .. } = self;
        [play_delay_ms, time_to_quality_ms, stall_ms, bitrate_kbps]
    }

    /// Whether they can be saved ones, also after [`coarsen`](Self::coarsen) and [`drop_spreads`](Self::drop_spreads).
    pub fn is_readable(&self) -> bool {
        let spreads =
            [&self.play_delay_ms, &self.time_to_quality_ms, &self.stall_ms, &self.bitrate_kbps];
        self.troubled() <= self.sessions && spreads.iter().all(|spread| spread.is_readable())
    }

    /// Whether sessions could have made them. No count can be larger than the number of sessions allows.
    pub fn is_sound(&self) -> bool {
        let all = self.sessions;
        let Some(started) = all.checked_sub(self.not_started) else { return false };
        let ms_max = started.saturating_mul(COUNTED_MS);
        self.stalled <= started
            && self.left_stalled <= self.stalled
            && self.no_quality <= all
            && (self.stalled..=self.stalled.saturating_mul(STALLS_MAX)).contains(&self.stalls)
            && self.stalled_ms <= ms_max
            && self.played_ms <= ms_max
            && self.stall_ms.sum() == self.stalled_ms
            && self.stall_ms.is_sound(self.stalled, COUNTED_MS)
            && self.play_delay_ms.is_sound(started, COUNTED_MS)
            && self.time_to_quality_ms.is_sound(started, COUNTED_MS)
            && self.bitrate_kbps.is_sound(all, KBPS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cmcd, QoeReport};

    fn session(requests: &[(u64, &str)]) -> Session {
        let mut session: Option<Session> = None;
        for (at_ms, text) in requests {
            let mut cmcd = Cmcd::default();
            cmcd.read(text.as_bytes());
            let report = QoeReport::new(at_ms * 1000, 1, b"a/1.m4s", &cmcd);
            session.get_or_insert_with(|| Session::of(&report)).take(&report);
        }
        session.expect("it has a request")
    }

    fn sums(sessions: &[&[(u64, &str)]]) -> SessionSums {
        let mut sums = SessionSums::default();
        sessions.iter().for_each(|requests| sums.record(&session(requests)));
        sums
    }

    const WELL: &[(u64, &str)] = &[
        (0, "ot=v,su,d=4000,br=3000,tb=3000"),
        (800, "ot=v,d=4000,br=3000,tb=3000,bl=4000"),
        (4800, "ot=v,d=4000,br=3000,tb=3000,bl=4000"),
    ];
    const STALLED: &[(u64, &str)] = &[
        (0, "ot=v,su,d=2000,br=1000,tb=3000"),
        (1000, "ot=v,d=2000,br=1000,tb=3000,msd=700"),
        (9000, "ot=v,d=2000,br=1000,tb=3000,bs,bsd=3000"),
        (10_000, "ot=v,d=2000,br=1000,tb=3000"),
    ];
    const NOT_STARTED: &[(u64, &str)] = &[(0, "ot=m,su"), (900, "ot=v,su,d=2000")];
    const GAVE_UP: &[(u64, &str)] =
        &[(0, "ot=v,su,d=2000,bl=0"), (500, "ot=v,d=2000,bl=1000"), (4000, "ot=v,su,d=2000,bs")];

    #[test]
    fn a_session_counts_once_in_each_of_its_sums() {
        let all = sums(&[WELL, STALLED, NOT_STARTED, GAVE_UP]);
        assert_eq!((all.sessions, all.not_started, all.stalled), (4, 1, 2));
        assert_eq!((all.left_stalled, all.no_quality, all.stalls), (1, 1, 2));
        assert_eq!((all.play_delay_ms.count(), all.play_delay_ms.sum()), (3, 800 + 700 + 500));
        assert_eq!((all.bitrate_kbps.count(), all.bitrate_kbps.sum()), (2, 4000));
        assert_eq!((all.stall_ms.count(), all.stall_ms.sum()), (2, all.stalled_ms));
        assert!(all.stalled_ms >= 3000 && all.is_sound(), "{all:?}");
        assert_eq!(all.trouble().map(|share| share.value), Some(0.75));
    }

    #[test]
    fn sums_add_up_and_are_what_was_sent() {
        let mut both = sums(&[WELL, STALLED]);
        both.add(&sums(&[NOT_STARTED, GAVE_UP]));
        assert_eq!(both, sums(&[WELL, STALLED, NOT_STARTED, GAVE_UP]));
        let mut sent = serde_json::to_value(&both).unwrap();
        assert_eq!(serde_json::from_value::<SessionSums>(sent.clone()).unwrap(), both);
        sent["of_a_later_release"] = 7.into();
        sent.as_object_mut().unwrap().remove("left_stalled");
        let read: SessionSums = serde_json::from_value(sent).unwrap();
        assert_eq!((read.left_stalled, read.stalls), (0, both.stalls));
    }

    #[test]
    fn what_no_sessions_make_is_unsound() {
        let good = sums(&[WELL, STALLED, NOT_STARTED, GAVE_UP]);
        let broken: [fn(&mut SessionSums); 8] = [
            |sums| sums.sessions = 2,
            |sums| sums.not_started = 5,
            |sums| sums.stalled = 4,
            |sums| sums.left_stalled = 3,
            |sums| sums.stalls = u64::MAX,
            |sums| sums.played_ms = u64::MAX,
            |sums| sums.stalled_ms += 1,
            |sums| sums.bitrate_kbps.record(KBPS_MAX * 3),
        ];
        for (number, break_it) in broken.iter().enumerate() {
            let mut sums = good.clone();
            break_it(&mut sums);
            assert!(!sums.is_sound(), "{number}");
        }
    }

    #[test]
    fn a_player_that_boasts_counts_as_one_session() {
        let boasts: &[(u64, &str)] = &[
            (0, "ot=v,su,d=1,br=10000000"),
            (1, "ot=v,d=86400000,msd=86400000"),
            (2, "ot=v,d=86400000,bs,bsd=86400000"),
        ];
        let sums = sums(&[boasts]);
        assert_eq!((sums.sessions, sums.stalled_ms), (1, COUNTED_MS));
        assert_eq!(sums.play_delay_ms.sum(), COUNTED_MS);
        assert!(sums.is_sound(), "{sums:?}");
    }
}
