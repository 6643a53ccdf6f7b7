//! Purges of the fleet's edges: who may order them, which are refused, and receipts at several gateways of one store.

use std::sync::Arc;

use fleet_protocol::{EdgeProgress, EdgeReceipt, EdgeReport, PurgeOrders};
use identity::NODE_LIFETIME;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use store::FolderStore;

use crate::fleet::{Running, eventually, folder, name};

const PURGES: &str = "/api/v1/purges";

/// A node's report, and the orders that it gets.
fn report(gateway: &Running, node: &str, edge: Option<EdgeProgress>) -> PurgeOrders {
    let report = EdgeReport { version: 1, node: name(node), edge };
    gateway.gateway.live().handle_edge_report(&name(node), report).expect("it is taken")
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_order_purges_that_edges_can_carry_out_and_observers_list_them() {
    let folder = folder();
    let fleet = Running::start(folder.path()).await;
    fleet.nodes(&[("n1", "paris"), ("n2", "rome"), ("n3", "rome")]).await;
    let read = fleet.operator("anna", "read", None).await;
    let operate = fleet.operator("otto", "operate", None).await;
    let partner = fleet.operator("isp", "partner", Some(&["paris"])).await;
    let order = json!({ "urls": ["https://edge.example/a?key=1"], "soft": true, "reason": "cut" });
    for (token, method, expected) in [
        (&read, Method::POST, StatusCode::FORBIDDEN),
        (&partner, Method::POST, StatusCode::FORBIDDEN),
        (&partner, Method::GET, StatusCode::FORBIDDEN),
        (&operate, Method::POST, StatusCode::OK),
        (&read, Method::GET, StatusCode::OK),
    ] {
        let body = (method == Method::POST).then(|| order.clone());
        let (status, answer) = fleet.ask(Some(token), method, PURGES, body).await;
        assert_eq!(status, expected, "{answer}");
    }
    for (wrong, said) in [
        (json!({}), "name urls, a prefix or tags"),
        (json!({ "prefix": "/", "tags": ["a"] }), "only one of them"),
        (json!({ "urls": [1] }), "urls is not a list of strings"),
        (json!({ "urls": [] }), "at least one"),
        (json!({ "urls": ["/%zz"] }), "encoded correctly"),
        (json!({ "prefix": "films" }), "encoded correctly"),
        (json!({ "prefix": "/", "reason": "x".repeat(201) }), "longer than 200 bytes"),
    ] {
        let (status, answer) = fleet.post(PURGES, wrong).await;
        assert!(status == StatusCode::BAD_REQUEST, "{answer}");
        assert!(answer["error"].as_str().is_some_and(|error| error.contains(said)), "{answer}");
    }
    let orders = report(&fleet, "n1", Some(EdgeProgress::default()));
    assert_eq!((orders.last, orders.orders[0].purge.parts().len()), (1, 1));
    report(&fleet, "n2", None);
    let list = fleet.get(PURGES).await;
    let listed = &list["purges"][0];
    let expected = json!({ "done": 0, "refused": 0, "waiting": 1, "too_old": 1, "no_edge": 1 });
    assert_eq!((&listed["counts"], &listed["what"]), (&expected, &json!("/a?...")));
    assert_eq!((&listed["by"], &listed["nodes"]), (&json!("otto"), &json!([])));
    assert!(!list.to_string().contains("key=1"), "{list}");
    let metrics = fleet.text("/metrics").await;
    assert!(metrics.contains("fullbore_fleet_purges_waiting 2\n"), "{metrics}");
    let (status, _) = fleet.ask(Some(&read), Method::GET, "/api/v1/purges?number=2", None).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_at_one_gateway_reaches_nodes_of_another() {
    let folders = [folder(), folder()];
    let engine = Arc::new(FolderStore::open(&folders[0].path().join("store")).expect("a store"));
    let first = Running::start_on(folders[0].path(), engine.clone()).await;
    first.nodes(&[("n1", "paris")]).await;
    let second = Running::start_as("g2", folders[1].path(), engine, NODE_LIFETIME).await;
    let order = first.done(PURGES, json!({ "tags": ["film-7"], "reason": "cut" })).await;
    assert_eq!((&order["number"], &order["is_done"]), (&json!(1), &json!(false)));
    let asked = || {
        let orders = report(&second, "n1", Some(EdgeProgress::default()));
        (orders.last == 1).then_some(orders)
    };
    let orders = eventually(asked).await;
    assert_eq!(orders.orders[0].purge.parts(), ["film-7"]);
    let receipt = EdgeReceipt { number: 1, films: 3, ..EdgeReceipt::default() };
    let done =
        EdgeProgress { epoch: orders.epoch, done: 1, receipts: vec![receipt], trouble: None };
    assert_eq!(report(&first, "n1", Some(done)).known, 1);
    let (_, answer) =
        first.ask(Some(&first.admin_token()), Method::GET, "/api/v1/purges?number=1", None).await;
    let node: &Value = &answer["purges"][0]["nodes"][0];
    assert_eq!((&node["state"], &node["films"]), (&json!("done"), &json!(3)), "{answer}");
    first.stop().await;
    second.stop().await;
}
