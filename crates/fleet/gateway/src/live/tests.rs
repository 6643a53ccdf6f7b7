//! A gateway's core in virtual time.

use std::sync::Arc;
use std::time::Duration;

use fleet_protocol::{
    Condition, Digest, FleetSnapshot, Heartbeat, HeldTitle, Inventory, Load, Name, NodeKind,
    NodePlace, PublishedTitle, Receipt, ReceiptState, ServedAt, SheddingReason, Sighting, Site,
    State, SteeringPolicy, TitleDocument,
};

use super::world::{WantedDrain, WantedNode, World};
use super::{Core, RejectedMessage, TitleState, WithdrawnState};
use crate::clock::Now;

mod weights;

const STARTED_UNIX_MILLIS: u64 = 1_800_000_000_000;

fn at(seconds: f64) -> Now {
    let uptime = Duration::from_secs_f64(seconds);
    let unix_millis = STARTED_UNIX_MILLIS + uptime.as_millis() as u64;
    Now { uptime, unix_millis }
}

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

pub(crate) fn title(path: &str) -> PublishedTitle {
    let document = |file: &str| TitleDocument {
        path: file.to_owned(),
        sha256: Digest::of(format!("{path}/{file}").as_bytes()),
    };
    PublishedTitle {
        path: path.to_owned(),
        version: Digest::of(path.as_bytes()),
        bytes: 1,
        duration_seconds: 60.0,
        record: document("title.json"),
        hls: document("master.m3u8"),
        dash: document("manifest.mpd"),
        origin: "file:///library".to_owned(),
        published_unix_seconds: 1,
    }
}

/// `count` nodes at three sites in turn, one cluster each, holding the titles a and b.
fn world(count: usize) -> World {
    let site = |at: usize| name(&format!("s{}", at % 3));
    let node = |at: usize| WantedNode {
        place: NodePlace { site: site(at), cluster: site(at), rack: None },
        kind: NodeKind::Storage,
        host: format!("127.0.1.{}", at + 1),
        ceiling_bits_per_second: None,
        drain: None,
        is_revoked: false,
    };
    let of_site = |at: usize| Site {
        name: site(at),
        region: name("here"),
        latitude: None,
        longitude: None,
        announced: Vec::new(),
    };
    World {
        epoch: 1,
        sites: (0..3).map(|at| (site(at), of_site(at))).collect(),
        nodes: (0..count).map(|at| (node_name(at), node(at))).collect(),
        titles: vec![title("a"), title("b")],
        ..World::default()
    }
}

fn node_name(at: usize) -> Name {
    name(&format!("n{at:02}"))
}

fn beat(at: usize, sequence: u64) -> Heartbeat {
    Heartbeat {
        version: 1,
        node: node_name(at),
        boot: "b1".to_owned(),
        sequence,
        sent_unix_millis: STARTED_UNIX_MILLIS,
        condition: Condition::Ready,
        load: Load {
            bits_per_second: 1_000,
            ceiling_bits_per_second: 10_000,
            connections: 3,
            ..Load::default()
        },
        inventory: Digest::of(b"none"),
        snapshot: 0,
        receipts: Vec::new(),
        fill: None,
        fill_bytes_per_day: None,
        served_at: None,
        sightings: Vec::new(),
    }
}

/// A core, and its nodes' heartbeats.
struct Fleet {
    core: Core,
    sequence: u64,
}

impl Fleet {
    fn new(count: usize) -> Self {
        let mut core = Core::new(name("g1"));
        core.set_world(Arc::new(world(count)), at(0.0));
        Self { core, sequence: 0 }
    }

    fn hear(&mut self, node: usize, now: Now) {
        self.sequence += 1;
        let beat = Heartbeat { sent_unix_millis: now.unix_millis, ..beat(node, self.sequence) };
        self.core.handle_heartbeat(&node_name(node), beat, now).expect("it is heard");
    }

