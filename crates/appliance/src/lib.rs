//! The data plane: puts http, disk, crypt and net together into a server.
//!
//! [`server::Server`] starts the workers; a worker ([`worker`]) is a core's life: one thread, one ring, its own listener,
//! buffers and open files. A session ([`session`]) is a connection's life: handshake, requests, responses. What a
//! response consists of is a [`delivery::Outgoing`]; how it gets from disk to socket is the affair of the crate `delivery`.
//!
//! Workers share nothing but what starts and ends them ([`control`]) and the counters that others read ([`::telemetry`]).

pub mod access;
pub mod access_log;
pub mod admin;
pub mod admin_hosts;
pub mod answering;
pub mod audience;
mod buffers;
pub mod busiest;
pub mod bypass;
pub mod complaints;
pub mod config;
pub mod control;
pub mod drain;
pub mod experience;
pub mod gate;
mod library_place;
mod listen;
pub mod live;
pub mod notify;
pub mod offload;
mod own_files;
pub mod page;
pub mod redact;
mod renewal;
pub mod sandbox;
pub mod server;
pub mod session;
pub mod shelf;
pub mod signals;
mod silo;
mod start_error;
pub mod switch;
pub mod tls_stat;
mod ways_in;
pub mod worker;

pub use config::{Config, ConfigError};
pub use listen::ListenError;
pub use server::Server;
pub use start_error::{RunError, StartError};
