//! One large body per node at a time. A node that sends slowly, or whose key was stolen, blocks only itself.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::{Body, HttpBody};
use fleet::Name;
use identity::RefusalReason;
use listener::{BodyBounds, ReadBody};
use serde::de::DeserializeOwned;

use super::MachineRefusal;
use super::body;

/// The nodes whose large bodies are being read.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<HashSet<Name>>);

/// A node's permit, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Arc<Turns>,
    node: Name,
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, HashSet<Name>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The permit of `node`, unless it is taken.
    fn take(self: &Arc<Self>, node: &Name) -> Option<Turn> {
        let is_free = self.lock().insert(node.clone());
        is_free.then(|| Turn { turns: Arc::clone(self), node: node.clone() })
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

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.lock().remove(&self.node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_one_turn_and_leaves_others_theirs() {
        let turns = Arc::new(Turns::default());
        let (one, two): (Name, Name) = ("n1".parse().unwrap(), "n2".parse().unwrap());
        let turn = turns.take(&one).unwrap();
        assert!(turns.take(&one).is_none());
        assert!(turns.take(&two).is_some());
        drop(turn);
        assert!(turns.take(&one).is_some());
    }
}
