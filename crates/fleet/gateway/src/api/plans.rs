//! Plans: dry runs, applying and undoing them, and publishers' pins.

use placement::PlacementPolicy;
use serde_json::{Value, json};

use super::operation::{Answer, Call};
use super::titles::path;
use super::{ApiError, object};
use crate::planning::DryRun;
use store::records::{
    PinnedCopies, PinnedScope, PinsRecord, PlacementRecord, SiteRecord, StoreRecord, load_all,
};

/// Moves per answer: default and maximum.
const MOVES: u64 = 20;
const MOVES_MAX: u64 = 10_000;

pub(super) async fn policy(call: Call) -> Answer {
    let policy = &call.gateway.live().world().placement;
    object(serde_json::to_value(policy).map_err(|error| ApiError::Broken(error.to_string()))?)
}

pub(super) async fn put_policy(call: Call) -> Answer {
    let policy: PlacementPolicy = serde_json::from_value(Value::Object(call.body.clone()))
        .map_err(|error| ApiError::Wrong(error.to_string()))?;
    let record = PlacementRecord { policy };
    record.check("").map_err(|why| ApiError::Wrong(why.to_owned()))?;
    let by = call.by("placement", "");
    call.gateway.change(&by, "", |_| Ok(record.clone())).await?;
    self::policy(call).await
}

pub(super) async fn plan(call: Call) -> Answer {
    let moves_max = call.query_whole("moves").unwrap_or(MOVES);
    told(call.gateway.dry_run(moves_max.min(MOVES_MAX) as usize).await?)
}

pub(super) async fn apply(call: Call) -> Answer {
    let moves_max = call.body.get("moves").and_then(Value::as_u64).unwrap_or(MOVES);
    let by = call.by("plan", "");
    told(call.gateway.apply_plan(&by, moves_max.min(MOVES_MAX) as usize).await?)
}

pub(super) async fn undo(call: Call) -> Answer {
    let by = call.by("undo_plan", "");
    let is_news = call.gateway.undo_plan(&by).await?;
    object(json!({ "is_undone": is_news }))
}

fn told(plan: DryRun) -> Answer {
    object(serde_json::to_value(plan).map_err(|error| ApiError::Broken(error.to_string()))?)
}

pub(super) async fn pin(call: Call) -> Answer {
    let path = path(&call)?;
    let list = call.body.get("pins").cloned().unwrap_or(Value::Null);
    let pins: Vec<PinnedCopies> = serde_json::from_value(list)
        .map_err(|error| ApiError::Wrong(format!("pins is not a list of pins: {error}")))?;
    if call.gateway.live().title_at_nodes(path.as_str()).is_none() {
        return Err(ApiError::NotFound(format!("{path} was never published")));
    }
    check_places(&call, &pins).await?;
    let by = call.by("pin", &format!("{} pins", pins.len()));
    let record = PinsRecord { pins };
    let record = call.gateway.change(&by, path.as_str(), |_| Ok(record.clone())).await?;
    object(json!({ "title": path.as_str(), "pins": record.pins }))
}

/// Refuses a pin at a place that does not exist, because it would have no effect.
async fn check_places(call: &Call, pins: &[PinnedCopies]) -> Result<(), ApiError> {
    let (sites, _) = load_all::<SiteRecord>(call.gateway.engine()).await?;
    for pin in pins {
        let (is_there, what, name) = match &pin.scope {
            PinnedScope::Everywhere => continue,
            PinnedScope::Region(region) => {
                (sites.iter().any(|site| site.record.region == *region), "region", region)
            }
            PinnedScope::Site(site) => {
                (sites.iter().any(|one| one.name == site.as_str()), "site", site)
            }
        };
        if !is_there {
            return Err(ApiError::NotFound(format!("there is no {what} {:?}", name.as_str())));
        }
    }
    Ok(())
}
