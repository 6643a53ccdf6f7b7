//! What viewers' questions are answered from.

use std::sync::Arc;

use answers::Source;
use axum::body::Bytes;
use fleet::Digest;
use steering::{Fleet, Logged};
use token::Grant;

use super::{Gateway, lock};

impl Source for Gateway {
    fn fleet(&self) -> Option<Arc<Fleet>> {
        self.live.fleet()
    }

    fn document(&self, sha256: &Digest) -> Option<Bytes> {
        self.live.document(sha256)
    }

    fn sign(&self, title: &str, expires_unix_seconds: u64) -> Option<String> {
        let known = self.known();
        let grant = Grant { prefix: title.as_bytes(), expires_unix_seconds, client: None };
        known.token_keys.as_ref()?.sign(&grant)
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
