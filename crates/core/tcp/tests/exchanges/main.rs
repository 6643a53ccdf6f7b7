//! Scripted exchanges, one for each behaviour that an RFC requires. `script.rs` describes how to read them.

mod closing;
mod congestion;
mod handshake;
mod hostile;
mod loss;
mod path;
mod receiving;
mod script;
mod segment;
mod sending;
