//! The server's half of certificates by ACME: starts the helper that gets them, and counts its reports.
//!
//! The certificate itself arrives in a file that the helper writes: certificate renewal ([`crate::renewal`]) notices it.

mod link;
mod start;

pub(crate) use link::{AcmeLink, METRICS};
pub(crate) use start::StartingAcme;
