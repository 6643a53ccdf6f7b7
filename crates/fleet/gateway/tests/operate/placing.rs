//! Applied plans: the titles that nodes get, through failures of gateways and their store.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fleet_protocol::{Digest, HeldTitle, Name};
use fullbore_gateway::gateway::read_title;
use identity::NODE_LIFETIME;
use reqwest::{Method, StatusCode};
use serde_json::json;
use store::backup::{Tombstones, back_up, restore};
use store::records::{PlanRecord, StoreRecord, load};
use store::{Engine, FolderStore, Objects};

use crate::fleet::{Running, eventually, folder, name};

const NODES: [(&str, &str); 4] = [("n1", "paris"), ("n2", "rome"), ("n3", "oslo"), ("n4", "ulm")];

/// Publishes a title, and returns its entry in a node's inventory.
async fn publish(fleet: &Running, library: &Path, title: &str) -> HeldTitle {
    std::fs::create_dir_all(library.join(title)).expect("made");
    fullbore_tests::make_title(&library.join(title), title.as_bytes()).expect("made");
    let path = catalog::TitlePath::new(title).expect("a path");
    let read = read_title(library, &path, "file:///library".to_owned()).expect("whole");
    let published = fleet.done("/api/v1/titles/publish", read.to_json()).await;
    let version = serde_json::from_value(published["digest"].clone()).expect("a digest");
    HeldTitle { path: title.to_owned(), version }
}

/// Four nodes that hold nothing yet, and two titles.
async fn fleet_of_four(folder: &Path) -> Running {
    let fleet = Running::start(folder).await;
    fleet.nodes(&NODES).await;
    for title in ["films/a", "films/b"] {
        publish(&fleet, &folder.join("library"), title).await;
    }
    fleet
}

/// A heartbeat of each node that is not revoked: a node that is silent for 15 s is lost.
fn beat(fleet: &Running) {
    static SEQUENCE: AtomicU64 = AtomicU64::new(10);
    let live = fleet.gateway.live();
    for (node, _) in NODES.iter().filter(|(node, _)| !live.is_revoked(&name(node))) {
        fleet.beat(node, SEQUENCE.fetch_add(1, Ordering::Relaxed), &[]);
    }
}

/// The titles that each node should hold, and the revision of their last change.
fn told(fleet: &Running) -> (u64, BTreeMap<Name, Vec<String>>) {
    let of = |node: &str| {
        let desired = fleet.gateway.live().desired_of(&name(node)).expect("it takes part");
        let titles = desired.titles.iter().map(|title| title.path.clone()).collect();
        (desired.revision, titles)
    };
    let all = NODES.map(|(node, _)| (name(node), of(node).1));
    (of("n1").0, BTreeMap::from(all))
}

