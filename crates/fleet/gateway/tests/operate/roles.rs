//! Permissions of roles, and the audit log.

use fullbore_gateway::api::METRICS;
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::fleet::{Running, folder, name};

#[tokio::test(flavor = "multi_thread")]
async fn a_role_allows_what_it_says_and_no_more() {
    let folder = folder();
    let fleet = Running::start(folder.path()).await;
    fleet.nodes(&[("n1", "paris"), ("n2", "rome")]).await;
    let read = fleet.operator("anna", "read", None).await;
    let operate = fleet.operator("otto", "operate", None).await;
    let partner = fleet.operator("isp", "partner", Some(&["paris"])).await;
    let reason = || Some(json!({ "reason": "new disks" }));
    let (get, post) = (Method::GET, Method::POST);
    let forbidden = StatusCode::FORBIDDEN;
    let cases = [
        (None, &get, "/api/v1/nodes", None, StatusCode::UNAUTHORIZED),
        (Some("wrong"), &get, "/api/v1/nodes", None, StatusCode::UNAUTHORIZED),
        (None, &get, "/metrics", None, StatusCode::UNAUTHORIZED),
        (None, &get, "/api/v1/fleet", None, StatusCode::UNAUTHORIZED),
        (None, &get, "/healthz", None, StatusCode::OK),
        (Some(read.as_str()), &get, "/api/v1/nodes", None, StatusCode::OK),
        (Some(&read), &get, "/metrics", None, StatusCode::OK),
        (Some(&read), &post, "/api/v1/nodes/n2/drain", reason(), forbidden),
        (Some(&operate), &post, "/api/v1/nodes/n2/drain", reason(), StatusCode::OK),
        (Some(&operate), &post, "/api/v1/nodes/n2/revoke", reason(), forbidden),
        (Some(&operate), &get, "/api/v1/audit", None, forbidden),
        (
            Some(&operate),
            &post,
            "/api/v1/operators",
            Some(json!({ "id": "x", "role": "admin" })),
            forbidden,
        ),
        (Some(&partner), &post, "/api/v1/nodes/n1/drain", reason(), StatusCode::OK),
        (Some(&partner), &post, "/api/v1/nodes/n2/undrain", None, StatusCode::NOT_FOUND),
        (Some(&partner), &post, "/api/v1/nodes/n3/drain", reason(), StatusCode::NOT_FOUND),
        (Some(&partner), &get, "/api/v1/titles", None, forbidden),
        (Some(&partner), &get, "/api/v1/sites", None, forbidden),
        (Some(&partner), &get, "/api/v1/fleet", None, forbidden),
        (Some(&partner), &get, "/metrics", None, forbidden),
    ];
    for (token, method, path, body, expected) in cases {
        let (status, answer) = fleet.ask(token, method.clone(), path, body).await;
        assert_eq!(status, expected, "{token:?} {method} {path}: {answer}");
    }
    // A partner sees only its own sites.
    let (_, seen) = fleet.ask(Some(&partner), get.clone(), "/api/v1/nodes", None).await;
    let names: Vec<_> =
        seen["nodes"].as_array().expect("a list").iter().map(|node| &node["name"]).collect();
    assert_eq!(names, ["n1"]);
    // A revoked token becomes useless at once.
    fleet.done("/api/v1/operators/anna/revoke", json!({ "reason": "left" })).await;
    let (status, _) = fleet.ask(Some(&read), get, "/api/v1/nodes", None).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_is_in_the_audit_log_and_no_token_is() {
    let folder = folder();
    let fleet = Running::start(folder.path()).await;
    fleet.nodes(&[("n1", "paris")]).await;
    let operate = fleet.operator("otto", "operate", None).await;
    let body = json!({ "reason": "new disks" });
    let drained =
        fleet.ask(Some(&operate), Method::POST, "/api/v1/nodes/n1/drain", Some(body)).await;
    assert_eq!((drained.0, &drained.1["state"]), (StatusCode::OK, &json!("draining")));
    let audit = fleet.get("/api/v1/audit").await;
    let newest = &audit["lines"][0];
    assert_eq!(
        [&newest["who"], &newest["what"], &newest["subject"], &newest["detail"]],
        ["otto", "drain", "node/n1", "new disks"]
    );
    let text = audit.to_string() + &fleet.get("/api/v1/operators").await.to_string();
    assert!(!text.contains(&operate), "{text}");
    let invites = fleet.get("/api/v1/invites").await.to_string();
    assert!(invites.contains("paris") && !invites.contains("sha256"), "{invites}");
    // The store has only digests.
    for (key, entry) in fleet.gateway.engine().list("").await.expect("read") {
        assert!(!String::from_utf8_lossy(&entry.value).contains(&operate), "{key}");
    }
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_node_is_out_of_all_answers_at_once_and_for_good() {
    let folder = folder();
    let fleet = Running::start(folder.path()).await;
    fleet.nodes(&[("n1", "paris"), ("n2", "rome")]).await;
    let revoked = fleet.done("/api/v1/nodes/n1/revoke", json!({ "reason": "stolen" })).await;
    assert_eq!(revoked["state"], "revoked");
    assert!(fleet.gateway.live().is_revoked(&name("n1")));
    let (status, answer) = fleet.post("/api/v1/nodes/n1/undrain", json!({})).await;
    assert_eq!(status, StatusCode::CONFLICT, "{answer}");
    let metrics = fleet.text("/metrics").await;
    assert!(metrics.contains("fullbore_fleet_nodes{state=\"revoked\"} 1"), "{metrics}");
    assert!(metrics.contains("fullbore_node_up{node=\"n2\",site=\"rome\"} 1"), "{metrics}");
    assert!(!metrics.contains("fullbore_node_up{node=\"n1\""), "{metrics}");
    for metric in METRICS {
        let count = metrics.matches(&format!("# TYPE {} ", metric.name)).count();
        assert_eq!(count, 1, "{} in {metrics}", metric.name);
    }
    assert_eq!(metrics.matches("# TYPE ").count(), METRICS.len());
    fleet.stop().await;
}
