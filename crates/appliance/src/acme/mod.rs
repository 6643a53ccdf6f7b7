//! The server's half of certificates by ACME: starts the helper that gets them, and counts what it tells.
//!
//! The certificate itself comes by the file that the helper writes: the renewal of certificates ([`crate::renewal`]) notices it.

mod link;
mod start;

pub(crate) use link::{AcmeLink, METRICS};
pub(crate) use start::StartingAcme;
