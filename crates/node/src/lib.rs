//! The agent of a box: joins a fleet, beats, copies and verifies titles, looks after the server.
//!
//! The agent is a process of its own beside `fullbore serve`, under the same user. The server's sandbox may not connect anywhere; the agent does
//! that, and is never on the path of a byte. If the agent dies, the server serves on.
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
mod gateway;
mod holding;
pub mod joining;
mod kept;
mod replay;
mod server;
mod stop;
mod told;
mod watched;

pub use agent::{Agent, AgentError, AgentOptions, Status};
pub use answering::{AnswersListener, answer};
pub use box_state::BoxState;
pub use ceiling::ceiling_of_links;
pub use holding::{
    FillCounts, FillStatus, FillWindow, FillWindowError, Holder, HoldingOptions, HoldingStatus,
    OpenFiles, PeerFault, ScrubStatus, wall_clock,
};
pub use replay::{ConditionsReplayed, NodeReplayed, replay};
pub use server::{Found, ServerOptions, ServerProcess};

use std::io::Write;

/// Tells the operator. The text may have names in it that others chose.
pub(crate) fn tell(what: &str) {
    let shown: String =
        what.chars().map(|one| if one.is_control() { '\u{fffd}' } else { one }).collect();
    // Nobody may listen any more, and the agent works on.
    let _ = writeln!(std::io::stderr().lock(), "fullbore: {shown}");
}
