//! Fleets with little left, and viewers who must leave.

use fleet_protocol::{SheddingReason, SnapshotNode, State};
use fullbore_steering::{ChoiceReason, Fleet, Label, Playing, Question, Standing, decide, explain};

use crate::build::{Builder, TITLE, name, names, node, question, snapshot, title};

fn in_state(own: &str, site: &str, state: State) -> SnapshotNode {
    SnapshotNode { state, ..node(own, site) }
}

#[test]
fn a_fleet_without_sites_or_nodes_answers_with_nobody() {
    let empty = Fleet::new(snapshot(Vec::new(), Vec::new(), vec![title(TITLE)]), None);
    let no_nodes = Builder::default().site("s", "r", None).announced("s", "0.0.0.0/0").fleet();
    for fleet in [empty.expect("a good snapshot"), no_nodes] {
        for address in ["192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1"] {
            let decision = decide(&fleet, &question(address));
            assert!(decision.ranked.is_empty() && decision.label.is_none());
            assert!(decision.first_choice.is_none());
            assert!(explain(&fleet, &question(address)).contains("None: no serving node"));
        }
    }
}

#[test]
fn an_unknown_title_has_no_nodes() {
    let fleet = Builder::default().with(node("a", "s")).fleet();
    let mut question = question("192.0.2.1");
    for title in ["", "films", "films/tears/", "FILMS/TEARS", &"x".repeat(100_000)] {
        question.title = title;
        assert!(decide(&fleet, &question).ranked.is_empty());
        assert!(explain(&fleet, &question).contains("no title of that path"));
    }
}

#[test]
fn without_prefixes_viewers_spread_over_sites_by_ceiling() {
    let mut builder = Builder::default();
    for site in ["s", "t", "u"] {
        builder =
            builder.with(node(&format!("{site}1"), site)).with(node(&format!("{site}2"), site));
    }
    // `u` has half of the total ceiling.
    let mut snapshot = builder.snapshot();
    for node in &mut snapshot.nodes[4..] {
        node.ceiling_bits_per_second *= 2;
    }
    let fleet = Fleet::new(snapshot, None).expect("a good snapshot");
    let mut first = [0; 6];
    for viewer in 0..100_000 {
        let mut question = question("2001:db8::1");
        question.viewer = viewer;
        let decision = decide(&fleet, &question);
        assert_eq!((decision.matched, decision.label), (None, None));
        assert_eq!(decision.ranked.len(), 3);
        first[decision.ranked[0].node] += 1;
    }
    let site = |site: usize| f64::from(first[2 * site] + first[2 * site + 1]) / 1000.0;
    // With 64 orders, a share is accurate to a few of them.
    for (own, expected) in [(site(0), 25.0), (site(1), 25.0), (site(2), 50.0)] {
        assert!(
            (own - expected).abs() < 12.0,
            "{own} % of the viewers, {expected} % of the ceilings"
        );
    }
    assert!(first.iter().all(|count| *count > 0), "{first:?}");
}

#[test]
fn the_gateways_region_counts_where_no_prefix_does() {
    let builder = Builder::default().site("s", "north", None).site("t", "south", None);
    let fleet = builder.with(node("s1", "s")).with(node("t1", "t")).fleet();
    for viewer in 0..50 {
        let mut question = question("192.0.2.1");
        (question.viewer, question.region) = (viewer, Some("south"));
        let decision = decide(&fleet, &question);
        assert_eq!(names(&fleet, &decision), ["t1", "s1"]);
        assert_eq!(decision.ranked[0].reason, ChoiceReason::Region);
        assert_eq!(decision.ranked[1].reason, ChoiceReason::Anywhere);
    }
}

#[test]
fn when_all_drain_new_viewers_get_nobody_and_those_who_play_stay() {
    let nodes = [State::Draining, State::Draining, State::Revoked];
    let nodes = nodes.iter().zip(["a", "b", "c"]).map(|(state, own)| in_state(own, "s", *state));
    let fleet = nodes.fold(Builder::default(), Builder::with).fleet();
    let mut question = question("192.0.2.1");
    let decision = decide(&fleet, &question);
    assert!(decision.ranked.is_empty());
    assert_eq!(decision.label, Some(Label::Health));
    question.playing = Some(Playing::from("a"));
    let decision = decide(&fleet, &question);
    assert_eq!(names(&fleet, &decision), ["a"]);
    assert_eq!(decision.ranked[0].standing, Standing::Out);
    assert!(explain(&fleet, &question).contains("because no better node"));
    // A revoked node gets no viewers at any cost.
    question.playing = Some(Playing::from("c"));
    assert!(decide(&fleet, &question).ranked.is_empty());
}

