//! Log lines of changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use serde_json::json;
use store::{Check, Engine, Entry, FolderStore, StoreAnswer, StoreError, Write};

use crate::fleet::{Running, folder, logged};

/// A store that can be made to refuse changes.
struct Refusing(FolderStore, AtomicBool);

impl Engine for Refusing {
    fn get<'a>(&'a self, key: &'a str) -> StoreAnswer<'a, Option<Entry>> {
        self.0.get(key)
    }
    fn list<'a>(&'a self, prefix: &'a str) -> StoreAnswer<'a, Vec<(String, Entry)>> {
        self.0.list(prefix)
    }
    fn commit<'a>(&'a self, checks: &'a [Check], writes: &'a [Write]) -> StoreAnswer<'a, u64> {
        match self.1.load(Relaxed) {
            true => Box::pin(async { Err(StoreError::Unavailable("it is full".to_owned())) }),
            false => self.0.commit(checks, writes),
        }
    }
    fn revision(&self) -> StoreAnswer<'_, u64> {
        self.0.revision()
    }
    fn lease<'a>(&'a self, key: &'a str, by: &'a str, for_: u32) -> StoreAnswer<'a, Option<u64>> {
        self.0.lease(key, by, for_)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_logged_once_it_is_made() {
    let folder = folder();
    std::fs::create_dir_all(folder.path().join("state")).expect("made");
    let store = FolderStore::open(&folder.path().join("store")).expect("a store");
    let engine = Arc::new(Refusing(store, AtomicBool::new(false)));
    let fleet = Running::start_on(folder.path(), engine.clone()).await;
    fleet.nodes(&[("logged-node", "paris")]).await;
    let drain = async || {
        fleet.post("/api/v1/nodes/logged-node/drain", json!({ "reason": "new disks" })).await.0
    };
    engine.1.store(true, Relaxed);
    assert_eq!(drain().await.as_u16(), 503);
    assert_eq!(logged("drain by admin: node/logged-node"), 0, "nothing was changed");
    engine.1.store(false, Relaxed);
    assert_eq!(drain().await.as_u16(), 200);
    assert_eq!(logged("drain by admin: node/logged-node new disks"), 1);
    fleet.stop().await;
}
