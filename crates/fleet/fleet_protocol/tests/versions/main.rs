//! Compatibility of gateways and nodes of different releases: this program and the release of 27 November 2026, whose documents are in
//! `release.json`.
//!
//! Both directions are tested, without that release's program. It reads only documents like its own: an unknown or a missing field makes it refuse
//! one. So it can read this program's documents if they equal those that it wrote itself.

use std::fmt::Debug;

use fullbore_fleet_protocol::{
    Condition, Desired, EvictionLeave, EvictionRequest, FillGrant, FillGrantRequest, FleetSnapshot,
    Heartbeat, HeartbeatAnswer, Inventory, JoinAnswer, JoinRequest, Keys, OutOfBounds, RenewAnswer,
    RenewRequest, ReturnedTombstones, RoutesAnswer, RoutesUpdate, SheddingReason, ViewerChain,
    ViewerRequest, WatchReport,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Parts without added unknown fields: an enumeration, which JSON writes as an object, and a part that is signed as it is.
const WHOLE: [&str; 2] = ["condition", "gone"];

fn released(name: &str) -> Value {
    let all: Map<String, Value> =
        serde_json::from_str(include_str!("release.json")).expect("documents");
    all.get(name).unwrap_or_else(|| panic!("release.json has no {name}")).clone()
}

/// The document with an additional field in each of its objects.
fn with_unknown(mut document: Value) -> Value {
    match &mut document {
        Value::Array(items) => {
            items.iter_mut().for_each(|item| *item = with_unknown(item.take()));
        }
        Value::Object(fields) => {
            for (name, field) in
                fields.iter_mut().filter(|(name, _)| !WHOLE.contains(&name.as_str()))
            {
                *field = with_unknown(field.take());
                assert_ne!(name, "of_a_later_release");
            }
            fields.insert("of_a_later_release".to_owned(), json!({ "a": [1, "b", null] }));
        }
        _ => {}
    }
    document
}

/// Checks that `now` has the same content as `then`. Null fields may be omitted.
fn assert_says(now: &Value, then: &Value, at: &str) {
    match (now, then) {
        (Value::Object(now), Value::Object(then)) => {
            for name in now.iter().filter(|(_, field)| !field.is_null()).map(|(name, _)| name) {
                assert!(
                    then.contains_key(name),
                    "{at}.{name} is new, and the release of 27 November refuses it: leave it out where it says what its absence says"
                );
            }
            for (name, field) in then.iter().filter(|(_, field)| !field.is_null()) {
                let own = now.get(name).unwrap_or_else(|| panic!("{at}.{name} is gone"));
                assert_says(own, field, &format!("{at}.{name}"));
            }
        }
        (Value::Array(now), Value::Array(then)) => {
            assert_eq!(now.len(), then.len(), "{at}");
            now.iter().zip(then).for_each(|(now, then)| assert_says(now, then, at));
        }
        _ => assert_eq!(now, then, "{at} means something else"),
    }
}

fn lasts<T: Serialize + DeserializeOwned + PartialEq + Debug>(name: &str) -> T {
    let document = released(name);
    let read = |document: Value| {
        serde_json::from_value::<T>(document).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    let own = read(document.clone());
    assert_says(&serde_json::to_value(&own).expect("JSON"), &document, name);
    assert_eq!(read(with_unknown(document)), own, "{name} with fields of a later release");
    own
}

/// Like [`lasts`], for a document with a version.
fn lasts_by_version<T: Serialize + DeserializeOwned + PartialEq + Debug>(
    name: &str,
    check: impl Fn(&T) -> Result<(), OutOfBounds>,
) {
    assert_eq!(check(&lasts(name)), Ok(()), "{name}");
    let mut later = released(name);
    later["version"] = 2.into();
    let later: T = serde_json::from_value(later).expect("its form is the same");
    let refused = check(&later).expect_err("what cannot be ignored raises the version");
    assert!(refused.to_string().contains("version is not 1"), "{name}: {refused}");
}

#[test]
fn what_nodes_of_one_release_send_gateways_of_another_read() {
    lasts_by_version("heartbeat", Heartbeat::check);
    lasts_by_version("inventory", Inventory::check);
    lasts_by_version("routes_update", RoutesUpdate::check);
    lasts_by_version("watch_report", WatchReport::check);
    lasts_by_version("join_request", JoinRequest::check);
    lasts_by_version("renew_request", RenewRequest::check);
    lasts_by_version("viewer_request", ViewerRequest::check);
    lasts_by_version("grant_request", FillGrantRequest::check);
    lasts_by_version("eviction_request", EvictionRequest::check);
    lasts_by_version("kept_gone", ReturnedTombstones::check);
}

#[test]
fn what_gateways_of_one_release_answer_nodes_of_another_read() {
    lasts::<HeartbeatAnswer>("heartbeat_answer");
    lasts::<Desired>("desired");
    lasts::<RoutesAnswer>("routes_answer");
    lasts::<RenewAnswer>("renew_answer");
    lasts::<FillGrant>("grant");
    lasts::<EvictionLeave>("eviction_leave");
    lasts_by_version("join_answer", JoinAnswer::check);
    lasts_by_version("keys", Keys::check);
    lasts_by_version("viewer_chain", ViewerChain::check);
    lasts_by_version("snapshot", FleetSnapshot::check);
}

#[test]
fn a_reason_of_a_later_release_keeps_new_viewers_away() {
    let mut later = released("heartbeat");
    later["condition"] = json!({ "not_me": ["hot", "on_fire"] });
    let read: Heartbeat = serde_json::from_value(later).expect("it is read");
    assert_eq!(read.condition, Condition::NotMe(vec![SheddingReason::Hot, SheddingReason::Other]));
    assert!(!SheddingReason::Other.moves_viewers(), "those who play stay");
}
