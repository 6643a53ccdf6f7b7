//! Keys that sign viewers' addresses: signing starts and keys roll while the gateway runs.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use store::records::{StoreRecord, TokenKeyRecord, load};
use viewer_api::Source;

use crate::fleet::{Running, eventually, folder};

/// The name of the key that signs now; `None` if there is none.
fn signs(fleet: &Running) -> Option<String> {
    let token = fleet.gateway.sign("films/a", fleet.gateway.now().unix_seconds() + 60)?;
    token.split('.').nth(2).map(str::to_owned)
}

/// Number of keys that nodes get.
fn told(fleet: &Running) -> usize {
    fleet.gateway.live().world().viewer_keys.text.matches("BEGIN PUBLIC KEY").count()
}

fn states(keys: &Value) -> Vec<(&str, &str)> {
    let keys = keys["keys"].as_array().expect("a list");
    let text = |value: &'static str| move |key: &Value| key[value].as_str().expect("a text").len();
    assert!(keys.iter().map(text("id")).all(|length| length == 16));
    keys.iter()
        .map(|key| (key["id"].as_str().unwrap_or(""), key["state"].as_str().unwrap_or("")))
        .collect()
}

/// Changes the first key's record as if its roll had been requested ten minutes ago.
async fn nodes_are_told_in_two_seconds(fleet: &Running) {
    let engine = fleet.gateway.engine();
    let stored = load::<TokenKeyRecord>(engine, "first").await.expect("read").expect("kept");
    let told_from_unix_seconds = Some(fleet.gateway.now().unix_seconds() + 2);
    let record = TokenKeyRecord { told_from_unix_seconds, ..stored.record };
    engine.commit(&[], &[record.put("first").expect("a record")]).await.expect("kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn signing_begins_and_keys_roll_while_the_gateway_runs() {
    let folder = folder();
    let fleet = Running::start(folder.path()).await;
    assert_eq!((signs(&fleet), fleet.get("/api/v1/keys").await["keys"].clone()), (None, json!([])));

    let keys = fleet.done("/api/v1/keys/roll", json!({ "seconds": 600 })).await;
    // It signs at once, and nodes require signatures later.
    let first = signs(&fleet).expect("it signs");
    assert_eq!((states(&keys), told(&fleet)), (vec![(first.as_str(), "signs")], 0));
    let (status, answer) = fleet.post("/api/v1/keys/roll", json!({})).await;
    assert_eq!(status, StatusCode::CONFLICT, "{answer}");
    nodes_are_told_in_two_seconds(&fleet).await;
    eventually(|| (told(&fleet) == 1).then_some(())).await;

    let (status, answer) = fleet.post("/api/v1/keys/roll", json!({ "seconds": 9 })).await;
    assert_eq!(status, StatusCode::CONFLICT, "{answer}");
    let keys = fleet.done("/api/v1/keys/roll", json!({ "seconds": 10 })).await;
    // Nodes get the new key at once, and it signs later.
    assert_eq!((told(&fleet), signs(&fleet)), (2, Some(first.clone())));
    assert!(
        matches!(states(&keys)[..], [(_, "waiting"), (old, "signs")] if old == first),
        "{keys}"
    );
    let end = keys["keys"][1]["trusted_until_unix_seconds"].as_u64().expect("an end");
    // By then its last token (60 s) has expired, with a margin for differing clocks.
    assert!(end >= fleet.gateway.now().unix_seconds() + 60, "{keys}");

    // All of them are distrusted in the middle of the roll.
    let keys = fleet.done("/api/v1/keys/distrust", json!({})).await;
    let second = signs(&fleet).expect("it signs");
    assert_eq!((states(&keys), told(&fleet)), (vec![(second.as_str(), "signs")], 1));
    assert_ne!(second, first);

    let audit = fleet.get("/api/v1/audit").await;
    assert_eq!(audit["lines"][0]["what"], "distrust-keys", "{audit}");
    assert_eq!(audit["lines"][1]["what"], "roll-keys", "{audit}");
    assert!(!audit.to_string().contains("PRIVATE"), "{audit}");
    fleet.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_admins_roll_keys_and_nobody_reads_them() {
    let folder = folder();
    let fleet = Running::start(folder.path()).await;
    let operate = fleet.operator("otto", "operate", None).await;
    let partner = fleet.operator("isp", "partner", Some(&["paris"])).await;
    let cases = [
        (&operate, Method::POST, "/api/v1/keys/roll", StatusCode::FORBIDDEN),
        (&partner, Method::POST, "/api/v1/keys/roll", StatusCode::FORBIDDEN),
        (&operate, Method::POST, "/api/v1/keys/distrust", StatusCode::FORBIDDEN),
        (&partner, Method::GET, "/api/v1/keys", StatusCode::FORBIDDEN),
        (&operate, Method::GET, "/api/v1/keys", StatusCode::OK),
    ];
    for (token, method, path, expected) in cases {
        let body = (method == Method::POST).then(|| json!({}));
        let (status, answer) = fleet.ask(Some(token), method, path, body).await;
        assert_eq!(status, expected, "{path}: {answer}");
    }
    assert_eq!(signs(&fleet), None);
    let keys = fleet.done("/api/v1/keys/roll", json!({})).await;
    let fields: Vec<_> = keys["keys"][0].as_object().expect("a key").keys().cloned().collect();
    let expected = [
        "id",
        "made_unix_seconds",
        "signs_from_unix_seconds",
        "state",
        "told_from_unix_seconds",
        "trusted_until_unix_seconds",
    ];
    assert_eq!(fields, expected);
    fleet.stop().await;
}
