//! The generated fleet: sites, nodes, titles and their popularity.

use fastrand::Rng;
use fleet_protocol::{
    Announced, Digest, FleetSnapshot, Name, NodeKind, NodePlace, Prefix, PublishedTitle, Site,
    SnapshotNode, State, SteeringPolicy, TitleDocument,
};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::ops::Range;

use crate::day::DayOptions;
use crate::held::Held;

/// Rate of one viewer.
pub(crate) const VIEWER_BITS_PER_SECOND: u64 = 4_000_000;

/// Plays per day and node: 20 million for 10,000 nodes.
pub(crate) const PLAYS_PER_NODE: u64 = 2_000;

const NODES_PER_SITE: u32 = 10;
const SITES_PER_REGION: u32 = 50;

/// The usual exponent of video on demand.
const ZIPF: f64 = 0.8;

pub(crate) struct World {
    pub(crate) sites: Vec<Site>,
    /// Nodes, without their titles.
    pub(crate) nodes: Vec<SnapshotNode>,
    pub(crate) held: Held,
    /// Where each site's nodes begin, and the end.
    starts: Vec<usize>,
    /// For each node, its site, cluster and rack as one number.
    pub(crate) domain_of: Vec<u32>,
    pub(crate) rooms: Vec<u64>,
    pub(crate) titles: Vec<PublishedTitle>,
    /// Number of titles that existed yesterday: all with a lower index.
    pub(crate) known: usize,
    /// Cumulative popularity by title: a title's share is the step up to its own sum.
    pub(crate) wanted: Vec<u64>,
    /// Cumulative ceilings of the sites: viewers live near sites in proportion to their ceilings.
    pub(crate) site_sums: Vec<u64>,
}

fn name(text: &str) -> Name {
    text.parse().expect("made of letters and digits")
}

impl World {
    pub(crate) fn new(options: &DayOptions, random: &mut Rng) -> Self {
        let sites = (options.nodes / NODES_PER_SITE).max(3.min(options.nodes));
        let titles: Vec<PublishedTitle> =
            (0..options.titles).map(|number| title(number, random)).collect();
        let catalog: u64 = titles.iter().map(|title| title.bytes).sum();
        let mut world = Self {
            sites: (0..sites).map(site).collect(),
            nodes: Vec::new(),
            held: Held::new(titles.len(), options.nodes as usize),
            starts: vec![0],
            domain_of: Vec::new(),
            rooms: Vec::new(),
            known: titles.len() - titles.len() / 100,
            wanted: wanted(options.titles, random),
            titles,
            site_sums: Vec::new(),
        };
        // In the order of their names, so that an index is the same here, in plans and in snapshots.
        for number in 0..options.nodes {
            let site = (u64::from(number) * u64::from(sites) / u64::from(options.nodes)) as u32;
            let (node, room) = node(number, site, catalog, random);
            world.nodes.push(node);
            world.rooms.push(room / 100 * u64::from(options.room_percent));
            world.starts.resize(site as usize + 2, number as usize + 1);
            world.starts[site as usize + 1] = number as usize + 1;
        }
        let mut domains = BTreeMap::new();
        for node in &world.nodes {
            let next = domains.len() as u32;
            world.domain_of.push(*domains.entry(node.place.clone()).or_insert(next));
        }
        world.scale_ceilings(options);
        world.site_sums = sums((0..world.sites.len()).map(|site| world.ceiling_of(site)));
        world
    }

    /// A site's nodes.
    pub(crate) fn nodes_of(&self, site: usize) -> Range<usize> {
        self.starts[site]..self.starts[site + 1]
    }

    /// The sum of a site's ceilings.
    pub(crate) fn ceiling_of(&self, site: usize) -> u64 {
        self.nodes[self.nodes_of(site)].iter().map(|node| node.ceiling_bits_per_second).sum()
    }

    /// Scales the ceilings so that the evening's peak is at 70% of them.
    fn scale_ceilings(&mut self, options: &DayOptions) {
        let viewers =
            u64::from(options.nodes) * PLAYS_PER_NODE * crate::crowd::PEAK_PER_MILLE / 1000;
        let peak = viewers * VIEWER_BITS_PER_SECOND * 10 / 7;
        let all: u64 = self.nodes.iter().map(|node| node.ceiling_bits_per_second).sum();
        for node in &mut self.nodes {
            let share = u128::from(node.ceiling_bits_per_second) * u128::from(peak);
            node.ceiling_bits_per_second = (share / u128::from(all)) as u64 + 1;
        }
    }

