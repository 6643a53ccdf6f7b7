//! The effect of one more of each thing, and of other configurations.

use crate::cost::CostTable;
use crate::demand::{Demand, PlannedSilo, SealedBy};
use crate::hardware::{Hardware, NetworkCard};
use crate::input;
use crate::solve::solve;
use serde::Serialize;

/// A change, and the rate of the changed machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WhatIf {
    /// A description for people.
    pub change: String,
    /// The rate with the change.
    pub gbps: f64,
    /// The difference from the plan; negative if it is worse.
    pub gained_gbps: f64,
}

/// All single changes, best first.
pub(crate) fn all(
    hardware: &Hardware,
    demand: &Demand,
    costs: &CostTable,
    gbps: f64,
) -> Vec<WhatIf> {
    let mut found = Vec::new();
    let mut add = |change: String, hardware: &Hardware, demand: &Demand| {
        let then = solve(hardware, demand, costs).gbps;
        found.push(WhatIf { change, gbps: then, gained_gbps: then - gbps });
    };
    bought(hardware, &mut |change, machine| add(change, machine, demand));
    for other in other_ways(hardware, demand) {
        add(other.0, hardware, &other.1);
    }
    if demand.hit_share <= 0.9 {
        let hit_share = demand.hit_share + 0.1;
        let more = Demand { hit_share, ..*demand };
        add("10 percent more of the bytes found in memory".to_owned(), hardware, &more);
    }
    found.sort_by(|one, other| other.gbps.total_cmp(&one.gbps));
    // Groups of disks or cards on one node may be identical.
    found.dedup_by(|one, other| one.change == other.change);
    found
}

/// Adds one of each thing, in every place where it could go.
fn bought(hardware: &Hardware, add: &mut impl FnMut(String, &Hardware)) {
    let mut cores = hardware.clone();
    cores.nodes.iter_mut().for_each(|node| node.cores += 1.0);
    let each = if hardware.nodes.len() > 1 { " on each node" } else { "" };
    add(format!("one more core{each}"), &cores);
    let mut memory = hardware.clone();
    memory.nodes.iter_mut().for_each(|node| node.memory_gbytes_per_second *= 1.1);
    add("10 percent faster memory".to_owned(), &memory);
    let of = |node: usize| match hardware.nodes.len() {
        1 => String::new(),
        _ => format!(" on node {node}"),
    };
    for (at, group) in hardware.disks.iter().enumerate() {
        let mut disks = hardware.clone();
        disks.disks[at].count += 1.0;
        add(format!("one more disk{}", of(group.node)), &disks);
    }
    let thing = |card: &NetworkCard| if card.ports > 1.0 { "card" } else { "port" };
    for (at, card) in hardware.cards.iter().enumerate() {
        let mut cards = hardware.clone();
        cards.cards[at].count += 1.0;
        add(format!("one more {}{}", thing(card), of(card.node)), &cards);
    }
    if hardware.cards.len() > 1 {
        let mut cards = hardware.clone();
        cards.cards.iter_mut().for_each(|card| card.count += 1.0);
        add(format!("one more {} wherever there is one", thing(&hardware.cards[0])), &cards);
    }
    if let Some(fabric) = hardware.fabric {
        let mut links = hardware.clone();
        let more = fabric.links + 1.0;
        let hottest_share = fabric.hottest_share * fabric.links / more;
        links.fabric = Some(crate::Fabric { links: more, hottest_share, ..fabric });
        add("one more link between nodes".to_owned(), &links);
    }
}

/// The same machine with another configuration.
fn other_ways(hardware: &Hardware, demand: &Demand) -> Vec<(String, Demand)> {
    let mut ways = Vec::new();
    let seals = [(SealedBy::Software, "TLS in software"), (SealedBy::Card, "TLS by the cards")];
    for (tls, name) in seals {
        if demand.tls != SealedBy::None && demand.tls != tls {
            ways.push((name.to_owned(), demand.sealed_by(tls)));
        }
    }
    let silos = [
        (PlannedSilo::Network, "connections at their card (silo = \"network\")"),
        (PlannedSilo::MemoryAtDisk, "memory at the disk (silo = \"memory-at-disk\")"),
        (PlannedSilo::Disk, "all at the disk (silo = \"disk\")"),
    ];
    for (silo, name) in silos {
        if hardware.nodes.len() > 1 && demand.silo != silo {
            ways.push((name.to_owned(), Demand { silo, ..*demand }));
        }
    }
    ways.retain(|(_, other)| input::check(other, hardware).is_ok());
    ways
}
