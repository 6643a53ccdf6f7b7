//! The keys by which this node proves to others that it copies titles, as gateways gave them last.

use std::sync::{Arc, Mutex};

use token::CopyRing;

use super::lock;

/// What the copier and the gateways' clients share.
#[derive(Debug, Default)]
pub(crate) struct CopyProofs(Mutex<Option<Arc<CopyRing>>>);

impl CopyProofs {
    /// Signs with these from now on.
    pub(crate) fn handle(&self, ring: CopyRing) {
        *lock(&self.0) = Some(Arc::new(ring));
    }

    /// The proof for the file at `path`, decoded, if there is a key of today.
    pub(crate) fn of(&self, path: &str, now_unix_seconds: u64) -> Option<String> {
        let ring = lock(&self.0).clone()?;
        ring.prove(path.as_bytes(), now_unix_seconds)
    }
}
