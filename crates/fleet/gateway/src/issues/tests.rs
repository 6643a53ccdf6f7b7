//! Issues of drawn-up states of a fleet, in virtual time.

use std::time::Duration;

use fleet_protocol::{
    FillProgress, Load, Name, NodeKind, NodePlace, ServedAt, SheddingReason, State,
};

use super::*;
use crate::clock::Now;
use crate::live::{FleetView, NodeView, PurgeAtNode, PurgeState, SiteView, TitleCounts};

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fn at(seconds: u64) -> Now {
    Now { uptime: Duration::from_secs(seconds), unix_millis: 1_790_000_000_000 + seconds * 1000 }
}

fn node(node: &str, site: &str, state: State) -> NodeView {
    NodeView {
        name: name(node),
        place: NodePlace { site: name(site), cluster: name("c1"), rack: None },
        kind: NodeKind::Storage,
        host: format!("{node}.example"),
        state,
        since_unix_millis: at(7).unix_millis,
        reason: None,
        is_drained: false,
        returns_unix_seconds: None,
        not_me: Vec::new(),
        silent_millis: Some(100),
        clock_off_millis: Some(0),
        load: Load::default(),
        load_permille: 0,
        weight_bits_per_second: 1,
        weight_note: None,
        titles: 3,
        missing: 0,
        receipts_waiting: 0,
        fill: None,
        served_at: None,
    }
}

fn fleet(nodes: Vec<NodeView>) -> FleetView {
    let site = |site: &str| SiteView {
        name: name(site),
        region: name("europe"),
        prefixes: 1,
        prefixes_refused: 0,
        feeds: 0,
    };
    FleetView {
        gateway: name("g1"),
        unix_millis: at(100).unix_millis,
        epoch: 1,
        snapshot: 1,
        frozen: None,
        ttl_seconds: 30,
        full_permille: 800,
        sites: vec![site("paris"), site("rome")],
        nodes,
        titles: TitleCounts::default(),
    }
}

fn well() -> Surroundings {
    Surroundings { has_leader: true, ..Surroundings::default() }
}

fn kinds(view: &FleetView, around: &Surroundings) -> Vec<&'static str> {
    find(view, around).iter().map(|issue| issue.kind.as_str()).collect()
}

fn issue(kind: IssueKind, subject: &str) -> Issue {
    let (subject, text) = (subject.to_owned(), "something".to_owned());
    Issue { kind, subject, site: None, text, since_unix_millis: None }
}

#[test]
fn a_fleet_that_is_well_has_no_issues() {
    let mut drained = node("n3", "rome", State::Drained);
    drained.reason = Some("disk swap".to_owned());
    drained.is_drained = true;
    // It was drained before it was switched off.
    let off = NodeView { name: name("n5"), state: State::Lost, ..drained.clone() };
    let revoked = node("n4", "rome", State::Revoked);
    let view = fleet(vec![node("n1", "paris", State::Serving), drained, off, revoked]);
    assert_eq!(kinds(&view, &well()), [""; 0]);
}

#[test]
fn each_fault_of_a_node_is_an_issue_of_its_own() {
    let serving = || node("n1", "paris", State::Serving);
    type Fault = fn(&mut NodeView);
    let faults: [(&str, Fault); 8] = [
        ("node_twice", |node| node.reason = Some("two machines".to_owned())),
        ("node_hot", |node| node.not_me = vec![SheddingReason::Hot]),
        ("node_clock", |node| node.clock_off_millis = Some(-1500)),
        ("node_address", |node| {
            node.served_at = Some(ServedAt { scheme: "http".to_owned(), port: 80 });
        }),
        ("node_incomplete", |node| node.missing = 2),
        ("removal_unconfirmed", |node| node.receipts_waiting = 1),
        ("node_not_ready", |node| node.state = State::Joining),
        ("node_at_ceiling", |node| node.not_me = vec![SheddingReason::AtCeiling]),
    ];
    for (kind, fault) in faults {
        let mut one = serving();
        fault(&mut one);
        let found = find(&fleet(vec![one]), &well());
        assert_eq!(found.iter().map(|issue| issue.kind.as_str()).collect::<Vec<_>>(), [kind]);
        assert_eq!((found[0].subject.as_str(), &found[0].site), ("n1", &Some(name("paris"))));
        assert!(found[0].text.starts_with("n1") && found[0].text.ends_with('.'));
    }
}

#[test]
fn a_node_that_copies_or_waits_for_its_hours_is_not_incomplete() {
    let mut one = node("n1", "paris", State::Serving);
    one.missing = 2;
    let mut fill = FillProgress { is_open: true, bytes_per_second: 10, ..FillProgress::default() };
    for (bytes_per_second, is_open, kind) in
        [(10, true, None), (0, false, None), (0, true, Some("node_incomplete"))]
    {
        (fill.bytes_per_second, fill.is_open) = (bytes_per_second, is_open);
        one.fill = Some(fill.clone());
        assert_eq!(kinds(&fleet(vec![one.clone()]), &well()).first().copied(), kind);
    }
}