    /// From second `from` to second `to`, these nodes send a heartbeat every 5 s, each at its own offset.
    fn run(&mut self, from: u32, to: u32, nodes: &[usize]) {
        for second in from..to {
            for node in nodes.iter().filter(|node| (**node as u32 * 7 + second) % 5 == 0) {
                self.hear(*node, at(f64::from(second)));
            }
            self.core.tick(at(f64::from(second)));
        }
    }

    fn states(&self, state: State) -> Vec<usize> {
        (0..99)
            .filter(|node| self.core.world.nodes.contains_key(&node_name(*node)))
            .filter(|node| self.core.state_of(&node_name(*node)) == state)
            .collect()
    }

    /// Changes the desired state.
    fn want(&mut self, now: Now, change: impl FnOnce(&mut World)) {
        let mut world = (*self.core.world).clone();
        change(&mut world);
        self.core.set_world(Arc::new(world), now);
    }

    fn snapshot(&mut self, now: Now) -> FleetSnapshot {
        let snapshot = self.core.snapshot(now);
        FleetSnapshot::from_bytes(&snapshot.to_bytes()).expect("it may be sent")
    }
}

fn wanted(world: &mut World, node: usize) -> &mut WantedNode {
    world.nodes.get_mut(&node_name(node)).expect("it is there")
}

#[test]
fn a_node_is_joining_until_it_speaks_and_lost_after_15_s_of_silence() {
    let mut fleet = Fleet::new(3);
    fleet.run(0, 30, &[0, 1]);
    assert_eq!((fleet.states(State::Serving), fleet.states(State::Joining)), (vec![0, 1], vec![2]));
    fleet.hear(1, at(30.0));
    fleet.run(30, 45, &[0]);
    assert_eq!(fleet.states(State::Serving), [0, 1]);
    fleet.run(45, 46, &[0]);
    assert_eq!(fleet.states(State::Lost), [1]);
    let lines = fleet.core.take_lines();
    assert_eq!(lines.last().expect("a line"), "node n01: serving -> lost: silent for 15 s");
    fleet.hear(1, at(100.0));
    assert!(fleet.states(State::Lost).is_empty());
}

#[test]
fn a_site_of_three_that_is_cut_off_is_lost() {
    let mut fleet = Fleet::new(6);
    fleet.run(0, 30, &[0, 1, 2, 3, 4, 5]);
    fleet.run(30, 50, &[0, 1, 3, 4]);
    assert_eq!(fleet.states(State::Lost), [2, 5]);
}

#[test]
fn a_gateway_that_goes_deaf_doubts_itself_and_loses_nobody() {
    let mut fleet = Fleet::new(12);
    let all: Vec<_> = (0..12).collect();
    fleet.run(0, 30, &all);
    // Five of twelve fall silent at once. They keep their states for as long as it takes.
    for second in 30..600 {
        fleet.run(second, second + 1, &all[..7]);
        assert!(fleet.states(State::Lost).is_empty(), "second {second}");
    }
    let frozen = fleet.core.view(at(600.0)).frozen.expect("doubt");
    assert!(frozen.starts_with("5 nodes fell silent at once"), "{frozen}");
    // Two report again: then three of twelve are few enough to be declared lost.
    fleet.run(600, 610, &all[..9]);
    assert_eq!(fleet.states(State::Lost), [9, 10, 11]);
    assert!(fleet.core.view(at(610.0)).frozen.is_none());
    fleet.run(610, 620, &all);
    assert_eq!(fleet.states(State::Serving), all);
}

