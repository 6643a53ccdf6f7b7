//! A crowd of viewers that play like real ones.
//!
//! `fullbore-player` is one player. This crate is a crowd of them: their number and arrivals, their networks, a run in virtual time, a run
//! over real sockets, and the results of what they saw.
//!
//! Invariant: the same seed gives the same viewers and networks, however many threads draw them.
//!
//! Read [`crowd`] for the viewers, [`network`] for their networks, [`outcome`] for what they saw.

#![forbid(unsafe_code)]

mod bad_option;
pub mod crowd;
pub mod live;
pub mod network;
pub mod outcome;
mod random;
pub mod shared_path;
pub mod virtual_time;

pub use bad_option::BadOption;
pub use outcome::Outcome;