#[test]
fn viewers_leave_a_node_that_must_be_left_and_no_other() {
    let leave = [State::Draining, State::Drained, State::Lost, State::Revoked, State::Joining];
    let mut own: Vec<SnapshotNode> = leave.map(|state| in_state("a", "s", state)).to_vec();
    for reason in
        [SheddingReason::DiskErrors, SheddingReason::ViewersStall, SheddingReason::ServerSilent]
    {
        own.push(SnapshotNode { not_me: vec![SheddingReason::Hot, reason], ..node("a", "s") });
    }
    own.push(SnapshotNode { holds: Vec::new(), ..node("a", "s") });
    let leaves = own.len();
    for reason in [
        SheddingReason::AtCeiling,
        SheddingReason::Pressure,
        SheddingReason::AcceptPaused,
        SheddingReason::Hot,
    ] {
        own.push(SnapshotNode { not_me: vec![reason], ..node("a", "s") });
    }
    own.push(SnapshotNode { load_permille: 1500, ..node("a", "s") });
    for (number, own) in own.into_iter().enumerate() {
        let fleet = Builder::default().with(own.clone()).with(node("b", "t")).fleet();
        let mut question = question("192.0.2.1");
        question.playing = Some(Playing::from("a"));
        let decision = decide(&fleet, &question);
        let expected = if number < leaves { "b" } else { "a" };
        assert_eq!(names(&fleet, &decision)[0], expected, "{own:?}");
    }
}

#[test]
fn three_nodes_are_in_three_sites_before_three_racks() {
    let rack = |own: &str, site: &str, rack: &str| {
        let mut node = node(own, site);
        node.place.rack = Some(name(rack));
        node
    };
    let near = Builder::default().with(rack("a", "s", "1")).with(rack("b", "s", "2"));
    let near = near.with(rack("c", "s", "3")).with(rack("d", "s", "1"));
    let fleet =
        near.announced("s", "192.0.2.0/24").with(node("e", "t")).with(node("f", "u")).fleet();
    let decision = decide(&fleet, &question("192.0.2.1"));
    let sites: Vec<&str> = names(&fleet, &decision);
    assert!(["a", "b", "c", "d"].contains(&sites[0]) && sites[1..].contains(&"e"));
    assert!(sites[1..].contains(&"f"), "{sites:?}");
}

#[test]
fn a_title_keeps_its_nodes_when_another_goes() {
    let build = |without: &str| {
        let nodes = ["a", "b", "c", "d", "e", "f"].iter().filter(|own| **own != without);
        nodes.fold(Builder::default(), |builder, own| builder.with(node(own, "s"))).fleet()
    };
    let (all, fewer) = (build(""), build("c"));
    let mut kept = 0;
    for viewer in 0..1000 {
        let mut question = question("192.0.2.1");
        question.viewer = viewer;
        let (before, after) = (decide(&all, &question), decide(&fewer, &question));
        let (before, after) = (names(&all, &before), names(&fewer, &after));
        let expected: Vec<_> = before.iter().filter(|own| **own != "c").collect();
        assert_eq!(after.iter().take(expected.len()).collect::<Vec<_>>(), expected);
        kept += usize::from(before[0] == after[0]);
    }
    assert!(kept > 400, "{kept}");
}

/// For how many of 300 viewers each node is the first choice.
fn firsts(nodes: Vec<SnapshotNode>) -> Vec<u32> {
    let mut first = vec![0; nodes.len()];
    let builder = Builder::default().site("s", "r", None);
    let fleet = nodes.into_iter().fold(builder, Builder::with).fleet();
    for viewer in 0..300 {
        let decision = decide(&fleet, &Question { viewer, ..question("192.0.2.1") });
        first[decision.ranked[0].node] += 1;
    }
    first
}

#[test]
fn a_node_with_a_ceiling_draws_no_more_than_those_without() {
    let unknown = |own| SnapshotNode { ceiling_bits_per_second: 0, ..node(own, "s") };
    let first = firsts(vec![node("a", "s"), unknown("b"), unknown("c"), unknown("d")]);
    assert!(first.iter().all(|count| *count > 20), "{first:?}");
    let equal = firsts(["a", "b", "c", "d"].map(|own| node(own, "s")).into());
    assert_eq!(first, equal);
}

#[test]
fn a_revoked_node_and_one_that_never_spoke_draw_nobody_to_their_site() {
    let huge =
        |state| SnapshotNode { ceiling_bits_per_second: 1 << 40, ..in_state("s2", "s", state) };
    let firsts = |other: Option<SnapshotNode>| {
        let builder = Builder::default().with(node("s1", "s")).with(node("t1", "t"));
        let fleet = other.into_iter().fold(builder, Builder::with).fleet();
        let at_s = |viewer: &u64| {
            let decision = decide(&fleet, &Question { viewer: *viewer, ..question("192.0.2.1") });
            fleet.snapshot().nodes[decision.ranked[0].node].name == name("s1")
        };
        (0..300).filter(at_s).count()
    };
    let alone = firsts(None);
    assert_eq!(firsts(Some(huge(State::Revoked))), alone);
    let silent = SnapshotNode { ceiling_bits_per_second: 0, ..in_state("s2", "s", State::Joining) };
    assert_eq!(firsts(Some(silent)), alone);
}
