//! The limit that each part of a machine sets by itself, with its arithmetic in words.

use crate::cost::CostTable;
use crate::demand::{Demand, PlannedRoute, SealedBy};
use crate::geography::{Crossing, Geography};
use crate::hardware::Hardware;
use crate::moves::ByteMove;
use serde::Serialize;

/// A part that may be used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scarce {
    /// Processor time.
    Cores,
    /// Memory bandwidth.
    Memory,
    /// Links between nodes.
    Fabric,
    /// Reading from disks.
    Disks,
    /// Ports of network cards.
    Ports,
    /// PCIe links of network cards.
    CardBus,
    /// PCIe reads that a card may have in flight.
    CardReads,
    /// Encryption by the card.
    CardSealing,
}

impl Scarce {
    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cores => "cores",
            Self::Memory => "memory bandwidth",
            Self::Fabric => "links between nodes",
            Self::Disks => "disks",
            Self::Ports => "network ports",
            Self::CardBus => "PCIe of the cards",
            Self::CardReads => "PCIe reads in flight of the cards",
            Self::CardSealing => "TLS of the cards",
        }
    }
}

/// The limit set by one part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartLimit {
    /// The part.
    pub scarce: Scarce,
    /// The tightest one of several, such as `node 3`.
    pub place: Option<String>,
    /// The rate that the whole machine could serve if nothing else were scarce.
    pub gbps: f64,
    /// The arithmetic behind it.
    pub arithmetic: String,
}

/// Everything that limits depend on.
pub(crate) struct Situation<'a> {
    pub(crate) hardware: &'a Hardware,
    pub(crate) demand: &'a Demand,
    pub(crate) costs: &'a CostTable,
    pub(crate) moves: &'a [ByteMove],
    pub(crate) geography: &'a Geography,
    pub(crate) crossing: Crossing,
}

/// Bits per byte, and so Gb/s per GB/s.
pub(crate) const BITS: f64 = 8.0;

