//! Reports of viewers' experience, over real sockets: counted once, bounded, refused with a reason.

use fleet_protocol::{ExperienceReport, SumsCell};
use fullbore_gateway::experience::{ExperienceWindow, RowsBy, RowsScope};
use identity::{NODE_LIFETIME, RefusalReason};
use qoe::SessionSums;
use reqwest::{Client, Response};

use crate::gateway::{Gateway, is, name, refused};
use crate::watched::publish;

fn report(node: &str, number: u64, sessions: u64) -> ExperienceReport {
    let cell = |by: &str, name: &str| SumsCell {
        by: by.to_owned(),
        name: name.to_owned(),
        sums: SessionSums { sessions, not_started: sessions, ..SessionSums::default() },
    };
    ExperienceReport {
        version: 1,
        node: name(node),
        boot: "boot1".to_owned(),
        number,
        seconds: 60,
        // By a clock that is ahead: it counts as of now.
        ended_unix_seconds: u64::MAX,
        cells: vec![cell("all", ""), cell("title", "films/a")],
    }
}

async fn put(client: &Client, gateway: &Gateway, body: Vec<u8>) -> Response {
    let url = format!("{}/machine/v1/experience", gateway.url);
    client.put(url).body(body).send().await.unwrap()
}

async fn send(client: &Client, gateway: &Gateway, report: &ExperienceReport) -> Response {
    put(client, gateway, serde_json::to_vec(report).unwrap()).await
}

/// Titles and their sessions.
fn titles(gateway: &Gateway) -> Vec<(Option<String>, u64)> {
    let scope = RowsScope { sites: None, region: &|_| None };
    let view = gateway.live.experience().view(ExperienceWindow::Now, gateway.now());
    let rows = view.rows(RowsBy::Title, &scope).rows;
    rows.into_iter().map(|row| (row.name, row.sessions)).collect()
}

#[tokio::test]
async fn what_a_nodes_viewers_experience_is_counted_once() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let (_, node) = gateway.node("node-1").await;
    publish(&gateway, "films/a");
    let first = report("node-1", 1, 25);
    assert_eq!(send(&node, &gateway, &first).await.status(), 204);
    let again = send(&node, &gateway, &first).await;
    assert_eq!(refused(again).await, is(409, RefusalReason::Stale));
    let mut later = serde_json::to_value(report("node-1", 2, 25)).unwrap();
    later["of_a_later_release"] = 1.into();
    later["cells"][0]["sums"]["of_a_later_release"] = 1.into();
    assert_eq!(put(&node, &gateway, later.to_string().into()).await.status(), 204);
    assert_eq!(titles(&gateway), [(Some("films/a".to_owned()), 50)]);
}

#[tokio::test]
async fn experience_that_cannot_be_is_refused_and_counted() {
    let gateway = Gateway::start(NODE_LIFETIME).await;
    let (_, node) = gateway.node("node-1").await;
    gateway.node("node-2").await;
    let forged = send(&node, &gateway, &report("node-2", 1, 25)).await;
    assert_eq!(refused(forged).await, is(403, RefusalReason::OtherName));
    let stranger = send(&gateway.stranger(), &gateway, &report("node-1", 1, 25)).await;
    assert_eq!(refused(stranger).await, is(401, RefusalReason::NoCertificate));
    let large = put(&node, &gateway, vec![b' '; (8 << 20) + 1]).await;
    assert_eq!(refused(large).await, is(413, RefusalReason::BodyTooLarge));
    let malformed = put(&node, &gateway, b"{\"version\":1}".to_vec()).await;
    assert_eq!(refused(malformed).await, is(400, RefusalReason::Malformed));
    let few = send(&node, &gateway, &report("node-1", 1, 9)).await;
    assert_eq!(refused(few).await, is(400, RefusalReason::OutOfBounds));
    // Without a ceiling, no node may claim more than a million sessions a second.
    let lie = send(&node, &gateway, &report("node-1", 1, 1 << 40)).await;
    assert_eq!(refused(lie).await, is(403, RefusalReason::OverCeiling));
    assert_eq!(gateway.count(RefusalReason::OverCeiling), 1);
    assert_eq!(titles(&gateway), []);
}
