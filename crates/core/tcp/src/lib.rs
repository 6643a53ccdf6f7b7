//! A TCP endpoint for servers, without I/O and without a clock, whose send side holds no payload.
//!
//! [`Endpoint`] takes segments ([`Endpoint::handle_segment`]) and the time, and returns segments ([`Endpoint::poll_transmit`]), events
//! ([`Endpoint::poll_event`]) and wants ([`Endpoint::poll_byte_request`]): ranges of a connection's send stream that it could send if it had them.
//! The caller gets those bytes, usually from disk, and [`Endpoint::transmit`] returns how many of them to send. A lost range is requested and read
//! again: only offsets are kept between one send and the next.
//!
//! One turn of a caller's loop:
//!
//! 1. `handle_segment` for each arrived segment (or `handle_batched`, and `end_batch` after the last one), `handle_timeout` if
//!    [`Endpoint::next_timeout`] has passed;
//! 2. `poll_event` until `None`: read requests, [`Endpoint::write`] the length of the answer, release what was
//!    acknowledged;
//! 3. `poll_byte_request` until `None`: start reading those ranges, or use what is in hand;
//! 4. `transmit` for each range in hand until it is `Err`;
//! 5. `poll_transmit` until `None`: segments without payload.
//!
//! Not supported: urgent data (treated as ordinary data, RFC 6093), data on a SYN, simultaneous open, IP options and fragments (up to the caller).
//! Gaps in the received data are reported only on segments without payload, so that those with payload all have one size.
//!
//! Invariants:
//! * Nothing that a peer sends can panic this crate; every early exit is counted ([`Statistics`]), and memory and work
//!   per segment are bounded.
//! * No payload is kept on the send side; a connection with a full window in flight holds less than 8 KiB.
//! * An offset is handed out for sending only within the peer's window, and again only after its bytes were found lost.
//! * The same calls with the same times give the same results: nothing here reads the clock or draws random numbers.
//!
//! Read first: `endpoint.rs`, then `connection/mod.rs`. Formulas stand next to the section of the RFC that they come from.

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
mod merging;
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

pub use config::{Config, CongestionControl, KeepAlive, Secret};
pub use endpoint::Endpoint;
pub use event::{ByteRequest, CloseReason, Event, Id, Info, Withheld};
pub use segment::{Arrived, Ecn, HEADER_BYTES_MAX, Header, Transmit};
pub use statistics::Statistics;
