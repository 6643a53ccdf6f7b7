//! The plan: the rate at which the first part is used up, and the use of all other parts at that rate.

use crate::cost::CostTable;
use crate::demand::Demand;
use crate::geography::{Crossing, Geography};
use crate::hardware::Hardware;
use crate::moves::{self, ByteMove, MemoryAccess, Spot};
use crate::scarce::{BITS, PartLimit, Situation};
use crate::whatif::{self, WhatIf};
use serde::Serialize;

/// The rate that a machine can serve, and its limits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Capacity {
    /// Version of this format.
    pub version: u32,
    /// Always `plan`.
    pub kind: &'static str,
    /// The machine's name.
    pub name: String,
    /// The rate for all viewers together.
    pub gbps: f64,
    /// The rate of one core, if processor costs are known.
    pub gbps_per_core: Option<f64>,
    /// The rate that viewers want, if known.
    pub wanted_gbps: Option<f64>,
    /// Who encrypts.
    pub tls: crate::SealedBy,
    /// The path of bytes from file to socket.
    pub route: crate::PlannedRoute,
    /// The node that connections belong to.
    pub silo: crate::PlannedSilo,
    /// Limits, tightest first.
    pub limits: Vec<PartLimit>,
    /// All moves of a byte.
    pub moves: Vec<ByteMove>,
    /// How many of the moves cross to another node.
    pub crossing: Crossing,
    /// Average traffic between nodes, at `gbps`.
    pub fabric_gbytes_per_second: f64,
    /// The flows on each node, at `gbps`.
    pub nodes: Vec<NodeFlow>,
    /// Rates of changed machines, best first.
    pub what_if: Vec<WhatIf>,
}

/// The flows on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct NodeFlow {
    /// Read from its disks.
    pub disk_gbytes_per_second: f64,
    /// Number of disks.
    pub disks: f64,
    /// Moved to and from its memory.
    pub memory_gbytes_per_second: f64,
    /// Usable bandwidth of its memory.
    pub memory_usable_gbytes_per_second: f64,
    /// Read from memory by its cores.
    pub cpu_reads_gbytes_per_second: f64,
    /// Written to memory by its cores.
    pub cpu_writes_gbytes_per_second: f64,
    /// Busy cores.
    pub cores_busy: f64,
    /// Number of cores.
    pub cores: f64,
    /// Sent by its cards.
    pub card_gbps: f64,
    /// Usable rate of its cards' ports.
    pub card_usable_gbps: f64,
}

impl Capacity {
    /// The share of a part that is used at `gbps`, 0 to 1.
    pub fn used(&self, limit: &PartLimit) -> f64 {
        if limit.gbps > 0.0 { self.gbps / limit.gbps } else { 1.0 }
    }

    /// The part that is scarce first.
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

/// Plans without the list of changes.
pub(crate) fn solve(hardware: &Hardware, demand: &Demand, costs: &CostTable) -> Capacity {
    let moves = moves::moves(demand, costs);
    let geography = Geography::of(hardware, demand);
    let crossing = geography.crossing(&moves);
    let situation =
        Situation { hardware, demand, costs, moves: &moves, geography: &geography, crossing };
    let mut limits = situation.limits();
    // The sort is stable, so equal limits stay in the order of their kinds.
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
