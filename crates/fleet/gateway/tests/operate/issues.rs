//! The list of issues: who sees which, snoozing at several gateways of one store, and a restart.

use std::sync::Arc;
use std::time::Duration;

use fleet_protocol::{Condition, SheddingReason};
use fullbore_gateway::clock::Now;
use identity::NODE_LIFETIME;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use store::FolderStore;

use crate::fleet::{Running, eventually, folder};

const ISSUES: &str = "/api/v1/issues";
const SNOOZE: &str = "/api/v1/issues/snooze";
const WAKE: &str = "/api/v1/issues/wake";

fn disk_errors(gateway: &Running, node: &str, sequence: u64) {
    let condition = Condition::NotMe(vec![SheddingReason::DiskErrors]);
    gateway.beat_as(node, sequence, condition);
    follow_until_listed(gateway);
}

/// Has the list look now and half a minute later, when the issue counts.
pub(crate) fn follow_until_listed(gateway: &Running) {
    let now = gateway.gateway.now();
    let later = Now { uptime: now.uptime + Duration::from_secs(31), ..now };
    for now in [now, later] {
        gateway.gateway.follow_issues(now).expect("the list is saved");
    }
}

fn ids(answer: &Value) -> Vec<&str> {
    let issues = answer["issues"].as_array().expect("a list");
    let ids = issues.iter().filter_map(|issue| issue["id"].as_str());
    // On a slow machine, nodes that send one heartbeat are lost meanwhile.
    ids.filter(|id| id.starts_with("site_down/")).collect()
}

/// The issue that `rome` is down, of a list as JSON.
fn rome_is_down(issues: &Value) -> &Value {
    let mut issues = issues.as_array().expect("a list").iter();
    issues.find(|one| one["id"] == "site_down/rome").expect("it is listed")
}

fn snooze(id: &str, seconds: u64) -> Value {
    json!({ "id": id, "seconds": seconds, "reason": "the disk comes on Monday" })
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_see_what_is_wrong_and_partners_what_is_wrong_at_their_sites() {
    let folder = folder();
    let fleet = Running::start(folder.path()).await;
    fleet.nodes(&[("n1", "paris"), ("n2", "rome")]).await;
    follow_until_listed(&fleet);
    assert_eq!(ids(&fleet.get(ISSUES).await), [""; 0]);
    disk_errors(&fleet, "n2", 2);
    let answer = fleet.get(ISSUES).await;
    assert_eq!(ids(&answer), ["site_down/rome"], "{answer}");
    let issue = rome_is_down(&answer["issues"]);
    assert_eq!((&issue["severity"], &issue["site"]), (&json!("critical"), &json!("rome")));
    assert_eq!(issue["text"], "rome is down: its node takes no viewers.");
    let read = fleet.operator("anna", "read", None).await;
    let paris = fleet.operator("isp", "partner", Some(&["paris"])).await;
    let rome = fleet.operator("isp2", "partner", Some(&["rome"])).await;
    for (token, seen) in [(&read, 1), (&paris, 0), (&rome, 1)] {
        let (status, answer) = fleet.ask(Some(token), Method::GET, ISSUES, None).await;
        assert_eq!((status, ids(&answer).len()), (StatusCode::OK, seen), "{answer}");
        let issues = answer["issues"].as_array().expect("a list");
        let critical = issues.iter().filter(|one| one["severity"] == "critical").count();
        assert_eq!(answer["counts"]["critical"], critical, "{answer}");
    }
    for (token, body, expected) in [
        (&read, snooze("site_down/rome", 60), StatusCode::FORBIDDEN),
        (&paris, snooze("site_down/rome", 60), StatusCode::NOT_FOUND),
        (&rome, snooze("site_down/oslo", 60), StatusCode::NOT_FOUND),
        (&rome, snooze("site_down/rome", 0), StatusCode::BAD_REQUEST),
        (&rome, snooze("site_down/rome", 91 * 24 * 3600), StatusCode::BAD_REQUEST),
        (
            &rome,
            json!({ "id": "site_down/rome", "seconds": 60, "reason": " " }),
            StatusCode::BAD_REQUEST,
        ),
        (&rome, snooze("site_down/rome", 60), StatusCode::OK),
    ] {
        let (status, answer) = fleet.ask(Some(token), Method::POST, SNOOZE, Some(body)).await;
        assert_eq!(status, expected, "{answer}");
    }
    let metrics = fleet.text("/metrics").await;
    assert!(metrics.contains("fullbore_fleet_issues{state=\"snoozed\"} 1\n"), "{metrics}");
    let page: Value = serde_json::from_slice(&fleet.gateway.page_line()).expect("JSON");
    assert_eq!(rome_is_down(&page["issues"])["snoozed"]["by"], "isp2", "{page}");
    assert_eq!((&page["issue_counts"]["snoozed"], &page["leader"]), (&json!(1), &json!("g1")));
    fleet.done(WAKE, json!({ "id": "site_down/rome" })).await;
    assert_eq!(rome_is_down(&fleet.get(ISSUES).await["issues"])["snoozed"], Value::Null);
    let audit = fleet.get("/api/v1/audit").await.to_string();
    assert!(audit.contains("site_down/rome for 60 s: the disk comes on Monday"), "{audit}");
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snooze_holds_at_all_gateways_and_the_list_outlives_a_restart() {
    let folders = [folder(), folder()];
    let engine = Arc::new(FolderStore::open(&folders[0].path().join("store")).expect("a store"));
    let first = Running::start_on(folders[0].path(), engine.clone()).await;
    first.nodes(&[("n1", "rome")]).await;
    let second = Running::start_as("g2", folders[1].path(), engine.clone(), NODE_LIFETIME).await;
    for gateway in [&first, &second] {
        disk_errors(gateway, "n1", 2);
    }
    first.done(SNOOZE, snooze("site_down/rome", 3600)).await;
    let snoozed = || {
        let (shown, counts) = second.gateway.shown_issues(second.gateway.now());
        (counts.snoozed == 1).then_some(shown)
    };
    let shown = json!(eventually(snoozed).await);
    assert_eq!(rome_is_down(&shown)["snoozed"]["by"], "admin");
    // Both name the gateway that leads.
    let leader = || second.gateway.leader();
    assert_eq!(eventually(leader).await, "g1");
    let before = first.get(ISSUES).await;
    first.stop().await;
    let again = Running::start_on(folders[0].path(), engine).await;
    let (shown, _) = again.gateway.shown_issues(again.gateway.now());
    let (shown, before) = (json!(shown), rome_is_down(&before["issues"]));
    assert_eq!(rome_is_down(&shown)["since_unix_millis"], before["since_unix_millis"]);
    assert_eq!(rome_is_down(&shown)["snoozed"], before["snoozed"]);
    again.stop().await;
    second.stop().await;
}
