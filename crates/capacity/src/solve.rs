//! The plan: the rate at which the first part is used up, and what all others do at that rate.

use crate::cost::CostTable;
use crate::demand::Demand;
use crate::geography::{Crossing, Geography};
use crate::hardware::Hardware;
use crate::moves::{self, ByteMove, MemoryAccess, Spot};
use crate::scarce::{BITS, PartLimit, Situation};
use crate::whatif::{self, WhatIf};
use serde::Serialize;

/// What a machine will serve, and why not more.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Capacity {
    /// Of this format.
    pub version: u32,
    /// `plan`.
    pub kind: &'static str,
    /// The machine's.
    pub name: String,
    /// What all viewers together can get.
    pub gbps: f64,
    /// What one core does, if processors' costs are known.
    pub gbps_per_core: Option<f64>,
    /// What viewers want, if that is known.
    pub wanted_gbps: Option<f64>,
    /// Who seals, how bytes are sent, where connections belong.
    pub tls: crate::SealedBy,
    /// The same.
    pub route: crate::PlannedRoute,
    /// The same.
    pub silo: crate::PlannedSilo,
    /// The tightest first.
    pub limits: Vec<PartLimit>,
    /// What a byte goes through.
    pub moves: Vec<ByteMove>,
    /// Of these, how many cross to another node.
    pub crossing: Crossing,
    /// What crosses on average, at `gbps`.
    pub fabric_gbytes_per_second: f64,
    /// What each node does, at `gbps`.
    pub nodes: Vec<NodeFlow>,
    /// What another machine would serve, the best first.
    pub what_if: Vec<WhatIf>,
}

/// What happens on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct NodeFlow {
    /// Its disks bring.
    pub disk_gbytes_per_second: f64,
    /// Disks.
    pub disks: f64,
    /// Moved in its memory.
    pub memory_gbytes_per_second: f64,
    /// What its memory can move.
    pub memory_usable_gbytes_per_second: f64,
    /// Its cores read of memory.
    pub cpu_reads_gbytes_per_second: f64,
    /// Its cores write to memory.
    pub cpu_writes_gbytes_per_second: f64,
    /// Its cores that are busy.
    pub cores_busy: f64,
    /// Its cores.
    pub cores: f64,
    /// Leaves by its cards.
    pub card_gbps: f64,
    /// What its cards' ports carry.
    pub card_usable_gbps: f64,
}

impl Capacity {
    /// The share of a part that is used at `gbps`, 0 to 1.
    pub fn used(&self, limit: &PartLimit) -> f64 {
        if limit.gbps > 0.0 { self.gbps / limit.gbps } else { 1.0 }
    }

    /// What is scarce first.
    pub fn scarce(&self) -> &PartLimit {
        self.limits.first().expect("a machine has memory")
    }
}

/// Plans a machine.
pub fn plan(hardware: &Hardware, demand: &Demand, costs: &CostTable) -> Capacity {
    let mut capacity = solve(hardware, demand, costs);
    capacity.what_if = whatif::all(hardware, demand, costs, capacity.gbps);
    capacity
}

/// Without asking what would be if.
pub(crate) fn solve(hardware: &Hardware, demand: &Demand, costs: &CostTable) -> Capacity {
    let moves = moves::moves(demand, costs);
    let geography = Geography::of(hardware, demand);
    let crossing = geography.crossing(&moves);
    let situation =
        Situation { hardware, demand, costs, moves: &moves, geography: &geography, crossing };
    let mut limits = situation.limits();
    // Stable: of equals, the first in the order of their kinds.
    limits.sort_by(|one, other| one.gbps.total_cmp(&other.gbps));
    let gbps = limits.first().map_or(0.0, |limit| limit.gbps);
    let seconds: f64 = situation.work().iter().map(|(_, rate, share)| share / rate).sum();
    let nodes =
        (0..hardware.nodes.len()).map(|node| flow(&situation, node, gbps, seconds)).collect();
    Capacity {
        version: 1,
        kind: "plan",
        name: hardware.name.clone(),
        gbps,
        gbps_per_core: (seconds > 0.0).then(|| 1.0 / seconds),
        wanted_gbps: demand.wanted_gbps(),
        tls: demand.tls,
        route: demand.route,
        silo: demand.silo,
        limits,
        crossing,
        fabric_gbytes_per_second: crossing.average * gbps / BITS,
        nodes,
        what_if: Vec::new(),
        moves,
    }
}

fn flow(situation: &Situation<'_>, node: usize, gbps: f64, seconds: f64) -> NodeFlow {
    let Situation { hardware, demand, costs, moves, geography, .. } = situation;
    let here = &hardware.nodes[node];
    let disks: f64 =
        hardware.disks.iter().filter(|group| group.node == node).map(|group| group.count).sum();
    let home = geography.home[node];
    let by_cpu = |access: MemoryAccess| -> f64 {
        let cpu = moves.iter().filter(|one| one.by == Spot::Cpu && one.access == access);
        cpu.map(|one| one.bytes).sum::<f64>() * home * gbps / BITS
    };
    let cards = hardware.cards.iter().zip(geography.egress()).filter(|(card, _)| card.node == node);
    let (mut card_gbps, mut card_usable_gbps) = (0.0, 0.0);
    for (card, share) in cards {
        card_gbps += share * gbps;
        card_usable_gbps += card.wire_gbps() * costs.port_usable;
    }
    NodeFlow {
        disk_gbytes_per_second: (1.0 - demand.hit_share) * disks / hardware.disk_count() * gbps
            / BITS,
        disks,
        memory_gbytes_per_second: situation.moved_on()[node] * gbps / BITS,
        memory_usable_gbytes_per_second: here.memory_gbytes_per_second * costs.memory_usable,
        cpu_reads_gbytes_per_second: by_cpu(MemoryAccess::Read),
        cpu_writes_gbytes_per_second: by_cpu(MemoryAccess::Write),
        cores_busy: gbps * seconds * home
            + situation.handshake_cores() * here.cores / hardware.cores(),
        cores: here.cores,
        card_gbps,
        card_usable_gbps,
    }
}
