//! A snapshot of a fleet as a node gets it, then questions of viewers, then lines of the decision log as an operator replays them. A 0 byte
//! ends each part.
//!
//! Checks that nothing panics; that an accepted snapshot is the same after writing and reading; that no answer names a node that lacks the title
//! or is revoked, more than three nodes, or a node twice; that a logged decision is made again in the same way; and that a reported throughput
//! changes nothing.

#![no_main]

use std::net::IpAddr;

use fleet_protocol::{FleetSnapshot, State};
use fullbore_fuzz::choices::Choices;
use libfuzzer_sys::fuzz_target;
use steering::{Decision, Fleet, Logged, Playing, Question, decide, explain, replay};

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(3, |byte| *byte == 0);
    let Ok(snapshot) = FleetSnapshot::from_bytes(parts.next().unwrap_or_default()) else { return };
    let Ok(fleet) = Fleet::new(snapshot, None) else { return };
    let again = FleetSnapshot::from_bytes(&fleet.snapshot().to_bytes()).expect("its own bytes");
    let next = Fleet::new(again, Some(&fleet)).expect("a good snapshot");
    assert_eq!(next.snapshot().nodes, fleet.snapshot().nodes);
    let mut choices = Choices::new(parts.next().unwrap_or_default());
    while !choices.is_empty() {
        ask(&fleet, &next, &mut choices);
    }
    for line in parts.next().unwrap_or_default().split(|byte| *byte == b'\n') {
        let Ok(line) = std::str::from_utf8(line) else { continue };
        let Ok(logged) = Logged::from_line(line) else { continue };
        if let Ok(decision) = replay(&fleet, &logged) {
            check(&fleet, &logged.title, &decision);
        }
    }
});

fn ask(fleet: &Fleet, next: &Fleet, choices: &mut Choices<'_>) {
    let snapshot = fleet.snapshot();
    let address = address(choices);
    let titles: Vec<&str> = snapshot.titles.iter().map(|title| title.path.as_str()).collect();
    let title = if titles.is_empty() { "none" } else { choices.one_of(&titles) };
    let nodes: Vec<&str> = snapshot.nodes.iter().map(|node| node.name.as_str()).collect();
    let pathway = if nodes.is_empty() { "none" } else { choices.one_of(&nodes) };
    let report = |bits_per_second| Playing { pathway, bits_per_second };
    let (plays, viewer) = (choices.byte() % 2 == 1, choices.number() as u64);
    let question =
        Question { address, title, viewer, region: None, playing: plays.then(|| report(None)) };
    let decision = decide(fleet, &question);
    check(fleet, title, &decision);
    assert_eq!(decide(next, &question), decision, "an index made from another one");
    let absurd = Question { playing: plays.then(|| report(Some(u64::MAX))), ..question };
    assert_eq!(decide(fleet, &absurd), decision, "a reported throughput");
    let line = Logged::new(fleet, &question, &decision, 1).to_line();
    let logged = Logged::from_line(&line).expect("its own line");
    assert_eq!(replay(fleet, &logged), Ok(decision));
    assert!(!explain(fleet, &question).is_empty());
}

fn address(choices: &mut Choices<'_>) -> IpAddr {
    let is_four = choices.byte() % 2 == 0;
    if is_four {
        IpAddr::from([choices.byte(), choices.byte(), choices.byte(), choices.byte()])
    } else {
        let mut bytes = [0; 16];
        let given = choices.take(16);
        bytes[..given.len()].copy_from_slice(given);
        IpAddr::from(bytes)
    }
}

fn check(fleet: &Fleet, title: &str, decision: &Decision) {
    assert!(decision.ranked.len() <= 3);
    let title = fleet.title(title).map(|title| title as u32);
    for (place, ranked) in decision.ranked.iter().enumerate() {
        let node = &fleet.snapshot().nodes[ranked.node];
        assert!(title.is_some_and(|title| node.holds.contains(&title)), "it lacks the title");
        assert_ne!(node.state, State::Revoked);
        assert!(decision.ranked[..place].iter().all(|other| other.node != ranked.node), "twice");
    }
}
