//! The stalls that may count against a server: those of viewers who received real bytes, each address as one viewer.
//!
//! Any client that may fetch a file can invent sessions. So one address, or one IPv6 network of 64 bits, counts as one viewer, however many sessions
//! it has; a session counts from [`DELIVERED_BYTES_MIN`] on; and a viewer adds no more time than passes. To make a server look bad takes as many
//! networks as it has honest viewers, and films fetched on all of them.
//!
//! The price is that viewers behind one address count as one: a server whose viewers all share one never reports that they stall.

use std::collections::HashMap;

use crate::session::News;

/// The bytes that a session must have received before it counts: some seconds of a film at the lowest usual bit rate.
pub(crate) const DELIVERED_BYTES_MIN: u64 = 256 * 1024;

/// A viewer may report this much time at once: players report once per segment, and the length of a stall at its end.
const ALLOWANCE_MS: u64 = 30_000;

/// A viewer who stalled within this time counts as stalling: a little more than the time that agents consider.
const STALLING_MS: u64 = 15_000;

/// The reports from one address.
#[derive(Clone, Copy, Debug)]
struct Viewer {
    /// Its sessions that count.
    sessions: u32,
    /// How much time it may still report, as of `at_ms`.
    allowance_ms: u64,
    at_ms: u64,
    stalled_at_ms: Option<u64>,
}

/// Viewers with sessions that count, by a number that stands for their address. There are at most as many as sessions.
#[derive(Debug, Default)]
pub(crate) struct Credible {
    viewers: HashMap<u64, Viewer>,
    pub(crate) played_ms_total: u64,
    pub(crate) stalled_ms_total: u64,
}

impl Credible {
    /// Adds a session of this viewer that counts from now on.
    pub(crate) fn begin(&mut self, viewer: u64, now_ms: u64) {
        let fresh =
            Viewer { sessions: 0, allowance_ms: ALLOWANCE_MS, at_ms: now_ms, stalled_at_ms: None };
        self.viewers.entry(viewer).or_insert(fresh).sessions += 1;
    }

    /// Removes a session of this viewer that counted.
    pub(crate) fn end(&mut self, viewer: u64) {
        let Some(own) = self.viewers.get_mut(&viewer) else { return };
        own.sessions = own.sessions.saturating_sub(1);
        if own.sessions == 0 {
            self.viewers.remove(&viewer);
        }
    }

    /// Takes a report of a session of this viewer that counts.
    pub(crate) fn tell(&mut self, viewer: u64, news: &News, now_ms: u64) {
        let Some(own) = self.viewers.get_mut(&viewer) else { return };
        let passed_ms = now_ms.saturating_sub(own.at_ms);
        own.at_ms = own.at_ms.max(now_ms);
        own.allowance_ms = own.allowance_ms.saturating_add(passed_ms).min(ALLOWANCE_MS);
        let told_ms = news.stalled_ms.saturating_add(news.played_ms);
        let counted_ms = told_ms.min(own.allowance_ms);
        if counted_ms == 0 {
            return;
        }
        own.allowance_ms -= counted_ms;
        let stalled_ms = u128::from(news.stalled_ms) * u128::from(counted_ms) / u128::from(told_ms);
        // Not more than `counted_ms`.
        let stalled_ms = stalled_ms as u64;
        self.stalled_ms_total += stalled_ms;
        self.played_ms_total += counted_ms - stalled_ms;
        if stalled_ms > 0 {
            own.stalled_at_ms = Some(now_ms);
        }
    }

    /// The number of viewers.
    pub(crate) fn viewers(&self) -> usize {
        self.viewers.len()
    }

    /// The number of viewers who have stalled lately.
    pub(crate) fn stalling(&self, now_ms: u64) -> usize {
        let is_recent = |at_ms: &u64| at_ms.saturating_add(STALLING_MS) > now_ms;
        let stalled = self.viewers.values().filter_map(|viewer| viewer.stalled_at_ms);
        stalled.filter(is_recent).count()
    }
}