/// From second `from` to second `to`, these nodes send heartbeats, and report on each silent node that they are asked about.
fn run_and_look(
    fleet: &mut Fleet,
    (from, to): (u32, u32),
    nodes: &[usize],
    reaches: impl Fn(usize, &Name) -> bool,
) {
    let mut asked: Vec<Vec<Name>> = vec![Vec::new(); nodes.len()];
    for second in from..to {
        for (node, asked) in nodes.iter().zip(&mut asked) {
            if (*node as u32 * 7 + second) % 5 == 0 {
                fleet.sequence += 1;
                let see = |node_asked: Name| Sighting {
                    is_reached: reaches(*node, &node_asked),
                    node: node_asked,
                };
                let sightings = std::mem::take(asked).into_iter().map(see).collect();
                let beat = Heartbeat { sightings, ..beat(*node, fleet.sequence) };
                let now = at(f64::from(second));
                let answer = fleet.core.handle_heartbeat(&node_name(*node), beat, now);
                *asked = answer.expect("it is heard").asks;
            }
        }
        fleet.core.tick(at(f64::from(second)));
    }
}

#[test]
fn two_of_five_that_die_at_once_are_lost_when_the_others_do_not_reach_them() {
    let mut fleet = Fleet::new(5);
    fleet.run(0, 30, &[0, 1, 2, 3, 4]);
    run_and_look(&mut fleet, (30, 60), &[0, 1, 2], |_, _| false);
    assert_eq!(fleet.states(State::Lost), [3, 4]);
    assert!(fleet.core.view(at(60.0)).frozen.is_none());
    fleet.run(60, 70, &[0, 1, 2, 3, 4]);
    assert!(fleet.states(State::Lost).is_empty());
}

#[test]
fn nodes_that_others_reach_stay_and_one_liar_does_not_end_that() {
    let mut fleet = Fleet::new(5);
    fleet.run(0, 30, &[0, 1, 2, 3, 4]);
    run_and_look(&mut fleet, (30, 600), &[0, 1, 2], |witness, _| witness != 0);
    assert!(fleet.states(State::Lost).is_empty());
    let frozen = fleet.core.view(at(600.0)).frozen.expect("doubt");
    assert!(frozen.contains("reach 2 of them"), "{frozen}");
    // Now one of them really dies: the one that remains is too few for a doubt.
    run_and_look(&mut fleet, (600, 630), &[0, 1, 2], |_, node| *node == node_name(3));
    assert_eq!(fleet.states(State::Lost), [3, 4]);
}

#[test]
fn the_last_node_that_is_heard_is_believed() {
    let mut fleet = Fleet::new(3);
    fleet.run(0, 30, &[0, 1, 2]);
    run_and_look(&mut fleet, (30, 60), &[0], |_, _| false);
    assert_eq!(fleet.states(State::Lost), [1, 2]);
}

#[test]
fn nodes_that_die_one_after_the_other_are_lost_however_many_they_are() {
    let mut fleet = Fleet::new(12);
    let all: Vec<_> = (0..12).collect();
    for alive in (1..=12).rev() {
        let from = (12 - alive) as u32 * 60;
        fleet.run(from, from + 60, &all[..alive]);
    }
    assert_eq!(fleet.states(State::Serving), [0]);
    assert_eq!(fleet.states(State::Lost), all[1..]);
}

#[test]
fn the_operator_may_say_that_the_silence_is_real() {
    let mut fleet = Fleet::new(6);
    fleet.run(0, 30, &[0, 1, 2, 3, 4, 5]);
    fleet.run(30, 60, &[0, 1]);
    assert!(fleet.states(State::Lost).is_empty());
    fleet.core.believe_silence(at(60.0));
    assert_eq!(fleet.states(State::Lost), [2, 3, 4, 5]);
    fleet.run(60, 80, &[0, 1]);
    assert_eq!(fleet.states(State::Lost), [2, 3, 4, 5]);
    fleet.run(80, 90, &[0, 1, 2, 3, 4, 5]);
    assert!(fleet.states(State::Lost).is_empty());
}

#[test]
fn time_in_which_the_gateway_did_not_run_is_nobodys_silence() {
    let mut fleet = Fleet::new(2);
    fleet.run(0, 30, &[0, 1]);
    fleet.core.tick(at(1000.0));
    assert_eq!(fleet.states(State::Serving), [0, 1]);
    fleet.run(1000, 1030, &[0]);
    assert_eq!(fleet.states(State::Lost), [1]);
}

