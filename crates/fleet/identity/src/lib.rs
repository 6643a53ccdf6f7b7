//! The fleet's own certificates: its authority, invitations, joining, renewal, revocation; mutual TLS between machines.
//!
//! Viewers never see these certificates: a gateway serves them, and operators, with certificates of another authority ([`GuestListener`]). A node
//! requests such a certificate with its [`ViewerKey`], and [`check_viewer_chain`] checks the issued chain. A node's certificate contains its
//! [`fleet_protocol::Name`], and lets it call gateways as that node, for 30 days. A gateway's certificate lets a machine serve as a gateway.
//! Neither can be used as the other, and only the [`Authority`] issues them. Start reading there; the network part is in [`Acceptor`].
//!
//! Refused, each with a [`RefusalReason`] that is counted and logged: certificates of other authorities, expired ones, and those of revoked or
//! unknown nodes; tokens that are unknown, expired or used; signing requests for another name, another kind of key, or more than one name.

mod acceptor;
mod authority;
mod certificate;
mod credentials;
mod guests;
mod handshakes;
mod invitation;
mod operator;
mod plain_http;
mod reason;
mod refusals;
mod request;
mod serial;
mod tls;
mod trust;
mod viewer_certificate;

pub use crate::tls::{GatewayTls, client_config, guest_config, joining_config};
pub use acceptor::{AcceptBounds, Acceptor, Caller};
pub use authority::{Authority, AuthorityError, GatewayPair, Issued, NODE_LIFETIME};
pub use certificate::{BadCertificate, NodeCertificate};
pub use credentials::{Credentials, CredentialsError};
pub use guests::{Guest, GuestListener, guest_bounds};
pub use invitation::{BadToken, Invitation, InvitationToken, JoinKind, Used, join_command};
pub use operator::{BadOperatorAuthority, OperatorAuthority, OperatorCertificate};
pub use reason::RefusalReason;
pub use refusals::RefusalLog;
pub use request::{BadSigningRequest, NodeKey, SigningRequest};
pub use serial::Serial;
pub use viewer_certificate::{
    BadViewerCertificate, ViewerKey, check_viewer_chain, check_viewer_request, has_private_key,
};

/// Whether a node may call gateways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeStanding {
    /// It may.
    Good,
    /// The operator revoked the node, or this certificate of it.
    Revoked,
    /// The fleet has no such node.
    Unknown,
}

/// The register of the fleet's nodes. It answers from memory, because it is consulted for each request, and twice a second for each open
/// connection.
pub trait Register: Send + Sync + 'static {
    /// Whether the node in a certificate may call with it.
    fn standing(&self, certificate: &NodeCertificate) -> NodeStanding;
}

/// Draws random bytes.
///
/// # Panics
/// If the system provides none, in which case nothing here could be secret.
pub(crate) fn random<const BYTES: usize>() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    aws_lc_rs::rand::fill(&mut bytes).expect("the system gives random bytes");
    bytes
}

pub(crate) fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Seconds since 1970. A clock before 1970 counts as 1970.
pub(crate) fn now_unix_seconds() -> u64 {
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs()
}
