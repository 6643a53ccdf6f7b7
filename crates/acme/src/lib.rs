//! The helper that gets the server's certificate from an ACME server (RFC 8555), and renews it in time.
//!
//! The server may not connect out, and parses nothing that a certificate authority says. So a helper, a process of its own, asks ([`renewing`]),
//! answers the authority's challenges, and writes the chain and its key into one file, from which the server reloads by itself. [`contract`] is
//! what it tells the server, over the socket of `edge::line`. If the helper dies, its keeper (`edge::keeper`) starts another one.
//!
//! Invariants:
//! - The certificate's file is replaced whole, by rename, and only by a chain that belongs to its key and covers the configured names. So a
//!   reader never sees half a pair, and a failure leaves the old one in place.
//! - Nobody else can read the keys, not even while they are written. Nothing that is told or logged contains one.
//! - One helper at a time uses a state folder.
//! - When to ask, and how long to wait after a failure, is decided without clock and without I/O ([`schedule`]).
//!
//! Read first: [`schedule`], then [`renewing`].

mod account;
mod chain;
mod challenges;
pub mod contract;
pub mod external;
pub mod files;
mod hook;
mod http_client;
mod key_type;
mod obtain;
mod proving;
pub mod renewing;
pub mod schedule;

pub use contract::{AcmeNews, AcmePacket, AcmeProof, AcmeProving, AcmeTold, AcmeTrouble};
pub use external::AcmeExternalAccount;
pub use key_type::AcmeKeyType;
pub use renewing::AcmeOptions;
