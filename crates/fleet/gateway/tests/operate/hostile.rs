//! Bad input to the operator's API: an error that explains the fault, a counter, and no effect.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::fleet::{Running, folder};

/// Path and body of a POST, and the expected status and part of the error.
fn cases() -> Vec<(&'static str, Value, StatusCode, &'static str)> {
    let long = "x".repeat(501);
    let wrong = StatusCode::BAD_REQUEST;
    vec![
        ("/api/v1/nodes/n1/drain", json!({}), wrong, "reason is missing"),
        ("/api/v1/nodes/n1/drain", json!({ "reason": "" }), wrong, "reason is empty"),
        ("/api/v1/nodes/n1/drain", json!({ "reason": 7 }), wrong, "not of type string"),
        ("/api/v1/nodes/n1/drain", json!({ "reason": long }), wrong, "500 bytes"),
        ("/api/v1/nodes/n1/drain", json!({ "reason": "a\u{1b}[31m" }), wrong, "control character"),
        (
            "/api/v1/nodes/n1/drain",
            json!({ "reason": "x", "until": 1 }),
            wrong,
            "\"until\" is not known",
        ),
        (
            "/api/v1/nodes/n1/drain",
            json!({ "reason": "x", "returns_unix_seconds": 1 }),
            wrong,
            "in the past",
        ),
        (
            "/api/v1/nodes/n1/drain",
            json!({ "reason": "x", "returns_unix_seconds": -1 }),
            wrong,
            "integer",
        ),
        ("/api/v1/nodes/n1/drain", json!(["x"]), wrong, "not a JSON object"),
        ("/api/v1/nodes/..%2Fn1/drain", json!({ "reason": "x" }), StatusCode::NOT_FOUND, "no node"),
        ("/api/v1/nodes/%00/drain", json!({ "reason": "x" }), StatusCode::NOT_FOUND, "no node"),
        ("/api/v1/nodes/n9/drain", json!({ "reason": "x" }), StatusCode::NOT_FOUND, "no node"),
        ("/api/v1/invites", json!({ "cluster": "nowhere" }), StatusCode::NOT_FOUND, "no cluster"),
        (
            "/api/v1/invites",
            json!({ "cluster": "paris-1", "site": "rome" }),
            StatusCode::CONFLICT,
            "at site paris",
        ),
        ("/api/v1/invites", json!({ "cluster": "A/B", "site": "rome" }), wrong, "not a name"),
        (
            "/api/v1/invites",
            json!({ "cluster": "paris-1", "kind": "cloud" }),
            wrong,
            "storage, flash or global",
        ),
        ("/api/v1/invites", json!({ "cluster": "paris-1", "seconds": 1e12 }), wrong, "seconds"),
        ("/api/v1/operators", json!({ "id": "x", "role": "god" }), wrong, "role is"),
        ("/api/v1/operators", json!({ "id": "x", "role": "partner" }), wrong, "needs sites"),
        (
            "/api/v1/operators",
            json!({ "id": "admin", "role": "read" }),
            StatusCode::CONFLICT,
            "there is an operator",
        ),
        (
            "/api/v1/operators/admin/revoke",
            json!({ "reason": "x" }),
            StatusCode::CONFLICT,
            "revoke yourself",
        ),
        ("/api/v1/nothing", json!({}), StatusCode::NOT_FOUND, "no such path"),
        ("/api/v1/titles", json!({}), StatusCode::METHOD_NOT_ALLOWED, "does not take that method"),
    ]
}

fn cases_of_pins() -> Vec<(&'static str, Value, StatusCode, &'static str)> {
    let wrong = StatusCode::BAD_REQUEST;
    vec![
        (
            "/api/v1/titles/pin",
            json!({ "title": "a", "pins": [{ "scope": "moon", "copies": 1 }] }),
            wrong,
            "not a list of pins",
        ),
        (
            "/api/v1/titles/pin",
            json!({ "title": "a", "pins": [] }),
            StatusCode::NOT_FOUND,
            "never published",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_is_refused_with_a_sentence() {
    let folder = folder();
    let fleet = Running::start(folder.path()).await;
    fleet.nodes(&[("n1", "paris")]).await;
    for (path, body, status, expected) in cases().into_iter().chain(cases_of_pins()) {
        let (answered, answer) = fleet.post(path, body.clone()).await;
        let error = answer["error"].as_str().unwrap_or_default();
        assert_eq!(answered, status, "{path} {body}: {answer}");
        assert!(error.contains(expected), "{path} {body}: {error:?} lacks {expected:?}");
    }
    for (path, expected) in [
        ("/api/v1/explain?address=somewhere&title=a", "not an IP address"),
        ("/api/v1/explain?title=a", "address is missing"),
        ("/api/v1/explain?address=192.0.2.1&title=a&viewer=xyz", "hexadecimal digits"),
        ("/api/v1/explain?address=192.0.2.1&title=a&playing=nobody", "no node"),
        ("/api/v1/titles?limit=-1", "limit is not a number"),
        ("/api/v1/titles?order=x", "\"order\" is not known"),
    ] {
        let (status, answer) = fleet.ask(Some(&token(&fleet)), Method::GET, path, None).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{path}: {answer}");
        assert!(
            answer["error"].as_str().unwrap_or_default().contains(expected),
            "{path}: {answer}"
        );
    }
    let mut policy = fleet.get("/api/v1/policy").await;
    policy.as_object_mut().expect("an object").remove("version");
    policy["port"] = json!(0);
    let path = "/api/v1/policy";
    let (status, answer) = fleet.ask(Some(&token(&fleet)), Method::PUT, path, Some(policy)).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
    let metrics = fleet.text("/metrics").await;
    assert!(
        metrics.contains("fullbore_fleet_operators_refused_total{reason=\"wrong_request\"}"),
        "{metrics}"
    );
    // None of it had any effect.
    let nodes = fleet.get("/api/v1/nodes").await;
    assert_eq!(nodes["nodes"][0]["state"], "serving");
    fleet.stop().await;
}

fn token(fleet: &Running) -> String {
    std::fs::read_to_string(fleet.gateway.state().admin_token()).expect("a token").trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_too_large_or_no_json_is_refused_and_others_are_served() {
    let folder = folder();
    let fleet = Running::start(folder.path()).await;
    let large = "x".repeat(fullbore_gateway::api::LARGE_BODY_BYTES_MAX + 1);
    let (status, answer) = fleet.post("/api/v1/titles/publish", json!({ "title": large })).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{answer}");
    let token = token(&fleet);
    for (body, expected) in [("{", "not JSON"), ("nul", "not JSON"), ("7", "not a JSON object")] {
        let request = format!(
            "POST /api/v1/operators HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = fleet.raw(request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400") && answer.contains(expected), "{answer}");
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let request = format!(
        "POST /api/v1/operators HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{deep}",
        deep.len()
    );
    assert!(fleet.raw(request.as_bytes()).await.starts_with("HTTP/1.1 400"));
    for garbage in [&b"\x16\x03\x01\x02\x00\x01"[..], b"GET\r\n\r\n", b"\0\0\0\0\r\n\r\n"] {
        fleet.raw(garbage).await;
    }
    assert_eq!(fleet.get("/api/v1/nodes").await["nodes"], json!([]));
    fleet.stop().await;
}
