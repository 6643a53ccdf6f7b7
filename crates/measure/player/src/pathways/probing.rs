//! The budget for probing, and its use so far.

use std::time::Duration;

use super::PathwayPolicy;
use crate::Time;

/// A probe is worth this much of the current pathway's time. Its size is what the network delivers in that time, so that it measures the
/// same part of a transfer on fast and on slow networks.
const WORTH_S: f64 = 0.25;

/// Limits on a probe's size. Less than 16 KiB is one round trip and measures no rate; more than 1 MiB would add little.
const BYTES_MIN: u64 = 16 * 1024;
const BYTES_MAX: u64 = 1024 * 1024;

/// The size of an urgent probe: enough to tell a working pathway from one that crawls.
const BYTES_URGENT: u64 = 64 * 1024;

/// The share of the budget that is kept for urgent probes. When the current pathway slows down, it no longer delivers the bytes that would
/// allow a probe.
const KEPT: f64 = 0.5;

/// A probe without an outcome is forgotten after this time, so that a caller that dropped one can probe again.
pub(super) const OPEN_MAX: Duration = Duration::from_secs(60);

/// A small range request to a pathway that is not in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The pathway to probe.
    pub pathway: usize,
    /// The most bytes to request, from the beginning of any segment.
    pub bytes: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Probing {
    media_bytes: u64,
    /// Bytes of finished probes, and all of the open one's.
    probe_bytes: u64,
    open: Option<(Probe, Time)>,
    last: Option<Time>,
    /// The current pathway is too slow, and no fresh measurement shows whether another is faster: do not wait for the interval.
    pub(super) is_urgent: bool,
}

impl Probing {
    /// The size of a probe in a network of this rate.
    pub(super) fn size(&self, bits_per_second: f64) -> u64 {
        let bytes_max = if self.is_urgent { BYTES_URGENT } else { BYTES_MAX };
        ((bits_per_second * WORTH_S / 8.0) as u64).clamp(BYTES_MIN, bytes_max)
    }

    /// Returns true if a probe of this size may go out now.
    pub(super) fn allows(&self, now: Time, policy: &PathwayPolicy, bytes: u64) -> bool {
        let since = |at: Time| now.saturating_sub(at);
        let is_early = self.last.is_some_and(|at| since(at) < policy.probe_interval);
        let kept = if self.is_urgent { 0.0 } else { KEPT };
        let allowed = self.media_bytes as f64 * policy.probe_share_max * (1.0 - kept);
        let fits = self.probe_bytes.saturating_add(bytes) as f64 <= allowed;
        !self.is_open(now, OPEN_MAX) && (self.is_urgent || !is_early) && fits
    }

    /// Returns true if a probe is under way that is no older than `age_max`.
    pub(super) fn is_open(&self, now: Time, age_max: Duration) -> bool {
        self.open.is_some_and(|(_, at)| now.saturating_sub(at) < age_max)
    }

    pub(super) fn begin(&mut self, now: Time, probe: Probe) {
        self.probe_bytes = self.probe_bytes.saturating_add(probe.bytes);
        self.open = Some((probe, now));
        self.last = Some(now);
        self.is_urgent = false;
    }

    pub(super) fn handle_media(&mut self, bytes: u64) {
        self.media_bytes = self.media_bytes.saturating_add(bytes);
    }

    /// The open probe has ended with this many bytes.
    pub(super) fn handle_probe(&mut self, pathway: usize, bytes: u64) {
        if let Some((probe, _)) = self.open.take_if(|(probe, _)| probe.pathway == pathway) {
            self.probe_bytes = self.probe_bytes.saturating_sub(probe.bytes);
        }
        self.probe_bytes = self.probe_bytes.saturating_add(bytes);
    }

    /// The pathway failed. An open probe there counts in full, since it is unknown how much of it arrived.
    pub(super) fn handle_failure(&mut self, pathway: usize) {
        self.open.take_if(|(probe, _)| probe.pathway == pathway);
    }
}
