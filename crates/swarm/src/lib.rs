//! Viewers that really play.
//!
//! `fullbore-player` is one player. This crate is a crowd of them: who they are and when they come, the networks that
//! they sit behind, a run in virtual time, a run over real sockets, and what the viewers saw.
//!
//! Invariant: a seed gives the same viewers and the same networks again, however many threads draw them.
//!
//! Read [`crowd`] for who watches, [`network`] for what they watch through, [`outcome`] for what they saw.

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
