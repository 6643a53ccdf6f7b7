//! The server: workers, sessions, admin pages and hot restart. `delivery` moves the bytes; `config` has the settings.
//!
//! [`server::Server`] starts the workers. A worker ([`worker`]) has a core of its own, with one thread, one ring, its own
//! listener, buffers and open files. A session ([`session`]) handles one connection: handshake, requests, responses. A
//! [`delivery::Outgoing`] describes a response; the crate `delivery` moves it from disk to socket.
//!
//! Workers share their controls ([`control`]), counters ([`::telemetry`]), and what "What workers share" in ARCHITECTURE.md lists.

mod accepting;
pub mod access_log;
mod acme;
mod address_lists;
pub mod admin;
pub mod admin_hosts;
mod admin_places;
mod buffers;
pub mod bypass;
pub mod control;
mod crossings;
pub mod drain;
mod edge;
mod event_intake;
pub mod experience;
pub mod file_abilities;
mod folders;
mod header_rules;
mod hosts;
mod hot_memory;
mod ingress;
pub mod libraries;
mod link_preview;
mod listen;
mod nic_watch;
pub mod notify;
pub mod offload;
mod open_privileged;
pub mod page;
mod pins;
mod proxy_header;
pub mod redact;
mod redirect;
mod reloads;
mod renewal;
pub mod response_settings;
pub mod sandbox;
pub mod server;
pub mod session;
pub mod signals;
mod silo;
mod silo_moves;
mod standby;
mod start_error;
pub mod title_listing;
pub mod tls_stat;
pub mod token_gate;
pub mod upgrade;
mod viewing;
pub mod warnings;
pub mod worker;

pub use address_lists::AddressListError;
pub use listen::ListenError;
pub use server::Server;
pub use start_error::{RunError, StartError};
