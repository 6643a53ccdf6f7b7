//! Purges of the fleet's edges: ordering them, and the receipts.

use fleet_protocol::{FleetPurge, PurgeTarget};
use serde_json::{Value, json};

use super::operation::FieldKind::{List, Object, Text, Truth, Whole};
use super::operation::{Answer, ApiField, Call, maybe, needed};
use super::{ApiError, object};
use crate::gateway::{Gateway, shown_purge};
use crate::live::{PurgeAtNode, PurgeState};
use store::records::OrderedPurge;

/// Orders per answer: default and maximum.
const LIMIT: u64 = 20;
const LIMIT_MAX: u64 = 100;

/// The body of an order.
pub(super) const ORDER: &[ApiField] = &[
    maybe("urls", List, "URLs or paths, with their queries; at most 100."),
    maybe("prefix", Text, "Purge all URLs that begin like this, such as /films/."),
    maybe("tags", List, "Purge everything with one of these surrogate keys; at most 256."),
    maybe("soft", Truth, "Whether edges keep it, but ask the origin before they serve it again."),
    maybe("reason", Text, "The reason, for other operators."),
];

/// The answer to an order, and what a list has of each.
pub(super) const ORDERED: &[ApiField] = &[
    needed("number", Whole, "The order's number."),
    needed("ordered_unix_seconds", Whole, "When it was ordered, since 1970."),
    needed("by", Text, "The operator."),
    needed("kind", Text, "url, prefix or tag."),
    needed("soft", Truth, "Whether edges keep what it names."),
    needed("what", Text, "The paths, the prefix or the tags, without queries."),
    needed("reason", Text, "The reason."),
    needed("is_done", Truth, "Whether every edge of the fleet has confirmed it."),
    needed("counts", Object, "Nodes by state: {done, refused, waiting, too_old, no_edge}."),
    needed(
        "nodes",
        List,
        "Receipts: {node, site, state, films, responses, is_everything, why}. A list of orders has them only if it is asked for one order.",
    ),
];

/// The query of a list.
pub(super) const LISTED: &[ApiField] = &[
    maybe("number", Whole, "Only this order, with each node's receipt."),
    maybe("limit", Whole, "Most orders to list, at most 100; default 20."),
];

const STATES: [PurgeState; 5] = [
    PurgeState::Done,
    PurgeState::Refused,
    PurgeState::Waiting,
    PurgeState::TooOld,
    PurgeState::NoEdge,
];

pub(super) async fn order(call: Call) -> Answer {
    let purge = FleetPurge { target: target(&call)?, is_soft: call.truth("soft").unwrap_or(false) };
    let reason = call.text("reason").unwrap_or_default();
    let number = call.gateway.order_purge(purge, reason, &call.operator.id).await?;
    // Another operator's orders may have displaced it, but not within seconds.
    let ordered = one(&call.gateway, number);
    object(ordered.ok_or_else(|| ApiError::Broken("the store did not keep it".to_owned()))?)
}

pub(super) async fn list(call: Call) -> Answer {
    if let Some(number) = call.query_whole("number") {
        let missing =
            || ApiError::NotFound(format!("purge {number} is not kept, or was not ordered"));
        return object(json!({ "purges": [one(&call.gateway, number).ok_or_else(missing)?] }));
    }
    let limit = call.query_whole("limit").unwrap_or(LIMIT).min(LIMIT_MAX) as usize;
    let purges = &call.gateway.live().world().purges;
    let latest = purges.after(0).rev().take(limit);
    let shown: Vec<_> = latest
        .map(|(number, order)| {
            let now = call.gateway.now();
            let nodes = call.gateway.live().purge_at_nodes(number, now).unwrap_or_default();
            described(number, order, &nodes, false)
        })
        .collect();
    object(json!({ "purges": shown }))
}

/// An order with all receipts.
fn one(gateway: &Gateway, number: u64) -> Option<Value> {
    let purges = &gateway.live().world().purges;
    let nodes = gateway.live().purge_at_nodes(number, gateway.now())?;
    Some(described(number, purges.order(number)?, &nodes, true))
}

fn described(number: u64, order: &OrderedPurge, nodes: &[PurgeAtNode], with_nodes: bool) -> Value {
    let count = |state| nodes.iter().filter(|node| node.state == state).count();
    let counts = STATES.map(count);
    let [done, refused, waiting, too_old, no_edge] = counts;
    let shown = if with_nodes { nodes } else { &[] };
    json!({
        "number": number,
        "ordered_unix_seconds": order.unix_seconds,
        "by": order.by,
        "kind": order.purge.kind(),
        "soft": order.purge.is_soft,
        "what": shown_purge(&order.purge),
        "reason": order.reason,
        "is_done": nodes.iter().all(|node| node.state.is_settled()),
        "counts": {
            "done": done, "refused": refused, "waiting": waiting, "too_old": too_old, "no_edge": no_edge
        },
        "nodes": shown,
    })
}

/// The URLs, the prefix or the tags of an order.
fn target(call: &Call) -> Result<PurgeTarget, ApiError> {
    let (urls, tags) = (texts(call, "urls")?, texts(call, "tags")?);
    let targets = [
        urls.map(PurgeTarget::Urls),
        call.text("prefix").map(|prefix| PurgeTarget::Prefix(prefix.to_owned())),
        tags.map(PurgeTarget::Tags),
    ];
    let mut named = targets.into_iter().flatten();
    match (named.next(), named.next()) {
        (Some(target), None) => Ok(target),
        _ => Err(ApiError::Wrong("name urls, a prefix or tags, and only one of them".to_owned())),
    }
}

fn texts(call: &Call, name: &str) -> Result<Option<Vec<String>>, ApiError> {
    let Some(list) = call.body.get(name).filter(|list| !list.is_null()) else { return Ok(None) };
    let texts = serde_json::from_value(list.clone());
    texts.map(Some).map_err(|_| ApiError::Wrong(format!("{name} is not a list of strings")))
}
