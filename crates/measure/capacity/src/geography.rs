//! Which node does what, and how many of a byte's moves cross from one node to another.
//!
//! A connection's home is the node of its worker. Disks and cards are on the node where they are plugged in. Each mode defines where a
//! connection's home and its memory are. All figures are shares, of connections or of bytes. Films are assumed to be spread evenly over
//! disks, and viewers over ports.

use crate::demand::{Demand, PlannedSilo};
use crate::hardware::Hardware;
use crate::moves::{ByteMove, Spot};
use serde::Serialize;

/// Crossings for each byte served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Crossing {
    /// If every move that can cross does.
    pub worst: f64,
    /// The average over connections and films.
    pub average: f64,
}

/// Counts how many of a byte's moves cross on this machine.
pub fn crossing(hardware: &Hardware, demand: &Demand, moves: &[ByteMove]) -> Crossing {
    Geography::of(hardware, demand).crossing(moves)
}

/// Each node's shares of the work.
#[derive(Clone, Debug)]
pub(crate) struct Geography {
    silo: PlannedSilo,
    /// Share of bytes for each node, by disk.
    disk: Vec<f64>,
    /// Share of connections for each node, by worker.
    pub(crate) home: Vec<f64>,
    /// For each home, the share of its bytes that leaves by each group of cards.
    by_card: Vec<Vec<f64>>,
    /// The node of each group of cards.
    card_nodes: Vec<usize>,
}

/// The location of memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    Anywhere,
    Home,
    AtDisk,
    AtCard,
}

impl Geography {
    pub(crate) fn of(hardware: &Hardware, demand: &Demand) -> Self {
        let nodes = hardware.nodes.len();
        let on_node = |node: usize| -> f64 {
            let here = hardware.disks.iter().filter(|group| group.node == node);
            here.map(|group| group.count).sum()
        };
        let disk = shares(&(0..nodes).map(on_node).collect::<Vec<_>>());
        let ports = |node: usize| -> f64 {
            let serving = hardware.cards.iter().filter(|card| card.serves.contains(&node));
            serving.map(|card| card.wire_gbps() / card.serves.len() as f64).sum()
        };
        let home = match demand.silo {
            PlannedSilo::Off => {
                shares(&hardware.nodes.iter().map(|node| node.cores).collect::<Vec<_>>())
            }
            PlannedSilo::Network | PlannedSilo::MemoryAtDisk => {
                shares(&(0..nodes).map(ports).collect::<Vec<_>>())
            }
            PlannedSilo::Disk => disk.clone(),
        };
        let all: Vec<f64> = hardware.cards.iter().map(|card| card.wire_gbps()).collect();
        let of_home = |node: usize| {
            let weight = |card: &crate::hardware::NetworkCard| {
                let is_served = demand.silo != PlannedSilo::Off && card.serves.contains(&node);
                if is_served { card.wire_gbps() / card.serves.len() as f64 } else { 0.0 }
            };
            let own: Vec<f64> = hardware.cards.iter().map(weight).collect();
            shares(if own.iter().sum::<f64>() > 0.0 { &own } else { &all })
        };
        Self {
            silo: demand.silo,
            disk,
            home,
            by_card: (0..nodes).map(of_home).collect(),
            card_nodes: hardware.cards.iter().map(|card| card.node).collect(),
        }
    }

    fn place(&self, place: Spot) -> Where {
        match (place, self.silo) {
            (Spot::Disk, PlannedSilo::Disk) => Where::Home,
            (Spot::Disk, _) => Where::AtDisk,
            (Spot::Card, _) => Where::AtCard,
            (_, PlannedSilo::Off) => Where::Anywhere,
            (Spot::Pages | Spot::Buffers, PlannedSilo::MemoryAtDisk) => Where::AtDisk,
            _ => Where::Home,
        }
    }

    /// The share of bytes that leaves by each group of cards.
    pub(crate) fn egress(&self) -> Vec<f64> {
        let of = |card: usize| {
            self.home.iter().zip(&self.by_card).map(|(home, by)| home * by[card]).sum()
        };
        (0..self.card_nodes.len()).map(of).collect()
    }

    /// The share of bytes for each node, by the card that they leave by.
    fn card(&self) -> Vec<f64> {
        let mut card = vec![0.0; self.home.len()];
        for (share, node) in self.egress().iter().zip(&self.card_nodes) {
            card[*node] += share;
        }
        card
    }

    /// For the given memory, the share of moves on each node.
    pub(crate) fn memory(&self, place: Spot) -> Vec<f64> {
        match self.place(place) {
            Where::Anywhere => vec![1.0 / self.home.len() as f64; self.home.len()],
            Where::AtDisk => self.disk.clone(),
            Where::AtCard => self.card(),
            Where::Home => self.home.clone(),
        }
    }

    /// The share of a move's bytes that cross.
    fn share(&self, one: &ByteMove) -> f64 {
        let apart = |a: &[f64], b: &[f64]| 1.0 - a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let at_own_card = || {
            let of = |(node, by): (usize, &Vec<f64>)| -> f64 {
                let here = by.iter().zip(&self.card_nodes).filter(|(_, at)| **at == node);
                self.home[node] * here.map(|(share, _)| share).sum::<f64>()
            };
            self.by_card.iter().enumerate().map(of).sum::<f64>()
        };
        let crossing = match (self.place(one.by), self.place(one.memory)) {
            (a, b) if a == b && a != Where::Anywhere => 0.0,
            (Where::Anywhere, _) | (_, Where::Anywhere) => 1.0 - 1.0 / self.home.len() as f64,
            (Where::AtDisk, Where::Home) | (Where::Home, Where::AtDisk) => {
                apart(&self.disk, &self.home)
            }
            (Where::AtDisk, Where::AtCard) | (Where::AtCard, Where::AtDisk) => {
                apart(&self.disk, &self.card())
            }
            _ => 1.0 - at_own_card(),
        };
        // Sums of shares may miss 1 by their last digit.
        if crossing < 1e-9 { 0.0 } else { crossing }
    }

    pub(crate) fn crossing(&self, moves: &[ByteMove]) -> Crossing {
        let mut all = Crossing::default();
        for one in moves {
            let share = self.share(one);
            all.average += share * one.bytes;
            all.worst += if share > 0.0 { one.bytes } else { 0.0 };
        }
        all
    }
}

/// Each amount as a share of the sum; equal shares if the sum is zero.
fn shares(amounts: &[f64]) -> Vec<f64> {
    let all: f64 = amounts.iter().sum();
    let even = 1.0 / amounts.len() as f64;
    amounts.iter().map(|amount| if all > 0.0 { amount / all } else { even }).collect()
}
