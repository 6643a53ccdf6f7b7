//! Moves: playing viewers who were sent to another node in the last minute.

use std::collections::{BTreeMap, VecDeque};

use fleet_protocol::{Name, SheddingReason, SnapshotNode, State};
use serde::Serialize;
use steering::{Fleet, Label, Logged};

/// The length of the window.
const SECONDS: u64 = 60;

/// Most pairs of nodes recorded per second.
const PAIRS_MAX: usize = 1000;

/// Most pairs of nodes that are reported.
const TOLD_MAX: usize = 50;

/// Viewers who moved from one node to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ViewerMoves {
    /// The node where they played.
    pub from: Name,
    /// The node that they were sent to.
    pub to: Name,
    /// Number of viewers.
    pub viewers: u64,
    /// The reason, in one word.
    pub why: &'static str,
}

/// Decisions since the start, by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct DecisionCounts {
    /// All decisions.
    pub total: u64,
    /// Viewers sent to the first choice, or left where they play.
    pub first_choice: u64,
    /// Not the first choice, because the title is missing there.
    pub content: u64,
    /// Not the first choice, because of nodes' health.
    pub health: u64,
}

type Pairs = BTreeMap<(Name, Name), (u64, &'static str)>;

/// Counts decisions and moves.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    counts: DecisionCounts,
    seconds: VecDeque<(u64, Pairs)>,
}

impl Moves {
    /// Counts a decision.
    pub(crate) fn count(&mut self, logged: &Logged, fleet: Option<&Fleet>) {
        self.counts.total += 1;
        match logged.label {
            None => self.counts.first_choice += 1,
            Some(Label::Content) => self.counts.content += 1,
            Some(Label::Health) => self.counts.health += 1,
        }
        let (Some(from), Some(to)) = (&logged.playing, logged.nodes.first()) else { return };
        if from == to {
            return;
        }
        let now = logged.time_unix_seconds;
        if self.seconds.back().is_none_or(|(second, _)| *second != now) {
            self.seconds.push_back((now, Pairs::new()));
        }
        self.forget(now);
        let Some((_, pairs)) = self.seconds.back_mut() else { return };
        let pair = (from.clone(), to.clone());
        if pairs.len() < PAIRS_MAX || pairs.contains_key(&pair) {
            let (viewers, why) = pairs.entry(pair).or_default();
            *viewers += 1;
            *why = why_left(fleet, from, &logged.title);
        }
    }

    fn forget(&mut self, now: u64) {
        while self.seconds.front().is_some_and(|(second, _)| second + SECONDS < now) {
            self.seconds.pop_front();
        }
    }

    /// Counts since the start.
    pub(crate) fn counts(&self) -> DecisionCounts {
        self.counts
    }

    /// Moves in the last minute, most viewers first.
    pub(crate) fn told(&mut self, now_unix_seconds: u64) -> Vec<ViewerMoves> {
        self.forget(now_unix_seconds);
        let mut sums = Pairs::new();
        for (pair, (viewers, why)) in self.seconds.iter().flat_map(|(_, pairs)| pairs) {
            let sum = sums.entry(pair.clone()).or_default();
            *sum = (sum.0 + viewers, why);
        }
        let moved = |((from, to), (viewers, why))| ViewerMoves { from, to, viewers, why };
        let mut moves: Vec<_> = sums.into_iter().map(moved).collect();
        moves.sort_by_key(|moved| std::cmp::Reverse(moved.viewers));
        moves.truncate(TOLD_MAX);
        moves
    }
}

/// Why viewers leave `from`, in one word.
fn why_left(fleet: Option<&Fleet>, from: &Name, title: &str) -> &'static str {
    let Some(fleet) = fleet else { return "unknown" };
    let Some(place) = fleet.node(from.as_str()) else { return "gone" };
    let node: &SnapshotNode = &fleet.snapshot().nodes[place];
    if node.state != State::Serving {
        return node.state.as_str();
    }
    let reason = node.not_me.iter().find(|reason| reason.moves_viewers());
    match (reason, fleet.title(title)) {
        (Some(reason), _) => SheddingReason::as_str(*reason),
        (None, Some(title)) if !fleet.holds(place, title) => "title",
        _ => "choice",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(second: u64, from: &str, to: &str, label: Option<Label>) -> Logged {
        let name = |text: &str| text.parse::<Name>().expect("a name");
        Logged {
            version: 1,
            time_unix_seconds: second,
            epoch: 1,
            gateway: name("g1"),
            snapshot: 1,
            title: "a".to_owned(),
            viewer: "0".to_owned(),
            region: None,
            matched: None,
            playing: Some(name(from)),
            bits_per_second: None,
            nodes: vec![name(to)],
            label,
        }
    }

    #[test]
    fn moves_of_the_last_minute_are_summed() {
        let mut moves = Moves::default();
        moves.count(&logged(100, "a", "a", None), None);
        moves.count(&logged(100, "a", "b", Some(Label::Health)), None);
        for second in 120..125 {
            moves.count(&logged(second, "a", "c", Some(Label::Content)), None);
        }
        let told = |moves: &mut Moves, now| -> Vec<_> {
            moves.told(now).iter().map(|moved| (moved.to.to_string(), moved.viewers)).collect()
        };
        assert_eq!(told(&mut moves, 125), [("c".to_owned(), 5), ("b".to_owned(), 1)]);
        assert_eq!(told(&mut moves, 161), [("c".to_owned(), 5)]);
        assert!(told(&mut moves, 200).is_empty());
        let counts = DecisionCounts { total: 7, first_choice: 1, content: 5, health: 1 };
        assert_eq!(moves.counts(), counts);
    }
}
