//! Requests of nodes that have joined, and refusals for hostile ones.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fleet_protocol::{
    Condition, CopyKeys, Digest, EVICTIONS_MAX, EvictionLeave, EvictionRequest, FillGrant,
    FillGrantRequest, FleetTombstones, Heartbeat, HeartbeatAnswer, HeldTitle, Inventory, Keys,
    Load, PublishedTitle, ReturnedTombstones, Signed, State, TitleDocument,
};
use fullbore_gateway::clock::Clock;
use fullbore_gateway::live::{PlacedTitles, World};
use fullbore_gateway::machines::SIGNATURE;
use fullbore_tests::PATIENCE;
use identity::{NODE_LIFETIME, RefusalReason, client_config};
use reqwest::Client;
use token::CopyRing;

use crate::gateway::{
    Gateway, admitted_max, client, eventually, is, name, now, refused, refused_at_last,
};

pub(crate) fn beat(node: &str, sequence: u64) -> Heartbeat {
    Heartbeat {
        version: 1,
        node: name(node),
        boot: "boot1".to_owned(),
        sequence,
        sent_unix_millis: now() * 1000,
        condition: Condition::Ready,
        load: Load { ceiling_bits_per_second: 1_000_000_000, ..Load::default() },
        inventory: Digest::of(b""),
        snapshot: 0,
        receipts: vec![],
        fill: None,
        fill_bytes_per_day: None,
        served_at: None,
        sightings: Vec::new(),
    }
}

async fn send(client: &Client, gateway: &Gateway, beat: &Heartbeat) -> reqwest::Response {
    let url = format!("{}/machine/v1/heartbeat", gateway.url);
    client.post(url).json(beat).send().await.unwrap()
}

#[tokio::test]
async fn a_node_beats_and_serves() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let (_, node) = gateway.node("node-1").await;
    let answer: HeartbeatAnswer =
        send(&node, &gateway, &beat("node-1", 1)).await.json().await.unwrap();
    assert_eq!(answer.state, State::Serving);
    assert!(answer.wants_inventory);
    let url = |what: &str| format!("{}/machine/v1/{what}", gateway.url);
    let keys: Keys = node.get(url("keys")).send().await.unwrap().json().await.unwrap();
    assert_eq!(keys.digest(), answer.keys);
    let inventory = Inventory::new(name("node-1"), vec![]);
    let put = node.put(url("inventory")).json(&inventory).send().await.unwrap();
    assert_eq!(put.status(), 204);
    let desired = node.get(url("desired")).send().await.unwrap().bytes().await.unwrap();
    assert_eq!(Digest::of(&desired), answer.desired);
    let response = node.get(url("snapshot")).send().await.unwrap();
    let signature = response.headers()[SIGNATURE].to_str().unwrap().to_owned();
    let signature = data_encoding::HEXLOWER.decode(signature.as_bytes()).unwrap();
    let signed = Signed { signature, bytes: response.bytes().await.unwrap().to_vec() };
    assert!(gateway.key.open(fleet_protocol::FleetSnapshot::CONTEXT, &signed).is_ok());
    assert_eq!(gateway.snapshot().nodes[0].name, name("node-1"));
}

#[tokio::test]
async fn what_a_newer_node_says_besides_is_read_over_and_its_inventory_is_asked_for_once() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let (_, node) = gateway.node("node-1").await;
    let url = |what: &str| format!("{}/machine/v1/{what}", gateway.url);
    let inventory = r#"{"version":1,"node":"node-1","held":[],"disks":[{"bytes":7}]}"#;
    let beat = async |sequence| {
        let mut beat = serde_json::to_value(beat("node-1", sequence)).unwrap();
        beat["inventory"] = Digest::of(inventory.as_bytes()).to_string().into();
        beat["load"]["power_watts"] = 300.into();
        beat["disks"] = serde_json::json!([{ "is_worn": true }]);
        let answer = node.post(url("heartbeat")).json(&beat).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.json::<HeartbeatAnswer>().await.unwrap()
    };
    assert!(beat(1).await.wants_inventory);
    let put = node.put(url("inventory")).body(inventory).send().await.unwrap();
    assert_eq!(put.status(), 204);
    let answer = beat(2).await;
    assert_eq!((answer.state, answer.wants_inventory), (State::Serving, false));
}

