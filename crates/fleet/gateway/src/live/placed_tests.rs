//! Nodes' titles by a plan, removal of copies, and repairs, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use fleet_protocol::{
    Condition, Heartbeat, HeartbeatAnswer, HeldTitle, Inventory, Load, Name, NodeKind, NodePlace,
    PublishedTitle, Site, State, WatchCount,
};
use placement::popularity::Prior;
use placement::{ClusterManifest, ManifestTitle, PlacementPolicy, Why};

use super::placed::PlacedTitles;
use super::plan_basis::{Absent, PlanBasis, parts};
use super::tests::title;
use super::upkeep::ABSENT_MAX;
use super::view::{CopyMove, WhyHeld};
use super::world::{WantedNode, World};
use super::{Core, WantedDrain};
use crate::clock::Now;

const NODES: [(&str, &str); 5] = [("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b"), ("c1", "c")];

fn at(seconds: u64) -> Now {
    let uptime = Duration::from_secs(seconds);
    Now { uptime, unix_millis: 1_800_000_000_000 + seconds * 1000 }
}

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fn held(path: &str) -> HeldTitle {
    title(path).held()
}

/// Manifests that place these titles on these nodes.
fn placed(titles: &[PublishedTitle], copies: &[(&str, &[&str])]) -> PlacedTitles {
    let manifest = |(own, site): &(&str, &str)| {
        let on =
            |path: &str| copies.iter().any(|(known, nodes)| *known == path && nodes.contains(own));
        let mine = titles.iter().filter(|title| on(&title.path));
        let entry = |title: &PublishedTitle| ManifestTitle {
            path: title.path.clone(),
            on: vec![0],
            why: vec![Why::Floor],
        };
        Arc::new(ClusterManifest {
            version: 1,
            site: name(site),
            cluster: name(own),
            nodes: vec![name(own)],
            titles: mine.map(entry).collect(),
        })
    };
    PlacedTitles::new(&NODES.iter().map(manifest).collect::<Vec<_>>(), titles, true, 7)
}

struct Fleet {
    core: Core,
    world: World,
    sequence: u64,
}

impl Fleet {
    /// Five nodes at three sites, and the titles t and u.
    fn new() -> Self {
        let node = |(own, site): (&str, &str)| {
            let wanted = WantedNode {
                place: NodePlace { site: name(site), cluster: name(own), rack: None },
                kind: NodeKind::Storage,
                host: format!("{own}.example"),
                ceiling_bits_per_second: None,
                drain: None,
                is_revoked: false,
            };
            (name(own), wanted)
        };
        let site = |own: &str| Site {
            name: name(own),
            region: name("here"),
            latitude: None,
            longitude: None,
            announced: Vec::new(),
        };
        let world = World {
            epoch: 1,
            sites: ["a", "b", "c"].map(|own| (name(own), site(own))).into(),
            nodes: NODES.map(node).into(),
            titles: vec![title("t"), title("u")],
            ..World::default()
        };
        let mut fleet = Self { core: Core::new(name("g1")), world, sequence: 0 };
        fleet.change(|_| {}, 0);
        fleet.beat_all(0);
        fleet
    }

    fn change(&mut self, change: impl FnOnce(&mut World), now: u64) {
        change(&mut self.world);
        self.core.set_world(Arc::new(self.world.clone()), at(now));
    }

    /// The plan: the holders of t, and the holders of u.
    fn plan(&mut self, copies: &[(&str, &[&str])], now: u64) {
        let placed = placed(&self.world.titles, copies);
        self.change(|world| world.placed = Some(Arc::new(placed)), now);
    }

    fn beat(&mut self, node: &str, now: u64) -> HeartbeatAnswer {
        self.beat_and_say(node, None, now)
    }

    fn beat_and_say(
        &mut self,
        node: &str,
        fill_bytes_per_day: Option<u64>,
        now: u64,
    ) -> HeartbeatAnswer {
        self.beat_with(node, (100, fill_bytes_per_day), now)
    }

