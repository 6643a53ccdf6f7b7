//! What viewers saw of live streams, summed over their sessions.

use player::LiveSeen;
use serde_json::{Value, json};
use std::fmt::Write;

/// Sessions of live streams, and what their playlists did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamTotals {
    /// Sessions of live streams.
    pub sessions: u64,
    /// Those of them whose latency is by the stream's dates. That of the others is by the end of the playlist.
    pub latency_by_date: u64,
    /// Loads of a playlist after the first one of its session.
    pub reloads: u64,
    /// Those of them that had nothing new.
    pub unchanged: u64,
    /// Reloads that left out segments.
    pub jumps: u64,
    /// The segments that they left out.
    pub missed_segments: u64,
    /// Reloads that returned an earlier playlist, or one whose numbers began again.
    pub went_back: u64,
    /// How often a playlist had nothing new for two target durations.
    pub stood_still: u64,
}

impl StreamTotals {
    pub(crate) fn record(&mut self, seen: &LiveSeen) {
        self.add(&Self {
            sessions: 1,
            latency_by_date: u64::from(seen.is_by_date),
            reloads: seen.reloads,
            unchanged: seen.unchanged,
            jumps: seen.jumps,
            missed_segments: seen.missed_segments,
            went_back: seen.went_back,
            stood_still: seen.stood_still,
        });
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.sessions += other.sessions;
        self.latency_by_date += other.latency_by_date;
        self.reloads += other.reloads;
        self.unchanged += other.unchanged;
        self.jumps += other.jumps;
        self.missed_segments = self.missed_segments.saturating_add(other.missed_segments);
        self.went_back += other.went_back;
        self.stood_still += other.stood_still;
    }

    pub(crate) fn to_json(self) -> Value {
        json!({
            "sessions": self.sessions,
            "latency_by_date": self.latency_by_date,
            "reloads": self.reloads,
            "unchanged": self.unchanged,
            "jumps": self.jumps,
            "missed_segments": self.missed_segments,
            "went_back": self.went_back,
            "stood_still": self.stood_still,
        })
    }

    /// Two lines about live streams, if there were any.
    pub(crate) fn write(&self, text: &mut String) -> std::fmt::Result {
        if self.sessions == 0 {
            return Ok(());
        }
        writeln!(
            text,
            "  live: {} sessions, latency by the stream's dates for {} and by the end of the playlist for the others",
            self.sessions, self.latency_by_date
        )?;
        writeln!(
            text,
            "  playlists: {} reloads, {} without news; {} jumps over {} segments, {} went back, {} stood still",
            self.reloads,
            self.unchanged,
            self.jumps,
            self.missed_segments,
            self.went_back,
            self.stood_still
        )
    }
}
