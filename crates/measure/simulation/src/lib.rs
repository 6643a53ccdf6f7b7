//! Simulates a day of a whole fleet in virtual time, with the real steering and placement.
//!
//! [`simulate`] generates a fleet from a seed, has placement plan it, and then lets viewers come. Steering answers each one from the
//! current snapshot, while nodes, sites, gateways and stores fail and a popularity feed has false counts. Each step checks the invariants.
//! The same options give the same [`DayReport`], byte for byte.
//!
//! # What is modelled
//! A step is five minutes. A viewer takes 4 Mb/s for 15 to 75 minutes. Nodes fetch titles in a window of ten hours, at an even pace.
//! Networks, disks and players are not modelled: `fullbore swarm --virtual` does that.
//!
//! # Read first
//! `day.rs`; then `world.rs` (the generated fleet) and `judge.rs` (the invariants).

#![forbid(unsafe_code)]

mod crowd;
mod day;
mod expected;
mod faults;
mod fill;
mod held;
mod judge;
mod newcomers;
mod plays;
mod report;
mod rivals;
mod threads;
mod world;

pub use day::{DayOptions, Planted, simulate};
pub use newcomers::NewTitles;
pub use report::{DayReport, HourOfDay, NewShare, ReasonShares, RuleShare, SiteOfDay};
