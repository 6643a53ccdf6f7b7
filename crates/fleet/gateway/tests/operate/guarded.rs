//! Slow, malformed and unknown clients at a gateway's listeners, while operators are still served.

use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use fullbore_tests::may_open;
use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::fleet::{DESCRIPTORS, Running, folder};

/// Timeout of every step: it detects hanging tests, not slow machines.
const PATIENCE: Duration = Duration::from_secs(60);

/// Everything that is answered to `bytes`, until the gateway closes.
async fn answer(address: SocketAddr, bytes: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("connected");
    stream.write_all(bytes.as_bytes()).await.expect("written");
    rest(&mut stream).await
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("the gateway closes");
    String::from_utf8_lossy(&bytes).into_owned()
}

fn is(answer: &str, status: u16) -> bool {
    answer.starts_with(&format!("HTTP/1.1 {status} "))
        && answer.to_ascii_lowercase().contains("\r\nconnection: close\r\n")
}

/// A request whose body is never sent.
fn head_only(path: &str, token: Option<&str>, length: usize) -> String {
    let token = token.map_or(String::new(), |token| format!("Authorization: Bearer {token}\r\n"));
    format!("POST {path} HTTP/1.1\r\nHost: a\r\n{token}Content-Length: {length}\r\n\r\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn no_body_is_read_before_it_is_clear_who_sends_it_and_what_it_may_be() {
    let folder = folder();
    let fleet = Running::start(folder.path()).await;
    let reader = fleet.operator("rita", "read", None).await;
    let admin = fleet.admin_token();
    let publish = "/api/v1/titles/publish";
    for (path, token, length, status) in [
        (publish, None, 32 << 20, 401),
        (publish, Some("wrong"), 32 << 20, 401),
        (publish, Some(&*reader), 32 << 20, 403),
        (publish, Some(&*admin), (32 << 20) + 1, 413),
        ("/api/v1/invites", Some(&*admin), 300 << 10, 413),
        ("/api/v1/nothing", None, 32 << 20, 404),
        ("/healthz", None, 32 << 20, 405),
    ] {
        let answer = answer(fleet.admin, &head_only(path, token, length)).await;
        assert!(is(&answer, status), "{path} {length} {status}: {answer}");
    }
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_hides_in_a_body_at_any_listener() {
    let folder = folder();
    let fleet = Running::start(folder.path()).await;
    let hidden = "POST /api/v1/invites HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
    for (address, status) in [(fleet.admin, 411), (fleet.public, 405)] {
        let answer = answer(address, hidden).await;
        assert!(is(&answer, status), "{answer}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
    }
    let metrics = fleet.text("/metrics").await;
    for line in [
        "fullbore_fleet_requests_refused_total{listener=\"admin\",reason=\"no_length\"} 1",
        "fullbore_fleet_requests_refused_total{listener=\"public\",reason=\"method_not_allowed\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_are_refused_as_rfc_9112_says_at_any_listener() {
    let folder = folder();
    let fleet = Running::start(folder.path()).await;
    let large = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(400_000));
    for address in [fleet.admin, fleet.public] {
        for (request, status) in [
            ("GET /healthz HTTP/1.1\r\n\r\n", 400),
            ("GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
            ("GET /healthz HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
            ("GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 501),
            ("OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 204),
            ("GET /nothing HTTP/1.2\r\nHost: a\r\nConnection: close\r\n\r\n", 404),
            (&large, 431),
        ] {
            let answer = answer(address, request).await;
            let shown = &request[..request.len().min(60)];
            assert!(is(&answer, status), "{address} {shown:?}: {answer}");
        }
    }
    fleet.stop().await;
}

/// Takes ten seconds, the timeout of a head.
#[tokio::test(flavor = "multi_thread")]
async fn half_sent_heads_end_on_plain_listeners_and_operators_are_answered_meanwhile() {
    if !may_open(DESCRIPTORS) {
        return;
    }
    let folder = folder();
    let fleet = Running::start(folder.path()).await;
    let mut halves = Vec::new();
    for address in [fleet.public, fleet.admin].into_iter().cycle().take(400) {
        let mut half = TcpStream::connect(address).await.expect("connected");
        half.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n").await.expect("written");
        halves.push(half);
    }
    fleet.get("/api/v1/nodes").await;
    let health = "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    assert!(is(&answer(fleet.admin, health).await, 200));
    for half in &mut halves {
        let answer = rest(half).await;
        assert!(is(&answer, 408), "{answer}");
    }
    fleet.stop().await;
}

/// A pipe in the log of decisions blocks its reader until something is written to it.
#[tokio::test(flavor = "multi_thread")]
async fn one_replay_runs_at_a_time_and_the_store_is_used_meanwhile() {
    let folder = folder();
    let fleet = Running::start(folder.path()).await;
    let pipe = fleet.gateway.decisions().folder().join("999999999999-0000.jsonl");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    let reader = fleet.operator("rita", "read", None).await;
    let url = format!("http://{}/api/v1/replay", fleet.admin);
    let http = fullbore_gateway::client::plain_http().expect("a client");
    let ask = || http.get(&url).bearer_auth(&reader).send();
    // One of them gets the permit.
    let (mut one, mut other) = (tokio::spawn(ask()), tokio::spawn(ask()));
    let (refused, first) = tokio::select! {
        refused = &mut one => (refused, other),
        refused = &mut other => (refused, one),
        () = tokio::time::sleep(PATIENCE) => panic!("the second is held up"),
    };
    let refused = refused.expect("no panic").expect("an answer");
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    let body = Some(json!({ "region": "europe" }));
    let path = "/api/v1/sites/paris";
    let (status, answer) = fleet.ask(Some(&fleet.token), Method::PUT, path, body).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let opened = tokio::task::spawn_blocking(move || OpenOptions::new().write(true).open(pipe));
    drop(opened.await.expect("no panic").expect("the replay reads it"));
    let first = timeout(PATIENCE, first).await.expect("it ends").expect("no panic");
    assert_eq!(first.expect("an answer").status(), StatusCode::OK);
    fleet.stop().await;
}
