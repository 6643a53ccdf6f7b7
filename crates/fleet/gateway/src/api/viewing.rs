//! Explaining and replaying steering decisions.

use std::net::IpAddr;
use std::sync::Arc;
use std::thread;

use fleet_protocol::Name;
use serde_json::json;
use steering::{Fleet, Logged, Playing, Question};
use tokio::sync::oneshot;
use viewer_api::Source;
use viewer_api::decisions::replay_while;

use super::operation::{Answer, Call};
use super::{ApiError, object};
use crate::live::TitleState;

/// Most nodes whose weight is explained.
const WEIGHTS_MAX: usize = 12;

pub(super) async fn explain(call: Call) -> Answer {
    let text = |name: &str| call.query.get(name).map_or("", String::as_str);
    let address: IpAddr = text("address")
        .parse()
        .map_err(|_| ApiError::Wrong(format!("{:?} is not an IP address", text("address"))))?;
    let fleet = call.gateway.fleet();
    let fleet = fleet
        .ok_or_else(|| ApiError::Unavailable("this gateway has no snapshot yet".to_owned()))?;
    let title = text("title");
    let viewer = match text("viewer") {
        "" => 0,
        number => u64::from_str_radix(number, 16).map_err(|_| {
            ApiError::Wrong(format!(
                "viewer is {number:?}, which is not a number of up to 16 hexadecimal digits: take it from the decision log"
            ))
        })?,
    };
    let playing = call.query.get("playing").map(|node| Playing::from(node));
    if let Some(Playing { pathway, .. }) = playing.filter(|one| fleet.node(one.pathway).is_none()) {
        return Err(ApiError::Wrong(format!("the fleet has no node {pathway:?} to play from")));
    }
    if fleet.title(title).is_none() {
        return Err(no_title(&call, title));
    }
    // The same way as for viewers.
    let region = call.gateway.region().map(Name::as_str);
    let question = Question { address, title, viewer, region, playing };
    let decision = steering::decide(&fleet, &question);
    let snapshot = fleet.snapshot();
    let nodes = decision.ranked.iter().map(|ranked| {
        let node = &snapshot.nodes[ranked.node];
        json!({ "node": node.name, "site": node.place.site, "reason": ranked.reason })
    });
    let text = steering::explain(&fleet, &question) + &weights(&call, &fleet, title);
    object(json!({
        "title": title, "snapshot": decision.snapshot, "matched": decision.matched,
        "label": decision.label, "nodes": nodes.collect::<Vec<_>>(), "text": text
    }))
}

/// Explanations of the weights of the title's nodes, where they differ from the nodes' own figures.
fn weights(call: &Call, fleet: &Fleet, title: &str) -> String {
    let Some(title) = fleet.title(title) else { return String::new() };
    let is_holder =
        |name: &Name| fleet.node(name.as_str()).is_some_and(|at| fleet.holds(at, title));
    let notes = call.gateway.live().weight_notes().into_iter();
    let lines = notes.filter(|(name, _)| is_holder(name));
    let lines: Vec<String> = lines.map(|(name, note)| format!("  {name} {note}\n")).collect();
    let shown = lines.iter().take(WEIGHTS_MAX).map(String::as_str).collect::<String>();
    match lines.len() {
        0 => String::new(),
        count if count > WEIGHTS_MAX => {
            format!("\nWeights:\n{shown}  and {} more\n", count - WEIGHTS_MAX)
        }
        _ => format!("\nWeights:\n{shown}"),
    }
}

/// Why viewers can't get the title at this path.
fn no_title(call: &Call, title: &str) -> ApiError {
    match call.gateway.live().title_at_nodes(title).map(|(state, _)| state) {
        None => ApiError::NotFound(format!("{title:?} was never published")),
        Some(TitleState::Withdrawn) => ApiError::NotFound(format!(
            "{title:?} is withdrawn, so viewers are not sent anywhere for it"
        )),
        Some(TitleState::Published) => ApiError::Unavailable(format!(
            "{title:?} has just been published, and this gateway has no snapshot with it yet: try again in a moment"
        )),
    }
}

/// Reads up to a gigabyte for minutes: one replay at a time, on its own thread so that the store keeps its threads, and only as long as the
/// operator waits.
pub(super) async fn replay(call: Call) -> Answer {
    let since = call.query_whole("since_unix_seconds").unwrap_or(0);
    let title = call.query.get("title").cloned();
    let gateway = Arc::clone(&call.gateway);
    let turn = gateway.try_to_replay().ok_or_else(|| {
        ApiError::Unavailable("another replay is running: try again in a few minutes".to_owned())
    })?;
    let (done, replayed) = oneshot::channel();
    let reading = move || {
        let _turn = turn;
        gateway.decisions().flush();
        let is_waited_for = || !done.is_closed();
        let is_wanted = |logged: &Logged| {
            let is_title = title.as_ref().is_none_or(|title| *title == logged.title);
            is_title && logged.time_unix_seconds >= since
        };
        let replayed = replay_while(gateway.decisions().folder(), is_waited_for, is_wanted);
        // An error means that the operator is no longer waiting.
        let _ = done.send(replayed);
    };
    let broken = |error: String| ApiError::Broken(format!("the log of decisions: {error}"));
    let thread = thread::Builder::new().name("replay".to_owned()).spawn(reading);
    thread.map_err(|error| broken(error.to_string()))?;
    let replayed = replayed.await.map_err(|error| broken(error.to_string()))?;
    let replayed = replayed.map_err(|error| broken(error.to_string()))?;
    object(serde_json::to_value(replayed).map_err(|error| broken(error.to_string()))?)
}
