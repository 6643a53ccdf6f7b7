//! Nodes that send slowly: they block only themselves.

use std::future::ready;
use std::io;
use std::time::Duration;

use fleet_protocol::{Digest, HeldTitle, Inventory};
use futures_util::{StreamExt, stream};
use identity::{NODE_LIFETIME, RefusalReason};
use reqwest::header::CONTENT_LENGTH;
use reqwest::{Body, Client, Response};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::gateway::{Gateway, is, name, refused};

async fn put(client: &Client, gateway: &Gateway, body: Vec<u8>) -> Response {
    let url = format!("{}/machine/v1/inventory", gateway.url);
    client.put(url).body(body).send().await.unwrap()
}

fn inventory(node: &str, count: usize) -> Vec<u8> {
    let held = |at| HeldTitle { path: format!("films/{at}"), version: Digest::of(b"a") };
    serde_json::to_vec(&Inventory::new(name(node), (0..count).map(held).collect())).unwrap()
}

/// Sends the beginning of a large inventory, but never the rest.
fn trickle(client: &Client, gateway: &Gateway) -> JoinHandle<reqwest::Result<Response>> {
    let url = format!("{}/machine/v1/inventory", gateway.url);
    let begin = stream::once(ready(Ok::<_, io::Error>(vec![b' '; 1000])));
    let body = Body::wrap_stream(begin.chain(stream::pending()));
    tokio::spawn(client.put(url).header(CONTENT_LENGTH, 1 << 20).body(body).send())
}

/// Sends a large body slowly, until another one of the same node is refused, because the first is still being read.
async fn send_slowly(client: &Client, gateway: &Gateway) {
    let mut slow = trickle(client, gateway);
    for _ in 0..200 {
        // It was refused itself, if it came while the other one was read.
        if slow.is_finished() {
            slow = trickle(client, gateway);
        }
        let (status, reason) = refused(put(client, gateway, vec![b' '; 70 << 10]).await).await;
        if (status, &*reason) == (503, RefusalReason::Unavailable.as_str()) {
            return;
        }
        assert_eq!((status, reason), is(400, RefusalReason::Malformed));
        // sleeps: between two tries, within the node's rate limit
        sleep(Duration::from_millis(300)).await;
    }
    panic!("the slow body is not read");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_sends_slowly_takes_its_own_turn_and_no_other_nodes() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    for at in 1..=7 {
        let slow = format!("slow-{at}");
        let (_, client) = gateway.node(&slow).await;
        send_slowly(&client, &gateway).await;
        // Small bodies of the same node need no permit.
        assert_eq!(put(&client, &gateway, inventory(&slow, 1)).await.status(), 204);
    }
    let (_, other) = gateway.node("other").await;
    let large = inventory("other", 2000);
    assert!(large.len() > 100_000, "{}", large.len());
    assert_eq!(put(&other, &gateway, large).await.status(), 204);
}
