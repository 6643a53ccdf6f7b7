//! Random fleets: small enough to have all kinds of odd shapes.

use fastrand::Rng;
use fleet_protocol::{Name, NodeKind, NodePlace};
use fullbore_placement::{
    Pin, PinScope, PlacementInput, PlacementNode, PlacementTitle, RegionDemand, TitleDemand,
};

pub(crate) fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

pub(crate) fn title(number: usize, bytes: u64) -> PlacementTitle {
    PlacementTitle { path: format!("films/{number:03}"), bytes, pins: Vec::new() }
}

pub(crate) fn node(own: &str, site: &str, room_bytes: u64) -> PlacementNode {
    PlacementNode {
        name: name(own),
        place: NodePlace { site: name(site), cluster: name("c"), rack: None },
        region: name("north"),
        kind: NodeKind::Storage,
        room_bytes,
        ceiling_bits_per_second: 10_000_000_000,
        fill_bytes_max: None,
        holds: Vec::new(),
    }
}

pub(crate) fn input(random: &mut Rng) -> PlacementInput {
    let sites = random.usize(1..=5);
    let titles: Vec<PlacementTitle> =
        (0..random.usize(0..=30)).map(|number| drawn_title(random, number, sites)).collect();
    let nodes = (0..random.usize(0..=14)).map(|n| drawn_node(random, n, sites, titles.len()));
    let nodes = nodes.collect();
    let demand = ["north", "south", "nowhere"].map(|region| RegionDemand {
        region: name(region),
        titles: (0..titles.len() as u32).filter_map(|title| demand(random, title)).collect(),
    });
    let mut input = PlacementInput { titles, nodes, demand: demand.into(), ..Default::default() };
    input.policy.floor_copies = random.u16(0..=4);
    input.policy.churn_bytes_max = random.bool().then(|| random.u64(0..3000));
    input.policy.cut_offs.flash_permille = random.u16(0..=1000);
    input
}

fn drawn_title(random: &mut Rng, number: usize, sites: usize) -> PlacementTitle {
    let bytes = [0, 1, 10, 100, 200, 500, u64::MAX][random.usize(..7)];
    let mut title = title(number, bytes);
    if random.u8(..5) == 0 {
        let site = PinScope::Site(name(&format!("s{}", random.usize(..sites))));
        let scopes = [PinScope::Everywhere, PinScope::Region(name("south")), site];
        title.pins.push(Pin { scope: scopes[random.usize(..3)].clone(), copies: random.u16(..4) });
    }
    title
}

fn drawn_node(random: &mut Rng, number: usize, sites: usize, titles: usize) -> PlacementNode {
    let site = random.usize(..sites);
    let room = [0, 99, 500, 2000, u64::MAX][random.usize(..5)];
    let mut node = node(&format!("n{number}"), &format!("s{site}"), room);
    node.region = name(["north", "south"][site % 2]);
    node.place.cluster = name(["c1", "c2"][random.usize(..2)]);
    node.place.rack = random.bool().then(|| name(["r1", "r2"][random.usize(..2)]));
    node.kind = [NodeKind::Storage, NodeKind::Flash, NodeKind::Global][random.usize(..3)];
    node.ceiling_bits_per_second = [0, 1_000_000_000, u64::MAX][random.usize(..3)];
    node.fill_bytes_max = (random.u8(..4) == 0).then(|| random.u64(..600));
    node.holds = (0..titles as u32).filter(|_| random.u8(..4) == 0).collect();
    node
}

/// Every second title has some.
fn demand(random: &mut Rng, title: u32) -> Option<TitleDemand> {
    if !random.bool() {
        return None;
    }
    let starts = [0, 3, 9, 10, 1000, u64::MAX][random.usize(..6)];
    let bytes = [0, 1, 500, 1_000_000, u64::MAX][random.usize(..5)];
    Some(TitleDemand { title, starts, bytes })
}
