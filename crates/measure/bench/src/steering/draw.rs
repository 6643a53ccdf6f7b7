//! A random fleet, generated from a fixed seed.
//!
//! Sites lie in regions, and each prefix is announced by a site together with two others of its region. Half of a node's titles are the
//! popular ones, which all nodes hold; the rest is random. One node in twenty is full, and some are unhealthy, draining or lost.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ::fleet_protocol::{
    Announced, Digest, FleetSnapshot, Name, NodeKind, NodePlace, Prefix, PublishedTitle,
    SheddingReason, Site, SnapshotNode, State, SteeringPolicy, TitleDocument,
};
use ::steering::Fleet;
use fastrand::Rng;
use load::Zipf;

use super::{Asked, Options};

/// Sites of a region.
const REGION_SITES: u32 = 50;

/// Exponent of the titles' popularity (the usual one of video on demand).
const ZIPF: f64 = 0.8;

fn name(text: &str) -> Name {
    text.parse().expect("made of letters and digits")
}

pub(super) fn snapshot(options: &Options) -> FleetSnapshot {
    let mut random = Rng::with_seed(1);
    FleetSnapshot {
        version: 1,
        epoch: 1,
        gateway: name("bench"),
        number: 1,
        made_unix_millis: 0,
        policy: SteeringPolicy::default(),
        sites: sites(options, &mut random),
        nodes: (0..options.nodes).map(|number| node(options, number, &mut random)).collect(),
        titles: (0..options.titles).map(title).collect(),
    }
}

/// The snapshot of the next second, with other loads.
pub(super) fn next(snapshot: &FleetSnapshot) -> FleetSnapshot {
    let (mut next, mut random) = (snapshot.clone(), Rng::with_seed(3));
    next.number += 1;
    for node in &mut next.nodes {
        node.load_permille = random.u32(..950) as u16;
    }
    next
}

fn sites(options: &Options, random: &mut Rng) -> Vec<Site> {
    let site = |number: u32, random: &mut Rng| Site {
        name: name(&format!("site-{number:06}")),
        region: name(&format!("region-{}", number / REGION_SITES)),
        latitude: Some(random.f64() * 120.0 - 60.0),
        longitude: Some(random.f64() * 360.0 - 180.0),
        announced: Vec::new(),
    };
    let mut sites: Vec<Site> = (0..options.sites).map(|number| site(number, random)).collect();
    for number in 0..options.prefixes {
        let (prefix, home) = (prefix(number), random.u32(..options.sites));
        let region = home / REGION_SITES * REGION_SITES;
        let count = REGION_SITES.min(options.sites - region);
        for other in 0..3 {
            let site = &mut sites[(region + (home - region + other * 7) % count) as usize];
            let (as_path_length, med) = (random.u32(..4) as u8, random.u32(..3));
            site.announced.push(Announced { prefix, as_path_length, med });
        }
    }
    sites
}

/// A quarter of the prefixes are IPv6. Of the others, one in 64 is wider and covers those that follow it.
fn prefix(number: u32) -> Prefix {
    let (address, bits): (IpAddr, u8) = if number % 4 == 3 {
        (Ipv6Addr::from_bits(0x2001_u128 << 112 | u128::from(number) << 80).into(), 48)
    } else if number % 64 == 0 {
        (Ipv4Addr::from_bits((1 << 24) + (number << 8)).into(), 18)
    } else {
        (Ipv4Addr::from_bits((1 << 24) + (number << 8)).into(), 24)
    };
    Prefix::new(address, bits).expect("zeros behind the prefix")
}

fn node(options: &Options, number: u32, random: &mut Rng) -> SnapshotNode {
    // Number nodes by site, so that neighbours share a site; each site has several racks and two clusters.
    let site = number % options.sites;
    let place = NodePlace {
        site: name(&format!("site-{site:06}")),
        cluster: name(["one", "two"][number as usize % 2]),
        rack: Some(name(&format!("rack-{}", number / options.sites % 4))),
    };
    let (state, not_me) = match random.u32(..100) {
        0 => (State::Draining, Vec::new()),
        1 => (State::Lost, Vec::new()),
        2 => (State::Serving, vec![SheddingReason::Pressure]),
        3 => (State::Serving, vec![SheddingReason::DiskErrors]),
        _ => (State::Serving, Vec::new()),
    };
    SnapshotNode {
        name: name(&format!("node-{number:08}")),
        host: format!("node-{number:08}.example"),
        place,
        kind: NodeKind::Storage,
        state,
        not_me,
        ceiling_bits_per_second: [10_000_000_000, 40_000_000_000, 100_000_000_000]
            [random.u32(..3) as usize],
        load_permille: random.u32(..950) as u16,
        full: false,
        holds: holds(options, random),
    }
}

fn holds(options: &Options, random: &mut Rng) -> Vec<u32> {
    let held = options.held.min(options.titles);
    let popular = held / 2;
    let mut rest: Vec<u32> = Vec::with_capacity(held as usize);
    // Some are drawn twice, so draw a few more than needed.
    let tail = options.titles - popular;
    let wanted = (held - popular) as usize;
    while rest.len() < wanted.min(tail as usize) {
        rest.extend((rest.len()..wanted + wanted / 8 + 1).map(|_| popular + random.u32(..tail)));
        rest.sort_unstable();
        rest.dedup();
    }
    // Remove surplus titles from everywhere, not only from the end.
    while rest.len() > wanted {
        rest.remove(random.u32(..rest.len() as u32) as usize);
    }
    (0..popular).chain(rest).collect()
}

fn title(number: u32) -> PublishedTitle {
    let document = |path: &str| TitleDocument { path: path.to_owned(), sha256: Digest::of(b"") };
    PublishedTitle {
        path: format!("films/title-{number:08}"),
        version: Digest::of(&number.to_le_bytes()),
        bytes: 4_000_000_000,
        duration_seconds: 5400.0,
        record: document("title.json"),
        hls: document("master.m3u8"),
        dash: document("manifest.mpd"),
        origin: "s3://films".to_owned(),
        published_unix_seconds: 0,
    }
}

/// Requests of new viewers. One in fifty comes from an address that no site announces.
pub(super) fn questions(options: &Options, fleet: &Fleet, count: usize) -> Vec<Asked> {
    let mut random = Rng::with_seed(2);
    let sites = &fleet.snapshot().sites;
    let address = |random: &mut Rng| {
        let site = &sites[random.u32(..options.sites) as usize];
        if site.announced.is_empty() || random.u32(..50) == 0 {
            return IpAddr::from([203, 0, 113, 1]);
        }
        let announced = &site.announced[random.u32(..site.announced.len() as u32) as usize];
        match announced.prefix.address() {
            IpAddr::V4(four) => Ipv4Addr::from_bits(four.to_bits() | 1).into(),
            IpAddr::V6(six) => Ipv6Addr::from_bits(six.to_bits() | 1).into(),
        }
    };
    let titles = Zipf::new(ZIPF, options.titles as usize);
    (0..count)
        .map(|_| Asked {
            address: address(&mut random),
            title: titles.rank(random.f64()) as u32,
            viewer: random.u64(..),
            playing: None,
        })
        .collect()
}
