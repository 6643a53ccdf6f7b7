//! Scripted exchanges, one for each behaviour that an RFC asks for. `script.rs` says how to read them.

mod handshake;
mod script;
mod segment;
