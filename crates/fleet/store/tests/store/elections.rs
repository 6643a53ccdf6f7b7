//! Leader election: one leader at a time, and a new one soon after the old one has died.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fullbore_store::{Check, Election, Engine, FolderStore, LEADER, StoreError};
use fullbore_tests::PATIENCE;
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::conformance::put;
use crate::etcd::Cluster;

/// Short, because the test waits for its end.
const LEASE_SECONDS: u32 = 3;
const LEASE: Duration = Duration::from_secs(LEASE_SECONDS as u64);

/// For leases that no test waits for: they last however slow the machine is.
const LONG_LEASE_SECONDS: u32 = 600;

struct Gateway {
    election: Arc<Election>,
    running: JoinHandle<()>,
}

fn gateway(engine: Arc<dyn Engine>, owner: &str) -> Gateway {
    let election = Arc::new(Election::new(engine, owner.to_owned(), LEASE_SECONDS));
    let own = election.clone();
    let running = tokio::spawn(async move { own.run(|error| panic!("{error}")).await });
    Gateway { election, running }
}

/// The term in which it leads, once it does.
async fn leads(election: &Election) -> u64 {
    let ends = Instant::now() + PATIENCE;
    loop {
        election.tick().await.expect("the store answers");
        if let Some(term) = election.term() {
            return term;
        }
        assert!(Instant::now() < ends, "nobody leads");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Checks for two lease lengths that a gateway that renews its lease in time keeps its term. A machine that pauses for longer than a lease rightly
/// loses it, and then this starts over. Returns the term.
async fn keeps_its_term(election: &Election) -> u64 {
    let ends = Instant::now() + PATIENCE;
    let mut kept: Option<(u64, Instant, Instant)> = None;
    loop {
        let asks = Instant::now();
        election.tick().await.expect("the store answers");
        kept = election.term().map(|term| match kept {
            // The lease starts when it is granted, which is after the request.
            Some((before, since, asked)) if asked.elapsed() < LEASE * 9 / 10 => {
                assert_eq!(term, before, "it renews its lease, and the term is the same");
                (term, since, asks)
            }
            _ => (term, asks, asks),
        });
        if let Some((term, ..)) = kept.filter(|(_, since, _)| since.elapsed() > LEASE * 2) {
            return term;
        }
        assert!(
            Instant::now() < ends,
            "this machine stops for longer than a lease again and again"
        );
        tokio::time::sleep(LEASE / 30).await;
    }
}

/// Checks continuously whether two lead at once. A gateway that leads before and after the other one is checked, in the same term, has led in
/// between.
fn two_at_once(one: &Election, other: &Election, is_over: &AtomicBool) -> u32 {
    let mut twice = 0;
    while !is_over.load(Ordering::Relaxed) {
        let before = one.term();
        let does_other = other.term().is_some();
        twice += u32::from(before.is_some() && does_other && one.term() == before);
        std::thread::sleep(Duration::from_millis(1));
    }
    twice
}

/// Two gateways: the leader dies, and the other one leads once the lease is over; there are never two leaders.
async fn one_after_the_other(one: Arc<dyn Engine>, other: Arc<dyn Engine>) {
    let first = gateway(one.clone(), "one");
    leads(&first.election).await;
    let second = Arc::new(Election::new(other.clone(), "other".to_owned(), LONG_LEASE_SECONDS));
    let over = Arc::new(AtomicBool::new(false));
    let (is_over, both) = (over.clone(), [first.election.clone(), second.clone()]);
    let watch = std::thread::spawn(move || two_at_once(&both[0], &both[1], &is_over));
    let term = keeps_its_term(&first.election).await;

    first.running.abort(); // it dies
    let next = leads(&second).await;
    let late = [Check::At(LEADER.to_owned(), term)];
    assert_eq!(one.commit(&late, &[put("plan", "late")]).await, Err(StoreError::Conflict));
    let fence = [Check::At(LEADER.to_owned(), next)];
    other.commit(&fence, &[put("plan", "in time")]).await.expect("it leads");

    // A leader that resigns makes the next one wait for no lease.
    second.resign().await.expect("resigned");
    let term = one.lease(LEADER, "third", LONG_LEASE_SECONDS).await.expect("it answers");
    assert!(term.is_some(), "a lease is left");
    let third = Election::new(one, "third".to_owned(), LONG_LEASE_SECONDS);
    assert_eq!(Some(leads(&third).await), term);
    over.store(true, Ordering::Relaxed);
    assert_eq!(watch.join().expect("no panic"), 0, "two led at the same time");
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_on_a_folder_lead_one_at_a_time() {
    // A lease of three seconds can't wait for a disk that other programs keep busy.
    let folder = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).expect("a folder");
    let open = || Arc::new(FolderStore::open(&folder.path().join("store")).expect("a store"));
    one_after_the_other(open(), open()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_on_etcd_lead_one_at_a_time() {
    let Some(etcd) = Cluster::start(1) else { return };
    one_after_the_other(etcd.patient_store(), etcd.patient_store()).await;
}
