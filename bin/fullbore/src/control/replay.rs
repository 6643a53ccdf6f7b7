//! `fullbore control replay`: replays the logged decisions of a gateway or a box.

use std::path::Path;

use serde_json::{Value, json};

use super::ask::{At, now_unix_seconds};
use super::{Failed, report};
use crate::load::Time;

/// Replays a gateway's decisions.
pub(super) async fn of_gateway(
    last: Option<Time>,
    title: Option<String>,
    at: &At,
) -> Result<(), Failed> {
    let mut query = Vec::new();
    query.extend(last.map(|last| ("since_unix_seconds", since(last).to_string())));
    query.extend(title.map(|title| ("title", title)));
    let answer = at.client()?.get("/api/v1/replay", &query).await?;
    at.print(&answer, report::replayed);
    is_same(answer["different"].as_u64())
}

/// Replays the decisions of the box whose agent has this state folder.
pub(super) fn of_node(
    state: &Path,
    last: Option<Time>,
    title: Option<&str>,
    at: &At,
) -> Result<(), Failed> {
    if !state.join("node.key").is_file() {
        return Err(Failed(
            1,
            format!(
                "{} is not a node's state folder: name the one that `fullbore node` uses",
                state.display()
            ),
        ));
    }
    let cannot = |error| Failed(1, format!("cannot read the logs in {}: {error}", state.display()));
    let replayed = node::replay(state, last.map_or(0, since), title).map_err(cannot)?;
    let answer = json!({ "answers": replayed.answers, "conditions": replayed.conditions });
    at.print(&answer, words);
    is_same(Some(replayed.different()))
}

fn since(Time(last): Time) -> u64 {
    now_unix_seconds().saturating_sub(last.as_secs())
}

fn is_same(different: Option<u64>) -> Result<(), Failed> {
    match different {
        Some(0) => Ok(()),
        _ => Err(Failed(1, "some decisions came out differently".to_owned())),
    }
}

fn words(answer: &Value) -> String {
    let conditions = &answer["conditions"];
    let whole = |name: &str| conditions[name].as_u64().unwrap_or(0);
    let mut text = format!("Answers to viewers: {}", report::replayed(&answer["answers"]));
    text += &format!(
        "What the box said of itself: {} turns came out the same, {} otherwise; {} lines cannot be read\n",
        whole("same"),
        whole("different"),
        whole("broken_lines")
    );
    for difference in conditions["differences"].as_array().into_iter().flatten() {
        text += &format!("otherwise: {difference}\n");
    }
    text
}
