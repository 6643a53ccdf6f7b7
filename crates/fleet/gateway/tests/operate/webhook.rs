//! Reports of issues to a web server that fails first: each arrives once, in order, and signed; those that a gateway did not deliver arrive from the
//! next one.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use fleet_protocol::{Condition, SheddingReason};
use fullbore_gateway::Webhook;
use serde_json::{Value, json};
use store::FolderStore;

use crate::fleet::{Running, eventually, folder};

const SECRET: [u8; 32] = *b"an operator's secret of 32 bytes";

/// A web server that takes messages, unless it is down.
#[derive(Clone, Default)]
struct Receiver(Arc<Mutex<Received>>);

#[derive(Default)]
struct Received {
    is_down: bool,
    refused: usize,
    taken: Vec<(String, Value)>,
}

impl Receiver {
    /// Starts it, and returns its URL.
    async fn start(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/hook", listener.local_addr().expect("bound"));
        let received = self.clone();
        let take = post(move |headers: HeaderMap, body: Bytes| {
            let status = received.take(&headers, &body);
            async move { status }
        });
        let router = Router::new().route("/hook", take);
        tokio::spawn(async move { axum::serve(listener, router).await });
        url
    }

    fn take(&self, headers: &HeaderMap, body: &[u8]) -> StatusCode {
        let header = |name: &str| headers[name].to_str().expect("text").to_owned();
        let (id, time) = (header("webhook-id"), header("webhook-timestamp"));
        let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, &SECRET);
        let signed = [format!("{id}.{time}.").as_bytes(), body].concat();
        let signature = header("webhook-signature");
        let tag = BASE64.decode(signature.strip_prefix("v1,").expect("version 1"));
        aws_lc_rs::hmac::verify(&key, &signed, &tag.expect("Base64")).expect("it is signed");
        let mut state = self.0.lock().expect("no panic");
        if state.is_down {
            state.refused += 1;
            return StatusCode::SERVICE_UNAVAILABLE;
        }
        state.taken.push((id, serde_json::from_slice(body).expect("JSON")));
        StatusCode::NO_CONTENT
    }

    fn ids(&self) -> Vec<String> {
        let state = self.0.lock().expect("no panic");
        state.taken.iter().map(|(id, _)| id.clone()).collect()
    }
}

fn ill(gateway: &Running, node: &str, sequence: u64) {
    gateway.beat_as(node, sequence, Condition::NotMe(vec![SheddingReason::DiskErrors]));
    gateway.gateway.follow_issues().expect("the list is saved");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_web_server_gets_each_change_once_although_it_was_down_and_the_gateway_ended() {
    let folder = folder();
    let engine = Arc::new(FolderStore::open(&folder.path().join("store")).expect("a store"));
    let receiver = Receiver::default();
    receiver.0.lock().expect("no panic").is_down = true;
    let url = receiver.start().await;
    let webhook = || Webhook::new(&url, &BASE64.encode(SECRET)).expect("a webhook");
    let start = || Running::start_reporting("g1", folder.path(), engine.clone(), webhook());
    let first = start().await;
    first.nodes(&[("n1", "paris"), ("n2", "rome")]).await;
    eventually(|| first.gateway.leader()).await;
    ill(&first, "n1", 2);
    let refused = || receiver.0.lock().expect("no panic").refused;
    eventually(|| (refused() >= 2).then_some(())).await;
    // It is snoozed before it begins a second time, so it is not reported again.
    let snooze = json!({ "id": "site_down/paris", "seconds": 600, "reason": "known" });
    first.done("/api/v1/issues/snooze", snooze).await;
    let metrics = first.text("/metrics").await;
    assert!(metrics.contains("fullbore_fleet_webhook_waiting 1\n"), "{metrics}");
    first.stop().await;
    receiver.0.lock().expect("no panic").is_down = false;
    let again = start().await;
    eventually(|| (receiver.ids().len() == 1).then_some(())).await;
    eventually(|| again.gateway.leader()).await;
    ill(&again, "n2", 3);
    let ids = eventually(|| Some(receiver.ids()).filter(|ids| ids.len() == 2)).await;
    assert!(ids[0].starts_with("issue.began/site_down/paris/"), "{ids:?}");
    assert!(ids[1].starts_with("issue.began/site_down/rome/"), "{ids:?}");
    let body = receiver.0.lock().expect("no panic").taken[1].1.clone();
    assert_eq!((&body["type"], &body["data"]["fleet"]), (&json!("issue.began"), &json!("films")));
    assert_eq!(body["data"]["issue"]["text"], "rome is down: its node takes no viewers.");
    let delivered = || again.gateway.webhook_counts().is_some_and(|counts| counts.waiting == 0);
    eventually(|| delivered().then_some(())).await;
    assert_eq!(receiver.ids().len(), 2);
    again.stop().await;
}