    /// A node reports its free space, and how much it may fetch.
    fn beat_with(
        &mut self,
        node: &str,
        (free_bytes, fill_bytes_per_day): (u64, Option<u64>),
        now: u64,
    ) -> HeartbeatAnswer {
        self.sequence += 1;
        let beat = Heartbeat {
            version: 1,
            node: name(node),
            boot: "b1".to_owned(),
            sequence: self.sequence,
            sent_unix_millis: at(now).unix_millis,
            condition: Condition::Ready,
            load: Load { free_bytes, ceiling_bits_per_second: 1000, ..Load::default() },
            inventory: Inventory::new(name(node), Vec::new()).digest(),
            snapshot: 0,
            receipts: Vec::new(),
            fill: None,
            fill_bytes_per_day,
            served_at: None,
            sightings: Vec::new(),
        };
        self.core.handle_heartbeat(&name(node), beat, at(now)).expect("it is heard")
    }

    fn beat_all(&mut self, now: u64) {
        for (node, _) in NODES {
            self.beat(node, now);
        }
        self.core.tick(at(now));
    }

    /// All nodes but one send heartbeats each second.
    fn without(&mut self, node: &str, from: u64, to: u64) {
        for second in from..to {
            let others = NODES.iter().filter(|(own, _)| *own != node);
            others.for_each(|(own, _)| drop(self.beat(own, second)));
            self.core.tick(at(second));
        }
    }

    fn holds(&mut self, node: &str, paths: &[&str]) {
        let all = paths.iter().map(|path| held(path)).collect();
        self.core.handle_inventory(&name(node), Inventory::new(name(node), all)).expect("taken");
    }

    fn desired(&self, node: &str) -> Vec<String> {
        let desired = self.core.desired_of(&name(node)).expect("it takes part");
        desired.titles.iter().map(|title| title.path.clone()).collect()
    }

    fn may_evict(&self, node: &str, path: &str) -> bool {
        self.core.may_evict(&name(node), vec![held(path)]) == [held(path)]
    }
}

#[test]
fn without_a_plan_every_node_holds_everything_and_nothing_may_go() {
    let mut fleet = Fleet::new();
    NODES.iter().for_each(|(node, _)| fleet.holds(node, &["t", "u"]));
    for (node, _) in NODES {
        assert_eq!(fleet.desired(node), ["t", "u"]);
        assert!(!fleet.may_evict(node, "t"));
    }
    assert_eq!(fleet.core.upkeep(at(1)), None);
}

#[test]
fn a_node_hears_of_its_own_titles_and_of_nothing_when_others_change() {
    let mut fleet = Fleet::new();
    let digest = |fleet: &mut Fleet, node: &str, now: u64| fleet.beat(node, now).desired;
    let before = digest(&mut fleet, "a1", 1);
    fleet.plan(&[("t", &["a1", "b1", "c1"]), ("u", &["a2"])], 1);
    let planned = digest(&mut fleet, "a1", 2);
    assert_ne!(before, planned);
    assert_eq!((fleet.desired("a1"), fleet.desired("a2")), (vec!["t".into()], vec!["u".into()]));
    assert!(fleet.desired("b2").is_empty());
    assert!(fleet.core.wanted_of(&name("a1"), &held("t")).is_some());
    assert!(fleet.core.wanted_of(&name("a1"), &held("u")).is_none(), "no leave to copy it");
    fleet.plan(&[("t", &["a1", "b1", "b2"]), ("u", &["a2"])], 2);
    assert_eq!(digest(&mut fleet, "a1", 3), planned, "it concerns others");
    fleet.plan(&[("t", &["b1", "b2"]), ("u", &["a1", "a2"])], 3);
    assert_ne!(digest(&mut fleet, "a1", 4), planned);
    fleet.change(|world| world.placed = None, 4);
    assert_eq!(digest(&mut fleet, "a1", 5), before, "as before there was a plan");
}

