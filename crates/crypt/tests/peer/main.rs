//! The crate against a real peer: rustls's client, in memory.

mod alerts;
mod certificates;
mod client;
mod client_half;
mod handshake;
mod records;
mod retained;
