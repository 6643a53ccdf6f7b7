//! The experience of a group of viewers.

use super::spread::Spread;
use player::event::Ending;
use player::report::SessionReport;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Sessions with something in common, and what their viewers saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionGroup {
    /// All sessions.
    pub sessions: u64,
    /// Sessions whose playback began.
    pub started: u64,
    /// Sessions whose playback began and never stalled, and whose viewers neither gave up nor left in a long wait after a seek.
    pub without_stall: u64,
    /// Sessions whose viewers (or players) gave up.
    pub gave_up: u64,
    /// Sessions that reached the film's end.
    pub finished: u64,
    /// Sessions whose viewers left as planned, before playback began.
    pub left_before_start: u64,
    /// Time from the visit to the first picture, in seconds.
    pub play_delay: Spread,
    /// Stalled time divided by stalled and played time, for sessions that started.
    pub stall_ratio: Spread,
    /// For sessions of a minute or more of watching: one stall in ten seconds is not a rate.
    pub stalls_per_hour: Spread,
    /// Mean bit rate of completely fetched media, in Mb/s.
    pub mbps: Spread,
    /// Changes of the bit rate.
    pub switches: Spread,
    /// Mean wait after a seek, in seconds, for sessions with seeks.
    pub seek_wait: Spread,
    /// Time from the visit to the first 4 s in a row at 80% of the highest bit rate or more, in seconds, for sessions that got that far.
    pub time_to_quality: Spread,
    /// How far behind a live stream the viewer was on average, in seconds, for sessions of live streams that started.
    pub latency: Spread,
}

const RATE_TIME_MIN: Duration = Duration::from_secs(60);

/// A viewer who leaves after waiting this long for the picture after a seek did not see what they wanted. A shorter wait is part of any
/// seek, and the run may end at any moment. This is our own choice.
const SEEK_WAIT_MAX: Duration = Duration::from_secs(4);

impl Default for SessionGroup {
    fn default() -> Self {
        Self {
            sessions: 0,
            started: 0,
            without_stall: 0,
            gave_up: 0,
            finished: 0,
            left_before_start: 0,
            play_delay: Spread::new(1000),
            stall_ratio: Spread::new(1_000_000),
            stalls_per_hour: Spread::new(1000),
            mbps: Spread::new(1000),
            switches: Spread::new(1),
            seek_wait: Spread::new(1000),
            time_to_quality: Spread::new(1000),
            latency: Spread::new(1000),
        }
    }
}

impl SessionGroup {
    pub(crate) fn record(&mut self, report: &SessionReport) {
        self.sessions += 1;
        self.gave_up += u64::from(matches!(report.ended, Ending::GaveUp(_)));
        self.finished += u64::from(report.ended == Ending::Finished);
        let Some(play_delay) = report.play_delay else {
            self.left_before_start += u64::from(report.ended == Ending::Left);
            return;
        };
        self.started += 1;
        let gave_up = matches!(report.ended, Ending::GaveUp(_));
        let left_waiting = report.left_waiting >= SEEK_WAIT_MAX;
        self.without_stall += u64::from(report.stall_count == 0 && !gave_up && !left_waiting);
        self.play_delay.record(play_delay.as_secs_f64());
        self.record_stalls(report);
        if let Some(bits_per_second) = report.bits_per_second {
            self.mbps.record(bits_per_second as f64 / 1e6);
        }
        self.switches.record(report.switches as f64);
        if report.seeks > 0 {
            self.seek_wait.record(report.seek_waits.as_secs_f64() / report.seeks as f64);
        }
        if let Some(after) = report.time_to_quality {
            self.time_to_quality.record(after.as_secs_f64());
        }
        if let Some(latency) = report.live.and_then(|live| live.latency) {
            self.latency.record(latency.as_secs_f64());
        }
    }

    fn record_stalls(&mut self, report: &SessionReport) {
        if let Some(ratio) = report.stall_ratio() {
            self.stall_ratio.record(ratio);
        }
        let is_long = report.played + report.stalled >= RATE_TIME_MIN;
        if let Some(per_hour) = report.stalls_per_hour().filter(|_| is_long) {
            self.stalls_per_hour.record(per_hour);
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.sessions += other.sessions;
        self.started += other.started;
        self.without_stall += other.without_stall;
        self.gave_up += other.gave_up;
        self.finished += other.finished;
        self.left_before_start += other.left_before_start;
        for ((_, spread), (_, more)) in self.spreads_mut().into_iter().zip(other.spreads()) {
            spread.add(more);
        }
    }

    /// The distributions, each with its name and unit.
    pub(crate) fn spreads(&self) -> [(&'static str, &Spread); 8] {
        [
            ("play_delay_seconds", &self.play_delay),
            ("stall_ratio", &self.stall_ratio),
            ("stalls_per_hour", &self.stalls_per_hour),
            ("mbps", &self.mbps),
            ("switches", &self.switches),
            ("seek_wait_seconds", &self.seek_wait),
            ("time_to_quality_seconds", &self.time_to_quality),
            ("latency_seconds", &self.latency),
        ]
    }

    fn spreads_mut(&mut self) -> [(&'static str, &mut Spread); 8] {
        [
            ("play_delay_seconds", &mut self.play_delay),
            ("stall_ratio", &mut self.stall_ratio),
            ("stalls_per_hour", &mut self.stalls_per_hour),
            ("mbps", &mut self.mbps),
            ("switches", &mut self.switches),
            ("seek_wait_seconds", &mut self.seek_wait),
            ("time_to_quality_seconds", &mut self.time_to_quality),
            ("latency_seconds", &mut self.latency),
        ]
    }

    /// Among sessions whose viewers had not planned to leave before the first picture, the share that started, never stalled and were not
    /// given up; `None` if there are none.
    pub fn smooth_share(&self) -> Option<f64> {
        let stayed = self.sessions - self.left_before_start;
        (stayed > 0).then(|| self.without_stall as f64 / stayed as f64)
    }

    pub(crate) fn to_json(&self) -> Map<String, Value> {
        let mut map = Map::new();
        map.insert(
            "sessions".to_owned(),
            json!({
                "count": self.sessions,
                "started": self.started,
                "without_stall": self.without_stall,
                "without_stall_share": self.smooth_share(),
                "gave_up": self.gave_up,
                "finished": self.finished,
                "left_before_start": self.left_before_start,
            }),
        );
        for (name, spread) in self.spreads() {
            map.insert(name.to_owned(), spread.to_json());
        }
        map
    }
}

/// A time whose sum is exact in any order: whole nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total(u128);

impl Total {
    pub(crate) fn count(&mut self, time: Duration) {
        self.0 += time.as_nanos();
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.0 += other.0;
    }

    /// In seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }
}