/// A node of an incompatible release is refused, and operators see that it is not silent.
#[tokio::test]
async fn operators_see_why_a_node_that_beats_is_not_heard() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let (_, node) = gateway.node("node-1").await;
    let later = Heartbeat { version: 2, ..beat("node-1", 1) };
    let answer = send(&node, &gateway, &later).await;
    assert_eq!(refused(answer).await, is(400, RefusalReason::OutOfBounds));
    let view = gateway.live.view(gateway.now());
    let reason = view.nodes[0].reason.clone().unwrap_or_default();
    assert!(reason.contains("heartbeats are refused (version is not 1"), "{reason}");
}

#[tokio::test]
async fn a_node_may_not_speak_for_another() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let (_, node) = gateway.node("node-1").await;
    gateway.node("node-2").await;
    let forged = send(&node, &gateway, &beat("node-2", 1)).await;
    assert_eq!(refused(forged).await, is(403, RefusalReason::OtherName));
    let inventory = Inventory::new(name("node-2"), vec![]);
    let url = format!("{}/machine/v1/inventory", gateway.url);
    let forged = node.put(url).json(&inventory).send().await.unwrap();
    assert_eq!(refused(forged).await, is(403, RefusalReason::OtherName));
    assert_eq!(gateway.live.world().nodes.len(), 2);
}

#[tokio::test]
async fn after_a_restore_a_node_is_asked_first_and_only_the_fleets_own_word_counts() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let (_, node) = gateway.node("node-1").await;
    gateway.node("node-2").await;
    let world = World { is_restored: true, ..(*gateway.live.world()).clone() };
    gateway.live.set_world(Arc::new(world), Clock::start().now());
    let url = |what: &str| format!("{}/machine/v1/{what}", gateway.url);
    let beaten = send(&node, &gateway, &beat("node-1", 1)).await;
    assert!(beaten.json::<HeartbeatAnswer>().await.unwrap().wants_gone);
    let desired = node.get(url("desired")).send().await.unwrap();
    assert_eq!(refused(desired).await, is(503, RefusalReason::Unavailable));
    let gone = FleetTombstones { epoch: 1, revoked: vec![name("node-2")], withdrawn: vec![] };
    let forged = ReturnedTombstones { version: 1, gone, signature: vec![0; 64] };
    let put = node.put(url("gone")).json(&forged).send().await.unwrap();
    assert_eq!(refused(put).await, is(400, RefusalReason::Malformed));
    assert!(gateway.record("node-2").await.unwrap().revoked.is_none());
    // A node without a list reports that, and is not asked again.
    let nothing: Option<ReturnedTombstones> = None;
    assert_eq!(node.put(url("gone")).json(&nothing).send().await.unwrap().status(), 204);
    let beaten = send(&node, &gateway, &beat("node-1", 2)).await;
    assert!(!beaten.json::<HeartbeatAnswer>().await.unwrap().wants_gone);
}

#[tokio::test]
async fn a_node_gets_leave_to_copy_what_it_shall_hold_for_ten_minutes_and_nothing_else() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let (_, node) = gateway.node("node-1").await;
    let document = TitleDocument { path: "x".to_owned(), sha256: Digest::of(b"x") };
    let title = PublishedTitle {
        path: "films/a".to_owned(),
        version: Digest::of(b"a"),
        bytes: 1,
        duration_seconds: 1.0,
        record: document.clone(),
        hls: document.clone(),
        dash: document,
        origin: "file:///x".to_owned(),
        published_unix_seconds: 1,
    };
    let held = title.held();
    let world = World { titles: vec![title], ..(*gateway.live.world()).clone() };
    gateway.live.set_world(Arc::new(world), Clock::start().now());
    let ask = |held: &HeldTitle| {
        let request = FillGrantRequest { version: 1, held: held.clone() };
        node.post(format!("{}/machine/v1/grant", gateway.url)).json(&request).send()
    };
    let grant: FillGrant = ask(&held).await.unwrap().json().await.unwrap();
    let expires = grant.expires_unix_seconds;
    assert!((now() + 590..=now() + 600).contains(&expires), "{expires}");
    assert_eq!(grant.token, Some(format!("{expires}.films/a")));
    let other_version = HeldTitle { version: Digest::of(b"b"), ..held.clone() };
    let other_title = HeldTitle { path: "films/b".to_owned(), ..held.clone() };
    for other in [other_version, other_title] {
        assert_eq!(refused(ask(&other).await.unwrap()).await, is(404, RefusalReason::NotFound));
    }
    let odd = HeldTitle { path: "../a".to_owned(), ..held.clone() };
    assert_eq!(refused(ask(&odd).await.unwrap()).await, is(400, RefusalReason::OutOfBounds));
    // The plan places the title elsewhere.
    let before = gateway.live.world();
    let placed = PlacedTitles::new(&[], &before.titles, true, 1);
    let world = World { placed: Some(Arc::new(placed)), ..(*before).clone() };
    gateway.live.set_world(Arc::new(world), Clock::start().now());
    assert_eq!(refused(ask(&held).await.unwrap()).await, is(404, RefusalReason::NotFound));
    // While part of the plan is unread, the gateway gives no list: the node would take it for the full one.
    let placed = PlacedTitles::new(&[], &before.titles, false, 1);
    let world = World { placed: Some(Arc::new(placed)), ..(*before).clone() };
    gateway.live.set_world(Arc::new(world), Clock::start().now());
    let desired = node.get(format!("{}/machine/v1/desired", gateway.url)).send().await.unwrap();
    assert_eq!(refused(desired).await, is(503, RefusalReason::Unavailable));
}

