//! Reports of what viewers watched, plans based on them, and that both survive a restart.

use std::path::Path;

use fleet_protocol::{Digest, HeldTitle, WatchCount, WatchReport, WatchedTitle};
use reqwest::StatusCode;
use serde_json::{Value, json};
use store::Objects;
use store::records::{PopularityRecord, load};

use crate::fleet::{Running, folder, name};
use crate::titles::publication;

/// Two nodes in two regions, and a title that n1 holds.
async fn fleet_with_a_title(folder: &Path) -> (Running, u64) {
    let fleet = Running::start(folder).await;
    fleet.nodes(&[("n1", "paris"), ("n2", "rome")]).await;
    for (site, region) in [("paris", "north"), ("rome", "south")] {
        let body = Some(json!({ "region": region }));
        let path = format!("/api/v1/sites/{site}");
        let token = fleet.admin_token();
        let (status, answer) = fleet.ask(Some(&token), reqwest::Method::PUT, &path, body).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
    }
    let body = publication(&folder.join("library"), b"a film");
    let published = fleet.done("/api/v1/titles/publish", body).await;
    let version: Digest = serde_json::from_value(published["digest"].clone()).expect("a digest");
    fleet.beat("n1", 2, &[HeldTitle { path: "films/a".to_owned(), version }]);
    fleet.beat("n2", 2, &[]);
    (fleet, published["bytes"].as_u64().expect("a number"))
}

fn report(node: &str, number: u64, bytes: u64) -> WatchReport {
    WatchReport {
        version: 1,
        node: name(node),
        boot: "b1".to_owned(),
        number,
        seconds: 60,
        titles: vec![WatchedTitle { path: "films/a".to_owned(), starts: 20, bytes }],
        rest: WatchCount::default(),
    }
}

