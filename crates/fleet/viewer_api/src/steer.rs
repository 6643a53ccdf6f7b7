//! `/steering/hls` and `/steering/dash`: the pathways that a player should prefer (RFC 8216, second edition, section 7; ETSI TS 103 998).
//!
//! The answer is 200 to every request, and it always has a priority list. A session with an invalid signature is answered with the pathways that
//! the player already has: no decision is made for it, and nothing is logged.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::response::Response;
use fleet_protocol::{Name, SnapshotNode, State as NodeState};
use serde::Serialize;
use steering::{Decision, Fleet};

use crate::address::{has_default_port, host};
use crate::answering::{Answers, peer};
use crate::manifest::ManifestKind;
use crate::query::{Reported, parameter};
use crate::reply::json;
use crate::session::{ReadSession, ViewerSession};

/// Time until the next request if there is no fleet with a policy.
const TTL_SECONDS: u32 = 30;

/// The name of an unnamed pathway (RFC 8216, second edition, section 4.4.6.6). A list that names none of a player's nodes leaves it where it is.
const UNNAMED: &str = ".";

pub(crate) async fn hls(State(answers): State<Arc<Answers>>, request: Request) -> Response {
    steer(&answers, ManifestKind::Hls, &request.into_parts().0)
}

pub(crate) async fn dash(State(answers): State<Arc<Answers>>, request: Request) -> Response {
    steer(&answers, ManifestKind::Dash, &request.into_parts().0)
}

#[derive(Serialize)]
#[serde(rename_all = "SCREAMING-KEBAB-CASE")]
struct SteeringAnswer<'a> {
    version: u32,
    ttl: u32,
    pathway_priority: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pathway_clones: Vec<CloneOf<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "SCREAMING-KEBAB-CASE")]
struct CloneOf<'a> {
    base_id: &'a str,
    id: &'a str,
    uri_replacement: Replacement,
}

#[derive(Serialize)]
#[serde(rename_all = "SCREAMING-KEBAB-CASE")]
struct Replacement {
    host: String,
}

fn steer(answers: &Answers, kind: ManifestKind, parts: &Parts) -> Response {
    let query = parts.uri.query().unwrap_or("");
    let reported = Reported::of(kind, query);
    let fleet = answers.source.fleet();
    let text = parameter(query, "s").unwrap_or_default();
    let session = match ViewerSession::open(&text, &answers.options.session_key) {
        ReadSession::Signed(session) => session,
        ReadSession::Unsigned(session) => {
            answers.source.count("unsigned_session");
            return stay(fleet.as_deref(), &session.nodes, reported.pathway.as_ref());
        }
        ReadSession::Unreadable => {
            answers.source.count("unreadable_session");
            return stay(fleet.as_deref(), &[], reported.pathway.as_ref());
        }
    };
    // A player that reports nothing is about to start with the first pathway.
    let playing = reported.pathway.clone().unwrap_or_else(|| session.nodes[0].clone());
    if let Some(fleet) = &fleet {
        let (title, viewer) = (session.title.as_str(), session.viewer);
        let decision =
            answers.decide(fleet, title, viewer, peer(parts), Some(&(playing.clone(), reported)));
        if !decision.ranked.is_empty() {
            answers.source.count(label(kind));
            return move_to(fleet, kind, &session, &decision);
        }
    }
    answers.source.count("steering_nowhere");
    stay(fleet.as_deref(), &session.nodes, Some(&playing))
}

fn label(kind: ManifestKind) -> &'static str {
    match kind {
        ManifestKind::Hls => "steering_hls",
        ManifestKind::Dash => "steering_dash",
    }
}

/// The decision, with a clone for each node that is not in the player's manifest.
fn move_to(
    fleet: &Fleet,
    kind: ManifestKind,
    session: &ViewerSession,
    decision: &Decision,
) -> Response {
    let nodes = &fleet.snapshot().nodes;
    let ranked = || decision.ranked.iter().map(|ranked| &nodes[ranked.node]);
    let is_new = |node: &&SnapshotNode| !session.nodes.contains(&node.name);
    let clone = |node: &'_ SnapshotNode| Replacement { host: clone_host(fleet, kind, node) };
    json(&SteeringAnswer {
        version: 1,
        ttl: decision.ttl_seconds,
        pathway_priority: ranked().map(|node| node.name.as_str()).collect(),
        pathway_clones: ranked()
            .filter(is_new)
            .map(|node| CloneOf {
                base_id: session.nodes[0].as_str(),
                id: node.name.as_str(),
                uri_replacement: clone(node),
            })
            .collect(),
    })
}

/// hls.js and Shaka replace only the host of the base's address and keep its port; dash.js replaces both.
fn clone_host(fleet: &Fleet, kind: ManifestKind, node: &SnapshotNode) -> String {
    let policy = &fleet.snapshot().policy;
    match kind {
        ManifestKind::Dash if !has_default_port(policy) => {
            format!("{}:{}", host(node), policy.port)
        }
        _ => host(node),
    }
}

/// The player's own pathways, with the one that it uses first, without revoked nodes.
fn stay(fleet: Option<&Fleet>, nodes: &[Name], playing: Option<&Name>) -> Response {
    let is_revoked = |name: &Name| {
        let node =
            fleet.and_then(|fleet| Some(&fleet.snapshot().nodes[fleet.node(name.as_str())?]));
        node.is_some_and(|node| node.state == NodeState::Revoked)
    };
    let others = nodes.iter().filter(|name| Some(*name) != playing);
    let names = playing.into_iter().chain(others).filter(|name| !is_revoked(name));
    let mut priority: Vec<&str> = names.map(Name::as_str).collect();
    if priority.is_empty() {
        priority.push(UNNAMED);
    }
    json(&SteeringAnswer {
        version: 1,
        ttl: fleet.map_or(TTL_SECONDS, |fleet| fleet.snapshot().policy.ttl_seconds),
        pathway_priority: priority,
        pathway_clones: Vec::new(),
    })
}
