//! Second opinions: whether other nodes can reach those that have fallen silent.
//!
//! No single node decides. A silent node counts as dead when at least two others report that they can't reach it, and fewer that they can; one report
//! is enough only if no other node beats.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fleet_protocol::{ASKS_MAX, Name};

/// How long an opinion counts: a few heartbeats.
const HOLDS: Duration = Duration::from_secs(60);

/// Most opinions stored about one node.
const WITNESSES_MAX: usize = 16;

/// How often the choice of nodes that a witness is asked about changes, if there are more than fit into one answer.
const TURN: Duration = Duration::from_secs(10);

/// The other nodes' reports on each silent node, with the uptime of each report.
#[derive(Debug, Default)]
pub(super) struct WitnessReports(BTreeMap<Name, BTreeMap<Name, (bool, Duration)>>);

impl WitnessReports {
    /// Records whether `witness` reaches `node`.
    pub(super) fn note(&mut self, witness: &Name, node: &Name, is_reached: bool, now: Duration) {
        let of_node = self.0.entry(node.clone()).or_default();
        if of_node.len() < WITNESSES_MAX || of_node.contains_key(witness) {
            of_node.insert(witness.clone(), (is_reached, now));
        }
    }

    /// How many nodes reach `node`, and how many don't.
    fn count(&self, node: &Name, now: Duration) -> (usize, usize) {
        let witness_reports = self.0.get(node).into_iter().flat_map(BTreeMap::values);
        let fresh: Vec<bool> = witness_reports
            .filter(|(_, at)| now.saturating_sub(*at) < HOLDS)
            .map(|(is_reached, _)| *is_reached)
            .collect();
        let reach = fresh.iter().filter(|is_reached| **is_reached).count();
        (reach, fresh.len() - reach)
    }

    /// Whether the others can't reach `node` either. `heard` is the number of nodes whose heartbeats arrive here.
    pub(super) fn is_unreached(&self, node: &Name, heard: usize, now: Duration) -> bool {
        let (reach, miss) = self.count(node, now);
        miss > reach && miss >= heard.clamp(1, 2)
    }

    /// Whether the others reach `node`.
    pub(super) fn is_reached(&self, node: &Name, now: Duration) -> bool {
        let (reach, miss) = self.count(node, now);
        reach > miss
    }

    /// Drops reports on nodes other than `nodes`, and old reports.
    pub(super) fn keep(&mut self, nodes: &BTreeSet<Name>, now: Duration) {
        self.0.retain(|node, _| nodes.contains(node));
        for of_node in self.0.values_mut() {
            of_node.retain(|_, (_, at)| now.saturating_sub(*at) < HOLDS);
        }
    }
}

/// The silent nodes that `witness` should try to reach now. If there are many, each witness gets a different part, and all come in turn.
pub(super) fn asks(silent: &BTreeSet<Name>, witness: &Name, now: Duration) -> Vec<Name> {
    let turn = now.as_secs() / TURN.as_secs();
    let own = witness
        .as_str()
        .bytes()
        .fold(turn, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let start = match silent.len() {
        0..=ASKS_MAX => 0,
        // Less than the length, which is a usize.
        many => (own % many as u64) as usize,
    };
    silent.iter().cycle().skip(start).take(ASKS_MAX.min(silent.len())).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> Name {
        format!("n{number:03}").parse().expect("a name")
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn it_takes_two_and_more_than_those_who_say_otherwise() {
        let mut witness_reports = WitnessReports::default();
        witness_reports.note(&name(1), &name(0), false, at(0));
        assert!(!witness_reports.is_unreached(&name(0), 3, at(0)), "one liar");
        assert!(witness_reports.is_unreached(&name(0), 1, at(0)), "there is no other");
        witness_reports.note(&name(2), &name(0), false, at(0));
        assert!(witness_reports.is_unreached(&name(0), 3, at(0)));
        witness_reports.note(&name(3), &name(0), true, at(30));
        witness_reports.note(&name(4), &name(0), true, at(30));
        assert!(!witness_reports.is_unreached(&name(0), 9, at(30)));
        assert!(witness_reports.is_reached(&name(0), at(60)), "the first two are too old");
        witness_reports.keep(&BTreeSet::new(), at(60));
        assert!(!witness_reports.is_reached(&name(0), at(60)));
    }

    #[test]
    fn few_are_all_asked_about_and_many_in_turn() {
        let few: BTreeSet<Name> = (0..3).map(name).collect();
        assert_eq!(asks(&few, &name(9), at(0)), [name(0), name(1), name(2)]);
        let many: BTreeSet<Name> = (0..100).map(name).collect();
        let mut named = BTreeSet::new();
        for second in 0..2000 {
            let asked = asks(&many, &name(200), at(second));
            assert_eq!(asked.len(), ASKS_MAX);
            named.extend(asked);
        }
        assert_eq!(named, many);
        assert!(asks(&BTreeSet::new(), &name(1), at(0)).is_empty());
    }
}
