//! Titles: listing, locating, publishing and withdrawing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use catalog::TitlePath;
use serde_json::json;

use super::operation::{Answer, Call};
use super::{ApiError, object};
use crate::gateway::Publication;

/// Titles per answer: default and maximum.
const LIMIT: u64 = 50;
const LIMIT_MAX: u64 = 10_000;

pub(super) async fn list(call: Call) -> Answer {
    let search = call.query.get("search").map_or("", String::as_str);
    let limit = call.query_whole("limit").unwrap_or(LIMIT).min(LIMIT_MAX);
    let (total, titles) = call.gateway.live().titles(search, limit as usize);
    object(json!({ "total": total, "titles": titles }))
}

pub(super) async fn at_nodes(call: Call) -> Answer {
    let title = call.query.get("title").map_or("", String::as_str);
    let found = call.gateway.live().title_at_nodes(title);
    let (state, nodes) =
        found.ok_or_else(|| ApiError::NotFound(format!("{title:?} was never published")))?;
    let watched = call.gateway.live().watched(title, call.gateway.now());
    let watched: Vec<_> = watched.into_iter().map(|one| json!({
        "region": one.region, "starts_a_day": one.count.starts, "bytes_a_day": one.count.bytes
    })).collect();
    object(json!({ "title": title, "state": state, "nodes": nodes, "watched": watched }))
}

pub(super) async fn publish(call: Call) -> Answer {
    let bytes = |name: &str| {
        let decoded = STANDARD.decode(call.text(name).unwrap_or_default());
        decoded.map_err(|_| ApiError::Wrong(format!("{name} is not base64")))
    };
    let publication = Publication {
        path: path(&call)?,
        origin: call.text("origin").unwrap_or_default().to_owned(),
        at_once: call.body.get("now").and_then(serde_json::Value::as_bool).unwrap_or(false),
        series: call.text("series").map(str::to_owned),
        record: bytes("record")?,
        hls: bytes("hls")?,
        dash: bytes("dash")?,
    };
    let by = call.by("publish", &publication.origin);
    let published = call.gateway.publish(publication, &by).await?;
    object(json!({
        "title": published.path, "digest": published.version, "bytes": published.bytes,
        "duration_seconds": published.duration_seconds
    }))
}

pub(super) async fn withdraw(call: Call) -> Answer {
    let path = path(&call)?;
    let by = call.by("withdraw", call.text("reason").unwrap_or_default());
    let digest = call.gateway.withdraw(&path, &by).await?;
    object(json!({ "title": path.as_str(), "digest": digest }))
}

pub(super) fn path(call: &Call) -> Result<TitlePath, ApiError> {
    let title = call.text("title").unwrap_or_default();
    TitlePath::new(title).map_err(|error| ApiError::Wrong(error.to_string()))
}
