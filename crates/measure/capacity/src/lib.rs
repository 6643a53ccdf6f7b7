//! Predicts the rate that a machine can serve, and the part that is scarce first: a model of bytes moved.
//!
//! A byte that is served is moved several times: a disk writes it to memory, a processor or a card reads it, links between nodes carry it.
//! Each move uses a share of something that the machine has a known amount of. The plan is the rate at which the first of these is used up.
//! This crate does no I/O: it takes text, and returns figures and text.
//!
//! Refused: unknown keys, amounts that no machine has, and machines that cannot work. Each refusal is one line with the key and an example.
//!
//! Read `moves` for how often a byte is moved, `geography` for which moves cross to another node, `solve` for the resulting limits.
//! [`published`] compares the model with Netflix's measurements.

#![forbid(unsafe_code)]

mod cost;
mod demand;
mod describe;
mod geography;
mod hardware;
mod input;
mod keys;
mod moves;
pub mod published;
mod scarce;
mod solve;
mod whatif;

pub use cost::CostTable;
pub use demand::{Demand, PlannedRoute, PlannedSilo, SealedBy};
pub use geography::{Crossing, crossing};
pub use hardware::{Bus, DiskGroup, Fabric, Hardware, NetworkCard, NumaNode};
pub use input::{Specified, read_machine};
pub use keys::BadMachine;
pub use moves::{ByteMove, MemoryAccess, Spot, moves};
pub use scarce::{PartLimit, Scarce};
pub use solve::{Capacity, NodeFlow, plan};
pub use whatif::WhatIf;