#[test]
fn a_site_is_down_if_none_of_the_nodes_that_should_serve_does() {
    let lost = || node("n1", "paris", State::Lost);
    let both = [node("n2", "paris", State::Serving), node("n3", "rome", State::Serving)];
    let view = |paris| fleet([vec![lost()], paris].concat());
    assert_eq!(kinds(&view(both.to_vec()), &well()), ["node_lost"]);
    let down = find(&view(vec![node("n2", "paris", State::Drained)]), &well());
    assert_eq!(down[0].text, "paris is down: its node takes no viewers.");
    assert_eq!((down[0].kind, down[1].kind), (IssueKind::SiteDown, IssueKind::NodeLost));
    assert_eq!(down[1].since_unix_millis, Some(at(7).unix_millis), "the gateway's own time");
    let mut ill = node("n2", "paris", State::Serving);
    ill.not_me = vec![SheddingReason::DiskErrors];
    let found = find(&view(vec![ill.clone()]), &well());
    assert_eq!(found[0].text, "paris is down: none of its 2 nodes takes viewers.");
    // A site at its ceiling is full, not down.
    ill.not_me = vec![SheddingReason::AtCeiling];
    assert_eq!(kinds(&view(vec![ill]), &well()), ["node_lost", "node_at_ceiling"]);
}

#[test]
fn the_store_the_leader_and_purges_have_issues_too() {
    let view = fleet(vec![node("n1", "paris", State::Serving), node("n2", "rome", State::Lost)]);
    let purge = |at_node: &str, state| PurgeAtNode {
        node: name(at_node),
        site: name("paris"),
        state,
        films: None,
        responses: None,
        is_everything: false,
        why: None,
    };
    let states = [PurgeState::Refused, PurgeState::Waiting, PurgeState::TooOld];
    let at_nodes = ["n1", "n2", "n3"].into_iter().zip(states);
    let at_nodes = at_nodes.map(|(node, state)| purge(node, state)).collect();
    let around = Surroundings { purge: (7, at_nodes), ..Surroundings::default() };
    // n2 is lost: that is its issue.
    let expected = ["no_leader", "site_down", "node_lost", "purge_unconfirmed"];
    assert_eq!(kinds(&view, &around), expected);
    assert_eq!(find(&view, &around)[3].text, "n1 has refused purge 7.");
    let store_problem = Some("no disk".to_owned());
    let around = Surroundings { store_problem, ..Surroundings::default() };
    assert_eq!(kinds(&view, &around)[0], "store_unavailable", "it explains the lack of a leader");
}

#[test]
fn an_issue_is_listed_once_it_has_lasted_and_ends_once_it_has_been_gone_for_a_minute() {
    let mut list = IssueList::default();
    let hot = || vec![issue(IssueKind::NodeSheds(SheddingReason::Hot), "n1")];
    assert_eq!(list.update(hot(), at(0)), []);
    assert_eq!(list.update(hot(), at(29)), []);
    let began = list.update(hot(), at(30));
    let [IssueChange::Began(one)] = &began[..] else { panic!("{began:?}") };
    assert_eq!((one.id.as_str(), one.since_unix_millis), ("node_hot/n1", at(0).unix_millis));
    // It comes and goes: still one issue.
    assert_eq!(list.update(Vec::new(), at(60)), []);
    assert_eq!(list.update(hot(), at(80)), []);
    assert_eq!(list.update(Vec::new(), at(139)), []);
    assert_eq!(list.open().count(), 1);
    let ended = list.update(Vec::new(), at(140));
    let [IssueChange::Ended(one)] = &ended[..] else { panic!("{ended:?}") };
    assert_eq!(one.ended_unix_millis, at(80).unix_millis, "when it was last seen");
    assert_eq!((list.open().count(), list.ended().count()), (0, 1));
    // One that passes before it is listed leaves nothing.
    list.update(hot(), at(200));
    assert_eq!(list.update(Vec::new(), at(205)), []);
    assert_eq!(list.update(hot(), at(231)), [], "its time begins again");
    assert_eq!(list.ended().count(), 1);
}

#[test]
fn a_list_outlives_its_gateway_and_takes_bounded_room() {
    let mut list = IssueList::default();
    let lost = |number: u64| issue(IssueKind::NodeLost, &format!("n{number}"));
    for number in 0..1100 {
        list.update(vec![lost(number)], at(number * 100));
        list.update(Vec::new(), at(number * 100 + 60));
    }
    let mut long = lost(7);
    long.text = "é".repeat(500);
    list.update(vec![long], at(200_000));
    let bytes = serde_json::to_vec(&list.unsaved().expect("it has changed")).expect("JSON");
    list.note_saved();
    assert!(list.unsaved().is_none());
    assert!(bytes.len() < 512 << 10, "{}", bytes.len());
    let mut read = IssueList::from_bytes(&bytes, at(5)).expect("it is what was written");
    assert_eq!((read.open().count(), read.ended().count()), (1, 1000));
    let newest = read.ended().next().map(|one| one.issue.id.clone());
    assert_eq!(newest.as_deref(), Some("node_lost/n1099"));
    assert!(read.open().all(|one| one.text.len() <= 400 && one.text.ends_with("...")));
    let since = read.open().next().map(|one| one.since_unix_millis);
    assert_eq!(read.update(vec![lost(7)], at(6)), [], "it is the same issue");
    assert_eq!(read.open().next().map(|one| one.since_unix_millis), since);
    assert!(IssueList::from_bytes(&bytes[1..], at(5)).is_err());
}
