//! What tests share that run the real program, or meet it with clients that are not ours.
//!
//! [`Launch`] is how every test starts `fullbore serve`, and [`Server`] is what it gets: a server with its own folders and ports,
//! ended when dropped. [`tls`] is rustls as a viewer who takes any certificate, over a socket or in memory. [`tool`] runs other people's programs;
//! where one is missing, the test says so loudly and passes, because what it would have shown is not this project's doing.
//! [`Plain`] is a viewer without TLS for what no such program can be told to do. [`Counters`] are what the server says of itself.
//!
//! [`Namespace`] is a network of its own, for tests that need one which is bad on purpose.
//!
//! Nothing here sleeps to let something happen: tests wait for the thing itself with [`eventually`].

mod certificate;
mod counters;
mod files;
mod footprint;
mod launch;
pub mod namespace;
mod plain;
mod program;
mod said;
mod server;
pub mod stopwatch;
pub mod tls;
pub mod tool;
mod wait;

pub use certificate::{Certificate, certificate};
pub use counters::Counters;
pub use files::{bytes, file};
pub use launch::Launch;
pub use namespace::Namespace;
pub use plain::{Plain, Response};
pub use program::program;
pub use rustix::process::Signal;
pub use said::Said;
pub use server::Server;
pub use wait::{PATIENCE, eventually, until, within};
