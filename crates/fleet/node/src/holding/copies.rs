//! The keys with which this node proves to others that it copies titles, as last received from a gateway.

use std::sync::{Arc, Mutex};

use token::CopyRing;

use super::lock;

/// Shared by the copier and the gateways' clients.
#[derive(Debug, Default)]
pub(crate) struct CopyProofs(Mutex<Option<Arc<CopyRing>>>);

impl CopyProofs {
    /// Sets the keys to sign with.
    pub(crate) fn handle(&self, ring: CopyRing) {
        *lock(&self.0) = Some(Arc::new(ring));
    }

    /// The proof for the file at `path` (decoded), if there is a key for today.
    pub(crate) fn of(&self, path: &str, now_unix_seconds: u64) -> Option<String> {
        let ring = lock(&self.0).clone()?;
        ring.prove(path.as_bytes(), now_unix_seconds)
    }
}
