//! Gateways, and the keys that sign viewers' addresses.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::operation::{Answer, Call};
use super::places::name;
use super::{ApiError, object};
use store::records::{GatewayRecord, load_all};

/// A gateway that does not accept a connection within this time counts as not answering.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

pub(super) async fn list(call: Call) -> Answer {
    let (gateways, _) = load_all::<GatewayRecord>(call.gateway.engine()).await?;
    let told = &call.gateway.live().world().gateways;
    let mut shown: Vec<Value> = Vec::new();
    for stored in gateways {
        let machines = stored.record.machines;
        let answers = answers(&machines).await;
        let is_told = told.contains(&machines);
        shown.push(json!({
            "name": stored.name, "machines": machines, "answers": answers, "is_told": is_told
        }));
    }
    object(json!({ "gateways": shown }))
}

/// Whether it accepts connections at that address.
async fn answers(machines: &str) -> bool {
    let address = machines.trim_start_matches("https://");
    matches!(timeout(ANSWERS_WITHIN, TcpStream::connect(address)).await, Ok(Ok(_)))
}

pub(super) async fn remove(call: Call) -> Answer {
    let gone = name(call.segment("gateway"))?;
    if gone == *call.gateway.name() {
        return Err(ApiError::Conflict(format!(
            "{gone} is this gateway, which is running: stop it, and send the request to another one"
        )));
    }
    let by = call.by("remove-gateway", "");
    call.gateway.remove::<GatewayRecord>(&by, gone.as_str()).await?;
    object(json!({ "name": gone }))
}

pub(super) async fn keys(call: Call) -> Answer {
    let keys = call.gateway.token_keys().await?;
    let shown = keys.phases(call.gateway.now().unix_seconds()).map(|(id, key, phase)| {
        json!({
            "id": id, "state": phase.as_str(), "made_unix_seconds": key.made_unix_seconds,
            "signs_from_unix_seconds": key.signs_from_unix_seconds,
            "told_from_unix_seconds": key.told_from_unix_seconds,
            "trusted_until_unix_seconds": key.trusted_until_unix_seconds
        })
    });
    object(json!({ "keys": shown.collect::<Vec<_>>() }))
}

pub(super) async fn roll_keys(call: Call) -> Answer {
    let after = call.whole("seconds");
    let detail = after.map_or_else(String::new, |after| format!("after {after} s"));
    call.gateway.roll_token_keys(after, &call.by("roll-keys", &detail)).await?;
    keys(call).await
}

pub(super) async fn distrust_keys(call: Call) -> Answer {
    call.gateway.distrust_token_keys(&call.by("distrust-keys", "")).await?;
    keys(call).await
}
