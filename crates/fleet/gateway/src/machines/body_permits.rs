//! One large body per node at a time. A node that sends slowly, or whose key was stolen, blocks only itself.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::{Body, HttpBody};
use fleet_protocol::Name;
use identity::RefusalReason;
use listener::{BodyBounds, ReadBody};
use serde::de::DeserializeOwned;

use super::MachineRefusal;
use super::body;

/// The nodes whose large bodies are being read.
#[derive(Debug, Default)]
pub(super) struct BodyPermits(Mutex<HashSet<Name>>);

/// A node's permit, until it is dropped.
#[derive(Debug)]
pub(super) struct BodyPermit {
    permits: Arc<BodyPermits>,
    node: Name,
}

impl BodyPermits {
    fn lock(&self) -> MutexGuard<'_, HashSet<Name>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The permit of `node`, unless it is taken.
    fn take(self: &Arc<Self>, node: &Name) -> Option<BodyPermit> {
        let is_free = self.lock().insert(node.clone());
        is_free.then(|| BodyPermit { permits: Arc::clone(self), node: node.clone() })
    }

    /// The JSON in a body of `node`.
    pub(super) async fn read_json<T: DeserializeOwned>(
        self: &Arc<Self>,
        node: &Name,
        body: Body,
        bounds: BodyBounds,
    ) -> Result<T, MachineRefusal> {
        body::parse(&self.read(node, body, bounds).await?)
    }

    /// The entire body of `node`. A small one needs no permit: a node that is slowly sending its full table can still withdraw a route.
    pub(super) async fn read(
        self: &Arc<Self>,
        node: &Name,
        body: Body,
        bounds: BodyBounds,
    ) -> Result<ReadBody, MachineRefusal> {
        let is_small = body.size_hint().upper().is_some_and(|bytes| bytes <= body::SMALL_BYTES_MAX);
        if is_small {
            return body::read(body, body::HEARTBEAT).await;
        }
        let busy = || {
            let text = "another large body of this node is being read: send one after the other";
            MachineRefusal::new(RefusalReason::Unavailable, text)
        };
        let _turn = self.take(node).ok_or_else(busy)?;
        body::read(body, bounds).await
    }
}

impl Drop for BodyPermit {
    fn drop(&mut self) {
        self.permits.lock().remove(&self.node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_one_turn_and_leaves_others_theirs() {
        let permits = Arc::new(BodyPermits::default());
        let (one, two): (Name, Name) = ("n1".parse().unwrap(), "n2".parse().unwrap());
        let permit = permits.take(&one).unwrap();
        assert!(permits.take(&one).is_none());
        assert!(permits.take(&two).is_some());
        drop(permit);
        assert!(permits.take(&one).is_some());
    }
}
