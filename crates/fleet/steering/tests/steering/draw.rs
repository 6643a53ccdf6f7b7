//! Random fleets and questions: small, so that all kinds of odd cases occur.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fastrand::Rng;
use fleet_protocol::{
    Announced, FleetSnapshot, NodePlace, Prefix, SheddingReason, Site, SnapshotNode, State,
};

use crate::build::{self, TITLE, name, title};

const STATES: [State; 6] =
    [State::Joining, State::Draining, State::Drained, State::Lost, State::Revoked, State::Serving];

const REASONS: [SheddingReason; 5] = [
    SheddingReason::AtCeiling,
    SheddingReason::Pressure,
    SheddingReason::DiskErrors,
    SheddingReason::ServerSilent,
    SheddingReason::ViewersStall,
];

/// A fleet of up to 5 sites and 14 nodes, with 3 titles. [`TITLE`] is one of them.
pub(crate) fn fleet(random: &mut Rng) -> FleetSnapshot {
    let sites: Vec<Site> = (0..random.usize(1..=5)).map(|number| site(random, number)).collect();
    // Many fleets are healthy, so that missing nodes don't determine every answer.
    let trouble = random.f64() * random.f64();
    let nodes = (0..random.usize(0..=14)).map(|number| node(random, number, sites.len(), trouble));
    let nodes = nodes.collect();
    let titles = vec![title("films/other"), title(TITLE), title("films/zebra")];
    let mut snapshot = build::snapshot(sites, nodes, titles);
    snapshot.policy.ttl_seconds = random.u32(1..=60);
    snapshot
}

fn site(random: &mut Rng, number: usize) -> Site {
    let place = random.bool().then(|| (random.f64() * 180.0 - 90.0, random.f64() * 360.0 - 180.0));
    let region = ["north", "south"][random.usize(..2)];
    let mut site = build::site(&format!("s{number}"), region, place);
    site.announced = (0..random.usize(..4)).map(|_| announced(random)).collect();
    site
}

fn announced(random: &mut Rng) -> Announced {
    let IpAddr::V4(four) = address(random, true) else { unreachable!("asked for IPv4") };
    let prefix = if random.bool() {
        let bits = [0, 8, 16, 24, 32][random.usize(..5)];
        let kept = four.to_bits() & u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
        Prefix::new(Ipv4Addr::from_bits(kept).into(), bits)
    } else {
        let IpAddr::V6(six) = address(random, false) else { unreachable!("asked for IPv6") };
        let bits = [0, 32, 48, 128][random.usize(..4)];
        let kept = six.to_bits() & u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
        Prefix::new(Ipv6Addr::from_bits(kept).into(), bits)
    };
    Announced {
        prefix: prefix.expect("zeros behind it"),
        as_path_length: random.u8(..3),
        med: random.u32(..2),
    }
}

/// One of a few possible addresses. Its text does not occur in a wider prefix, because the last part is an odd number of three digits.
pub(crate) fn address(random: &mut Rng, is_four: bool) -> IpAddr {
    let last = 201 + 2 * random.u8(..3);
    if is_four {
        Ipv4Addr::new(10, random.u8(..2), random.u8(..2), last).into()
    } else {
        let part = |random: &mut Rng| random.u16(1..3);
        Ipv6Addr::new(0x2001, 0xdb8, part(random), 0, 0, 0, 0, 0x1000 + u16::from(last)).into()
    }
}

fn node(random: &mut Rng, number: usize, sites: usize, trouble: f64) -> SnapshotNode {
    let mut node = build::node(&format!("n{number}"), &format!("s{}", random.usize(..sites)));
    let rack = random.bool().then(|| name(["r1", "r2"][random.usize(..2)]));
    node.place =
        NodePlace { cluster: name(["c1", "c2", "c3"][random.usize(..3)]), rack, ..node.place };
    node.ceiling_bits_per_second = [0, 1_000_000_000, 100_000_000_000][random.usize(..3)];
    node.load_permille = random.u16(..800);
    if random.f64() < trouble {
        node.load_permille = random.u16(800..2000);
    }
    if random.f64() < trouble {
        node.state = STATES[random.usize(..6)];
    }
    if random.f64() < trouble {
        node.not_me = (0..random.usize(1..3)).map(|_| REASONS[random.usize(..5)]).collect();
    }
    node.full = random.bool();
    node.holds = (0..3).filter(|_| random.f64() > trouble).collect();
    node
}
