//! Whether the origin answers, for operators.

use edge::contract::Trouble;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// How the last request to the origin ended.
#[derive(Default)]
pub(super) struct OriginHealth {
    is_down: AtomicBool,
}

impl OriginHealth {
    /// Whether it had no answer, or an error of the origin's.
    pub(super) fn is_down(&self) -> bool {
        self.is_down.load(Relaxed)
    }

    /// A request has ended. Failures of the cache say nothing of the origin.
    pub(super) fn note(&self, failure: Option<Trouble>) {
        match failure {
            Some(Trouble::Unreachable | Trouble::TimedOut) => self.is_down.store(true, Relaxed),
            None | Some(Trouble::NotFound | Trouble::Redirected | Trouble::Uncacheable) => {
                self.is_down.store(false, Relaxed);
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_down_from_a_failure_of_its_own_until_it_answers() {
        let health = OriginHealth::default();
        for (ended, is_down) in [
            (Some(Trouble::Disk), false),
            (Some(Trouble::TimedOut), true),
            (Some(Trouble::Full), true),
            (Some(Trouble::NotFound), false),
            (Some(Trouble::Unreachable), true),
            (None, false),
        ] {
            health.note(ended);
            assert_eq!(health.is_down(), is_down, "after {ended:?}");
        }
    }
}