    pub(crate) fn snapshot(&self) -> FleetSnapshot {
        FleetSnapshot {
            version: 1,
            epoch: 1,
            gateway: name("simulated"),
            number: 0,
            made_unix_millis: 0,
            policy: SteeringPolicy::default(),
            sites: self.sites.clone(),
            nodes: self.nodes.clone(),
            titles: self.titles.clone(),
        }
    }

    /// A title's popularity, relative to the total [`wanted_sum`](Self::wanted_sum).
    pub(crate) fn share(&self, title: usize) -> u64 {
        self.wanted[title] - title.checked_sub(1).map_or(0, |before| self.wanted[before])
    }

    pub(crate) fn wanted_sum(&self) -> u64 {
        self.wanted.last().copied().unwrap_or(0)
    }
}

pub(crate) fn sums(parts: impl Iterator<Item = u64>) -> Vec<u64> {
    let add = |sum: &mut u64, part: u64| {
        *sum += part;
        Some(*sum)
    };
    parts.scan(0, add).collect()
}

/// The index that a draw falls on, in proportion to the steps of `sums`.
pub(crate) fn drawn(sums: &[u64], random: &mut Rng) -> usize {
    let at = random.u64(..sums.last().copied().unwrap_or(1).max(1));
    sums.partition_point(|sum| *sum <= at)
}

fn site(number: u32) -> Site {
    let prefix = Prefix::new(Ipv4Addr::from_bits((10 << 24) + (number << 8)).into(), 24);
    Site {
        name: name(&format!("s{number:05}")),
        region: name(&format!("r{:03}", number / SITES_PER_REGION)),
        latitude: Some(f64::from(number % 100) - 50.0),
        longitude: Some(f64::from(number / 100) * 3.0 - 150.0),
        announced: vec![Announced {
            prefix: prefix.expect("zeros behind it"),
            as_path_length: 1,
            med: 0,
        }],
    }
}

/// A site holds most of the catalog: with Zipf's 0.8, four fifths of the titles are 95% of the views.
fn node(number: u32, site: u32, catalog: u64, random: &mut Rng) -> (SnapshotNode, u64) {
    let (kind, weight, room_permille) = match random.u8(..20) {
        0..3 => (NodeKind::Flash, 40, 30),
        3 => (NodeKind::Global, 10, 60),
        _ => (NodeKind::Storage, 20, 130),
    };
    let place = NodePlace {
        site: name(&format!("s{site:05}")),
        cluster: name(["one", "two"][number as usize % 2]),
        rack: Some(name(&format!("r{}", number / 2 % 2))),
    };
    let node = SnapshotNode {
        name: name(&format!("n{number:06}")),
        host: format!("n{number:06}.example"),
        place,
        kind,
        state: State::Serving,
        not_me: Vec::new(),
        ceiling_bits_per_second: weight,
        load_permille: 0,
        full: false,
        holds: Vec::new(),
    };
    (node, (u128::from(catalog) * room_permille / 1000) as u64)
}

fn title(number: u32, random: &mut Rng) -> PublishedTitle {
    let document = |path: &str| TitleDocument { path: path.to_owned(), sha256: Digest::of(b"") };
    PublishedTitle {
        path: format!("films/{number:07}"),
        version: Digest::of(&number.to_le_bytes()),
        bytes: random.u64(2_000_000_000..6_000_000_000),
        duration_seconds: 5400.0,
        record: document("title.json"),
        hls: document("master.m3u8"),
        dash: document("manifest.mpd"),
        origin: "s3://films".to_owned(),
        published_unix_seconds: 0,
    }
}

/// Popularity by Zipf's law, with ranks dealt out at random, so that new titles have any rank.
fn wanted(titles: u32, random: &mut Rng) -> Vec<u64> {
    let mut shares: Vec<u64> =
        (1..=titles).map(|rank| (1e12 * f64::from(rank).powf(-ZIPF)) as u64).collect();
    random.shuffle(&mut shares);
    sums(shares.into_iter())
}