#[test]
fn a_restarted_gateway_steers_from_its_disk_and_takes_nobody_for_lost_at_once() {
    let mut before = Fleet::new(6);
    before.run(0, 30, &[0, 1, 2, 3, 4]);
    let held = vec![title("a").held()];
    before.core.handle_inventory(&node_name(0), Inventory::new(node_name(0), held)).expect("taken");
    before.run(30, 60, &[0, 1, 2, 3]);
    let kept = before.snapshot(at(60.0));

    let mut core = Core::new(name("g1"));
    core.restore(kept.clone(), at(0.0));
    core.set_world(Arc::new(world(6)), at(0.0));
    let mut after = Fleet { core, sequence: 1000 };
    assert_eq!(after.states(State::Serving), [0, 1, 2, 3]);
    assert_eq!((after.states(State::Lost), after.states(State::Joining)), (vec![4], vec![5]));
    let snapshot = after.snapshot(at(1.0));
    assert!(snapshot.number > kept.number);
    assert_eq!(snapshot.nodes[0].holds, [0]);
    assert_eq!(snapshot.nodes[0].ceiling_bits_per_second, 10_000);
    // It hears all but node 1. After the grace period, that one is lost.
    after.run(1, 59, &[0, 2, 3]);
    assert_eq!(after.states(State::Serving), [0, 1, 2, 3]);
    after.run(59, 62, &[0, 2, 3]);
    assert_eq!(after.states(State::Lost), [1, 4]);
}

