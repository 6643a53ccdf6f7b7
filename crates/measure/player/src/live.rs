//! What one viewer saw of a live stream, beyond the figures of all sessions.
//!
//! - **Latency**: how long ago the picture was made, by the stream's own dates; without dates, how far before the end of the playlist it is.
//!   Measured each time the playlist arrives while the viewer plays.
//! - **Reloads**: loads of the playlist after the first one.
//! - **Jumps**: the playlist left out segments that no earlier one had.
//! - **Went back**: the playlist was an earlier one, or its numbers began again.
//! - **Stood still**: the playlist had nothing new for two target durations; in DASH, for twice its longest segment or update period.

use crate::player::Reload;
use std::time::Duration;

/// What one viewer saw of a live stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveSeen {
    /// The mean latency; `None` if it was never measured.
    pub latency: Option<Duration>,
    /// The latency is by the stream's dates.
    pub is_by_date: bool,
    /// Loads of the playlist after the first one.
    pub reloads: u64,
    /// Those of them that had nothing new.
    pub unchanged: u64,
    /// Reloads that left out segments.
    pub jumps: u64,
    /// The segments that they left out.
    pub missed_segments: u64,
    /// Reloads that returned an earlier playlist, or one whose numbers began again.
    pub went_back: u64,
    /// How often the playlist stood still.
    pub stood_still: u64,
}

/// Counts while the session goes on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LiveTally {
    seen: LiveSeen,
    is_live: bool,
    latencies: Duration,
    measured: u32,
}

impl LiveTally {
    pub(crate) fn reloaded(&mut self, reload: Reload) {
        self.is_live = true;
        let seen = &mut self.seen;
        seen.reloads += u64::from(reload != Reload::First);
        match reload {
            Reload::First | Reload::Grown { missed: 0 } => {}
            Reload::Unchanged => seen.unchanged += 1,
            Reload::Grown { missed } => {
                seen.jumps += 1;
                seen.missed_segments = seen.missed_segments.saturating_add(missed);
            }
            Reload::WentBack | Reload::Restarted => seen.went_back += 1,
        }
    }

    pub(crate) fn stood_still(&mut self) {
        self.seen.stood_still += 1;
    }

    /// The viewer is this far behind.
    pub(crate) fn behind(&mut self, latency: Duration, is_by_date: bool) {
        self.latencies = self.latencies.saturating_add(latency);
        self.measured = self.measured.saturating_add(1);
        self.seen.is_by_date = is_by_date;
    }

    /// What the viewer has seen so far; `None` of a film.
    pub(crate) fn seen(&self) -> Option<LiveSeen> {
        let latency = self.latencies.checked_div(self.measured);
        self.is_live.then_some(LiveSeen { latency, ..self.seen })
    }
}
