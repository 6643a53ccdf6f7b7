//! Fullbore beside other servers: the same work, in turn, on the same machine, each pinned to a core.
//!
//! What is compared is work per CPU second of the server, taken from the scheduler's accounts of its threads, so that
//! neither the clients' speed nor an idle wait counts. Rounds alternate (A B A B ...), medians are reported with their
//! median absolute deviation, and nothing is compared unless both sides returned the right bytes.
//!
//! Read [`versus`] first.

#![forbid(unsafe_code)]

pub mod ablate;
mod client;
pub mod load;
pub mod namespace;
mod server;
pub mod start;
mod stats;
pub mod versus;
mod workload;

pub use versus::{Options, Outcome, run};
pub use workload::Workload;
