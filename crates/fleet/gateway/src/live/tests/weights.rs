//! Nodes' weights, in virtual time.

use fleet_protocol::{WatchCount, WatchReport};

use super::super::RejectedMessage;
use super::{Fleet, at, beat, node_name, wanted};

#[test]
fn an_operators_ceiling_is_above_what_a_node_says_of_itself() {
    let mut fleet = Fleet::new(1);
    fleet.want(at(0.0), |world| wanted(world, 0).ceiling_bits_per_second = Some(2_000));
    fleet.hear(0, at(1.0));
    let snapshot = fleet.snapshot(at(1.0));
    let node = &snapshot.nodes[0];
    assert_eq!((node.ceiling_bits_per_second, node.load_permille), (2_000, 500));
}

/// Each node's weight in a snapshot, by name, for these reported ceilings.
fn weights_of(fleet: &mut Fleet, ceilings: &[u64]) -> Vec<u64> {
    for (node, ceiling_bits_per_second) in ceilings.iter().enumerate() {
        fleet.sequence += 1;
        let mut beat = beat(node, fleet.sequence);
        beat.load.ceiling_bits_per_second = *ceiling_bits_per_second;
        fleet.core.handle_heartbeat(&node_name(node), beat, at(1.0)).expect("it is heard");
    }
    let snapshot = fleet.snapshot(at(1.0));
    snapshot.nodes.iter().map(|node| node.ceiling_bits_per_second).collect()
}

#[test]
fn no_node_weighs_more_by_its_own_word_than_four_times_what_is_usual() {
    // At three sites in turn: too few nodes per site for a median of its own.
    let mut fleet = Fleet::new(5);
    let said = [10_000, 0, 12_000, 8_000, u64::MAX];
    assert_eq!(weights_of(&mut fleet, &said), [10_000, 10_000, 12_000, 8_000, 40_000]);
    let view = fleet.core.view(at(1.0));
    let note = |node: usize| view.nodes[node].weight_note.clone().unwrap_or_default();
    assert!(note(1).contains("states no ceiling") && note(1).ends_with("median of its fleet"));
    assert!(note(4).contains("4 times the median of its fleet"), "{}", note(4));
    assert_eq!((note(0), view.nodes[4].weight_bits_per_second), (String::new(), 40_000));
    // An operator confirms the ceiling.
    fleet.want(at(2.0), |world| wanted(world, 4).ceiling_bits_per_second = Some(90_000));
    assert_eq!(weights_of(&mut fleet, &said)[4], 90_000);
    let note = fleet.core.view(at(2.0)).nodes[4].weight_note.clone();
    assert!(note.is_some_and(|note| note.ends_with("as set by the operator")));
    // A revoked node does not count for the median, and one that has never sent a heartbeat has no weight.
    fleet.want(at(3.0), |world| wanted(world, 0).is_revoked = true);
    let mut silent = Fleet::new(2);
    assert_eq!(weights_of(&mut silent, &[10_000]), [10_000, 0]);
}

#[test]
fn a_ceiling_that_is_not_believed_lets_a_node_claim_sixteen_times_what_is_usual() {
    let mut fleet = Fleet::new(5);
    weights_of(&mut fleet, &[10_000, 0, 12_000, 8_000, u64::MAX]);
    let said = |fleet: &mut Fleet, node: usize, number: u64, bytes: u64| {
        let report = WatchReport {
            version: 1,
            node: node_name(node),
            boot: "b1".to_owned(),
            number,
            seconds: 60,
            titles: Vec::new(),
            rest: WatchCount { starts: 1, bytes },
        };
        fleet.core.handle_watched(&node_name(node), &report, at(2.0))
    };
    // An hour at 160 kb/s is 72 MB, and at 10 kb/s it is 4.5 MB.
    for node in [1, 4] {
        assert_eq!(said(&mut fleet, node, 1, 73_000_000), Err(RejectedMessage::OverCeiling));
        assert_eq!(said(&mut fleet, node, 2, 71_000_000), Ok(()));
    }
    assert_eq!(said(&mut fleet, 0, 1, 5_000_000), Err(RejectedMessage::OverCeiling));
    assert_eq!(said(&mut fleet, 0, 2, 4_000_000), Ok(()));
}
