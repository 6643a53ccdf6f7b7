//! Viewers over real sockets.
//!
//! Each thread has a reactor and its share of the viewers. A viewer is a `player::Player` with a task that keeps its time, and a task for
//! each open request. The player decides; this module sends its requests, reports the responses, and closes requests that it gives up.
//!
//! Invariants:
//! - Viewers share nothing that one of them can hold while it waits, so a slow viewer delays no other.
//! - Input from servers is bounded: heads, documents, and the number of servers that manifests may name.
//! - A run reports how late its own tasks woke up, so that the swarm's limits are not mistaken for the server's.
//!
//! Read `running` for a run, `viewer` for a viewer's life, `fetch` for a request's.

mod connections;
mod crew;
mod documents;
mod failed;
mod fetch;
mod lag;
mod options;
mod origins;
mod outcome;
mod posts;
mod running;
mod servers;
mod source_addresses;
mod standing;
mod tap;
mod viewer;
mod wakeup;

pub use lag::Own;
pub use options::{LiveOptions, LiveOptionsError};
pub use outcome::LiveOutcome;
pub use running::run;
pub use servers::{Place, PlaceError};
pub use source_addresses::{SourceAddresses, SourceAddressesError};
pub use standing::{FailureKind, Moment};
