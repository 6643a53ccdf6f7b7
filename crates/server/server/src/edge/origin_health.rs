//! Whether the origins answer, for operators.

use edge::ORIGINS_MAX;
use edge::contract::{OriginAsked, Trouble};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The origins' labels in metrics: their places in the order of preference.
const LABELS: [&str; ORIGINS_MAX] = ["1", "2", "3", "4", "5", "6", "7", "8"];

/// How requests to the origins ended.
#[derive(Default)]
pub(super) struct OriginHealth {
    is_down: AtomicBool,
    origins: Vec<OfOrigin>,
}

/// One of them.
struct OfOrigin {
    name: String,
    answers: AtomicU64,
    failures: AtomicU64,
    is_passed_over: AtomicBool,
}

/// The figures of all origins.
pub(super) struct OriginCounts {
    /// The label of each, its answers and its failures.
    pub(super) asked: Vec<(&'static str, u64, u64)>,
    /// The number of those that are passed over.
    pub(super) passed_over: u64,
}

impl OriginHealth {
    /// For the origins with these addresses, in order of preference.
    pub(super) fn new(names: Vec<String>) -> Self {
        let origin = |name| OfOrigin {
            name,
            answers: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            is_passed_over: AtomicBool::new(false),
        };
        Self { is_down: AtomicBool::new(false), origins: names.into_iter().map(origin).collect() }
    }

    /// Whether the last request had no answer, or an error of the origin's. With several origins, none of those that were asked had a better one.
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

    /// One of the origins has been asked.
    pub(super) fn note_asked(&self, asked: &OriginAsked) {
        let Some(origin) = self.origins.get(asked.origin) else { return };
        let count = if asked.has_answered { &origin.answers } else { &origin.failures };
        count.fetch_add(1, Relaxed);
        origin.is_passed_over.store(asked.is_passed_over, Relaxed);
    }

    /// A new helper passes none over.
    pub(super) fn forget_passed_over(&self) {
        self.origins.iter().for_each(|origin| origin.is_passed_over.store(false, Relaxed));
    }

    /// Which origins are passed over, in words, if any are.
    pub(super) fn passed_over(&self) -> Option<String> {
        let names: Vec<_> = self
            .origins
            .iter()
            .filter(|origin| origin.is_passed_over.load(Relaxed))
            .map(|origin| origin.name.as_str())
            .collect();
        match names.len() {
            0 => None,
            all if all == self.origins.len() => {
                Some(format!("no origin answers: {}", names.join(", ")))
            }
            _ => Some(format!(
                "requests pass over an origin that does not answer: {}",
                names.join(", ")
            )),
        }
    }

    /// The figures of all origins.
    pub(super) fn counts(&self) -> OriginCounts {
        let asked = LABELS.iter().zip(&self.origins).map(|(label, origin)| {
            (*label, origin.answers.load(Relaxed), origin.failures.load(Relaxed))
        });
        let passed_over = self.origins.iter().filter(|origin| origin.is_passed_over.load(Relaxed));
        OriginCounts { asked: asked.collect(), passed_over: passed_over.count() as u64 }
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

    #[test]
    fn each_origin_has_figures_of_its_own() {
        let health = OriginHealth::new(vec!["http://a".into(), "http://b".into()]);
        assert_eq!(health.passed_over(), None);
        let note = |origin, has_answered, is_passed_over| {
            health.note_asked(&OriginAsked { origin, has_answered, is_passed_over });
        };
        note(0, false, true);
        note(1, true, false);
        note(7, true, true);
        assert!(
            health.passed_over().unwrap().ends_with("an origin that does not answer: http://a")
        );
        let counts = health.counts();
        assert_eq!((counts.asked, counts.passed_over), (vec![("1", 0, 1), ("2", 1, 0)], 1));
        note(1, false, true);
        assert_eq!(health.passed_over().unwrap(), "no origin answers: http://a, http://b");
        health.forget_passed_over();
        assert_eq!(health.passed_over(), None);
    }
}
