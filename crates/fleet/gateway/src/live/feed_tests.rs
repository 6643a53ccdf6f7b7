//! Routing feeds in virtual time.

use std::sync::Arc;
use std::time::Duration;

use fleet_protocol::{
    Announced, FleetSnapshot, Name, NodeKind, NodePlace, Prefix, RoutesAnswer, RoutesUpdate, Site,
};

use super::{AllowList, Core, FEED_HOLDS, RejectedMessage, WantedNode, World};
use crate::clock::Now;

fn at(seconds: u64) -> Now {
    Now { uptime: Duration::from_secs(seconds), unix_millis: 1_800_000_000_000 + seconds * 1000 }
}

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fn routes(lines: &[&str]) -> Vec<Announced> {
    Announced::read_file(&lines.join("\n")).expect("routes")
}

/// Nodes p1 and p2 at paris, with an allow-list of two prefixes, and r1 at rome, which may announce anything.
fn world() -> World {
    let node = |site: &str| WantedNode {
        place: NodePlace { site: name(site), cluster: name(site), rack: None },
        kind: NodeKind::Storage,
        host: "127.0.1.1".to_owned(),
        ceiling_bits_per_second: None,
        drain: None,
        is_revoked: false,
    };
    let site = |site: &str| Site {
        name: name(site),
        region: name("here"),
        latitude: None,
        longitude: None,
        announced: Vec::new(),
    };
    let list: Vec<Prefix> =
        routes(&["192.0.2.0/24", "2001:db8::/32"]).iter().map(|one| one.prefix).collect();
    World {
        epoch: 1,
        sites: ["paris", "rome"].map(|one| (name(one), site(one))).into(),
        allowed: [(name("paris"), AllowList::within(&list)), (name("rome"), AllowList::open())]
            .into(),
        nodes: [("p1", "paris"), ("p2", "paris"), ("r1", "rome")]
            .map(|(one, site)| (name(one), node(site)))
            .into(),
        ..World::default()
    }
}

fn core() -> Core {
    let mut core = Core::new(name("g1"));
    core.set_world(Arc::new(world()), at(0));
    core
}

fn update(node: &str, number: u64, base: Option<u64>, announced: &[&str]) -> RoutesUpdate {
    let (node, boot, announced) = (name(node), "b1".to_owned(), routes(announced));
    RoutesUpdate { version: 1, node, boot, number, base, announced, withdrawn: vec![] }
}

fn withdraw(node: &str, number: u64, prefix: &str) -> RoutesUpdate {
    let withdrawn = vec![prefix.parse().expect("a prefix")];
    RoutesUpdate { withdrawn, ..update(node, number, Some(number - 1), &[]) }
}

fn tell(core: &mut Core, told: RoutesUpdate, now: Now) -> Result<RoutesAnswer, RejectedMessage> {
    core.handle_routes(&told.node.clone(), told, now)
}

fn announced(snapshot: &FleetSnapshot, site: &str) -> Vec<String> {
    let site = snapshot.sites.iter().find(|one| one.name.as_str() == site).expect("a site");
    site.announced.iter().map(Announced::to_string).collect()
}

fn answer(believed: u64, refused: u64) -> Result<RoutesAnswer, RejectedMessage> {
    Ok(RoutesAnswer { wants_all: false, believed, refused })
}

#[test]
fn a_site_is_believed_within_its_allow_list_only() {
    let mut core = core();
    let all = ["192.0.2.0/25 med=7", "0.0.0.0/0", "10.0.0.0/8", "2001:db8:1::/48", "::/0"];
    assert_eq!(tell(&mut core, update("p1", 1, None, &all), at(1)), answer(2, 3));
    assert!(core.is_changed());
    assert_eq!(
        announced(&core.snapshot(at(1)), "paris"),
        ["192.0.2.0/25 med=7", "2001:db8:1::/48"]
    );
    core.tick(at(1));
    let lines = core.take_lines().join("\n");
    assert!(lines.contains("node p1") && lines.contains("3 prefixes"), "{lines}");
    let view = core.view(at(1));
    assert_eq!((view.sites[0].prefixes, view.sites[0].prefixes_refused), (2, 3));
    // An allow-list applies to its own site only.
    assert_eq!(tell(&mut core, update("r1", 1, None, &all), at(1)), answer(5, 0));
    // The operator extends the list, and the refused routes count without being sent again.
    let mut wider = world();
    wider.allowed.insert(name("paris"), AllowList::open());
    core.set_world(Arc::new(wider), at(2));
    assert_eq!(announced(&core.snapshot(at(2)), "paris").len(), 5);
    core.set_world(Arc::new(World { allowed: [].into(), ..world() }), at(3));
    assert_eq!(announced(&core.snapshot(at(3)), "rome"), [""; 0]);
}

