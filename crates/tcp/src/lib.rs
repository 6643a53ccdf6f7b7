//! A TCP endpoint for servers, without I/O and without a clock, whose send side holds no payload.
//!
//! [`Endpoint`] is given segments ([`Endpoint::handle_segment`]) and the time, and gives segments ([`Endpoint::poll_transmit`]),
//! events ([`Endpoint::poll_event`]) and wishes ([`Endpoint::poll_want`]): which ranges of a connection's send stream it could send if it had
//! them. The caller brings those bytes, from disk as a rule, and has them cut to size by [`Endpoint::transmit`]. A lost range is
//! wanted again, and brought again: nothing is kept from one sending to the next but offsets.
//!
//! One turn of a caller's loop:
//!
//! 1. `handle_segment` for each arrived segment, `handle_timeout` if [`Endpoint::next_timeout`] has come;
//! 2. `poll_event` until `None`: read requests, [`Endpoint::write`] how long the answer is, let go of what was acknowledged;
//! 3. `poll_want` until `None`: start reading those ranges, or use what is in hand;
//! 4. `transmit` for each range in hand until it is `Err`;
//! 5. `poll_transmit` until `None`: segments without payload.
//!
//! Refused: urgent data (taken as ordinary data, RFC 6093), data on a SYN, simultaneous open, IP options and fragments (the caller's). Gaps in
//! what we receive are reported on segments without payload only, so that those with payload are all of one size.
//!
//! Invariants:
//! * Nothing a peer sends can panic this crate; every early exit counts ([`Statistics`]), and memory and work per segment are bounded.
//! * No payload is kept on the send side; a connection with a full window in flight holds less than 8 KiB.
//! * An offset is handed out for sending only within the peer's window, and again only after it was found lost.
//! * The same calls with the same times give the same results: nothing here asks the clock or draws a random number.
//!
//! Read first: `endpoint.rs`, then `connection/mod.rs`. The arithmetic stands beside the section of the RFC that it comes from.

mod agreed;
mod alarms;
mod clock;
mod config;
mod congestion;
mod connection;
mod cookie;
mod endpoint;
mod event;
mod half_open;
mod header;
mod keyed;
mod listen;
mod orphans;
mod rack;
mod receive;
mod rtt;
mod scoreboard;
mod segment;
mod seq;
mod statistics;
mod table;
mod time_wait;

pub use config::{Config, KeepAlive, Secret};
pub use endpoint::Endpoint;
pub use event::{Event, Id, Info, Reason, Want, Withheld};
pub use segment::{Arrived, Ecn, HEADER_BYTES_MAX, Header, Transmit};
pub use statistics::Statistics;