#[tokio::test]
async fn a_node_asks_before_it_removes_a_copy_and_about_some_at_a_time() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let (_, node) = gateway.node("node-1").await;
    let ask = |held: Vec<HeldTitle>| {
        let request = EvictionRequest { version: 1, held };
        node.post(format!("{}/machine/v1/evictions", gateway.url)).json(&request).send()
    };
    let long = "x".repeat(190);
    let some = |count: usize| {
        let held = |at| HeldTitle { path: format!("{at}{long}"), version: Digest::of(b"a") };
        (0..count).map(held).collect::<Vec<_>>()
    };
    let leave: EvictionLeave = ask(some(EVICTIONS_MAX)).await.unwrap().json().await.unwrap();
    assert!(leave.held.is_empty(), "there is no plan");
    let many = ask(some(EVICTIONS_MAX + 1)).await.unwrap();
    assert_eq!(refused(many).await, is(400, RefusalReason::OutOfBounds));
}

#[tokio::test]
async fn a_stranger_may_do_nothing_but_join() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let stranger = gateway.stranger();
    for what in ["keys", "desired", "snapshot", &format!("document/{}", Digest::of(b""))] {
        let url = format!("{}/machine/v1/{what}", gateway.url);
        let answered = stranger.get(url).send().await.unwrap();
        assert_eq!(refused(answered).await, is(401, RefusalReason::NoCertificate), "{what}");
    }
    let answered = send(&stranger, &gateway, &beat("node-1", 1)).await;
    assert_eq!(refused(answered).await, is(401, RefusalReason::NoCertificate));
    for (method, path) in
        [("GET", "/machine/v1/join"), ("GET", "/"), ("DELETE", "/machine/v1/keys")]
    {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let url = format!("{}{path}", gateway.url);
        let answered = stranger.request(method, url).send().await.unwrap();
        assert_eq!(refused(answered).await, is(404, RefusalReason::NotFound), "{path}");
    }
}

#[tokio::test]
async fn bodies_are_bounded_and_of_their_form() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let (_, node) = gateway.node("node-1").await;
    let post = async |what: &str, body: Vec<u8>| {
        let url = format!("{}/machine/v1/{what}", gateway.url);
        node.post(url).body(body).send().await.unwrap()
    };
    let large = post("heartbeat", vec![b' '; 65 << 10]).await;
    assert_eq!(refused(large).await, is(413, RefusalReason::BodyTooLarge));
    let large = post("join", vec![b' '; 17 << 10]).await;
    assert_eq!(refused(large).await, is(413, RefusalReason::BodyTooLarge));
    let good = serde_json::to_value(beat("node-1", 1)).unwrap();
    let mut bad = Vec::new();
    for (field, value) in [
        ("node", "Node 1".into()),
        ("sequence", (-1).into()),
        ("condition", "sleepy".into()),
        ("inventory", "12".into()),
        ("load", serde_json::Value::Null),
    ] {
        let mut beat = good.clone();
        beat[field] = value;
        bad.push(beat.to_string().into_bytes());
    }
    bad.extend([b"".to_vec(), b"{".to_vec(), vec![0xff; 100], vec![b'['; 60_000]]);
    for body in bad {
        let shown = String::from_utf8_lossy(&body).chars().take(300).collect::<String>();
        assert_eq!(
            refused(post("heartbeat", body).await).await,
            is(400, RefusalReason::Malformed),
            "{shown}"
        );
    }
    let mut beat = beat("node-1", 1);
    beat.boot = String::new();
    let answered = send(&node, &gateway, &beat).await;
    assert_eq!(refused(answered).await, is(400, RefusalReason::OutOfBounds));
}

