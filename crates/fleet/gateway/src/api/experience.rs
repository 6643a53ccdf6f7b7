//! What viewers experience: the groups with the most trouble first.

use std::sync::Arc;

use fleet_protocol::Name;
use serde_json::json;
use tokio::task::spawn_blocking;

use super::operation::FieldKind::{List, Object, Text, Whole};
use super::operation::{Answer, ApiField, Call, maybe, needed};
use super::places::name;
use super::{ApiError, object};
use crate::experience::{ExperienceWindow, RowsBy, RowsScope};

/// Rows per answer: default and maximum.
const LIMIT: u64 = 100;
const LIMIT_MAX: u64 = 10_000;

/// The query.
pub(super) const ASKED: &[ApiField] = &[
    maybe("over", Text, "now (the last quarter of an hour), day (24 hours) or week; default now."),
    maybe("by", Text, "title, site, region, network, player or node; default title."),
    maybe("site", Text, "Only sessions at this site."),
    maybe("limit", Whole, "Most rows to list, at most 10,000; default 100."),
];

/// The answer.
pub(super) const EXPERIENCE: &[ApiField] = &[
    needed("over", Text, "now, day or week."),
    needed("by", Text, "What the rows are of."),
    needed("since_unix_seconds", Whole, "From when sessions count, since 1970."),
    needed(
        "complete_since_unix_seconds",
        Whole,
        "From when this gateway has all reports: later, if it is new or was away for more than an hour.",
    ),
    needed("total", Object, "All sessions: a row without a name."),
    needed("row_count", Whole, "The number of rows without the limit."),
    needed(
        "rows",
        List,
        "The groups with the most trouble first: {name, sessions, troubled, not_started, stalled, left_stalled, quality_not_reached, \
         stalls, stalled_seconds, played_seconds, stall_ratio, play_delay_seconds, time_to_quality_seconds, stall_seconds, \
         megabits_per_second}. A count of sessions is {count, share, low, high}, a quantity is null or {count, mean, median, worst_tenth}, \
         and each of the latter two is {value, low, high}: the true value is between low and high in 95 of 100 cases. \
         A quantity of fewer than ten sessions is null, and so is a worst tenth of fewer than 35. \
         Sessions in groups without a name come last, with a null name.",
    ),
];

pub(super) async fn list(call: Call) -> Answer {
    let text = |name: &str, default: &'static str| {
        call.query.get(name).map_or(default, String::as_str).to_owned()
    };
    let (over, by) = (text("over", "now"), text("by", "title"));
    let window = ExperienceWindow::named(&over)
        .ok_or_else(|| ApiError::Wrong(format!("over is now, day or week, not {over:?}")))?;
    let by = RowsBy::named(&by).ok_or_else(|| {
        let all = RowsBy::ALL.map(RowsBy::as_str).join(", ");
        ApiError::Wrong(format!("by is one of {all}, not {by:?}"))
    })?;
    let sites = sites(&call)?;
    let limit = call.query_whole("limit").unwrap_or(LIMIT).min(LIMIT_MAX) as usize;
    let gateway = Arc::clone(&call.gateway);
    // A week of a large fleet has many sums.
    let made = spawn_blocking(move || {
        let world = gateway.live().world();
        let region = |site: &Name| world.sites.get(site).map(|site| site.region.clone());
        let scope = RowsScope { sites: sites.as_deref(), region: &region };
        let view = gateway.live().experience().view(window, gateway.now());
        view.rows(by, &scope)
    });
    let mut made = made.await.map_err(|error| ApiError::Broken(error.to_string()))?;
    let row_count = made.rows.len();
    made.rows.truncate(limit);
    object(json!({
        "over": window.as_str(), "by": by.as_str(), "since_unix_seconds": made.since_unix_seconds,
        "complete_since_unix_seconds": made.complete_since_unix_seconds,
        "total": made.total, "row_count": row_count, "rows": made.rows,
    }))
}

/// The sites that count: partners see their own.
fn sites(call: &Call) -> Result<Option<Vec<Name>>, ApiError> {
    let own = call.own_sites();
    let Some(asked) = call.query.get("site") else { return Ok(own.map(<[Name]>::to_vec)) };
    let asked = name(asked)?;
    let is_there = call.gateway.live().world().sites.contains_key(&asked);
    if !is_there || own.is_some_and(|own| !own.contains(&asked)) {
        return Err(ApiError::NotFound(format!("there is no site {asked}")));
    }
    Ok(Some(vec![asked]))
}
