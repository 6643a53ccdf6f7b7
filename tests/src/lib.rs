//! A harness for tests that run the real program against real clients.
//!
//! [`Server`] is one `fullbore serve` with its own folders and ports, ended when dropped. [`tool`] runs other people's programs;
//! where one is missing, the test says so loudly and passes, because what it would have shown is not this project's doing.
//! [`Plain`] is a viewer without TLS for what no such program can be told to do. [`Counters`] are what the server says of itself.
//!
//! [`Namespace`] is a network of its own, for tests that need one which is bad on purpose.
//!
//! Nothing here sleeps to let something happen: tests wait for the thing itself with [`eventually`].

mod certificate;
mod counters;
mod files;
pub mod namespace;
mod plain;
mod program;
mod said;
mod server;
pub mod stopwatch;
pub mod tool;
mod wait;

pub use certificate::{Certificate, certificate};
pub use counters::Counters;
pub use files::{bytes, file};
pub use namespace::Namespace;
pub use plain::{Plain, Response};
pub use program::program;
pub use said::Said;
pub use server::{Launch, Server};
pub use wait::{PATIENCE, eventually, within};