#[tokio::test]
async fn a_heartbeat_that_comes_again_is_not_news() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let (_, node) = gateway.node("node-1").await;
    assert_eq!(send(&node, &gateway, &beat("node-1", 7)).await.status(), 200);
    let replayed = send(&node, &gateway, &beat("node-1", 7)).await;
    assert_eq!(refused(replayed).await, is(409, RefusalReason::Stale));
}

#[tokio::test]
async fn a_flood_of_one_node_is_cut_and_does_not_hurt_another() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let (_, loud) = gateway.node("node-1").await;
    let (_, quiet) = gateway.node("node-2").await;
    let (begin, mut sequence, mut heard) = (Instant::now(), 0, 0);
    while gateway.count(RefusalReason::Flood) < 40 {
        sequence += 1;
        heard += u64::from(send(&loud, &gateway, &beat("node-1", sequence)).await.status() == 200);
        assert!(Instant::now() < begin + PATIENCE, "it is not cut: {:?}", gateway.refusals);
    }
    let bound = admitted_max(begin, 40, 4);
    assert!(heard <= bound, "{heard} of {bound}");
    assert_eq!(send(&quiet, &gateway, &beat("node-2", 1)).await.status(), 200);
}

#[tokio::test]
async fn a_revoked_node_is_cut_off_while_it_is_connected() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let (own, node) = gateway.node("node-1").await;
    assert_eq!(send(&node, &gateway, &beat("node-1", 1)).await.status(), 200);
    gateway.revoke("node-1").await;
    assert!(eventually(|| gateway.count(RefusalReason::Revoked) > 0).await);
    // This also holds on a new connection, and with a certificate that is valid for weeks.
    let again = client(client_config(&own).unwrap());
    let url = |what: &str| format!("{}/machine/v1/{what}", gateway.url);
    let beat = || again.post(url("heartbeat")).json(&beat("node-1", 2)).send();
    assert_eq!(refused_at_last(beat).await, is(403, RefusalReason::Revoked));
    let request = fleet_protocol::RenewRequest { version: 1, request: own.request() };
    let renew = || again.post(url("renew")).json(&request).send();
    assert_eq!(refused_at_last(renew).await, is(403, RefusalReason::Revoked));
}

/// With these keys, nodes prove to each other that they copy titles instead of watching them.
#[tokio::test]
async fn nodes_get_one_set_of_keys_of_copies_and_revoked_nodes_and_strangers_get_none() {
    let [first, second] = Gateway::start_some::<2>(NODE_LIFETIME).await;
    let (_, node) = first.node("node-1").await;
    let (_, other) = first.node("node-2").await;
    let url = |gateway: &Gateway| format!("{}/machine/v1/copy-keys", gateway.url);
    let mut rings = Vec::new();
    for (client, gateway) in [(&node, &first), (&other, &second)] {
        let keys: CopyKeys = client.get(url(gateway)).send().await.unwrap().json().await.unwrap();
        keys.check().unwrap();
        rings.push(CopyRing::parse(&keys.text).unwrap());
    }
    let proof = rings[0].prove(b"films/a/1.m4s", now()).expect("a key of today");
    assert!(rings[1].proves(proof.as_bytes(), b"films/a/1.m4s", now()));
    first.revoke("node-2").await;
    let mut told = None;
    for _ in 0..1200 {
        // An error means that the gateway has just read the store, and closed the node's connection.
        if let Ok(response) = other.get(url(&first)).send().await {
            if response.status() == 403 {
                told = Some(refused(response).await);
                break;
            }
        }
        // sleeps: between two tries, until the gateway has read its store
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(told, Some(is(403, RefusalReason::Revoked)));
    let response = first.stranger().get(url(&first)).send().await.unwrap();
    assert_eq!(refused(response).await, is(401, RefusalReason::NoCertificate));
}