#[test]
fn a_withdrawn_route_is_out_of_the_next_snapshot() {
    let mut core = core();
    let both = ["192.0.2.0/25", "2001:db8::/48"];
    assert_eq!(tell(&mut core, update("p1", 1, None, &both), at(1)), answer(2, 0));
    assert_eq!(announced(&core.snapshot(at(1)), "paris"), both);
    // A confirmation does not trigger a snapshot.
    assert_eq!(tell(&mut core, update("p1", 1, Some(1), &[]), at(6)), answer(2, 0));
    assert!(!core.is_changed());
    assert_eq!(tell(&mut core, withdraw("p1", 2, "192.0.2.0/25"), at(7)), answer(1, 0));
    assert!(core.is_changed());
    assert_eq!(announced(&core.snapshot(at(7)), "paris"), ["2001:db8::/48"]);
}

#[test]
fn several_nodes_of_a_site_feed_and_the_best_route_of_each_prefix_counts() {
    let mut core = core();
    let far = ["192.0.2.0/24 as_path_length=3", "192.0.2.0/25 as_path_length=2 med=9"];
    let near = ["192.0.2.0/24 as_path_length=1 med=5", "192.0.2.0/25 as_path_length=2 med=8"];
    assert_eq!(tell(&mut core, update("p1", 1, None, &far), at(1)), answer(2, 0));
    assert_eq!(tell(&mut core, update("p2", 1, None, &near), at(1)), answer(2, 0));
    assert_eq!(announced(&core.snapshot(at(1)), "paris"), near);
    assert_eq!(tell(&mut core, withdraw("p2", 2, "192.0.2.0/24"), at(2)), answer(1, 0));
    assert_eq!(announced(&core.snapshot(at(2)), "paris"), [far[0], near[1]]);
}

#[test]
fn a_silent_feed_stays_for_its_time_and_then_falls_away() {
    let mut core = core();
    assert_eq!(tell(&mut core, update("p1", 1, None, &["192.0.2.0/25"]), at(1)), answer(1, 0));
    // The other nodes report, so the gateway has no reason to distrust its own connection.
    let ends = 1 + FEED_HOLDS.as_secs();
    (2..ends).for_each(|second| core.tick(at(second)));
    assert_eq!(announced(&core.snapshot(at(ends - 1)), "paris"), ["192.0.2.0/25"]);
    core.take_lines();
    core.tick(at(ends));
    assert!(core.is_changed());
    assert_eq!(announced(&core.snapshot(at(ends)), "paris"), [""; 0]);
    assert!(core.take_lines().iter().any(|line| line.contains("no longer count")));
    // The base of its next change is no longer known.
    let wants_all = tell(&mut core, withdraw("p1", 2, "192.0.2.0/25"), at(ends + 1));
    assert!(wants_all.expect("an answer").wants_all);
}

#[test]
fn time_in_which_the_gateway_itself_slept_is_nobodys_silence() {
    let mut core = core();
    core.tick(at(1));
    assert_eq!(tell(&mut core, update("p1", 1, None, &["192.0.2.0/25"]), at(1)), answer(1, 0));
    core.tick(at(1000));
    assert_eq!(announced(&core.snapshot(at(1000)), "paris"), ["192.0.2.0/25"]);
}

#[test]
fn a_node_speaks_for_itself_and_only_in_order() {
    let mut core = core();
    let one = ["192.0.2.0/25"];
    let other = core.handle_routes(&name("p2"), update("p1", 1, None, &one), at(1));
    assert_eq!(other, Err(RejectedMessage::NotItself));
    assert_eq!(tell(&mut core, update("x1", 1, None, &one), at(1)), Err(RejectedMessage::Unknown));
    assert!(tell(&mut core, update("p1", 5, Some(4), &one), at(1)).expect("an answer").wants_all);
    assert_eq!(tell(&mut core, update("p1", 5, None, &one), at(1)), answer(1, 0));
    assert_eq!(tell(&mut core, update("p1", 4, None, &[]), at(2)), Err(RejectedMessage::Stale));
    let skipped = tell(&mut core, update("p1", 8, Some(6), &[]), at(2));
    assert!(skipped.expect("an answer").wants_all);
    let broken = RoutesUpdate { version: 2, ..update("p1", 6, Some(5), &[]) };
    assert!(matches!(tell(&mut core, broken, at(2)), Err(RejectedMessage::OutOfBounds(_))));
    // An agent that has restarted sends everything again.
    let reborn = RoutesUpdate { boot: "b2".to_owned(), ..update("p1", 1, Some(1), &[]) };
    assert!(tell(&mut core, reborn.clone(), at(3)).expect("an answer").wants_all);
    let all = RoutesUpdate { base: None, announced: routes(&one), ..reborn };
    assert_eq!(tell(&mut core, all, at(3)), answer(1, 0));
}

