//! The crate against a real peer: rustls's client, in memory.

mod alerts;
mod certificates;
mod client;
mod client_half;
mod early_data;
mod handshake;
mod records;
mod retained;
