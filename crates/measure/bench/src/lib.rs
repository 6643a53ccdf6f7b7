//! Measures the cost of servers and the limits of this machine: comparisons, single parts, and optimisations switched off.
//!
//! Servers are compared by work per CPU second, from the scheduler's accounts of their threads, so neither the clients' speed nor idle
//! waits count. Sides take turns, results are medians with their median absolute deviation, and nothing is compared unless both sides
//! returned the right bytes.
//!
//! The clients are those of the `load` crate. Read [`versus`] for comparisons, [`ablate`] for the worth of each optimisation.

#![forbid(unsafe_code)]

pub mod ablate;
mod accounting;
pub mod connections;
mod counters;
pub mod disk_reads;
pub mod edge;
pub mod eviction;
pub mod fill;
pub mod gateway;
pub mod heartbeats;
mod library;
pub mod limit;
mod machine_json;
pub mod measure;
pub mod namespace;
mod populated;
pub mod report;
mod scratch;
mod search;
pub mod start;
mod stats;
pub mod steering;
mod unknown_name;
pub mod versus;

pub use machine_json::machine_json;
pub use unknown_name::UnknownName;
