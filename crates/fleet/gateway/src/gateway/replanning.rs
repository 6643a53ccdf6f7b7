//! When the leading gateway plans again after it has planned for a fault: soon after a temporary failure, late after any other.

use std::time::Duration;

use fleet_protocol::Digest;
use tokio::time::Instant;

use crate::api::ApiError;
use store::StoreError;

/// The wait after the first failure for a passing reason. It doubles with each further one, up to [`LATE`]. An operator's plan of a large fleet,
/// which excludes another one, takes seconds, and so does an election in etcd.
const SOON: Duration = Duration::from_secs(5);

/// The wait after a failure for any other reason, and after a plan that left the fault as it is. A plan of a large fleet takes seconds and a few
/// hundred megabytes.
const LATE: Duration = Duration::from_secs(600);

/// The last attempt to plan.
#[derive(Default)]
pub(super) struct Replanning(Option<Attempt>);

struct Attempt {
    /// The fault that it was for.
    fault: Digest,
    ended: Instant,
    /// The wait until the next one for the same fault.
    pause: Duration,
    has_passing_reason: bool,
}

impl Replanning {
    /// Whether to plan for this fault now. A fault other than the last one does not wait.
    pub(super) fn is_due(&self, fault: Digest, now: Instant) -> bool {
        self.0
            .as_ref()
            .is_none_or(|last| last.fault != fault || now.duration_since(last.ended) >= last.pause)
    }

    /// Records how planning for this fault ended. Returns the wait until the next attempt.
    pub(super) fn note(
        &mut self,
        fault: Digest,
        result: Result<(), &ApiError>,
        now: Instant,
    ) -> Duration {
        let has_passing_reason = result.is_err_and(passes);
        let before = self.0.as_ref().filter(|last| last.has_passing_reason && last.fault == fault);
        let pause = match (has_passing_reason, before) {
            (true, Some(last)) => (last.pause * 2).min(LATE),
            (true, None) => SOON,
            (false, _) => LATE,
        };
        self.0 = Some(Attempt { fault, ended: now, pause, has_passing_reason });
        pause
    }
}

/// Whether the reason for a failure may be gone in seconds: another plan is being made, the plan in the store is not read yet or has just been
/// replaced, or the store cannot be reached. A store that is set up wrong counts, too; the waits soon become long.
fn passes(error: &ApiError) -> bool {
    matches!(error, ApiError::Unavailable(_)) || *error == ApiError::from(StoreError::Conflict)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy() -> ApiError {
        ApiError::Unavailable("this gateway is already making a plan".to_owned())
    }

    #[test]
    fn a_passing_reason_is_tried_again_in_seconds_and_then_more_and_more_rarely() {
        let (mut replanning, mut now) = (Replanning::default(), Instant::now());
        let fault = Digest::of(b"a node is gone");
        assert!(replanning.is_due(fault, now));
        let mut pauses = Vec::new();
        for _ in 0..9 {
            let pause = replanning.note(fault, Err(&busy()), now);
            assert!(!replanning.is_due(fault, now));
            now += pause;
            assert!(replanning.is_due(fault, now));
            pauses.push(pause.as_secs());
        }
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 320, 600, 600]);
    }

    #[test]
    fn a_lasting_reason_and_a_plan_that_does_not_help_wait_for_ten_minutes() {
        let fault = Digest::of(b"no room");
        let full = ApiError::Conflict("no node can take part in a plan now".to_owned());
        for result in [Err(&full), Ok(())] {
            let (mut replanning, now) = (Replanning::default(), Instant::now());
            assert_eq!(replanning.note(fault, result, now), LATE);
            assert!(!replanning.is_due(fault, now + LATE / 2));
            assert!(replanning.is_due(fault, now + LATE));
        }
    }

    #[test]
    fn a_lasting_reason_ends_the_doubling() {
        let (mut replanning, now) = (Replanning::default(), Instant::now());
        let fault = Digest::of(b"a title has no place");
        let conflict = ApiError::from(StoreError::Conflict);
        assert_eq!(replanning.note(fault, Err(&conflict), now), SOON);
        assert_eq!(replanning.note(fault, Err(&busy()), now), SOON * 2);
        assert_eq!(replanning.note(fault, Ok(()), now), LATE);
        assert_eq!(replanning.note(fault, Err(&busy()), now), SOON);
    }

    #[test]
    fn another_fault_does_not_wait() {
        let (mut replanning, now) = (Replanning::default(), Instant::now());
        let (first, second) = (Digest::of(b"first"), Digest::of(b"second"));
        replanning.note(first, Ok(()), now);
        assert!(replanning.is_due(second, now) && !replanning.is_due(first, now));
        assert_eq!(replanning.note(first, Err(&busy()), now), SOON);
        assert_eq!(replanning.note(second, Err(&busy()), now), SOON, "not doubled");
    }
}