fn tell(fleet: &Running, node: &str, number: u64, bytes: u64) {
    let heard = fleet.gateway.live().handle_watched(
        &name(node),
        &report(node, number, bytes),
        fleet.gateway.now(),
    );
    heard.expect("it is taken");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_says_what_would_move_and_how_much_would_be_watched_nearby() {
    let folder = folder();
    let (fleet, bytes) = fleet_with_a_title(folder.path()).await;
    let plan = fleet.get("/api/v1/plan").await;
    assert_eq!((&plan["watched_bytes"], &plan["near_before_permille"]), (&json!(0), &Value::Null));
    // Three quarters of the demand is in the south, where no node holds the title.
    tell(&fleet, "n1", 1, 10_000_000);
    tell(&fleet, "n2", 1, 30_000_000);
    let plan = fleet.get("/api/v1/plan?moves=1").await;
    // A quarter, or a little less: both figures are rounded, and they decay by the second.
    let near = plan["near_before_permille"].as_u64().expect("a number");
    assert!((249..=250).contains(&near), "{plan}");
    assert_eq!(plan["near_after_permille"], json!(1000), "{plan}");
    let regions: Vec<_> =
        plan["regions"].as_array().expect("a list").iter().map(|one| &one["region"]).collect();
    assert_eq!(regions, ["north", "south"]);
    let step = &plan["first_moves"][0];
    assert_eq!(
        (&step["node"], &step["title"], &step["why"], &step["bytes"]),
        (&json!("n2"), &json!("films/a"), &json!("floor"), &json!(bytes))
    );
    assert!(step["watched_bytes"].as_u64() >= Some(30_000_000), "{step}");
    assert_eq!(plan["moved_bytes"], json!(bytes));
    let rome = &plan["clusters"][1];
    assert_eq!((&rome["site"], &rome["brought"]["copies"]), (&json!("rome"), &json!(1)));
    // A pin takes precedence over the floor.
    let pins = json!([{ "scope": { "region": "south" }, "copies": 1 }]);
    fleet.done("/api/v1/titles/pin", json!({ "title": "films/a", "pins": pins })).await;
    let plan = fleet.get("/api/v1/plan").await;
    assert_eq!(plan["moves"]["pin"]["copies"], json!(1), "{plan}");
    // A pin at a place that does not exist is refused, and the pins stay as they were.
    for place in ["site", "region"] {
        let pins = json!([{ "scope": { place: "nowhere" }, "copies": 1 }]);
        let body = json!({ "title": "films/a", "pins": pins });
        let (status, answer) = fleet.post("/api/v1/titles/pin", body).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{answer}");
        assert_eq!(answer["error"], json!(format!("there is no {place} \"nowhere\"")));
    }
    assert_eq!(fleet.get("/api/v1/plan").await["moves"]["pin"]["copies"], json!(1));
    let pins = json!([{ "scope": { "site": "rome" }, "copies": 1 }]);
    fleet.done("/api/v1/titles/pin", json!({ "title": "films/a", "pins": pins })).await;
    fleet.done("/api/v1/titles/pin", json!({ "title": "films/a", "pins": [] })).await;
    assert_eq!(fleet.get("/api/v1/plan").await["moves"]["pin"], Value::Null);
    // A node drained without an end gets nothing in a plan.
    fleet.done("/api/v1/nodes/n2/drain", json!({ "reason": "sold" })).await;
    let plan = fleet.get("/api/v1/plan").await;
    assert_eq!((&plan["left_out"][0]["node"], &plan["moved_bytes"]), (&json!("n2"), &json!(0)));
    let metrics = fleet.text("/metrics").await;
    assert!(metrics.contains("fullbore_fleet_popularity_counts 2"), "{metrics}");
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_keep_the_bounds_that_the_operator_sets() {
    let folder = folder();
    let (fleet, bytes) = fleet_with_a_title(folder.path()).await;
    tell(&fleet, "n2", 1, 30_000_000);
    let token = fleet.admin_token();
    let put = |body: Value| {
        fleet.ask(Some(&token), reqwest::Method::PUT, "/api/v1/placement", Some(body))
    };
    let before = fleet.get("/api/v1/placement").await;
    assert_eq!((&before["floor_copies"], &before["churn_bytes_max"]), (&json!(3), &Value::Null));
    // A copy beyond the bound is not moved, and the plan names the bound.
    let (status, answer) = put(json!({ "churn_bytes_max": bytes - 1 })).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let plan = fleet.get("/api/v1/plan").await;
    assert_eq!((&plan["moved_bytes"], &plan["floors_unmet"]), (&json!(0), &json!(2)), "{plan}");
    assert_eq!(plan["policy"]["churn_bytes_max"], json!(bytes - 1));
    // One copy is enough, so nothing moves for the floor, but the south's demand justifies a move.
    let (status, _) = put(json!({ "floor_copies": 1 })).await;
    assert_eq!(status, StatusCode::OK);
    let plan = fleet.get("/api/v1/plan").await;
    assert_eq!(
        (&plan["moves"]["floor"], &plan["floors_unmet"]),
        (&Value::Null, &json!(0)),
        "{plan}"
    );
    assert_eq!(plan["moves"]["demand"]["copies"], json!(1), "{plan}");
    // Storage nodes take nothing for demand.
    let cut_offs = json!({ "storage_permille": 0, "flash_permille": 0, "global_permille": 0 });
    let (status, _) = put(json!({ "floor_copies": 1, "cut_offs": cut_offs })).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(fleet.get("/api/v1/plan").await["moved_bytes"], json!(0));
    for (wrong, why) in [
        (json!({ "floor_copies": 0 }), "floor_copies is not 1 to 100"),
        (json!({ "margin_permille": 999 }), "take turns"),
        (json!({ "floor_copies": 70_000 }), "65535|u16|invalid"),
        (json!({ "churn": 1 }), "not known here"),
        (json!({ "cut_offs": { "tape_permille": 1 } }), "tape_permille"),
    ] {
        let (status, answer) = put(wrong).await;
        let is_told = why.split('|').any(|part| answer.to_string().contains(part));
        assert!(status == StatusCode::BAD_REQUEST && is_told, "{status} {answer}");
    }
    fleet.stop().await;
    // They are saved.
    let fleet = Running::start(folder.path()).await;
    assert_eq!(fleet.get("/api/v1/placement").await["floor_copies"], json!(1));
    fleet.stop().await;
}

/// The object that the store names, once this gateway leads and has saved it.
async fn keep(fleet: &Running, before: Option<Digest>) -> Digest {
    for _ in 0..600 {
        fleet.gateway.keep_popularity().await;
        let kept = load::<PopularityRecord>(fleet.gateway.engine(), "").await.expect("read");
        match kept.map(|kept| kept.record.sha256) {
            Some(digest) if Some(digest) != before => return digest,
            _ => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
        }
    }
    panic!("it was not kept");
}

async fn watched(fleet: &Running) -> Vec<u64> {
    let place = fleet.get("/api/v1/where?title=films/a").await;
    let regions = place["watched"].as_array().expect("a list");
    regions.iter().map(|one| one["bytes_a_day"].as_u64().expect("a number")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_starts_anew_knows_what_was_watched() {
    let folder = folder();
    let (fleet, _) = fleet_with_a_title(folder.path()).await;
    tell(&fleet, "n1", 1, 10_000_000);
    let objects = folder.path().join("objects").display().to_string();
    let objects = Objects::open(&objects).expect("objects");
    let first = keep(&fleet, None).await;
    tell(&fleet, "n2", 1, 30_000_000);
    keep(&fleet, Some(first)).await;
    assert!(objects.get(&first).await.is_err(), "one is enough");
    let before = watched(&fleet).await;
    assert_eq!(before.len(), 2);
    fleet.stop().await;
    let fleet = Running::start(folder.path()).await;
    for (before, after) in before.iter().zip(watched(&fleet).await) {
        assert!(before.abs_diff(after) * 100 < *before, "{before} {after}");
    }
    fleet.stop().await;
    // Unreadable data does not keep a gateway from starting.
    let all = std::fs::read_dir(folder.path().join("objects")).expect("listed").flatten();
    all.for_each(|one| std::fs::remove_dir_all(one.path()).expect("removed"));
    let fleet = Running::start(folder.path()).await;
    assert!(watched(&fleet).await.is_empty());
    fleet.stop().await;
}
