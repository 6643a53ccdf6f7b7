//! TLS for the data plane, without any I/O and without a clock.
//!
//! [`TlsContext`] is the server's offer. A [`Handshake`] takes a client's first records and ends in a [`Sealer`] and an [`Opener`], the two halves of
//! the connection; rustls's state is gone by then. From there on records are sealed and opened here, in the caller's buffers: directly from the
//! plaintext's place, in one pass.
//!
//! The sending half can be handed to the kernel instead ([`kernel`]), or kept so that any record can be made again
//! until the peer has it ([`Ledger`]).
//!
//! [`client`] is the other end of a connection, made the same way, for measuring.
//!
//! Read `record` for sizes and layouts, `seal` for the rule that makes repeated sealing safe, `open` for its refusals, `secrets` for how keys leave
//! rustls.
//!
//! Refused by design: 0-RTT, renegotiation, compression, client certificates, CBC. No rustls type is part of this interface, except in
//! [`Certificates`], [`client_config`] and [`danger`], for programs that leave TLS to rustls.

#![forbid(unsafe_code)]

mod beside;
pub mod client;
mod config;
pub mod danger;
mod early_data;
mod error;
mod handshake;
mod hello;
mod identity;
pub mod kernel;
mod ledger;
#[doc(hidden)]
pub mod made_up;
mod open;
mod proofs;
mod record;
mod retained;
mod seal;
mod secrets;
mod self_signed;
mod tickets;

pub use beside::{Certificates, client_config};
pub use config::{TlsContext, TlsOptions, TlsVersions};
pub use error::{
    Alert, HandshakeError, OpenRecordError, ResealError, RetainedError, SealError, TlsConfigError,
};
pub use handshake::{Established, Group, HANDSHAKE_BYTES_MAX, Handshake, Progress, SessionInfo};
pub use identity::Origin;
pub use ledger::{Ledger, Made};
pub use open::{Content, OPENED_BYTES_MAX, Opened, Opener};
pub use proofs::AlpnProofs;
pub use record::{
    CONTROL_RECORD_BYTES_MAX, HEADER_BYTES, PLAINTEXT_MAX, RECORD_BYTES_MAX, TAG_BYTES, tag,
};
pub use retained::Retained;
pub use seal::Sealer;
pub use secrets::{Suite, TlsVersion};
pub use self_signed::{self_signed_key, self_signed_pair};
