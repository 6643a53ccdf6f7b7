//! Keeps the store and the objects from growing without bound: removes old lines of the audit log, documents that no title needs, and expired
//! invitations.
//!
//! The leading gateway does it, once an hour. Facts that must survive a restore are never removed ([`records`](super::records)).

mod audit;
mod documents;
mod invites;

pub use audit::{AuditBounds, trim_audit};
pub use documents::{UNUSED_SECONDS, claim, sweep_documents, unused};
pub use invites::{EXPIRED_SECONDS, forget_invites};
