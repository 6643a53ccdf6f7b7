//! Gateways that join and leave, and nodes that learn of it: with a real agent, and without restarts.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fleet_protocol::{
    Condition, Desired, Digest, HeartbeatAnswer, Inventory, Keys, Load, Receipt, Signed, State,
};
use fullbore_tests::PATIENCE;
use identity::{Credentials, NODE_LIFETIME, RefusalReason};
use node::BoxState;
use node::beating::{self, Beating, BeatingOptions};
use node::joining::{Membership, Wish, join};
use reqwest::StatusCode;
use serde_json::json;
use store::records::{GatewayRecord, StoreRecord};
use store::{Engine, FolderStore, Write};

use crate::fleet::{Running, eventually, folder, name};

/// A node that records which gateways answered, and which ones it was given.
struct Hearing {
    inventory: Arc<Inventory>,
    answered: Mutex<Vec<String>>,
    told: Mutex<Vec<String>>,
}

impl Hearing {
    fn hears(&self, gateway: &Running) -> bool {
        self.answered.lock().unwrap().contains(&gateway.machines_url)
    }

    fn count(&self) -> usize {
        self.answered.lock().unwrap().len()
    }

    fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }
}

impl BoxState for Hearing {
    fn condition(&self) -> Condition {
        Condition::Ready
    }

    fn load(&self) -> Load {
        Load::default()
    }

    fn inventory(&self) -> Arc<Inventory> {
        Arc::clone(&self.inventory)
    }

    fn receipts(&self) -> Vec<Receipt> {
        Vec::new()
    }

    fn handle_answer(&self, gateway: &str, _: &HeartbeatAnswer, _: i64) {
        self.answered.lock().unwrap().push(gateway.to_owned());
    }

    fn handle_desired(&self, _: Desired) -> bool {
        true
    }

    fn handle_keys(&self, keys: Keys) {
        *self.told.lock().unwrap() = keys.gateways;
    }

    fn handle_snapshot(&self, _: &str, _: Signed) -> Option<usize> {
        Some(1)
    }

    fn missing_documents(&self) -> Vec<Digest> {
        Vec::new()
    }

    fn handle_document(&self, _: Vec<u8>) {}
}

fn store(folder: &Path) -> Arc<dyn Engine> {
    Arc::new(FolderStore::open(&folder.join("store")).expect("a store"))
}

/// A node that joins and sends heartbeats, with its state in `state`.
async fn node(fleet: &Running, state: &Path) -> (Arc<Hearing>, Beating) {
    let body = json!({ "cluster": "paris-1", "site": "paris" });
    let invite = fleet.done("/api/v1/invites", body).await;
    let token = invite["token"].as_str().expect("a token").parse().expect("a token");
    let wish = Wish { node: name("n1"), host: "n1.example".to_owned(), ceiling_bits_per_second: 0 };
    join(std::slice::from_ref(&fleet.machines_url), &token, wish, state).await.expect("it joins");
    let own = Arc::new(Hearing {
        inventory: Arc::new(Inventory::new(name("n1"), Vec::new())),
        answered: Mutex::default(),
        told: Mutex::default(),
    });
    let beating = beat(state, Arc::clone(&own));
    (own, beating)
}

