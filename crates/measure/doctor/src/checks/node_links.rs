//! Links between nodes (xGMI, UPI). The kernel does not report how they were trained, so it is derived from how fast nodes reach each
//! other's memory, if that was measured.

use crate::NodeRate;
use crate::finding::{Area, Cost, Finding};
use crate::source;
use crate::visit::Visit;
use std::collections::BTreeMap;

/// An estimate from the rates of links: with all lanes, nodes of several sockets reach each other's memory at a third to a half of the rate of
/// their own (three xGMI links of 36 GB/s each way, or three of UPI of 21 to 24, compared with 150 to 200 GB/s). Two lanes of sixteen leave less
/// than a fifth.
const ACROSS_MIN: f64 = 0.25;

/// The largest acceptable ratio between the rates of pairs at the same distance.
const UNEVEN_MAX: f64 = 2.0;

/// More than any memory moves.
const GBYTES_MAX: f64 = 100_000.0;

pub(crate) fn check(visit: &mut Visit<'_>) {
    let rates = visit.evidence.node_rates;
    let is_rate =
        |rate: &&NodeRate| rate.gbytes_per_second > 0.0 && rate.gbytes_per_second < GBYTES_MAX;
    let rates: Vec<_> = rates.iter().filter(is_rate).copied().collect();
    let shares = shares(&rates);
    narrow(visit, &shares);
    uneven(visit, &shares);
}

fn of(rate: &NodeRate) -> String {
    format!("node {} from node {}", rate.memory, rate.cpus)
}

const MEND: &str = "firmware setup: xGMI link width forced to x16 and its speed to the highest, dynamic link width management off; on Intel, UPI speed to the highest and its power management (L0p, L1) off";
const CHECK: &str = "fullbore doctor --measure: the rows of memory";

/// The rate at which a node reaches another one's memory.
struct Across {
    rate: NodeRate,
    /// The rate at which it reaches its own.
    own_gbytes_per_second: f64,
}

impl Across {
    fn share(&self) -> f64 {
        self.rate.gbytes_per_second / self.own_gbytes_per_second
    }
}

/// Pairs of nodes that both have processors. Memory without processors, such as that behind CXL, is slow in any case.
fn shares(rates: &[NodeRate]) -> Vec<Across> {
    let own = |node| rates.iter().find(|rate| (rate.cpus, rate.memory) == (node, node));
    let across = rates.iter().filter(|rate| rate.cpus != rate.memory && own(rate.memory).is_some());
    across
        .filter_map(|rate| {
            let own_gbytes_per_second = own(rate.cpus)?.gbytes_per_second;
            Some(Across { rate: *rate, own_gbytes_per_second })
        })
        .collect()
}

fn narrow(visit: &mut Visit<'_>, shares: &[Across]) {
    let slow: Vec<_> = shares.iter().filter(|across| across.share() < ACROSS_MIN).collect();
    let Some(first) = slow.first() else { return };
    let (across, own) = (first.rate.gbytes_per_second, first.own_gbytes_per_second);
    visit.found(Finding {
        area: Area::Pcie,
        name: "node-links",
        on: slow.iter().map(|across| of(&across.rate)).collect(),
        found: format!("{across:.0} GB/s across, {own:.0} of its own memory"),
        wanted: format!("{:.0} GB/s across, or more", ACROSS_MIN * own),
        cost: Cost::percent(
            16.0,
            "of what crosses between sockets: 420 Gb/s with links that had trained to two lanes, 500 after that was mended",
            source::GALLATIN_2022,
        ),
        mend: MEND.into(),
        check: CHECK.into(),
    });
}

/// Pairs of nodes at the same distance should have the same links. Their rates are compared relative to each node's rate in its own memory,
/// because a node with fewer usable processors is slower everywhere.
fn uneven(visit: &mut Visit<'_>, shares: &[Across]) {
    let mut by_distance = BTreeMap::<u32, Vec<&Across>>::new();
    for across in shares {
        let Some(distance) = distance(visit, &across.rate) else { return };
        by_distance.entry(distance).or_default().push(across);
    }
    for alike in by_distance.values() {
        let most = alike.iter().map(|across| across.share()).fold(0.0, f64::max);
        let slow: Vec<_> =
            alike.iter().filter(|across| UNEVEN_MAX * across.share() < most).collect();
        let Some(first) = slow.first() else { continue };
        visit.found(Finding {
            area: Area::Pcie,
            name: "uneven-node-links",
            on: slow.iter().map(|across| of(&across.rate)).collect(),
            found: format!(
                "{:.0} GB/s, {:.0}% of the rate of its own memory, and {:.0}% between other nodes as far apart",
                first.rate.gbytes_per_second,
                100.0 * first.share(),
                100.0 * most
            ),
            wanted: "about as much between all of them".into(),
            cost: Cost {
                source: source::GALLATIN_2022,
                ..Cost::unmeasured("the busiest link is the limit: at 500 Gb/s three links carried 15, 4 and 2 GB/s")
            },
            mend: MEND.into(),
            check: CHECK.into(),
        });
    }
}

/// The distance as the firmware reports it (`numactl -H`).
fn distance(visit: &mut Visit<'_>, rate: &NodeRate) -> Option<u32> {
    const WHAT: &str = "distances of nodes";
    let nodes: Vec<_> = visit.topology.nodes().into_iter().map(|(node, _)| node).collect();
    let place = nodes.iter().position(|node| *node == rate.memory)?;
    let path = format!("sys/devices/system/node/node{}/distance", rate.cpus);
    let text = visit.needed(WHAT, &path)?;
    let distance = text.split_whitespace().nth(place).and_then(|distance| distance.parse().ok());
    visit.understood(WHAT, &path, distance)
}
