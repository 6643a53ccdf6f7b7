//! Certificates for viewers: nodes' requests for them, and the chains that an authority issued.

use std::collections::BTreeMap;

use fleet_protocol::Name;
use identity::{check_viewer_chain, check_viewer_request};
use serde_json::{Value, json};

use super::operation::{Answer, Call};
use super::{ApiError, object};
use crate::live::WantedNode;
use store::records::{IssuedChain, ViewerCertificateRecord, load, load_all};

pub(super) async fn list(call: Call) -> Answer {
    let (stored, _) = load_all::<ViewerCertificateRecord>(call.gateway.engine()).await?;
    let records: BTreeMap<_, _> =
        stored.into_iter().map(|stored| (stored.name, stored.record)).collect();
    let world = call.gateway.live().world();
    let nodes = world.nodes.iter().filter(|(_, wanted)| !wanted.is_revoked);
    let shown = nodes.map(|(name, wanted)| {
        let record = records.get(name.as_str());
        let chain = record.and_then(|record| record.chain.as_ref());
        let state = match (record, chain) {
            (None, _) => "own",
            (Some(_), None) => "requested",
            (Some(_), Some(_)) => "issued",
        };
        json!({
            "node": name, "host": wanted.host, "state": state,
            "requested_unix_seconds": record.map(|record| record.requested_unix_seconds),
            "expires_unix_seconds": chain.map(|chain| chain.expires_unix_seconds),
        })
    });
    object(json!({ "certificates": shown.collect::<Vec<Value>>() }))
}

pub(super) async fn request(call: Call) -> Answer {
    let (node, wanted) = node_of(&call)?;
    let stored = load::<ViewerCertificateRecord>(call.gateway.engine(), node.as_str()).await?;
    let record = stored.ok_or_else(|| none(&node))?.record;
    object(json!({ "node": node, "host": wanted.host, "request": record.request }))
}

pub(super) async fn put(call: Call) -> Answer {
    let (node, wanted) = node_of(&call)?;
    let pem = call.text("chain").unwrap_or_default().to_owned();
    let now = call.gateway.now().unix_seconds();
    let wrong = |why| ApiError::Wrong(format!("this cannot be {node}'s certificate: {why}"));
    let by = call.by("put-certificate", "");
    let record = call
        .gateway
        .change(&by, node.as_str(), |before: Option<ViewerCertificateRecord>| {
            let mut record = before.ok_or_else(|| none(&node))?;
            let key = check_viewer_request(&record.request, &wanted.host).map_err(|why| {
                ApiError::Conflict(format!(
                    "the request of {node}: {why}; the node will send another one"
                ))
            })?;
            let ends = check_viewer_chain(&pem, &wanted.host, &key, now).map_err(&wrong)?;
            record.chain = Some(IssuedChain {
                pem: pem.clone(),
                put_unix_seconds: now,
                expires_unix_seconds: ends,
            });
            Ok(record)
        })
        .await?;
    let ends = record.chain.map(|chain| chain.expires_unix_seconds);
    object(json!({ "node": node, "host": wanted.host, "expires_unix_seconds": ends }))
}

/// The node in the path.
fn node_of(call: &Call) -> Result<(Name, WantedNode), ApiError> {
    let text = call.segment("node");
    let world = call.gateway.live().world();
    let found = text.parse::<Name>().ok().and_then(|name| {
        let wanted = world.nodes.get(&name).filter(|wanted| !wanted.is_revoked)?;
        Some((name, wanted.clone()))
    });
    found.ok_or_else(|| ApiError::NotFound(format!("the fleet has no node {text:?}")))
}

fn none(node: &Name) -> ApiError {
    ApiError::NotFound(format!(
        "{node} has sent no request: its server has a certificate of its own (--cert), or serves without TLS"
    ))
}