/// Starts the agent with what is in `state`.
fn beat(state: &Path, own: Arc<Hearing>) -> Beating {
    let membership = Membership::read(state).expect("read").expect("a node");
    let credentials = Credentials::read(state).expect("read");
    let short = Duration::from_millis(200);
    let options = BeatingOptions {
        interval: short,
        snapshot_interval: short,
        inventory_interval: short,
        ..BeatingOptions::default()
    };
    let beating = beating::start(membership, credentials, state.to_owned(), own, options);
    beating.expect("it beats")
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_hear_of_gateways_that_come_and_go_and_nothing_restarts() {
    let folder = folder();
    let first = Running::start(folder.path()).await;
    let (own, _beating) = node(&first, &folder.path().join("node")).await;
    eventually(|| own.hears(&first).then_some(())).await;
    assert_eq!(first.gateway.refusals().count(RefusalReason::UnknownNode), 0, "it has just joined");

    let beside = folder.path().join("beside");
    let second = Running::start_as("g2", &beside, store(folder.path()), NODE_LIFETIME).await;
    eventually(|| own.hears(&second).then_some(())).await;
    let serves = || (second.gateway.live().state_of(&name("n1")) == State::Serving).then_some(());
    eventually(serves).await;
    let listed = first.get("/api/v1/gateways").await;
    let expected = json!([
        { "name": "g1", "machines": first.machines_url, "answers": true, "is_told": true },
        { "name": "g2", "machines": second.machines_url, "answers": true, "is_told": true }
    ]);
    assert_eq!(listed["gateways"], expected);

    let (status, answer) = first.post("/api/v1/gateways/g1/remove", json!({})).await;
    assert_eq!(status, StatusCode::CONFLICT, "{answer}");
    second.stop().await;
    eventually(|| (own.told().len() == 2).then_some(())).await;
    assert_eq!(first.get("/api/v1/gateways").await["gateways"][1]["answers"], false);
    first.done("/api/v1/gateways/g2/remove", json!({})).await;
    eventually(|| (own.told() == [first.machines_url.clone()]).then_some(())).await;
    let (status, answer) = first.post("/api/v1/gateways/g2/remove", json!({})).await;
    assert_eq!(status, StatusCode::NOT_FOUND, "{answer}");
    assert_eq!(first.get("/api/v1/audit").await["lines"][0]["what"], "remove-gateway");
    first.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_told_a_wrong_address_asks_the_gateway_that_answered_before() {
    const WRONG: &str = "https://gw-typo.invalid:8702";
    let folder = folder();
    let first = Running::start(folder.path()).await;
    let state = folder.path().join("node");
    let (own, beating) = node(&first, &state).await;
    eventually(|| own.hears(&first).then_some(())).await;
    let kept = || Membership::read(&state).expect("read").expect("a node");
    eventually(|| (kept().answered == [first.machines_url.clone()]).then_some(())).await;

    // The running gateway is not in the list, and the one in the list does not exist.
    let wrong = GatewayRecord { machines: WRONG.to_owned(), token_seconds: 60 };
    let writes = [wrong.put("g2").expect("a record"), Write::Delete(GatewayRecord::key("g1"))];
    first.gateway.engine().commit(&[], &writes).await.expect("kept");
    eventually(|| (own.told() == [WRONG]).then_some(())).await;
    let count = own.count();
    eventually(|| (own.count() > count + 2).then_some(())).await;
    assert_eq!(kept().keys.gateways, [WRONG]);

    // The same after a restart of the agent.
    drop(beating);
    let _beating = beat(&state, Arc::clone(&own));
    let count = own.count();
    eventually(|| (own.count() > count + 2).then_some(())).await;
    let right = GatewayRecord { machines: first.machines_url.clone(), token_seconds: 60 };
    let writes = [right.put("g1").expect("a record"), Write::Delete(GatewayRecord::key("g2"))];
    first.gateway.engine().commit(&[], &writes).await.expect("kept");
    eventually(|| (own.told() == [first.machines_url.clone()]).then_some(())).await;
    first.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_gateway_whose_name_another_one_took_introduces_itself_again() {
    let folder = folder();
    let first = Running::start(folder.path()).await;
    let beside = folder.path().join("beside");
    let second = Running::start_as("g1", &beside, store(folder.path()), NODE_LIFETIME).await;
    let told = |detail: String| {
        let first = &first;
        async move {
            let audit = first.get("/api/v1/audit").await;
            let lines = audit["lines"].as_array().expect("lines").clone();
            lines.iter().any(|line| line["what"] == "introduce" && line["detail"] == *detail)
        }
    };
    assert!(told(format!("before: {}", first.machines_url)).await, "the second one says so");
    let again = async {
        while !told(format!("before: {}", second.machines_url)).await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, again).await.expect("the first one, too");
    second.stop().await;
    first.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_hold_as_long_as_the_operator_says_and_renew_themselves() {
    let folder = folder();
    let state = folder.path().join("state");
    fullbore_gateway::prepare_state(&state).expect("a folder");
    // It is renewed after 16 seconds, so a machine that stops for some seconds is still in time.
    let life = Duration::from_secs(24);
    let fleet = Running::start_as("g1", folder.path(), store(folder.path()), life).await;
    let state = folder.path().join("node");
    let (own, _beating) = node(&fleet, &state).await;
    let kept = || Credentials::read(&state).expect("a node");
    let first = kept();
    let now = || fleet.gateway.now().unix_seconds();
    assert!(first.certificate().expires_unix_seconds <= now() + life.as_secs());
    let renewed = || kept().certificate().serial != first.certificate().serial;
    eventually(|| renewed().then_some(())).await;
    eventually(|| (now() > first.certificate().expires_unix_seconds).then_some(())).await;
    let count = own.count();
    eventually(|| (own.count() > count + 2).then_some(())).await;
    fleet.stop().await;
}
