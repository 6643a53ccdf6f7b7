//! Viewers over real sockets.
//!
//! Each thread has a reactor and its share of the viewers. A viewer is a `player::Player` with a task that keeps its time,
//! and a task for each open request. The player decides; what is here sends its requests, tells it what comes, and closes
//! what it gives up.
//!
//! Invariants:
//! - Viewers share nothing that one of them can hold while it waits: a slow one delays no other.
//! - What a server sends is bounded: heads, documents, and how many servers manifests may name.
//! - A run says how late its own tasks woke up, so that nobody takes the swarm's limits for the server's.
//!
//! Read `running` for a run, `viewer` for a viewer's life, `fetch` for a request's.

mod bell;
mod connections;
mod crew;
mod documents;
mod failed;
mod fetch;
mod lag;
mod options;
mod origins;
mod outcome;
mod running;
mod servers;
mod source_addresses;
mod standing;
mod tap;
mod viewer;

pub use lag::Own;
pub use options::{LiveOptions, LiveOptionsError};
pub use outcome::LiveOutcome;
pub use running::run;
pub use servers::{Place, PlaceError};
pub use source_addresses::{SourceAddresses, SourceAddressesError};
pub use standing::{FailureKind, Moment};
