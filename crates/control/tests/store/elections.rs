//! Who leads: one at a time, and another one soon after the leader has died.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fullbore_control::store::{Check, Election, Engine, FolderStore, LEADER, StoreError};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::conformance::put;
use crate::etcd::Cluster;

const LEASE: Duration = Duration::from_secs(3);

struct Gateway {
    election: Arc<Election>,
    running: JoinHandle<()>,
}

fn gateway(engine: Arc<dyn Engine>, owner: &str) -> Gateway {
    let election = Arc::new(Election::new(engine, owner.to_owned(), LEASE.as_secs() as u32));
    let own = election.clone();
    let running = tokio::spawn(async move { own.run(|error| panic!("{error}")).await });
    Gateway { election, running }
}

async fn leads(gateway: &Gateway) -> u64 {
    let ends = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(term) = gateway.election.term() {
            return term;
        }
        assert!(Instant::now() < ends, "nobody leads");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Two gateways; the leader dies; the other one leads within the lease and a try; there are never two.
async fn one_after_the_other(one: Arc<dyn Engine>, other: Arc<dyn Engine>) {
    let first = gateway(one.clone(), "one");
    let term = leads(&first).await;
    let second = gateway(other.clone(), "other");
    let both = [first.election.clone(), second.election.clone()];
    let over = Arc::new(AtomicBool::new(false));
    let is_over = over.clone();
    let watch = std::thread::spawn(move || {
        let mut twice = 0_u32;
        while !is_over.load(Ordering::Relaxed) {
            twice += u32::from(both.iter().all(|election| election.term().is_some()));
            std::thread::sleep(Duration::from_millis(1));
        }
        twice
    });
    tokio::time::sleep(LEASE * 2).await;
    assert_eq!(first.election.term(), Some(term), "it renews its lease, and the term is the same");

    first.running.abort(); // it dies
    let next = leads(&second).await;
    let late = [Check::At(LEADER.to_owned(), term)];
    assert_eq!(one.commit(&late, &[put("plan", "late")]).await, Err(StoreError::Conflict));
    let fence = [Check::At(LEADER.to_owned(), next)];
    other.commit(&fence, &[put("plan", "in time")]).await.expect("it leads");

    // One that leaves in order costs no lease.
    second.running.abort();
    second.election.resign().await.expect("resigned");
    let term = one.lease(LEADER, "third", LEASE.as_secs() as u32).await.expect("it answers");
    assert!(term.is_some(), "a lease is left");
    let third = gateway(one, "third");
    assert_eq!(Some(leads(&third).await), term);
    third.running.abort();
    over.store(true, Ordering::Relaxed);
    assert_eq!(watch.join().expect("no panic"), 0, "two led at the same time");
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_on_a_folder_lead_one_at_a_time() {
    // A lease of three seconds cannot wait for a disk that other programs keep busy.
    let folder = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).expect("a folder");
    let open = || Arc::new(FolderStore::open(&folder.path().join("store")).expect("a store"));
    one_after_the_other(open(), open()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_on_etcd_lead_one_at_a_time() {
    let Some(etcd) = Cluster::start(1) else { return };
    one_after_the_other(etcd.store(), etcd.store()).await;
}
