//! The load generator: viewers on the project's own reactor, in a closed loop, paced, or on a schedule.
//!
//! Each thread has a reactor and its share of the viewers. Nothing on the path of a byte is shared, except for counters that one thread
//! writes and others read. Arriving data is discarded in the kernel unless it must be compared, so one client core is enough for a server
//! core.
//!
//! Invariants:
//! - Errors are counted from the start, other figures only from the end of the ramp.
//! - With a schedule (paced viewers, open loop), latencies count from the moment a request was due, not from when it could be sent, so a
//!   stall shows in every request that it delays.
//! - Nothing that a server sends can make this panic or grow without limit: it ends in an error, counted by kind.
//!
//! Read [`options`] for what can be requested, `viewer` for a viewer's life, `crew` for what is measured. [`Connection`] alone is a client
//! for others to build on.

#![forbid(unsafe_code)]

mod address;
mod chunked;
pub mod connection;
pub mod console;
mod course;
mod crew;
pub mod failure;
mod film;
mod head;
pub mod interrupt;
pub mod options;
pub mod outcome;
mod popularity;
mod running;
mod schedule;
mod secured;
mod shared;
pub mod tally;
mod title;
pub mod tls;
mod trouble;
mod verify;
mod viewer;
mod wait;
mod walk;
mod zipf;

pub use ::tls::client::{ClientOptions, Trust};
pub use address::address_of;
pub use connection::{Connection, ConnectionOptions, ServerEndpoint};
pub use failure::Failure;
pub use head::Head;
pub use options::{Against, Options, OptionsError, Pace, Pattern, Popularity, Verify};
pub use outcome::Outcome;
pub use player::{Url, UrlError};
pub use running::{Running, allow_connections};
pub use tally::{ErrorKind, Snapshot};
pub use zipf::Zipf;
