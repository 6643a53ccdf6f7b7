//! What servers cost and what bounds this machine: comparisons, parts alone, optimisations switched off.
//!
//! What is compared is work per CPU second of the server, taken from the scheduler's accounts of its threads, so that
//! neither the clients' speed nor an idle wait counts. Sides take turns, medians are reported with their median absolute
//! deviation, and nothing is compared unless both sides returned the right bytes.
//!
//! The clients are those of the `load` crate. Read [`versus`] for comparisons, [`ablate`] for what each optimisation is worth.

#![forbid(unsafe_code)]

pub mod ablate;
mod accounting;
mod counters;
mod library;
pub mod limit;
mod machine_json;
pub mod namespace;
pub mod report;
pub mod start;
mod stats;
pub mod versus;

pub use machine_json::machine_json;
