//! The agent of a box: joins a fleet, sends heartbeats, copies and verifies titles, supervises the server.
//!
//! The agent is a process of its own next to `fullbore serve`, under the same user. The server's sandbox allows no outgoing connections;
//! the agent makes those, and is never on the path of a byte. If the agent dies, the server continues to serve.
//!
//! Read first: `agent.rs`, then `holding/mod.rs`, `condition/mod.rs` and `server/mod.rs`.

mod agent;
mod answering;
pub mod beating;
pub mod bird;
mod box_state;
mod ceiling;
mod certificate;
mod condition;
mod edge_purging;
mod experience;
mod gateway;
mod gateway_state;
mod holding;
pub mod joining;
mod persistence;
mod replay;
mod server;
mod stop;
mod watch_report;

pub use agent::{Agent, AgentError, AgentOptions, Status};
pub use answering::{AnswersListener, answer};
pub use box_state::BoxState;
pub use ceiling::ceiling_of_links;
pub use edge_purging::{EdgeFound, EdgePurgeError, EdgeServer};
pub use holding::{
    FillCounts, FillStatus, FillWindow, FillWindowError, HoldingOptions, HoldingStatus, OpenFiles,
    PeerFault, Replicator, ScrubStatus, wall_clock,
};
pub use replay::{ConditionsReplayed, NodeReplayed, replay};
pub use server::{Found, ServerOptions, ServerProcess};

use std::io::Write;

/// Logs a line for the operator. The text may contain names from outside, so control characters are replaced.
pub(crate) fn tell(what: &str) {
    let shown: String =
        what.chars().map(|one| if one.is_control() { '\u{fffd}' } else { one }).collect();
    // The reader of standard error may be gone; the agent continues.
    let _ = writeln!(std::io::stderr().lock(), "fullbore: {shown}");
}
