//! What a player of HLS and DASH does, without I/O and without a clock.
//!
//! Callers hand in what has happened, with the time of it, and ask what to do next. The same calls give the same results
//! to the byte, so thousands of players run in virtual time as well as over real sockets.
//!
//! Invariants:
//! - Nothing that a server sends makes this panic, loop or grow without limit.
//! - Nothing here reads a clock or draws a random number that its caller did not seed.

#![forbid(unsafe_code)]

/// Time since the run began.
pub type Time = std::time::Duration;