#[test]
fn a_copy_may_go_when_enough_of_those_that_keep_it_hold_it_and_serve() {
    let mut fleet = Fleet::new();
    fleet.plan(&[("t", &["a1", "b1", "c1"])], 1);
    NODES.iter().for_each(|(node, _)| fleet.holds(node, &["t", "u"]));
    assert!(fleet.may_evict("a2", "t") && fleet.may_evict("b2", "t"));
    assert!(!fleet.may_evict("a1", "t"), "the plan has it keep the copy");
    assert!(!fleet.may_evict("a2", "u"), "the plan has no place for it");
    assert!(!fleet.may_evict("a2", "v"), "it is not the fleet's");
    let there = fleet.core.title_at_nodes("t").expect("published").1;
    let told = |node: &str| {
        let one = there.iter().find(|one| one.node.as_str() == node).expect("it is one");
        (one.why, one.moves)
    };
    assert_eq!(told("a1"), (Some(WhyHeld::Floor), None));
    assert_eq!(told("a2"), (None, Some(CopyMove::Goes)));
    // A title without a place in the plan stays where it is.
    let there = fleet.core.title_at_nodes("u").expect("published").1;
    assert!(there.iter().all(|one| one.holds && one.moves.is_none()));
    // One of them lacks it, and then has another version.
    fleet.holds("c1", &["u"]);
    assert!(!fleet.may_evict("a2", "t"));
    let there = fleet.core.title_at_nodes("t").expect("published").1;
    assert_eq!(there[4].moves, Some(CopyMove::Comes));
    let mut other = held("t");
    other.version = fleet_protocol::Digest::of(b"another version");
    let inventory = Inventory::new(name("c1"), vec![other]);
    fleet.core.handle_inventory(&name("c1"), inventory).expect("taken");
    assert!(!fleet.may_evict("a2", "t"));
    fleet.holds("c1", &["t"]);
    assert!(fleet.may_evict("a2", "t"));
    // One of them is lost.
    fleet.without("c1", 2, 40);
    assert_eq!(fleet.core.state_of(&name("c1")), State::Lost);
    assert!(!fleet.may_evict("a2", "t"));
}

#[test]
fn a_site_keeps_its_copy_until_its_successor_there_has_arrived() {
    let mut fleet = Fleet::new();
    // Four nodes should hold it; the floor requires three.
    fleet.plan(&[("t", &["a2", "b1", "b2", "c1"])], 1);
    for node in ["a1", "b1", "b2", "c1"] {
        fleet.holds(node, &["t"]);
    }
    assert!(!fleet.may_evict("a1", "t"));
    fleet.holds("a2", &["t"]);
    assert!(fleet.may_evict("a1", "t"));
    let part = PlacedTitles::new(&[], &fleet.world.titles, false, 7);
    fleet.change(|world| world.placed = Some(Arc::new(part)), 2);
    assert!(!fleet.may_evict("a1", "t"), "this gateway does not know all of the plan");
}

/// Otherwise a node would be told to hold nothing.
#[test]
fn what_a_node_shall_hold_is_not_known_while_its_part_of_the_plan_is_not() {
    let mut fleet = Fleet::new();
    assert!(fleet.core.knows_wishes_of(&name("a1")), "everything, without a plan");
    fleet.plan(&[("t", &["a1", "b1"])], 1);
    assert!(fleet.core.knows_wishes_of(&name("a1")) && fleet.core.knows_wishes_of(&name("new")));
    let manifest = |own: &str, on: &[&str]| {
        let entry = |path: &&str| ManifestTitle {
            path: (*path).to_owned(),
            on: vec![0],
            why: vec![Why::Floor],
        };
        Arc::new(ClusterManifest {
            version: 1,
            site: name("a"),
            cluster: name(own),
            nodes: vec![name("a1")],
            titles: on.iter().map(entry).collect(),
        })
    };
    // In the previous plan, of which only part is known, the node was in another cluster.
    let both = [manifest("now", &["u"]), manifest("before", &["t", "u"])];
    let part = PlacedTitles::new(&both, &fleet.world.titles, false, 7);
    fleet.change(|world| world.placed = Some(Arc::new(part)), 2);
    assert_eq!(fleet.desired("a1"), ["u"]);
    assert!(fleet.core.knows_wishes_of(&name("a1")) && !fleet.core.knows_wishes_of(&name("b1")));
}

