//! A gateway that restarts, with its store and without.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fleet_protocol::State;
use serde_json::json;
use store::backup::{Tombstones, back_up, restore};
use store::records::{NodeRecord, OperatorRecord, RevokedNameRecord, StoreRecord, load};
use store::{Check, Engine, Entry, FolderStore, LEADER, Objects, StoreAnswer, StoreError, Write};

use crate::fleet::{Running, eventually, folder, name};

/// A store that is away.
struct Away;

fn away<'a, T>() -> StoreAnswer<'a, T> {
    Box::pin(async { Err(StoreError::Unavailable("the store is away".to_owned())) })
}

impl Engine for Away {
    fn get<'a>(&'a self, _: &'a str) -> StoreAnswer<'a, Option<Entry>> {
        away()
    }
    fn list<'a>(&'a self, _: &'a str) -> StoreAnswer<'a, Vec<(String, Entry)>> {
        away()
    }
    fn commit<'a>(&'a self, _: &'a [Check], _: &'a [Write]) -> StoreAnswer<'a, u64> {
        away()
    }
    fn revision(&self) -> StoreAnswer<'_, u64> {
        away()
    }
    fn lease<'a>(&'a self, _: &'a str, _: &'a str, _: u32) -> StoreAnswer<'a, Option<u64>> {
        away()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_gateway_steers_from_its_disk_with_the_store_and_without() {
    let folder = folder();
    let fleet = Running::start(folder.path()).await;
    fleet.nodes(&[("n1", "paris"), ("n2", "rome"), ("n3", "oslo")]).await;
    fleet.done("/api/v1/nodes/n2/drain", json!({ "reason": "new disks" })).await;
    let live = fleet.gateway.live();
    let serving = |fleet: &steering::Fleet| {
        fleet.snapshot().nodes.iter().map(|node| node.state).collect::<Vec<_>>()
    };
    let expected = [State::Serving, State::Draining, State::Serving];
    let kept = eventually(|| live.fleet().filter(|fleet| serving(fleet) == expected)).await;
    let key = live.snapshot_key();
    // It is on disk a moment later.
    let on_disk = || fleet.gateway.state().read_snapshot(&key).ok().flatten();
    eventually(|| on_disk().filter(|(_, disk)| disk.number >= kept.snapshot().number)).await;
    fleet.stop().await;

    let fleet = Running::start(folder.path()).await;
    let restarted = fleet.gateway.live().fleet().expect("it steers at once");
    assert_eq!(serving(&restarted), expected);
    assert!(restarted.snapshot().number > kept.snapshot().number);
    assert_eq!(fleet.gateway.live().snapshot_key(), key);
    fleet.stop().await;

    let fleet = Running::start_on(folder.path(), Arc::new(Away)).await;
    assert_eq!(serving(&fleet.gateway.live().fleet().expect("it steers at once")), expected);
    // It accepts heartbeats, operators can look, and a change is refused with one line.
    fleet.beat("n1", 1, &[]);
    assert_eq!(fleet.gateway.live().state_of(&name("n1")), State::Serving);
    let nodes = fleet.get("/api/v1/nodes").await;
    assert_eq!(nodes["store_problem"], "the store is away");
    let (status, answer) = fleet.post("/api/v1/nodes/n1/drain", json!({ "reason": "x" })).await;
    assert_eq!((status.as_u16(), &answer["error"]), (503, &json!("the store is away")));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_is_made_once_and_its_token_is_the_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    let fleet = Running::start(folder.path()).await;
    let path = fleet.gateway.state().admin_token();
    let token = std::fs::read(&path).expect("a token");
    let mode = std::fs::metadata(&path).expect("there").permissions().mode() & 0o777;
    let fingerprint = fleet.gateway.authority().fingerprint();
    fleet.stop().await;
    let fleet = Running::start(folder.path()).await;
    assert_eq!(std::fs::read(&path).expect("a token"), token);
    assert_eq!((mode, fleet.gateway.authority().fingerprint()), (0o600, fingerprint));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_store_does_not_bring_back_what_the_gateway_knows_to_be_revoked() {
    let folder = folder();
    let fleet = Running::start(folder.path()).await;
    fleet.nodes(&[("n1", "paris"), ("n2", "rome")]).await;
    let (file, objects) = (folder.path().join("backup"), folder.path().join("objects"));
    let objects = Objects::open(&objects.display().to_string()).expect("objects");
    back_up(fleet.gateway.engine(), &objects, &file, 1).await.expect("backed up");
    fleet.done("/api/v1/nodes/n1/revoke", json!({ "reason": "stolen" })).await;
    fleet.stop().await;
    // The store is lost, including the revocation of n1.
    let engine = FolderStore::open(&folder.path().join("other")).expect("a store");
    let nothing = Tombstones::default();
    restore(&engine, &objects, &file, &nothing, 2).await.expect("restored");
    let fleet = Running::start_on(folder.path(), Arc::new(engine)).await;
    let live = fleet.gateway.live();
    assert!(live.is_revoked(&name("n1")) && !live.is_revoked(&name("n2")));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_with_the_gateway_s_folder_at_hand_frees_no_name_and_no_operator() {
    let folder = folder();
    let fleet = Running::start(folder.path()).await;
    fleet.nodes(&[("n1", "paris")]).await;
    let (file, objects) = (folder.path().join("backup"), folder.path().join("objects"));
    let objects = Objects::open(&objects.display().to_string()).expect("objects");
    back_up(fleet.gateway.engine(), &objects, &file, 1).await.expect("backed up");
    let n1 = load::<NodeRecord>(fleet.gateway.engine(), "n1").await.expect("read").expect("kept");
    let n3 = NodeRecord { host: "n3.example".to_owned(), ..n1.record };
    let n3 = n3.put("n3").expect("a record");
    fleet.gateway.engine().commit(&[], &[n3]).await.expect("kept");
    fleet.done("/api/v1/nodes/n3/revoke", json!({ "reason": "stolen" })).await;
    fleet.operator("bob", "admin", None).await;
    fleet.done("/api/v1/operators/bob/revoke", json!({ "reason": "left" })).await;
    fleet.stop().await;

    let known = fullbore_gateway::tombstones(&folder.path().join("state"));
    let engine = FolderStore::open(&folder.path().join("other")).expect("a store");
    restore(&engine, &objects, &file, &known, 2).await.expect("restored");
    let engine: Arc<dyn Engine> = Arc::new(engine);
    let name_record = load::<RevokedNameRecord>(&*engine, "n3").await.expect("read");
    assert_eq!(name_record.expect("its name is kept").record.revoked.reason, "stolen");
    let bob = load::<OperatorRecord>(&*engine, "bob").await.expect("read").expect("kept");
    assert!(bob.record.revoked.is_some());
    let fleet = Running::start_on(folder.path(), engine).await;
    let world = fleet.gateway.live().world();
    assert!(world.revoked_names.contains(&name("n3")) && !world.nodes.contains_key(&name("n3")));
    // Nodes have it, too, for the next restore.
    assert_eq!(world.gone().revoked, [name("n3")]);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_was_put_back_without_a_restore_is_told_to_operators() {
    let folder = folder();
    let fleet = Running::start(folder.path()).await;
    let (file, objects) = (folder.path().join("backup"), folder.path().join("objects"));
    let objects = Objects::open(&objects.display().to_string()).expect("objects");
    fleet.done("/api/v1/keys/roll", json!({})).await;
    fleet.stop().await;
    copy_store(folder.path(), "store", "copy");
    let fleet = Running::start(folder.path()).await;
    fleet.done("/api/v1/keys/distrust", json!({})).await;
    fleet.stop().await;
    // The copy replaces the folder.
    std::fs::remove_dir_all(folder.path().join("store")).expect("removed");
    copy_store(folder.path(), "copy", "store");
    let fleet = Running::start(folder.path()).await;
    let problem = async |fleet: &Running| {
        let nodes = fleet.get("/api/v1/nodes").await;
        let metrics = fleet.text("/metrics").await;
        let is_counted = metrics.contains("\nfullbore_fleet_store_problem 1\n");
        (nodes["store_problem"].as_str().unwrap_or_default().to_owned(), is_counted)
    };
    let (told, is_counted) = problem(&fleet).await;
    assert!(told.contains("put back without") && is_counted, "{told}");
    fleet.stop().await;
    // The problem is still reported after the next start.
    let fleet = Running::start(folder.path()).await;
    assert_eq!(problem(&fleet).await, (told, true));
    // The remedy in the message works.
    back_up(fleet.gateway.engine(), &objects, &file, 1).await.expect("backed up");
    fleet.stop().await;
    let engine = FolderStore::open(&folder.path().join("store")).expect("a store");
    // A stopping gateway resigns as leader, or its lease expires.
    let is_led = async || engine.get(LEADER).await.expect("it answers").is_some();
    while is_led().await {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    restore(&engine, &objects, &file, &Tombstones::default(), 2).await.expect("restored");
    drop(engine);
    let fleet = Running::start(folder.path()).await;
    assert_eq!(problem(&fleet).await, (String::new(), false));
    fleet.stop().await;
}

fn copy_store(folder: &Path, from: &str, to: &str) {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().mode(0o700).create(folder.join(to)).expect("made");
    for entry in std::fs::read_dir(folder.join(from)).expect("listed").flatten() {
        std::fs::copy(entry.path(), folder.join(to).join(entry.file_name())).expect("copied");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_are_logged_without_addresses_and_replayed() {
    let folder = folder();
    let fleet = Running::start(folder.path()).await;
    fleet.nodes(&[("n1", "paris"), ("n2", "rome")]).await;
    let live = fleet.gateway.live();
    eventually(|| live.fleet().filter(|fleet| fleet.snapshot().nodes.len() == 2)).await;
    for at in 0..20 {
        let source: &dyn viewer_api::Source = &*fleet.gateway;
        let snapshot = source.fleet().expect("a snapshot");
        let question = steering::Question {
            address: format!("192.0.2.{at}").parse().expect("an address"),
            title: "films/a",
            viewer: at,
            region: None,
            playing: None,
        };
        let decision = steering::decide(&snapshot, &question);
        source.log(steering::Logged::new(
            &snapshot,
            &question,
            &decision,
            fleet.gateway.now().unix_seconds(),
        ));
    }
    let replayed = fleet.get("/api/v1/replay").await;
    assert_eq!((&replayed["same"], &replayed["different"]), (&json!(20), &json!(0)), "{replayed}");
    let none = fleet.get("/api/v1/replay?title=other").await;
    assert_eq!(none["same"], 0);
    for entry in std::fs::read_dir(fleet.gateway.decisions().folder()).expect("listed").flatten() {
        let text = std::fs::read_to_string(entry.path()).expect("text");
        assert!(text.contains("films/a") && !text.contains("192.0.2."), "{text}");
    }
    fleet.stop().await;
}
