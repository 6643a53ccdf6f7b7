//! Scripted exchanges, one for each behaviour that an RFC asks for. `script.rs` says how to read them.

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