#[test]
fn new_titles_and_nodes_and_those_gone_for_long_have_to_be_put_right() {
    let mut fleet = Fleet::new();
    fleet.plan(&[("t", &["a1", "b1", "c1"]), ("u", &["a2", "b2", "c1"])], 1);
    assert_eq!(fleet.core.upkeep(at(2)), None);
    fleet.change(|world| world.titles.push(title("v")), 2);
    fleet.plan(&[("t", &["a1", "b1", "c1"]), ("u", &["a2", "b2", "c1"])], 2);
    let upkeep = fleet.core.upkeep(at(3)).expect("v has no place");
    assert!(upkeep.why.starts_with("1 titles without a place, 0 new nodes, 0"), "{}", upkeep.why);
    assert!(fleet.desired("a1").iter().all(|path| path != "v"));
    fleet.plan(&[("t", &["a1", "b1", "c1"]), ("u", &["a2"]), ("v", &["b2"])], 3);
    assert_eq!(fleet.core.upkeep(at(4)), None);
    // An absent node keeps its part at first, and loses it in the end.
    let away = ABSENT_MAX.as_secs();
    fleet.without("b2", 4, away);
    assert_eq!(fleet.core.upkeep(at(away)), None);
    let parts = fleet.core.plan_parts(Absent::Keep, at(away)).expect("it plans");
    let input = parts.basis(at(away)).input;
    let kept = input.nodes.iter().find(|node| node.name.as_str() == "b2").expect("it is kept");
    assert_eq!((kept.holds.as_slice(), kept.room_bytes), ([2].as_slice(), 1));
    let parts = fleet.core.plan_parts(Absent::LeaveOut, at(away)).expect("it plans");
    assert_eq!(parts.basis(at(away)).left_out[0].node.as_str(), "b2");
    fleet.without("b2", away, away + 40);
    let upkeep = fleet.core.upkeep(at(away + 40)).expect("b2 is gone");
    assert!(upkeep.why.ends_with("1 nodes gone"), "{}", upkeep.why);
    let drained = WantedDrain { reason: "sold".to_owned(), returns_unix_seconds: None };
    fleet.change(|world| world.nodes.get_mut(&name("b1")).expect("b1").drain = Some(drained), 700);
    fleet.without("b2", away + 40, away + 60);
    assert_eq!(fleet.core.upkeep(at(away + 60)), Some(upkeep), "b1 has time yet");
}

#[test]
fn a_plan_knows_what_the_windows_of_a_node_let_it_bring() {
    let mut fleet = Fleet::new();
    fleet.beat_and_say("a1", Some(7), 1);
    let basis = parts(&fleet.core, Absent::LeaveOut, at(2)).basis(at(2));
    let bounds = basis.input.nodes.iter().map(|node| (node.name.as_str(), node.fill_bytes_max));
    let bounds: Vec<_> = bounds.filter(|(_, bytes)| bytes.is_some()).collect();
    assert_eq!(bounds, [("a1", Some(7))]);
}

#[test]
fn a_node_that_claims_room_without_end_gets_no_more_than_sixteen_others() {
    let mut fleet = Fleet::new();
    fleet.beat_with("a1", (u64::MAX, None), 1);
    let basis = parts(&fleet.core, Absent::LeaveOut, at(2)).basis(at(2));
    let rooms: Vec<u64> = basis.input.nodes.iter().map(|node| node.room_bytes).collect();
    assert_eq!(rooms, [1600, 100, 100, 100, 100]);
    assert!(basis.bounded[0].starts_with("a1 reports room for"), "{:?}", basis.bounded);
    assert_eq!(basis.bounded.len(), 1);
    // Others' weights follow the same rule as in steering.
    let weights = basis.input.nodes.iter().map(|node| node.ceiling_bits_per_second);
    assert_eq!(weights.collect::<Vec<_>>(), [1000; 5]);
}