#[test]
fn a_restarted_gateway_that_hears_nobody_keeps_all() {
    let mut before = Fleet::new(6);
    before.run(0, 30, &[0, 1, 2, 3, 4, 5]);
    let kept = before.snapshot(at(30.0));
    let mut core = Core::new(name("g1"));
    core.restore(kept, at(0.0));
    core.set_world(Arc::new(world(6)), at(0.0));
    let mut after = Fleet { core, sequence: 0 };
    after.run(0, 300, &[]);
    assert_eq!(after.states(State::Serving), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn a_node_that_is_drained_says_so_until_it_returns_by_itself() {
    let mut fleet = Fleet::new(2);
    fleet.run(0, 10, &[0, 1]);
    let returns_unix_seconds = Some(STARTED_UNIX_MILLIS / 1000 + 100);
    let drain = WantedDrain { reason: "new disks".to_owned(), returns_unix_seconds };
    fleet.want(at(10.0), |world| wanted(world, 1).drain = Some(drain));
    assert_eq!(fleet.states(State::Draining), [1]);
    let mut quiet = beat(1, 1000);
    quiet.load.connections = 0;
    let answer = fleet.core.handle_heartbeat(&node_name(1), quiet, at(11.0)).expect("heard");
    assert_eq!((answer.state, answer.reason.as_deref()), (State::Drained, Some("new disks")));
    fleet.sequence = 2000;
    fleet.run(90, 110, &[0, 1]);
    assert_eq!(fleet.states(State::Serving), [0, 1]);
}

#[test]
fn a_revoked_node_is_out_at_once_and_is_not_heard() {
    let mut fleet = Fleet::new(2);
    fleet.run(0, 10, &[0, 1]);
    fleet.snapshot(at(10.0));
    fleet.want(at(10.5), |world| wanted(world, 1).is_revoked = true);
    assert!(fleet.core.is_changed());
    assert_eq!(fleet.snapshot(at(11.0)).nodes[1].state, State::Revoked);
    let refused = fleet.core.handle_heartbeat(&node_name(1), beat(1, 999), at(11.0));
    assert_eq!(refused.expect_err("refused"), RejectedMessage::Revoked);
    assert!(fleet.core.desired_of(&node_name(1)).is_none());
}

#[test]
fn a_node_speaks_for_itself_once_and_within_bounds() {
    let mut fleet = Fleet::new(2);
    let mut hear = |from: usize, beat: Heartbeat| {
        fleet.core.handle_heartbeat(&node_name(from), beat, at(1.0)).map(|answer| answer.state)
    };
    assert_eq!(hear(0, beat(0, 5)), Ok(State::Serving));
    assert_eq!(hear(1, beat(0, 6)), Err(RejectedMessage::NotItself));
    assert_eq!(hear(7, beat(7, 6)), Err(RejectedMessage::Unknown));
    assert_eq!(hear(0, beat(0, 5)), Err(RejectedMessage::Stale));
    assert_eq!(hear(0, beat(0, 4)), Err(RejectedMessage::Stale));
    // A new agent counts from the beginning; heartbeats of the one that it replaced are refused.
    let later = |sequence| Heartbeat { boot: "b2".to_owned(), ..beat(0, sequence) };
    assert_eq!(hear(0, later(1)), Ok(State::Serving));
    assert_eq!(hear(0, beat(0, 99)), Err(RejectedMessage::Stale));
    assert_eq!(hear(0, later(2)), Ok(State::Serving));
    let odd = Heartbeat { boot: "b 2".to_owned(), ..beat(0, 3) };
    assert!(matches!(hear(0, odd), Err(RejectedMessage::OutOfBounds(_))));
    let others = Inventory::new(node_name(1), Vec::new());
    assert_eq!(fleet.core.handle_inventory(&node_name(0), others), Err(RejectedMessage::NotItself));
}

/// A heartbeat of one of the machines that use node 0's name.
fn of_boot(boot: &str, sequence: u64) -> Heartbeat {
    Heartbeat { boot: boot.to_owned(), ..beat(0, sequence) }
}

#[test]
fn two_machines_that_speak_as_one_node_are_told_and_a_restart_is_not() {
    let mut fleet = Fleet::new(1);
    let mut told = Vec::new();
    let mut hear = |boot: &str, sequence, seconds: f64| {
        let heard =
            fleet.core.handle_heartbeat(&node_name(0), of_boot(boot, sequence), at(seconds));
        fleet.core.tick(at(seconds));
        told.extend(fleet.core.take_lines().into_iter().filter(|line| line.contains("machine")));
        let reason = fleet.core.view(at(seconds)).nodes[0].reason.clone();
        (heard.map(|answer| answer.state), reason.unwrap_or_default(), told.len())
    };
    // A restart, with one heartbeat of the old agent still in flight.
    let _ = hear("a1", 1, 0.0);
    let _ = hear("a2", 1, 2.0);
    let (heard, reason, told) = hear("a1", 2, 2.1);
    assert_eq!((heard, reason.as_str(), told), (Err(RejectedMessage::Stale), "", 0));
    // A clone alternates with it: each refused one draws a new boot name.
    let _ = hear("b1", 1, 100.0);
    assert_eq!(hear("a2", 50, 102.0).0, Err(RejectedMessage::Stale));
    assert_eq!(hear("a3", 51, 103.0).0, Ok(State::Serving));
    let (heard, reason, told) = hear("b1", 2, 105.0);
    assert_eq!((heard, told), (Err(RejectedMessage::Stale), 1));
    assert!(reason.starts_with("two machines speak as this node"), "{reason}");
    let (heard, _, told) = hear("b2", 3, 106.0);
    assert_eq!((heard, told), (Ok(State::Serving), 1), "said once");
    // It was stopped: after a minute, the alarm ends.
    for second in 107..180 {
        let _ = hear("b2", second, f64::from(u32::try_from(second).expect("small")));
    }
    let (_, reason, told) = hear("b2", 200, 181.0);
    assert_eq!((reason.as_str(), told), ("", 2));
}

#[test]
fn a_node_whose_heartbeats_are_refused_is_not_called_silent() {
    let mut fleet = Fleet::new(8);
    let reason = |fleet: &Fleet, seconds: f64| {
        let view = fleet.core.view(at(seconds));
        (view.nodes[0].state, view.nodes[0].reason.clone().unwrap_or_default())
    };
    fleet.core.note_refused(&node_name(0), "version is not 1", at(1.0));
    let (state, why) = reason(&fleet, 2.0);
    assert!(state == State::Joining && why.contains("refused (version is not 1)"), "{why}");
    fleet.run(2, 10, &[0, 1, 2, 3, 4, 5, 6, 7]);
    fleet.core.note_refused(&node_name(0), "stale", at(15.0));
    fleet.run(10, 40, &[1, 2, 3, 4, 5, 6, 7]);
    let (state, why) = reason(&fleet, 40.0);
    assert!(state == State::Lost && why.contains("not silent") && why.contains("stale"), "{why}");
    let (_, why) = reason(&fleet, 60.0);
    assert!(why.starts_with("silent for "), "{why}");
}

#[test]
fn a_condition_that_wants_no_viewers_stays_serving_and_is_told() {
    let mut fleet = Fleet::new(1);
    let reasons = vec![SheddingReason::DiskErrors];
    let tired = Heartbeat { condition: Condition::NotMe(reasons.clone()), ..beat(0, 1) };
    fleet.core.handle_heartbeat(&node_name(0), tired, at(1.0)).expect("heard");
    let snapshot = fleet.snapshot(at(1.0));
    assert_eq!((snapshot.nodes[0].state, &snapshot.nodes[0].not_me), (State::Serving, &reasons));
    let starting = Heartbeat { condition: Condition::Starting, ..beat(0, 2) };
    fleet.core.handle_heartbeat(&node_name(0), starting, at(2.0)).expect("heard");
    assert_eq!(fleet.snapshot(at(2.0)).nodes[0].state, State::Joining);
}

#[test]
fn what_a_silent_node_said_of_its_viewers_is_no_longer_shown() {
    let mut fleet = Fleet::new(3);
    fleet.run(0, 20, &[0, 1, 2]);
    let shown = |fleet: &Fleet, now| {
        let node = &fleet.core.view(at(now)).nodes[2];
        (node.load.connections, node.load.bits_per_second, node.load_permille)
    };
    assert_eq!(shown(&fleet, 20.0), (3, 1_000, 100));
    fleet.run(20, 120, &[0, 1]);
    assert_eq!(fleet.states(State::Lost), [2]);
    assert_eq!(shown(&fleet, 120.0), (0, 0, 0));
    assert_eq!(fleet.core.view(at(120.0)).nodes[2].load.ceiling_bits_per_second, 10_000);
}

#[test]
fn inventories_are_asked_for_once_and_say_who_holds_what() {
    let mut fleet = Fleet::new(2);
    let held = ["a", "x"]
        .map(|path| HeldTitle { path: path.to_owned(), version: Digest::of(path.as_bytes()) });
    let inventory = Inventory::new(node_name(1), held.to_vec());
    let with = |sequence| Heartbeat { inventory: inventory.digest(), ..beat(1, sequence) };
    let wants = |fleet: &mut Fleet, beat| {
        let answer = fleet.core.handle_heartbeat(&node_name(1), beat, at(1.0));
        answer.expect("heard").wants_inventory
    };
    assert!(wants(&mut fleet, with(1)));
    fleet.core.handle_inventory(&node_name(1), inventory.clone()).expect("taken");
    assert!(!wants(&mut fleet, with(2)));
    assert!(wants(&mut fleet, beat(1, 3)));
    let snapshot = fleet.snapshot(at(1.0));
    assert_eq!((snapshot.nodes[0].holds.len(), &snapshot.nodes[1].holds), (0, &vec![0]));
    // A title published later is found in the inventory sent before.
    fleet.want(at(2.0), |world| world.titles.push(title("x")));
    assert_eq!(fleet.snapshot(at(2.0)).nodes[1].holds, [0, 2]);
    let view = fleet.core.view(at(2.0));
    assert_eq!((view.nodes[1].titles, view.nodes[1].missing, view.titles.incomplete), (2, 1, 3));
    let (total, titles) = fleet.core.titles("x", 5);
    assert_eq!((total, titles[0].holders, titles[0].wanted), (1, 1, 2));
    let (state, at_nodes) = fleet.core.title_at_nodes("x").expect("it is published");
    let holds: Vec<_> = at_nodes.iter().map(|at_node| at_node.holds).collect();
    assert_eq!((state, holds), (TitleState::Published, vec![false, true]));
    assert!(fleet.core.title_at_nodes("never").is_none());
}

#[test]
fn another_version_of_a_title_is_not_the_published_one() {
    let mut fleet = Fleet::new(1);
    let held = HeldTitle { path: "a".to_owned(), version: Digest::of(b"older") };
    fleet
        .core
        .handle_inventory(&node_name(0), Inventory::new(node_name(0), vec![held]))
        .expect("taken");
    assert!(fleet.snapshot(at(1.0)).nodes[0].holds.is_empty());
}

#[test]
fn a_withdrawn_title_has_a_receipt_from_each_node() {
    let mut fleet = Fleet::new(3);
    let gone = title("b").held();
    fleet.want(at(1.0), |world| {
        world.titles.pop();
        world.withdrawn.push(gone.clone());
    });
    let desired = fleet.core.desired_of(&node_name(0)).expect("it takes part");
    assert_eq!((desired.titles.len(), &desired.withdrawn), (1, &vec![gone.clone()]));
    let stranger = HeldTitle { path: "never".to_owned(), version: Digest::of(b"never") };
    let receipts = vec![
        Receipt { held: gone.clone(), state: ReceiptState::Removed },
        Receipt { held: stranger, state: ReceiptState::Removed },
    ];
    let answer =
        fleet.core.handle_heartbeat(&node_name(0), Heartbeat { receipts, ..beat(0, 1) }, at(2.0));
    assert_eq!(answer.expect("heard").desired, desired.digest());
    let receipts = vec![Receipt { held: gone, state: ReceiptState::Failed }];
    let beat = Heartbeat { receipts, ..beat(1, 1) };
    fleet.core.handle_heartbeat(&node_name(1), beat, at(2.0)).expect("heard");
    let (state, at_nodes) = fleet.core.title_at_nodes("b").expect("it was published");
    let receipts: Vec<_> = at_nodes.iter().map(|at_node| at_node.receipt).collect();
    let expected = [WithdrawnState::Removed, WithdrawnState::Failed, WithdrawnState::Waiting];
    assert_eq!((state, receipts), (TitleState::Withdrawn, expected.map(Some).to_vec()));
    let waiting: Vec<_> =
        fleet.core.view(at(2.0)).nodes.iter().map(|node| node.receipts_waiting).collect();
    assert_eq!(waiting, [0, 0, 1]);
    assert_eq!(fleet.core.receipts.len(), 1);
}

#[test]
fn clocks_that_differ_are_told() {
    let mut fleet = Fleet::new(2);
    fleet.hear(0, at(1.0));
    let ahead = Heartbeat { sent_unix_millis: STARTED_UNIX_MILLIS + 181_000, ..beat(1, 1) };
    fleet.core.handle_heartbeat(&node_name(1), ahead, at(1.0)).expect("heard");
    let view = fleet.core.view(at(1.0));
    assert_eq!(view.nodes[0].clock_off_millis, Some(0));
    assert_eq!(view.nodes[1].clock_off_millis, Some(180_000));
    let absurd = Heartbeat { sent_unix_millis: u64::MAX, ..beat(1, 2) };
    fleet.core.handle_heartbeat(&node_name(1), absurd, at(2.0)).expect("heard");
    assert_eq!(fleet.core.view(at(2.0)).nodes[1].clock_off_millis, Some(i64::MAX));
}

#[test]
fn a_box_that_serves_otherwise_than_viewers_come_is_told() {
    let mut fleet = Fleet::new(2);
    let own = ServedAt { scheme: "http".to_owned(), port: 8080 };
    let odd = Heartbeat { served_at: Some(own.clone()), ..beat(1, 1) };
    fleet.hear(0, at(1.0));
    fleet.core.handle_heartbeat(&node_name(1), odd, at(1.0)).expect("heard");
    let served_at = |fleet: &Fleet| {
        let nodes = fleet.core.view(at(1.0)).nodes.into_iter();
        nodes.map(|node| node.served_at).collect::<Vec<_>>()
    };
    assert_eq!(served_at(&fleet), [None, Some(own)]);
    // The policy now matches the node's server, but the node does not know it yet.
    let policy = SteeringPolicy { scheme: "http".to_owned(), port: 8080, ..Default::default() };
    fleet.core.set_world(Arc::new(World { policy, ..world(2) }), at(2.0));
    assert_eq!(served_at(&fleet), [None, None]);
    let foreign = Some(ServedAt { scheme: "gopher".to_owned(), port: 70 });
    let refused = fleet.core.handle_heartbeat(
        &node_name(1),
        Heartbeat { served_at: foreign, ..beat(1, 2) },
        at(3.0),
    );
    assert!(matches!(refused, Err(RejectedMessage::OutOfBounds(_))), "{refused:?}");
}

#[test]
fn a_snapshot_is_news_only_when_something_changed() {
    let mut fleet = Fleet::new(1);
    fleet.hear(0, at(1.0));
    let first = fleet.snapshot(at(1.0));
    assert!(first.number >= STARTED_UNIX_MILLIS / 1000);
    fleet.hear(0, at(6.0));
    fleet.core.tick(at(7.0));
    assert!(!fleet.core.is_changed());
    let mut busier = beat(0, 100);
    busier.load.bits_per_second = 5_000;
    fleet.core.handle_heartbeat(&node_name(0), busier, at(11.0)).expect("heard");
    assert!(fleet.core.is_changed());
    assert_eq!(fleet.snapshot(at(11.0)).number, first.number + 1);
}

#[test]
fn a_node_that_is_no_longer_wanted_is_forgotten() {
    let mut fleet = Fleet::new(2);
    fleet.run(0, 10, &[0, 1]);
    fleet.want(at(10.0), |world| {
        world.nodes.remove(&node_name(1));
    });
    assert_eq!(fleet.snapshot(at(10.0)).nodes.len(), 1);
    assert_eq!(
        fleet.core.handle_heartbeat(&node_name(1), beat(1, 99), at(11.0)),
        Err(RejectedMessage::Unknown)
    );
}

#[test]
fn after_a_restore_it_waits_for_what_nodes_know_but_not_for_ever() {
    let restored = || {
        let mut fleet = Fleet::new(3);
        fleet.want(at(0.0), |world| {
            world.is_restored = true;
            wanted(world, 2).is_revoked = true;
        });
        assert!(fleet.core.reads_back(at(0.0)));
        fleet
    };
    let mut fleet = restored();
    assert!(fleet.core.wants_gone(&node_name(0)) && fleet.core.wants_gone(&node_name(1)));
    fleet.core.handle_given_back(&node_name(0), 2);
    assert!(fleet.core.take_lines().iter().any(|line| line.contains("n00 knew of 2 revocations")));
    assert!(fleet.core.reads_back(at(44.0)) && !fleet.core.wants_gone(&node_name(0)));
    fleet.core.handle_given_back(&node_name(1), 0);
    assert!(!fleet.core.reads_back(at(44.0)), "a revoked node may not speak");
    let mut fleet = restored();
    assert!(!fleet.core.reads_back(at(45.0)), "some are away");
    // A node that comes later is asked before it gets anything. A gateway that starts later steers immediately.
    assert!(fleet.core.wants_gone(&node_name(1)));
    fleet.want(at(46.0), |world| world.is_read_back = true);
    assert!(fleet.core.wants_gone(&node_name(1)) && !fleet.core.reads_back(at(0.0)));
}
