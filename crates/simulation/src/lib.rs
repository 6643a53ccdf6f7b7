//! A day of a whole fleet in virtual time, with the real steering and placement.
//!
//! [`simulate`] draws a fleet from a seed, has placement plan it, and then lets viewers come: each is answered by steering from the snapshot of the
//! moment, while nodes, sites, gateways and stores fail and a feed of popularity lies. At each step it checks what must hold. The same options give
//! the same [`DayReport`] to the byte.
//!
//! # What is modelled
//! A step is five minutes. A viewer takes 4 Mb/s for 15 to 75 minutes. Nodes bring titles in a window of ten hours, at an even pace. Networks, disks
//! and players are not modelled: `fullbore swarm --virtual` is for them.
//!
//! # Read first
//! `day.rs`; then `world.rs` (what is drawn) and `judge.rs` (what must hold).

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
