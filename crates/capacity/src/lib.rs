//! What a machine will serve, and what is scarce first: a model of bytes moved.
//!
//! A byte that is served is moved several times: a disk writes it to memory, a processor or a card reads it, links between nodes carry it.
//! Each move takes a share of something that the machine has a known amount of. The plan is the rate at which the first of them is used up.
//! Nothing here does I/O: text goes in, figures and text come out.
//!
//! Refused: keys that are not known, amounts that no machine has, machines that cannot work. Each refusal is one line with the key and an
//! example.
//!
//! Read `moves` for how often a byte is moved, `geography` for which moves cross to another node, `solve` for what that allows. [`published`]
//! compares the model with what Netflix measured.

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
