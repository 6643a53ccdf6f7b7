//! Routes of a node's router, sent over real sockets: accepted within bounds.

use fleet_protocol::{Announced, RoutesAnswer, RoutesUpdate};
use fullbore_gateway::live::{AllowList, World};
use identity::{NODE_LIFETIME, RefusalReason};
use reqwest::{Client, Response};

use crate::gateway::{Gateway, is, name, refused};

fn update(node: &str, announced: &[&str]) -> RoutesUpdate {
    let announced = Announced::read_file(&announced.join("\n")).unwrap();
    let (version, number, base, withdrawn) = (1, 1, None, vec![]);
    RoutesUpdate {
        version,
        node: name(node),
        boot: "boot1".to_owned(),
        number,
        base,
        announced,
        withdrawn,
    }
}

async fn post(client: &Client, gateway: &Gateway, body: Vec<u8>) -> Response {
    let url = format!("{}/machine/v1/routes", gateway.url);
    client.post(url).body(body).send().await.unwrap()
}

async fn send(client: &Client, gateway: &Gateway, update: &RoutesUpdate) -> Response {
    post(client, gateway, serde_json::to_vec(update).unwrap()).await
}

fn allow(gateway: &Gateway, prefix: &str) {
    let before = gateway.live.world();
    let list = AllowList::within(&[prefix.parse().unwrap()]);
    let allowed = before.sites.keys().map(|site| (site.clone(), list.clone())).collect();
    gateway.live.set_world(World { allowed, ..(*before).clone() }.into(), gateway.now());
}

#[tokio::test]
async fn a_node_passes_on_routes_and_hears_how_many_count() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let (_, node) = gateway.node("node-1").await;
    allow(&gateway, "192.0.2.0/24");
    let first = update("node-1", &["192.0.2.0/25 as_path_length=2", "10.0.0.0/8"]);
    let answer: RoutesAnswer = send(&node, &gateway, &first).await.json().await.unwrap();
    assert_eq!(answer, RoutesAnswer { wants_all: false, believed: 1, refused: 1 });
    gateway.live.make_snapshot(gateway.now()).unwrap();
    let snapshot = gateway.snapshot();
    let told: Vec<_> = snapshot.sites[0].announced.iter().map(Announced::to_string).collect();
    assert_eq!(told, ["192.0.2.0/25 as_path_length=2"]);
    let lost = RoutesUpdate { number: 9, base: Some(8), ..update("node-1", &[]) };
    let answer: RoutesAnswer = send(&node, &gateway, &lost).await.json().await.unwrap();
    assert!(answer.wants_all);
}

#[tokio::test]
async fn routes_of_others_and_of_no_form_are_refused() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let (_, node) = gateway.node("node-1").await;
    gateway.node("node-2").await;
    let forged = send(&node, &gateway, &update("node-2", &["192.0.2.0/24"])).await;
    assert_eq!(refused(forged).await, is(403, RefusalReason::OtherName));
    let stranger = send(&gateway.stranger(), &gateway, &update("node-1", &[])).await;
    assert_eq!(refused(stranger).await, is(401, RefusalReason::NoCertificate));
    let large = post(&node, &gateway, vec![b' '; (16 << 20) + 1]).await;
    assert_eq!(refused(large).await, is(413, RefusalReason::BodyTooLarge));
    let malformed = post(&node, &gateway, b"{\"version\":1}".to_vec()).await;
    assert_eq!(refused(malformed).await, is(400, RefusalReason::Malformed));
    let mut unsorted = update("node-1", &["10.0.0.0/8", "192.0.2.0/24"]);
    unsorted.announced.reverse();
    let unsorted = send(&node, &gateway, &unsorted).await;
    assert_eq!(refused(unsorted).await, is(400, RefusalReason::OutOfBounds));
    assert_eq!(gateway.count(RefusalReason::OutOfBounds), 1);
}
