//! The client's end of a connection, made like the server's: rustls does the handshake, then its keys are taken out and
//! its state is dropped.
//!
//! It exists to measure servers cheaply: the agreed parameters are known exactly, records can be opened or skipped one by one, and a waiting
//! connection costs little. [`ClientTls`] holds the trust and the offer. [`ClientHandshake`] takes the server's first records and ends in a
//! [`crate::Sealer`] and a [`crate::Opener`].
//!
//! Refused by design: 0-RTT, client certificates, HTTP/2, and everything that the server's end refuses.

mod config;
mod handshake;
pub(crate) mod trust;

pub use config::{ClientOptions, ClientTls};
pub use handshake::{ClientEstablished, ClientHandshake, ClientProgress, Tickets};
pub use trust::Trust;
