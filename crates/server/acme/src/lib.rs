//! The helper that obtains the server's certificate from an ACME server (RFC 8555), and renews it in time.
//!
//! The server may not make outgoing connections, and does not parse data from certificate authorities. So a helper, in a process of its
//! own, requests certificates ([`renewing`]), answers the authority's challenges, and writes the chain and its key into one file, which the
//! server reloads by itself. [`contract`] defines its messages to the server, over the socket of [`helper_process::packets`]. If the helper dies, its
//! keeper ([`helper_process::keeper`]) starts another one.
//!
//! Invariants:
//! - The certificate's file is replaced whole, by rename, and only by a chain that belongs to its key and covers the configured names. So a
//!   reader never sees half a pair, and a failure leaves the old one in place.
//! - The keys are readable only by this user, even while they are being written. No message or log line contains one.
//! - One helper at a time uses a state folder.
//! - The times of orders and retries are decided without a clock and without I/O ([`schedule`]).
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