#[test]
fn a_plan_compares_a_new_title_with_its_series_and_keeps_the_operators_bounds() {
    let mut fleet = Fleet::new();
    let (began, day) = (at(0).unix_seconds(), 24 * 3600);
    let watched = WatchCount { starts: 50, bytes: 1_000_000 };
    let none = WatchCount::default();
    fleet.core.watching.popularity.add(&name("here"), [("t", watched)], none, 60, began);
    let bounds = PlacementPolicy { churn_bytes_max: Some(9), ..PlacementPolicy::default() };
    fleet.change(
        |world| {
            world.titles[0].published_unix_seconds = began - 60;
            world.titles[1].published_unix_seconds = began + day;
            world.series = ["t", "u"].map(|path| (path.to_owned(), "show".to_owned())).into();
            world.placement = bounds.clone();
        },
        day,
    );
    let basis = |fleet: &Fleet| parts(&fleet.core, Absent::Keep, at(day)).basis(at(day));
    let PlanBasis { input, forecasts, .. } = basis(&fleet);
    assert_eq!(input.policy, bounds);
    let prior = forecasts[0].titles.iter().find(|title| title.title == 1).map(|title| title.prior);
    assert_eq!(prior, Some(Some(Prior::Series)));
    assert_eq!(input.demand[0].titles[1].bytes, 1_000_000);
    fleet.change(|world| world.series.clear(), day);
    assert!(basis(&fleet).forecasts[0].titles.iter().all(|title| title.title != 1));
}

/// A machine with several disks goes on serving without one of them, and needs no visit: titles that its other disks can't hold move elsewhere.
#[test]
fn the_next_plan_brings_elsewhere_what_a_disk_has_taken_with_it() {
    let mut fleet = Fleet::new();
    NODES.iter().for_each(|(node, _)| fleet.holds(node, &["t", "u"]));
    let t = ["a1", "b1", "c1"];
    fleet.plan(&[("t", &t), ("u", &["a1", "b2", "c1"])], 1);
    // One of a1's disks had t, and the other one, with u on it, is full.
    fleet.holds("a1", &["u"]);
    fleet.beat_with("a1", (0, None), 2);
    let basis = parts(&fleet.core, Absent::Keep, at(3)).basis(at(3));
    let (dry, manifests) = crate::planning::dry_run(basis, 10).expect("a plan");
    assert_eq!((dry.floors_unmet, dry.moves[&Why::Floor].copies), (0, 1), "{dry:?}");
    let step = &dry.first_moves[0];
    assert_eq!((step.title.as_str(), step.node.as_str()), ("t", "a2"), "still three sites");
    let manifests: Vec<_> = manifests.into_iter().map(Arc::new).collect();
    let placed = PlacedTitles::new(&manifests, &fleet.world.titles, true, 3);
    fleet.change(|world| world.placed = Some(Arc::new(placed)), 3);
    assert_eq!((fleet.desired("a1"), fleet.desired("a2")), (vec!["u".into()], vec!["t".into()]));
}

#[test]
fn as_many_copies_must_be_there_as_the_operators_floor_before_another_one_goes() {
    let mut fleet = Fleet::new();
    fleet.plan(&[("t", &["a1", "b1", "c1"])], 1);
    ["a1", "a2"].iter().for_each(|node| fleet.holds(node, &["t"]));
    assert!(!fleet.may_evict("a2", "t"));
    fleet.change(|world| world.placement.floor_copies = 1, 2);
    assert!(fleet.may_evict("a2", "t"));
}