#[test]
fn the_routes_of_a_revoked_node_are_gone_at_once() {
    let mut core = core();
    assert_eq!(tell(&mut core, update("p1", 1, None, &["192.0.2.0/25"]), at(1)), answer(1, 0));
    let mut without = world();
    without.nodes.get_mut(&name("p1")).expect("a node").is_revoked = true;
    core.set_world(Arc::new(without), at(2));
    assert_eq!(announced(&core.snapshot(at(2)), "paris"), [""; 0]);
    assert_eq!(tell(&mut core, update("p1", 2, None, &[]), at(3)), Err(RejectedMessage::Revoked));
}

#[test]
fn a_gateway_that_starts_steers_by_its_last_snapshot_until_feeds_speak() {
    let mut before = core();
    let all = ["192.0.2.0/25", "192.0.2.128/25"];
    assert_eq!(tell(&mut before, update("p1", 1, None, &all[..1]), at(1)), answer(1, 0));
    assert_eq!(tell(&mut before, update("p2", 1, None, &all[1..]), at(1)), answer(1, 0));
    let snapshot = before.snapshot(at(1));
    let mut core = Core::new(name("g1"));
    core.restore(snapshot, at(0));
    core.set_world(Arc::new(world()), at(0));
    assert_eq!(announced(&core.snapshot(at(0)), "paris"), all);
    // One feed reports, and the other one still has time to do so.
    assert_eq!(tell(&mut core, update("p1", 9, None, &all[..1]), at(2)), answer(1, 0));
    core.tick(at(3));
    assert_eq!(announced(&core.snapshot(at(3)), "paris"), all);
    (4..10).for_each(|second| core.tick(at(second)));
    assert_eq!(announced(&core.snapshot(at(10)), "paris"), all[..1]);
}

#[test]
fn what_a_gateway_remembers_of_a_file_goes_with_the_file() {
    let with = |lines: &[&str]| {
        let mut world = world();
        world.sites.get_mut(&name("rome")).expect("a site").announced = routes(lines);
        Arc::new(world)
    };
    let mut before = core();
    before.set_world(with(&["10.0.0.0/8"]), at(0));
    assert_eq!(tell(&mut before, update("r1", 1, None, &["192.0.2.0/24"]), at(1)), answer(1, 0));
    let mut core = Core::new(name("g1"));
    core.restore(before.snapshot(at(1)), at(0));
    core.set_world(with(&["10.0.0.0/8"]), at(0));
    assert_eq!(announced(&core.snapshot(at(0)), "rome"), ["10.0.0.0/8", "192.0.2.0/24"]);
    core.set_world(with(&[]), at(1));
    assert_eq!(announced(&core.snapshot(at(1)), "rome"), ["192.0.2.0/24"]);
}

#[test]
fn a_file_and_feeds_add_up() {
    let mut world = world();
    let site = world.sites.get_mut(&name("rome")).expect("a site");
    site.announced = routes(&["10.0.0.0/8 med=3", "::/0"]);
    let mut core = Core::new(name("g1"));
    core.set_world(Arc::new(world), at(0));
    assert_eq!(announced(&core.snapshot(at(0)), "rome").len(), 2);
    let told = update("r1", 1, None, &["10.0.0.0/8 med=2", "192.0.2.0/24"]);
    assert_eq!(tell(&mut core, told, at(1)), answer(2, 0));
    let all = ["10.0.0.0/8 med=2", "192.0.2.0/24", "::/0"];
    assert_eq!(announced(&core.snapshot(at(1)), "rome"), all);
}

#[test]
fn nodes_cannot_fill_a_gateway_with_routes() {
    let mut core = core();
    let route = |number: usize| Announced {
        prefix: Prefix::new(std::net::Ipv4Addr::from_bits(number as u32).into(), 32)
            .expect("a prefix"),
        as_path_length: 0,
        med: 0,
    };
    let mut crowd = world();
    let node = crowd.nodes[&name("r1")].clone();
    crowd.nodes.extend((0..41).map(|number| (name(&format!("x{number}")), node.clone())));
    core.set_world(Arc::new(crowd), at(0));
    let all: Vec<_> = (0..fleet_protocol::ROUTES_MAX).map(route).collect();
    let told = (0..41).map(|number| {
        let mut told = update(&format!("x{number}"), 1, None, &[]);
        told.announced.clone_from(&all);
        tell(&mut core, told, at(1)).map(|_| ())
    });
    let told: Vec<_> = told.collect();
    assert!(told[..40].iter().all(Result::is_ok));
    assert_eq!(told[40], Err(RejectedMessage::NoRoom));
}
