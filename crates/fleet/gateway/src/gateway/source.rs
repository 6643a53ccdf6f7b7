//! The data behind answers to viewers and machines.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::body::Bytes;
use fleet_protocol::Digest;
use steering::{Fleet, Logged};
use viewer_api::Source;

use super::{Gateway, lock};
use crate::machines::Reread;

impl Reread for Gateway {
    fn reread(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        // Errors are ignored here, because the poll every second reports them.
        Box::pin(async { drop(self.read_store_if_changed().await) })
    }
}

impl Source for Gateway {
    fn fleet(&self) -> Option<Arc<Fleet>> {
        self.live.fleet()
    }

    fn document(&self, sha256: &Digest) -> Option<Bytes> {
        self.live.document(sha256)
    }

    fn sign(&self, title: &str, expires_unix_seconds: u64) -> Option<String> {
        self.known().signer.as_ref()?.sign(title, expires_unix_seconds)
    }

    fn log(&self, logged: Logged) {
        let fleet = self.live.fleet();
        lock(&self.moves).count(&logged, fleet.as_deref());
        self.decisions.decision(logged);
    }

    fn count(&self, answered: &'static str) {
        *lock(&self.answered).entry(answered).or_default() += 1;
    }
}
