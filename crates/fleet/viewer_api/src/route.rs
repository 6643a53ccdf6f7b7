//! `/api/v1/route?title=TITLE`: a viewer's nodes as JSON, for custom players.

use std::path::Path;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::response::Response;
use catalog::encode_path;
use serde::Serialize;

use crate::address::folder;
use crate::answering::{Answers, check_length, title_path};
use crate::query::parameter;
use crate::reply::{Refusal, counted, json};

#[derive(Serialize)]
struct RouteAnswer<'a> {
    version: u32,
    title: &'a str,
    epoch: u64,
    snapshot: u64,
    label: Option<&'static str>,
    nodes: Vec<RouteNode<'a>>,
}

#[derive(Serialize)]
struct RouteNode<'a> {
    node: &'a str,
    site: &'a str,
    url: String,
    dash_url: String,
    reason: &'static str,
}

pub(crate) async fn route(State(answers): State<Arc<Answers>>, request: Request) -> Response {
    counted(&answers, "route", answer(&answers, &request.into_parts().0))
}

fn answer(answers: &Answers, parts: &Parts) -> Result<Response, Refusal> {
    check_length(parts)?;
    let text = parameter(parts.uri.query().unwrap_or(""), "title").ok_or(Refusal::NoTitle)?;
    let path = title_path(Some(text))?;
    let chosen = answers.choose(path.as_str(), parts)?;
    let (title, policy) = (chosen.title(), &chosen.fleet.snapshot().policy);
    let nodes = chosen.nodes().zip(&chosen.decision.ranked).map(|(node, ranked)| {
        let base = folder(policy, node, chosen.token.as_deref(), &title.path);
        let file = |path: &str| base.clone() + &encode_path(Path::new(path));
        RouteNode {
            node: node.name.as_str(),
            site: node.place.site.as_str(),
            url: file(&title.hls.path),
            dash_url: file(&title.dash.path),
            reason: ranked.reason.as_str(),
        }
    });
    Ok(json(&RouteAnswer {
        version: 1,
        title: &title.path,
        epoch: chosen.decision.epoch,
        snapshot: chosen.decision.snapshot,
        label: chosen.decision.label.map(|label| label.as_str()),
        nodes: nodes.collect(),
    }))
}
