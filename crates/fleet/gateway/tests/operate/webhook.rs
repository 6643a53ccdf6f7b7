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

    /// The messages that sites are down. On a slow machine, nodes that send one heartbeat are lost meanwhile, which is reported as well.
    fn sites_down(&self) -> Vec<(String, Value)> {
        let state = self.0.lock().expect("no panic");
        let taken = state.taken.iter().filter(|(id, _)| id.starts_with("issue.began/site_down/"));
        taken.cloned().collect()
    }
}

fn ill(gateway: &Running, node: &str, sequence: u64) {
    gateway.beat_as(node, sequence, Condition::NotMe(vec![SheddingReason::DiskErrors]));
    crate::issues::follow_until_listed(gateway);
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
    // It waits already: a snooze takes back no message.
    let snooze = json!({ "id": "site_down/paris", "seconds": 600, "reason": "known" });
    first.done("/api/v1/issues/snooze", snooze).await;
    let metrics = first.text("/metrics").await;
    assert!(metrics.contains("fullbore_fleet_webhook_total{result=\"failed\"}"), "{metrics}");
    assert!(!metrics.contains("fullbore_fleet_webhook_waiting 0\n"), "{metrics}");
    first.stop().await;
    receiver.0.lock().expect("no panic").is_down = false;
    let again = start().await;
    eventually(|| (receiver.sites_down().len() == 1).then_some(())).await;
    eventually(|| again.gateway.leader()).await;
    ill(&again, "n2", 3);
    let reported = eventually(|| Some(receiver.sites_down()).filter(|all| all.len() == 2)).await;
    let (ids, bodies): (Vec<_>, Vec<_>) = reported.into_iter().unzip();
    assert!(ids[0].starts_with("issue.began/site_down/paris/"), "{ids:?}");
    assert!(ids[1].starts_with("issue.began/site_down/rome/"), "{ids:?}");
    assert_eq!(bodies[1]["type"], "issue.began");
    assert_eq!(bodies[1]["data"]["fleet"], "films");
    assert_eq!(bodies[1]["data"]["issue"]["text"], "rome is down: its node takes no viewers.");
    let waiting = || again.gateway.webhook_counts().waiting;
    eventually(|| (waiting() == 0).then_some(())).await;
    assert_eq!(receiver.sites_down().len(), 2, "each once");
    again.stop().await;
}
