//! What follows a failure: another pathway at once, or the same again after a pause, or no more of this segment.
//!
//! A server in trouble gets pauses that grow to eight seconds, for as long as the viewer stays. A segment that is missing
//! or damaged is tried on every pathway, then at another bit rate, and is then left out, as hls.js does.

use crate::Time;
use crate::failure::Failure;
use std::time::Duration;

/// The pause after the first failure, which doubles with each further one.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(8);

/// A server that keeps closing in the middle of the same segment has a damaged one, not a bad moment.
const CUTS_MAX: u32 = 4;

/// Attempts after a missing segment was asked for on every pathway: one more there, one at another bit rate.
const FURTHER_ATTEMPTS: u32 = 2;

/// Pathways that the memory of a segment's failures has room for.
pub(crate) const PATHWAYS_MAX: usize = 32;

/// The failures of one segment, or of what is needed to fetch it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Retry {
    /// Do not ask again before.
    pub(crate) at: Time,
    attempts: u32,
    /// Failures that speak of the object itself.
    of_object: u32,
    /// A bit for each pathway that failed since the last pause.
    tried: u32,
    /// How often a request for it was given up as too slow.
    pub(crate) abandoned: u32,
    /// How fast the last of them came in the end, in bits per second.
    pub(crate) came_at: Option<f64>,
    /// The bit rate to try next, because the one that was chosen is missing.
    pub(crate) rung: Option<usize>,
    last: Option<Failure>,
}

/// What to do about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Ask another pathway at once, or again after a pause.
    Again,
    /// The same at another bit rate.
    OtherRung,
    /// Leave the segment out.
    LeaveOut,
}

impl Retry {
    /// All is well again: the next segment has its own count.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The last failure, if there was one since all was well.
    pub(crate) fn last(&self) -> Option<Failure> {
        self.last
    }

    /// Whether the pathway failed since the last pause.
    pub(crate) fn is_tried(&self, pathway: usize) -> bool {
        pathway < PATHWAYS_MAX && self.tried & (1 << pathway) != 0
    }

    /// A request to one of `pathways` failed. `has_other` tells which pathways could serve instead.
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
