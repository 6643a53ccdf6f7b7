//! Reports on edges, sent over real sockets: by a node about itself only, and within bounds.

use fleet_protocol::{EdgeProgress, EdgeReport, PurgeOrders};
use identity::{NODE_LIFETIME, RefusalReason};
use reqwest::{Client, Response};
use serde_json::{Value, json};

use crate::gateway::{Gateway, is, name, refused};

async fn send(client: &Client, gateway: &Gateway, report: &Value) -> Response {
    let url = format!("{}/machine/v1/purges", gateway.url);
    client.post(url).json(report).send().await.unwrap()
}

#[tokio::test]
async fn a_node_reports_its_own_edge_and_gets_its_orders() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let (_, node) = gateway.node("node-1").await;
    let edge = Some(EdgeProgress::default());
    let report = EdgeReport { version: 1, node: name("node-1"), edge };
    let mut report = serde_json::to_value(report).unwrap();
    report["of_a_later_release"] = json!(1);
    let answer: PurgeOrders = send(&node, &gateway, &report).await.json().await.unwrap();
    assert_eq!((answer.epoch, answer.last, answer.orders.len()), (1, 0, 0));
    report["node"] = json!("node-2");
    let other = send(&node, &gateway, &report).await;
    assert_eq!(refused(other).await, is(403, RefusalReason::OtherName));
    report["node"] = json!("node-1");
    report["edge"]["trouble"] = json!("x".repeat(501));
    let long = send(&node, &gateway, &report).await;
    assert_eq!(refused(long).await, is(400, RefusalReason::OutOfBounds));
}
