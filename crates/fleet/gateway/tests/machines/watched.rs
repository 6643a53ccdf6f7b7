//! Reports of what viewers watched, over real sockets: counted once, bounded, refused with a reason.

use fleet_protocol::{WatchCount, WatchReport, WatchedTitle};
use fullbore_gateway::live::World;
use identity::{NODE_LIFETIME, RefusalReason};
use reqwest::{Client, Response};

use crate::gateway::{Gateway, is, name, refused, title};

pub(crate) fn report(node: &str, number: u64, titles: &[(&str, u64)]) -> WatchReport {
    let titles = titles.iter().map(|(path, bytes)| WatchedTitle {
        path: (*path).to_owned(),
        starts: 2,
        bytes: *bytes,
    });
    WatchReport {
        version: 1,
        node: name(node),
        boot: "boot1".to_owned(),
        number,
        seconds: 60,
        titles: titles.collect(),
        rest: WatchCount { starts: 1, bytes: 1000 },
    }
}

async fn put(client: &Client, gateway: &Gateway, body: Vec<u8>) -> Response {
    let url = format!("{}/machine/v1/watched", gateway.url);
    client.put(url).body(body).send().await.unwrap()
}

async fn send(client: &Client, gateway: &Gateway, report: &WatchReport) -> Response {
    put(client, gateway, serde_json::to_vec(report).unwrap()).await
}

/// Publishes this title.
pub(crate) fn publish(gateway: &Gateway, path: &str) {
    let before = gateway.live.world();
    let titles = vec![title(path)];
    gateway.live.set_world(World { titles, ..(*before).clone() }.into(), gateway.now());
}

#[tokio::test]
async fn what_a_node_says_is_taken_once_and_counted_for_its_region() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let (_, node) = gateway.node("node-1").await;
    publish(&gateway, "films/a");
    let first = report("node-1", 1, &[("films/a", 3_000_000), ("films/unknown", 5)]);
    assert_eq!(send(&node, &gateway, &first).await.status(), 204);
    let again = send(&node, &gateway, &first).await;
    assert_eq!(refused(again).await, is(409, RefusalReason::Stale));
    let watched = gateway.live.watched("films/a", gateway.now());
    assert_eq!((watched.len(), &watched[0].region), (1, &name("europe")));
    assert!(watched[0].count.bytes >= 3_000_000, "{watched:?}");
    let counts = gateway.live.popularity_counts();
    assert_eq!((counts.kept, counts.unknown_titles), (1, 1));
}

#[tokio::test]
async fn what_cannot_be_is_refused_and_counted() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let (_, node) = gateway.node("node-1").await;
    gateway.node("node-2").await;
    publish(&gateway, "films/a");
    let forged = send(&node, &gateway, &report("node-2", 1, &[])).await;
    assert_eq!(refused(forged).await, is(403, RefusalReason::OtherName));
    let stranger = send(&gateway.stranger(), &gateway, &report("node-1", 1, &[])).await;
    assert_eq!(refused(stranger).await, is(401, RefusalReason::NoCertificate));
    let large = put(&node, &gateway, vec![b' '; (4 << 20) + 1]).await;
    assert_eq!(refused(large).await, is(413, RefusalReason::BodyTooLarge));
    let malformed = put(&node, &gateway, b"{\"version\":1}".to_vec()).await;
    assert_eq!(refused(malformed).await, is(400, RefusalReason::Malformed));
    let twice = report("node-1", 1, &[("films/a", 1), ("films/a", 1)]);
    let twice = send(&node, &gateway, &twice).await;
    assert_eq!(refused(twice).await, is(400, RefusalReason::OutOfBounds));
    // Without a ceiling, no node may claim more than 1 Tb/s.
    let lie = report("node-1", 1, &[("films/a", 500_000_000_000_000)]);
    let lie = send(&node, &gateway, &lie).await;
    assert_eq!(refused(lie).await, is(403, RefusalReason::OverCeiling));
    assert_eq!(gateway.count(RefusalReason::OverCeiling), 1);
    assert_eq!(gateway.live.watched("films/a", gateway.now()), []);
}
