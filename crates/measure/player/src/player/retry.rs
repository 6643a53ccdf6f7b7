//! Retries after a failure: another pathway at once, the same one after a pause, or skipping the segment.
//!
//! A server in trouble gets pauses that grow to eight seconds, for as long as the viewer stays. A missing or damaged segment is tried on
//! every pathway, then at another bit rate, and then skipped, as in hls.js.

use crate::Time;
use crate::failure::Failure;
use std::time::Duration;

/// The pause after the first failure; it doubles with each further one.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(8);

/// If a server keeps closing in the middle of the same segment, the segment is damaged; it is not just a bad moment.
const CUTS_MAX: u32 = 4;

/// Attempts after a missing segment was requested on every pathway: one more there, one at another bit rate.
const FURTHER_ATTEMPTS: u32 = 2;

/// The number of pathways whose failures are remembered for a segment.
pub(crate) const PATHWAYS_MAX: usize = 32;

/// The failures of one segment, or of anything needed to fetch it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Retry {
    /// The earliest time of the next attempt.
    pub(crate) at: Time,
    attempts: u32,
    /// Failures that concern the object itself.
    of_object: u32,
    /// A bit for each pathway that has failed since the last pause.
    tried: u32,
    /// How often a request for it was given up as too slow.
    pub(crate) abandoned: u32,
    /// The last rate of the most recent of these, in bits per second.
    pub(crate) came_at: Option<f64>,
    /// The bit rate to try next, because the chosen one is missing.
    pub(crate) rung: Option<usize>,
    last: Option<Failure>,
}

/// The reaction to a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Try another pathway at once, or again after a pause.
    Again,
    /// Try another bit rate.
    OtherRung,
    /// Skip the segment.
    LeaveOut,
}

impl Retry {
    /// Resets the counts after a success; the next segment starts from zero.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The last failure since the counts were reset, if any.
    pub(crate) fn last(&self) -> Option<Failure> {
        self.last
    }

    /// Returns true if the pathway has failed since the last pause.
    pub(crate) fn is_tried(&self, pathway: usize) -> bool {
        pathway < PATHWAYS_MAX && self.tried & (1 << pathway) != 0
    }

    /// Handles a failed request to one of `pathways`. `has_other` returns which pathways could serve instead.
    pub(crate) fn handle_failure(
        &mut self,
        pathway: usize,
        failure: Failure,
        pathways: usize,
        has_other: impl Fn(usize) -> bool,
        now: Time,
    ) -> Remedy {
        self.attempts = self.attempts.saturating_add(1);
        self.last = Some(failure);
        self.tried |= 1_u32.checked_shl(pathway as u32).unwrap_or(0);
        let is_cut = matches!(failure, Failure::ClosedEarly | Failure::BadResponse);
        if failure.is_of_object() || (is_cut && self.attempts >= CUTS_MAX) {
            self.of_object += 1;
        }
        let is_left = (0..pathways).any(|other| !self.is_tried(other) && has_other(other));
        if is_left {
            self.at = now;
        } else {
            self.tried = 0;
            self.at = now.saturating_add(self.pause());
        }
        let everywhere = pathways.clamp(1, 4) as u32;
        match self.of_object {
            count if count >= everywhere + FURTHER_ATTEMPTS => Remedy::LeaveOut,
            count if count > everywhere => Remedy::OtherRung,
            _ => Remedy::Again,
        }
    }

    fn pause(&self) -> Duration {
        let doublings = self.attempts.saturating_sub(1).min(5);
        (PAUSE_MIN * (1 << doublings)).min(PAUSE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(retry: &mut Retry, failure: Failure, now: u64) -> (Remedy, Duration) {
        let now = Duration::from_secs(now);
        let remedy = retry.handle_failure(0, failure, 1, |_| true, now);
        (remedy, retry.at - now)
    }

    #[test]
    fn a_server_in_trouble_gets_longer_and_longer_pauses() {
        let mut retry = Retry::default();
        let pauses: Vec<_> = (0..8)
            .map(|at| {
                let (remedy, pause) = fail(&mut retry, Failure::Status(503), at);
                assert_eq!(remedy, Remedy::Again);
                pause.as_millis()
            })
            .collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 8000, 8000, 8000]);
        retry.clear();
        assert_eq!(fail(&mut retry, Failure::Reset, 9).1.as_millis(), 500);
    }

    #[test]
    fn a_missing_segment_is_left_out_in_the_end() {
        let mut retry = Retry::default();
        let remedies = [0, 1, 2].map(|at| fail(&mut retry, Failure::Status(404), at).0);
        assert_eq!(remedies, [Remedy::Again, Remedy::OtherRung, Remedy::LeaveOut]);
        let mut retry = Retry::default();
        let remedies: Vec<_> =
            (0..6).map(|at| fail(&mut retry, Failure::ClosedEarly, at).0).collect();
        assert_eq!(remedies[3..], [Remedy::Again, Remedy::OtherRung, Remedy::LeaveOut]);
    }

    #[test]
    fn another_pathway_is_asked_at_once() {
        let mut retry = Retry::default();
        let mut fail = |pathway| {
            let now = Duration::from_secs(5);
            let remedy =
                retry.handle_failure(pathway, Failure::Connect, 3, |other| other != 1, now);
            assert_eq!(remedy, Remedy::Again);
            (retry.at - now, retry.is_tried(pathway))
        };
        assert_eq!(fail(0), (Duration::ZERO, true));
        // The second pathway does not have it, and the third one has failed too.
        assert_eq!(fail(2), (Duration::from_secs(1), false));
    }
}