fn copies(fleet: &Running, title: &str) -> usize {
    let told = told(fleet).1;
    told.values().filter(|titles| titles.iter().any(|path| path == title)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_follow_a_plan_from_one_commit_on_until_it_is_undone() {
    let folder = folder();
    let fleet = fleet_of_four(folder.path()).await;
    let (before, all) = told(&fleet);
    assert!(all.values().all(|titles| titles.len() == 2), "without a plan: {all:?}");
    let read = fleet.operator("anna", "read", None).await;
    let operate = fleet.operator("otto", "operate", None).await;
    let apply = "/api/v1/plan/apply";
    let (status, _) = fleet.ask(Some(&read), Method::POST, apply, None).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    let dry = fleet.get("/api/v1/plan").await;
    assert_eq!((&dry["is_applied"], &dry["planned_unix_seconds"]), (&json!(false), &json!(null)));
    assert_eq!(told(&fleet).1, all, "a dry run changes nothing");
    let (status, applied) = fleet.ask(Some(&operate), Method::POST, apply, None).await;
    assert_eq!((status, &applied["is_applied"]), (StatusCode::OK, &json!(true)), "{applied}");
    assert_eq!(applied["moved_bytes"], dry["moved_bytes"], "it is the plan that was shown");
    let (revision, planned) = told(&fleet);
    assert!(revision > before, "nodes see that something changed");
    assert_eq!((copies(&fleet, "films/a"), copies(&fleet, "films/b")), (3, 3), "{planned:?}");
    // Applying it again changes nothing.
    let again = fleet.done(apply, json!({})).await;
    assert_eq!(again["is_applied"], json!(false), "{again}");
    assert_eq!(told(&fleet), (revision, planned.clone()));
    let audit = fleet.get("/api/v1/audit").await;
    let plans = audit["lines"].as_array().expect("lines").iter();
    let plans: Vec<_> = plans.filter(|line| line["what"] == "plan").collect();
    assert_eq!((plans.len(), &plans[0]["who"]), (1, &json!("otto")), "{audit}");
    // The reason for each copy.
    let place = fleet.get("/api/v1/where?title=films/a").await;
    for node in place["nodes"].as_array().expect("a list") {
        let own = &planned[&name(node["node"].as_str().expect("a name"))];
        let shall = own.contains(&"films/a".to_owned());
        let why = if shall { json!("floor") } else { json!(null) };
        let moves = if shall { json!("comes") } else { json!(null) };
        assert_eq!((&node["why"], &node["moves"]), (&why, &moves), "{node}");
    }
    // Withdrawal still works.
    fleet.done("/api/v1/titles/withdraw", json!({ "title": "films/b" })).await;
    assert_eq!((copies(&fleet, "films/a"), copies(&fleet, "films/b")), (3, 0));
    let undone = fleet.done("/api/v1/plan/undo", json!({})).await;
    assert_eq!(undone["is_undone"], json!(true));
    let (last, all) = told(&fleet);
    assert!(last > revision && all.values().all(|titles| titles == &["films/a"]), "{all:?}");
    let undone = fleet.done("/api/v1/plan/undo", json!({})).await;
    assert_eq!((&undone["is_undone"], told(&fleet).0), (&json!(false), last));
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_outlives_its_gateway_its_leader_and_its_store() {
    let folder = folder();
    let fleet = fleet_of_four(folder.path()).await;
    let planned = fleet.done("/api/v1/plan/apply", json!({})).await["planned_unix_seconds"].clone();
    let (_, before) = told(&fleet);
    // Another gateway, which has never led and gets no heartbeats.
    let engine: Arc<dyn Engine> =
        Arc::new(FolderStore::open(&folder.path().join("store")).expect("a store"));
    let second = folder.path().join("second");
    std::fs::create_dir_all(&second).expect("made");
    std::os::unix::fs::symlink(folder.path().join("objects"), second.join("objects"))
        .expect("linked");
    let other = Running::start_as("g2", &second, Arc::clone(&engine), NODE_LIFETIME).await;
    assert_eq!(told(&other).1, before);
    // It leads when the first one stops, and the first one has the plan when it comes back.
    fleet.stop().await;
    assert_eq!(told(&other).1, before);
    let fleet = Running::start(folder.path()).await;
    assert_eq!(told(&fleet).1, before);
    other.stop().await;
    // The objects and the store are away, but the gateway's own disk has everything.
    let objects = folder.path().join("objects");
    let file = folder.path().join("backup");
    let opened = Objects::open(&objects.display().to_string()).expect("objects");
    let backed_up = back_up(fleet.gateway.engine(), &opened, &file, 1).await.expect("backed up");
    assert!(backed_up.lacking.is_empty(), "{backed_up:?}");
    fleet.stop().await;
    std::fs::rename(&objects, folder.path().join("elsewhere")).expect("renamed");
    let fleet = Running::start(folder.path()).await;
    assert_eq!(told(&fleet).1, before);
    fleet.stop().await;
    // A backup has everything, too.
    let engine = FolderStore::open(&folder.path().join("other")).expect("a store");
    let opened = Objects::open(&objects.display().to_string()).expect("objects");
    restore(&engine, &opened, &file, &Tombstones::default(), 2).await.expect("restored");
    let third = folder.path().join("third");
    std::fs::create_dir_all(&third).expect("made");
    std::os::unix::fs::symlink(&objects, third.join("objects")).expect("linked");
    let fleet = Running::start_as("g1", &third, Arc::new(engine), NODE_LIFETIME).await;
    assert_eq!(told(&fleet).1, before);
    let record = load::<PlanRecord>(fleet.gateway.engine(), "").await.expect("read");
    assert_eq!(json!(record.expect("it is there").record.planned_unix_seconds), planned);
    fleet.stop().await;
}

/// An unreadable object must not empty a cluster's list.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_whose_manifest_cannot_be_read_are_told_what_they_were_told_before() {
    let folder = folder();
    let fleet = fleet_of_four(folder.path()).await;
    fleet.done("/api/v1/plan/apply", json!({})).await;
    let (revision, before) = told(&fleet);
    let manifests = (0..4u8).map(|own| Digest::of(&[own])).collect();
    let record = PlanRecord { manifests: Some(manifests), planned_unix_seconds: 7 };
    let write = record.put("").expect("a record");
    fleet.gateway.engine().commit(&[], &[write]).await.expect("kept");
    eventually(|| (told(&fleet).0 > revision).then_some(())).await;
    assert_eq!(told(&fleet).1, before);
    let knows = |fleet: &Running| {
        NODES.iter().filter(|(node, _)| fleet.gateway.live().knows_wishes_of(&name(node))).count()
    };
    assert_eq!(knows(&fleet), 4);
    let (status, answer) = fleet.post("/api/v1/plan/apply", json!({})).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{answer}");
    // After a restart the list is unknown, and nodes get exactly that answer.
    fleet.stop().await;
    let fleet = Running::start(folder.path()).await;
    assert_eq!(knows(&fleet), 0);
    fleet.done("/api/v1/plan/undo", json!({})).await;
    assert_eq!(knows(&fleet), 4);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_published_after_a_plan_has_its_copies_within_seconds_and_nothing_else_moves() {
    let folder = folder();
    let fleet = fleet_of_four(folder.path()).await;
    fleet.done("/api/v1/plan/apply", json!({})).await;
    let (_, before) = told(&fleet);
    publish(&fleet, &folder.path().join("library"), "films/new").await;
    eventually(|| {
        beat(&fleet);
        (copies(&fleet, "films/new") == 3).then_some(())
    })
    .await;
    let (_, after) = told(&fleet);
    for (node, titles) in &after {
        let old: Vec<_> = titles.iter().filter(|path| *path != "films/new").collect();
        assert_eq!(old, before[node].iter().collect::<Vec<_>>(), "{node}");
    }
    // A pin takes effect with the next plan.
    let pins = json!([{ "scope": "everywhere", "copies": 1 }]);
    fleet.done("/api/v1/titles/pin", json!({ "title": "films/new", "pins": pins })).await;
    beat(&fleet);
    fleet.done("/api/v1/plan/apply", json!({})).await;
    assert_eq!(copies(&fleet, "films/new"), 4);
    let place = fleet.get("/api/v1/where?title=films/new").await;
    assert!(place["nodes"].as_array().expect("a list").iter().all(|node| node["why"] == "pin"));
    // A revoked node is replaced at once.
    let gone = after.iter().find(|(_, titles)| titles.iter().any(|path| path == "films/a"));
    let gone = gone.expect("somebody holds it").0.clone();
    let path = format!("/api/v1/nodes/{gone}/revoke");
    fleet.done(&path, json!({ "reason": "stolen" })).await;
    eventually(|| {
        beat(&fleet);
        let live = fleet.gateway.live();
        let of = |node: &str| {
            live.desired_of(&name(node)).map_or(0, |desired| {
                desired.titles.iter().filter(|title| title.path == "films/a").count()
            })
        };
        let copies: usize = NODES.iter().map(|(node, _)| of(node)).sum();
        (live.is_revoked(&gone) && copies == 3).then_some(())
    })
    .await;
    let audit = fleet.get("/api/v1/audit").await;
    let lines = audit["lines"].as_array().expect("lines");
    let own = lines.iter().filter(|line| line["what"] == "repair_plan");
    assert!(own.clone().count() >= 2 && own.clone().all(|line| line["who"] == "g1"), "{audit}");
    fleet.stop().await;
}

/// A store without a plan, and one with a plan of another release.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_without_a_plan_and_one_of_another_release_mean_that_all_hold_all() {
    let folder = folder();
    let fleet = fleet_of_four(folder.path()).await;
    assert!(fleet.gateway.engine().get(&PlanRecord::key("")).await.expect("read").is_none());
    let (_, all) = told(&fleet);
    assert!(all.values().all(|titles| titles.len() == 2));
    // Nodes get no permission to remove anything either.
    let live = fleet.gateway.live();
    let held = live.world().titles[0].held();
    NODES.iter().for_each(|(node, _)| fleet.beat(node, 2, std::slice::from_ref(&held)));
    assert!(live.may_evict(&name("n1"), vec![held]).is_empty());
    let newer = br#"{"version":2,"layers":[]}"#.to_vec();
    let write = store::Write::Put("plan".to_owned(), newer);
    fleet.gateway.engine().commit(&[], &[write]).await.expect("kept");
    fleet.done("/api/v1/nodes/n1/drain", json!({ "reason": "so that it is read" })).await;
    assert_eq!(told(&fleet).1, all);
    let (status, answer) = fleet.post("/api/v1/plan/apply", json!({})).await;
    assert!(!status.is_success(), "it is not overwritten: {answer}");
    assert!(answer["error"].as_str().expect("why").contains("update this gateway"), "{answer}");
    fleet.stop().await;
}
