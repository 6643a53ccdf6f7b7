//! The stalls of a run, each with its reason.

use player::event::StallReason;
use serde_json::{Value, json};
use std::time::Duration;

/// A stall that a viewer saw.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeenStall {
    /// The viewer's number.
    pub viewer: usize,
    /// When it began, since the beginning of the run.
    pub at: Duration,
    /// Its length.
    pub length: Duration,
    /// The title's rank.
    pub title: usize,
    /// The pathway that the bytes should have come from.
    pub pathway: String,
    /// The reason; one of [`StallReason::as_str`].
    pub reason: &'static str,
}

/// Stalls by reason, and the first of them individually.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StallList {
    by_reason: [u64; StallReason::ALL.len()],
    /// By viewer, then by time.
    first: Vec<SeenStall>,
}

/// How many to keep individually. All are counted.
const LISTED_MAX: usize = 1000;

impl StallList {
    pub(crate) fn record(&mut self, reason: StallReason, stall: SeenStall) {
        self.by_reason[reason.index()] += 1;
        // Sorting each time would be expensive; a list of twice the length rarely has to be cut.
        self.first.push(stall);
        if self.first.len() >= 2 * LISTED_MAX {
            self.cut();
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (count, more) in self.by_reason.iter_mut().zip(other.by_reason) {
            *count += more;
        }
        self.first.extend_from_slice(&other.first);
        self.cut();
    }

    /// Keeps the stalls of the viewers with the lowest numbers, so that the order of recording does not matter.
    fn cut(&mut self) {
        self.first.sort_unstable();
        self.first.truncate(LISTED_MAX);
    }

    /// Number of stalls.
    pub fn count(&self) -> u64 {
        self.by_reason.iter().sum()
    }

    /// Number of stalls by reason.
    pub fn by_reason(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        StallReason::ALL.iter().map(|reason| (reason.as_str(), self.by_reason[reason.index()]))
    }

    /// The first ones by viewer and time, at most a thousand.
    pub fn first(&self) -> Vec<SeenStall> {
        let mut list = self.clone();
        list.cut();
        list.first
    }

    pub(crate) fn to_json(&self) -> Value {
        let first: Vec<Value> = self.first().iter().map(SeenStall::to_json).collect();
        let by_reason: serde_json::Map<_, _> =
            self.by_reason().map(|(reason, count)| (reason.to_owned(), json!(count))).collect();
        json!({ "count": self.count(), "by_reason": by_reason, "first": first })
    }
}

impl SeenStall {
    fn to_json(&self) -> Value {
        json!({
            "viewer": self.viewer,
            "title": self.title,
            "at_seconds": self.at.as_millis() as f64 / 1e3,
            "seconds": self.length.as_millis() as f64 / 1e3,
            "reason": self.reason,
            "pathway": self.pathway,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stall(viewer: usize) -> SeenStall {
        SeenStall {
            viewer,
            at: Duration::from_secs(1),
            length: Duration::from_secs(2),
            title: 0,
            pathway: "a".to_owned(),
            reason: StallReason::Silence.as_str(),
        }
    }

    #[test]
    fn the_same_stalls_are_listed_in_whatever_order_they_come() {
        let (mut forward, mut backward) = (StallList::default(), StallList::default());
        for viewer in 0..5000 {
            forward.record(StallReason::Silence, stall(viewer));
            backward.record(StallReason::Silence, stall(4999 - viewer));
        }
        assert_eq!((forward.count(), forward.first().len()), (5000, LISTED_MAX));
        assert_eq!(forward.first(), backward.first());
        assert_eq!(forward.to_json(), backward.to_json());
        let mut both = StallList::default();
        both.add(&forward);
        both.add(&backward);
        assert_eq!((both.count(), both.first().len()), (10_000, LISTED_MAX));
    }
}
