//! What the store and the objects forget, so that they do not grow for ever: old lines of the audit log, documents that no title needs, and
//! invitations that have expired.
//!
//! The gateway that leads does it, once an hour. What must not come back with a backup is never forgotten ([`records`](super::records)).

mod audit;
mod documents;
mod invites;

pub use audit::{AuditBounds, trim_audit};
pub use documents::{UNUSED_SECONDS, claim, sweep_documents, unused};
pub use invites::{EXPIRED_SECONDS, forget_invites};
