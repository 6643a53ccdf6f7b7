//! Nodes: listing, draining, revoking.

use fleet_protocol::Name;
use serde_json::{Value, json};

use super::operation::{Answer, Call};
use super::{ApiError, object};
use store::records::{NodeRecord, Revoked, Wanted};

pub(super) async fn list(call: Call) -> Answer {
    let view = call.gateway.live().view(call.gateway.now());
    let sees = |site: &Name| call.own_sites().is_none_or(|own| own.contains(site));
    let nodes: Vec<_> = view.nodes.into_iter().filter(|node| sees(&node.place.site)).collect();
    let store_problem = call.gateway.store_problem();
    object(json!({ "frozen": view.frozen, "store_problem": store_problem, "nodes": nodes }))
}

pub(super) async fn drain(call: Call) -> Answer {
    let reason = call.text("reason").unwrap_or_default().trim().to_owned();
    if reason.is_empty() {
        return Err(ApiError::Wrong("reason is empty: give one for other operators".to_owned()));
    }
    let now = call.gateway.now().unix_seconds();
    let returns_unix_seconds = call.whole("returns_unix_seconds");
    if returns_unix_seconds.is_some_and(|returns| returns <= now) {
        return Err(ApiError::Wrong("returns_unix_seconds is in the past".to_owned()));
    }
    let wanted =
        Wanted::Drained { reason: reason.clone(), since_unix_seconds: now, returns_unix_seconds };
    change(&call, "drain", &reason, |node| node.wanted = wanted.clone()).await
}

pub(super) async fn undrain(call: Call) -> Answer {
    change(&call, "undrain", "", |node| node.wanted = Wanted::Serving).await
}

pub(super) async fn revoke(call: Call) -> Answer {
    let reason = call.text("reason").unwrap_or_default().trim().to_owned();
    let since_unix_seconds = call.gateway.now().unix_seconds();
    let revoked = Revoked { reason: reason.clone(), since_unix_seconds };
    // The first revocation stays: its time and reason don't change.
    change(&call, "revoke", &reason, |node| {
        node.revoked.get_or_insert_with(|| revoked.clone());
    })
    .await
}

pub(super) async fn ceiling(call: Call) -> Answer {
    let ceiling = call.whole("bits_per_second").unwrap_or(0);
    let detail = format!("{ceiling} bit/s");
    change(&call, "ceiling", &detail, |node| node.ceiling_bits_per_second = ceiling).await
}

pub(super) async fn believe_silence(call: Call) -> Answer {
    let (gateway, by) = (&call.gateway, call.by("believe-silence", ""));
    let subject = gateway.name().as_str();
    // This must work without the store, too: then only the gateway's own log has the line.
    if let Err(error) = gateway.commit(&by, subject, &[], Vec::new()).await {
        gateway.tell(&by.line(subject));
        gateway.tell(&format!("believe-silence could not be written to the audit log: {error}"));
    }
    gateway.live().believe_silence(gateway.now());
    list(call).await
}

/// Changes a node's record, and returns its new state.
async fn change(
    call: &Call,
    what: &'static str,
    detail: &str,
    edit: impl Fn(&mut NodeRecord),
) -> Answer {
    let name = call.segment("node");
    let missing = || ApiError::NotFound(format!("the fleet has no node {name:?}"));
    let node: Name = name.parse().map_err(|_| missing())?;
    let by = call.by(what, detail);
    call.gateway
        .change(&by, name, |before: Option<NodeRecord>| {
            let mut record = before.ok_or_else(missing)?;
            // A partner must not learn whether nodes of other sites exist.
            if call.own_sites().is_some_and(|own| !own.contains(&record.place.site)) {
                return Err(missing());
            }
            if record.revoked.is_some() && what != "revoke" {
                return Err(ApiError::Conflict(format!("node {name} is revoked, for good")));
            }
            edit(&mut record);
            Ok(record)
        })
        .await?;
    let state = call.gateway.live().state_of(&node);
    let mut answer = serde_json::Map::new();
    answer.insert("node".to_owned(), Value::from(name));
    answer.insert("state".to_owned(), Value::from(state.as_str()));
    Ok(answer)
}