impl Situation<'_> {
    /// One limit for each part that bytes use, in the order of [`Scarce`].
    pub(crate) fn limits(&self) -> Vec<PartLimit> {
        let mut limits = Vec::new();
        limits.extend(self.cores());
        limits.push(self.memory());
        limits.extend(self.fabric());
        limits.extend(self.disks());
        limits.extend(self.ports());
        limits.extend(self.card_bus());
        limits.extend(self.card_reads());
        limits.extend(self.card_sealing());
        limits
    }

    fn place(&self, node: usize) -> Option<String> {
        (self.hardware.nodes.len() > 1).then(|| format!("node {node}"))
    }

    /// The cost of a byte to a core: each part's name, its rate alone, and how much of a byte goes through it. Unknown costs are left out.
    pub(crate) fn work(&self) -> Vec<(&'static str, f64, f64)> {
        let Self { demand, costs, .. } = self;
        let (hit, miss) = (demand.hit_share, 1.0 - demand.hit_share);
        let software = demand.sealed_in_software();
        let parts: Vec<(&'static str, Option<f64>, f64)> = match demand.route {
            PlannedRoute::Userspace if demand.tls == SealedBy::Software => vec![
                ("read past the page cache", costs.read_cold, miss),
                ("seal", costs.seal, miss),
                ("seal out of memory", costs.seal_hot, hit),
                ("send", costs.send, 1.0),
            ],
            PlannedRoute::Userspace => vec![
                ("read past the page cache", costs.read_cold, miss),
                ("copy out of the page cache", costs.read_warm, hit),
                ("send", costs.send, 1.0),
            ],
            PlannedRoute::Kernel => vec![
                ("read into the page cache", costs.read_cold, miss),
                ("sendfile", costs.sendfile, 1.0),
                ("kernel seals", costs.seal_kernel, software),
            ],
            PlannedRoute::Copies => vec![
                ("read into the page cache", costs.read_cold, miss),
                ("copy out of the page cache", costs.read_warm, 1.0 + demand.extra_copies),
                ("seal", costs.seal, software),
                ("send", costs.send, 1.0),
            ],
        };
        let known = parts.into_iter().filter_map(|(name, rate, share)| Some((name, rate?, share)));
        let mut known: Vec<_> = known.filter(|(_, _, share)| *share > 0.0).collect();
        if demand.viewer_mbits_per_second.is_some() && costs.pull_us > 0.0 {
            let bits = costs.pull_kib * 1024.0 * BITS;
            known.push(("serve a paced viewer again", bits / (costs.pull_us * 1e3), 1.0));
        }
        known
    }

    /// Cores used by handshakes.
    pub(crate) fn handshake_cores(&self) -> f64 {
        match self.demand.tls {
            SealedBy::None => 0.0,
            _ => self.demand.handshakes_per_second * self.costs.handshake_ms / 1e3,
        }
    }

    fn cores(&self) -> Option<PartLimit> {
        let work = self.work();
        let seconds: f64 = work.iter().map(|(_, rate, share)| share / rate).sum();
        if seconds <= 0.0 {
            return None;
        }
        let (all, busy) = (self.hardware.cores(), self.costs.cpu_busy_max);
        let handshakes = self.handshake_cores();
        let allowed = |(node, home): (usize, &f64)| {
            let cores = self.hardware.nodes[node].cores;
            let usable = (cores * busy - handshakes * cores / all).max(0.0);
            (node, usable, *home, usable / (seconds * home))
        };
        let (node, usable, home, gbps) =
            tightest(self.geography.home.iter().enumerate().map(allowed))?;
        let parts: Vec<_> =
            work.iter().map(|(name, rate, share)| format!("{share:.2}/{rate:.0} {name}")).collect();
        let arithmetic = format!(
            "a core does 1 / ({}) = {:.1} Gb/s; {:.0} cores x {:.0}% busy{} = {usable:.1}, for {:.0}% of the connections: {gbps:.0} Gb/s",
            parts.join(" + "),
            1.0 / seconds,
            self.hardware.nodes[node].cores,
            busy * 100.0,
            if handshakes > 0.0 {
                format!(" - {handshakes:.1} of all for handshakes")
            } else {
                String::new()
            },
            home * 100.0,
        );
        Some(PartLimit { scarce: Scarce::Cores, place: self.place(node), gbps, arithmetic })
    }

    /// For each node, bytes moved there per byte that the machine serves.
    pub(crate) fn moved_on(&self) -> Vec<f64> {
        let mut moved = vec![0.0; self.hardware.nodes.len()];
        for one in self.moves {
            for (node, share) in self.geography.memory(one.memory).iter().enumerate() {
                moved[node] += share * one.bytes;
            }
        }
        moved
    }

    fn memory(&self) -> PartLimit {
        let usable = |node: usize| {
            self.hardware.nodes[node].memory_gbytes_per_second * self.costs.memory_usable
        };
        let moved = self.moved_on();
        let allowed = |(node, moved): (usize, &f64)| {
            (node, usable(node), *moved, usable(node) / moved * BITS)
        };
        let (node, usable, here, gbps) = tightest(moved.iter().enumerate().map(allowed))
            .expect("there is a node, and a card that reads");
        let all: f64 = moved.iter().sum();
        let where_moved = match moved.len() {
            1 => String::new(),
            _ => format!(", {here:.2} of them here"),
        };
        let arithmetic = format!(
            "{:.1} GB/s x {:.0}% = {usable:.1}; {all:.2} bytes moved per byte served{where_moved}: {usable:.1} / {here:.2} x 8 = {gbps:.0} Gb/s",
            self.hardware.nodes[node].memory_gbytes_per_second,
            self.costs.memory_usable * 100.0
        );
        PartLimit { scarce: Scarce::Memory, place: self.place(node), gbps, arithmetic }
    }

    fn fabric(&self) -> Option<PartLimit> {
        let fabric = self.hardware.fabric?;
        let crossing = self.crossing.average;
        if crossing <= 0.0 {
            return None;
        }
        let usable = fabric.link_gbytes_per_second * self.costs.fabric_usable;
        let gbps = usable / (crossing * fabric.hottest_share) * BITS;
        let arithmetic = format!(
            "{:.1} GB/s a link x {:.0}% = {usable:.1}; {crossing:.2} crossings per byte served, {:.0}% of them on the busiest of {:.0} links: {usable:.1} / ({crossing:.2} x {:.2}) x 8 = {gbps:.0} Gb/s",
            fabric.link_gbytes_per_second,
            self.costs.fabric_usable * 100.0,
            fabric.hottest_share * 100.0,
            fabric.links,
            fabric.hottest_share,
        );
        Some(PartLimit { scarce: Scarce::Fabric, place: None, gbps, arithmetic })
    }

    fn disks(&self) -> Option<PartLimit> {
        let miss = 1.0 - self.demand.hit_share;
        if miss <= 0.0 {
            return None;
        }
        let count = self.hardware.disk_count();
        let rate = |group: &crate::hardware::DiskGroup| {
            let bus = group
                .bus
                .map_or(f64::INFINITY, |bus| bus.gbytes_per_second() * self.costs.bus_usable);
            (group.gbytes_per_second * self.costs.disk_usable).min(bus)
        };
        let allowed = |group: &crate::hardware::DiskGroup| {
            (group.node, rate(group), 0.0, rate(group) * count / miss * BITS)
        };
        let (node, slowest, _, gbps) = tightest(self.hardware.disks.iter().map(allowed))?;
        let arithmetic = format!(
            "{count:.0} disks with films spread evenly, the slowest reads {slowest:.2} GB/s; {miss:.2} of a byte from disk: {count:.0} x {slowest:.2} / {miss:.2} x 8 = {gbps:.0} Gb/s"
        );
        Some(PartLimit { scarce: Scarce::Disks, place: self.place(node), gbps, arithmetic })
    }

    /// The tightest group of cards, by what each can carry of its share of the bytes.
    fn by_card(
        &self,
        scarce: Scarce,
        usable: impl Fn(&crate::hardware::NetworkCard) -> Option<(f64, String)>,
        share_of: f64,
    ) -> Option<PartLimit> {
        let egress = self.geography.egress();
        let allowed = |(card, share): (&crate::hardware::NetworkCard, f64)| {
            let (gbps, how) = usable(card)?;
            Some((card.node, gbps, (share, how), gbps / (share * share_of)))
        };
        let all = self
            .hardware
            .cards
            .iter()
            .zip(egress)
            .filter(|(_, share)| *share > 0.0)
            .filter_map(allowed);
        let (node, _, (share, how), gbps) = tightest(all)?;
        let part = share * share_of;
        let arithmetic = format!("{how}, for {:.0}% of the bytes: {gbps:.0} Gb/s", part * 100.0);
        Some(PartLimit { scarce, place: self.place(node), gbps, arithmetic })
    }

    fn ports(&self) -> Option<PartLimit> {
        let usable = self.costs.port_usable;
        let of = |card: &crate::hardware::NetworkCard| {
            let how = format!(
                "{:.0} x {:.0} ports x {:.0} Gb/s x {:.0}%",
                card.count,
                card.ports,
                card.gbits_per_second,
                usable * 100.0
            );
            Some((card.wire_gbps() * usable, how))
        };
        self.by_card(Scarce::Ports, of, 1.0)
    }

    fn card_bus(&self) -> Option<PartLimit> {
        let usable = self.costs.bus_usable;
        let of = |card: &crate::hardware::NetworkCard| {
            let bus = card.bus.gbytes_per_second();
            let how = format!(
                "{:.0} x {:.0} lanes of generation {} = {:.1} GB/s x {:.0}%",
                card.count,
                card.bus.lanes,
                card.bus.generation,
                bus * card.count,
                usable * 100.0
            );
            Some((bus * card.count * usable * BITS, how))
        };
        self.by_card(Scarce::CardBus, of, 1.0)
    }

    fn card_reads(&self) -> Option<PartLimit> {
        let (bytes, ns) = (self.costs.bus_read_bytes, self.costs.bus_read_ns);
        if ns <= 0.0 {
            return None;
        }
        let of = |card: &crate::hardware::NetworkCard| {
            let gbps = card.count * card.reads_in_flight * bytes / ns * BITS;
            let how = format!(
                "{:.0} x {:.0} reads of {bytes:.0} bytes in flight, {ns:.0} ns each",
                card.count, card.reads_in_flight
            );
            Some((gbps, how))
        };
        self.by_card(Scarce::CardReads, of, 1.0)
    }

    fn card_sealing(&self) -> Option<PartLimit> {
        let sealed = 1.0 - self.demand.sealed_in_software();
        if self.demand.tls != SealedBy::Card || sealed <= 0.0 {
            return None;
        }
        let of = |card: &crate::hardware::NetworkCard| {
            let max = card.sealed_gbits_per_second_max?;
            Some((card.count * max, format!("{:.0} x {max:.0} Gb/s sealed", card.count)))
        };
        self.by_card(Scarce::CardSealing, of, sealed)
    }
}

/// The one with the lowest rate, which is the last member.
fn tightest<A, B, C>(all: impl Iterator<Item = (A, B, C, f64)>) -> Option<(A, B, C, f64)> {
    all.min_by(|one, other| one.3.total_cmp(&other.3))
}
