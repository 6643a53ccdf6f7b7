//! Plans: what would move, and where publishers want titles whatever is watched.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use super::operation::{Answer, Call};
use super::titles::path;
use super::{ApiError, object};
use crate::planning::dry_run;
use crate::store::records::{PinnedCopies, PinsRecord};

/// Moves in one answer, if nothing else is said, and at most.
const MOVES: u64 = 20;
const MOVES_MAX: u64 = 10_000;

pub(super) async fn plan(call: Call) -> Answer {
    let moves_max = call.query_whole("moves").unwrap_or(MOVES).min(MOVES_MAX) as usize;
    let gateway = Arc::clone(&call.gateway);
    let planned = spawn_blocking(move || {
        // A plan of a large fleet takes seconds and some hundred megabytes.
        let _turn = gateway.try_to_plan().ok_or_else(|| {
            ApiError::Unavailable(
                "this gateway is planning already: ask again in a minute".to_owned(),
            )
        })?;
        let basis = gateway.live().plan_basis(gateway.now());
        let basis = basis.map_err(|why| ApiError::Conflict(why.to_owned()))?;
        dry_run(basis, moves_max).map_err(|error| ApiError::Conflict(error.to_string()))
    });
    let planned = planned.await.map_err(|error| ApiError::Broken(error.to_string()))??;
    object(serde_json::to_value(planned).map_err(|error| ApiError::Broken(error.to_string()))?)
}

pub(super) async fn pin(call: Call) -> Answer {
    let path = path(&call)?;
    let list = call.body.get("pins").cloned().unwrap_or(Value::Null);
    let pins: Vec<PinnedCopies> = serde_json::from_value(list)
        .map_err(|error| ApiError::Wrong(format!("pins is not a list of pins: {error}")))?;
    if call.gateway.live().title_at_nodes(path.as_str()).is_none() {
        return Err(ApiError::NotFound(format!("{path} was never published")));
    }
    let by = call.by("pin", &format!("{} pins", pins.len()));
    let record = PinsRecord { pins };
    let record = call.gateway.change(&by, path.as_str(), |_| Ok(record.clone())).await?;
    object(json!({ "title": path.as_str(), "pins": record.pins }))
}
