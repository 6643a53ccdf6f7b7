//! `fullbore control purge` and `purges`: purges of all edges of the fleet.

use std::time::Duration;

use ::gateway::client::ApiClient;
use clap::{ArgGroup, Args};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::Failed;
use super::ask::{At, now_unix_seconds};
use super::report::{str_of, table};

/// How often to ask how far nodes are.
const POLL: Duration = Duration::from_millis(500);

/// Have every caching edge of the fleet drop stored responses, and wait for each node's receipt
///
/// Each node whose agent was started with --edge carries it out within a few seconds. A node that is away does so when it is back, before anything
/// else: "fullbore control purges NUMBER" shows what it has done.
#[derive(Args)]
#[command(
    group = ArgGroup::new("what").required(true).args(["url", "prefix", "tag"]),
    after_help = "Exit codes:\n  0  every edge of the fleet has confirmed it\n  1  not all edges have, or there is none\n  2  wrong usage\n\n\
    Examples:\n  fullbore control purge https://edge.example/films/a.mp4 /films/b.mp4\n  \
    fullbore control purge --prefix /films/2025/ --soft\n  fullbore control purge --tag film-7 --tag season-2 --reason \"rights ended\""
)]
pub(super) struct PurgeAll {
    /// URLs of the responses, with their queries; paths will do
    #[arg(value_name = "URL")]
    url: Vec<String>,
    /// Purge all URLs that begin like this, such as /films/
    #[arg(long, value_name = "PATH")]
    prefix: Option<String>,
    /// Purge all responses that the origin gave this tag (Surrogate-Key, Cache-Tag); repeat it for several
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Keep them, but ask the origin before serving them again
    #[arg(long)]
    soft: bool,
    /// Why; other operators will see it
    #[arg(long, default_value = "")]
    reason: String,
    /// Seconds to wait for the edges
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = clap::value_parser!(u32).range(0..=3600))]
    wait: u32,
    #[command(flatten)]
    at: At,
}

/// Show the latest purges of the fleet's edges, or one with each node's receipt
///
/// One line for each purge, the last one first: its number, how long ago it was ordered and by whom, its kind, how many edges have confirmed it,
/// and what it names.
#[derive(Args)]
pub(super) struct PurgesOfFleet {
    /// Number of a purge
    number: Option<u64>,
    /// Most purges to list, at most 100
    #[arg(long, value_name = "COUNT", default_value = "20")]
    limit: u16,
    #[command(flatten)]
    at: At,
}

impl PurgeAll {
    /// Orders the purge, waits for the receipts, and prints them.
    pub(super) async fn run(self) -> Result<(), Failed> {
        let client = self.at.client()?;
        let some = |list: &[String]| (!list.is_empty()).then(|| list.to_vec());
        let body = json!({
            "urls": some(&self.url), "prefix": self.prefix, "tags": some(&self.tag),
            "soft": self.soft, "reason": self.reason,
        });
        let mut order = client.post("/api/v1/purges", &body).await?;
        let deadline = Instant::now() + Duration::from_secs(self.wait.into());
        while is_open(&order) && Instant::now() < deadline {
            sleep(POLL.min(deadline - Instant::now())).await;
            order = fetch(&client, &order["number"]).await?;
        }
        self.at.print(&order, receipts);
        outcome(&order)
    }
}

impl PurgesOfFleet {
    /// Prints the purges.
    pub(super) async fn run(self) -> Result<(), Failed> {
        let client = self.at.client()?;
        if let Some(number) = self.number {
            let order = fetch(&client, &number.into()).await?;
            self.at.print(&order, receipts);
            return Ok(());
        }
        let answer = client.get("/api/v1/purges", &[("limit", self.limit.to_string())]).await?;
        self.at.print(&answer, |answer| list(answer, now_unix_seconds()));
        Ok(())
    }
}

/// An order as it is now.
async fn fetch(client: &ApiClient, number: &Value) -> Result<Value, Failed> {
    let mut answer = client.get("/api/v1/purges", &[("number", number.to_string())]).await?;
    let mut order = answer["purges"][0].take();
    order["version"] = answer["version"].take();
    Ok(order)
}

fn count(order: &Value, state: &str) -> u64 {
    order["counts"][state].as_u64().unwrap_or(0)
}

/// Whether waiting may help.
fn is_open(order: &Value) -> bool {
    count(order, "waiting") + count(order, "too_old") > 0
}

/// Number of nodes that have an edge, or may have one.
fn edges(order: &Value) -> u64 {
    ["done", "refused", "waiting", "too_old"].map(|state| count(order, state)).iter().sum()
}

fn outcome(order: &Value) -> Result<(), Failed> {
    let (done, edges) = (count(order, "done"), edges(order));
    let number = &order["number"];
    if edges == 0 {
        return Err(Failed(
            1,
            "no node has an edge: start the agents of those that have one with --edge".to_owned(),
        ));
    }
    if order["is_done"] == true {
        return Ok(());
    }
    let purge = format!("{done} of {edges} edges have confirmed purge {number}");
    let later = "nodes that are away carry it out when they are back";
    Err(Failed(1, format!("{purge}; {later}: fullbore control purges {number}")))
}

/// An order, with a row for each node.
fn receipts(order: &Value) -> String {
    let mut rows =
        vec![["NODE", "SITE", "STATE", "FILMS", "RESPONSES", "NOTES"].map(str::to_owned)];
    rows.extend(order["nodes"].as_array().into_iter().flatten().map(receipt));
    let softly = if order["soft"] == true { "soft " } else { "" };
    let (number, kind, what) = (&order["number"], str_of(order, "kind"), str_of(order, "what"));
    let first = format!("purge {number}: {softly}{kind} {what}");
    format!("{}\n{}", ingest::shown(&first), table(&rows))
}

fn receipt(node: &Value) -> [String; 6] {
    let whole = |name: &str| node[name].as_u64().map_or_else(|| "-".to_owned(), |n| n.to_string());
    let why = node["why"].as_str().unwrap_or_default();
    let notes = match node["is_everything"] == true {
        true => "everything was purged, because the node had missed purges that are no longer kept",
        false => why,
    };
    let state = str_of(node, "state").replace('_', " ");
    [
        str_of(node, "node").to_owned(),
        str_of(node, "site").to_owned(),
        state,
        whole("films"),
        whole("responses"),
        ingest::shown(notes).into_owned(),
    ]
}

fn list(answer: &Value, now: u64) -> String {
    let mut rows =
        vec![["NUMBER", "AGO", "BY", "KIND", "CONFIRMED", "WHAT", "REASON"].map(str::to_owned)];
    rows.extend(answer["purges"].as_array().into_iter().flatten().map(|order| {
        let at = order["ordered_unix_seconds"].as_u64().unwrap_or(now);
        let softly = if order["soft"] == true { "soft " } else { "" };
        [
            order["number"].to_string(),
            crate::edge::span(now.saturating_sub(at)),
            str_of(order, "by").to_owned(),
            format!("{softly}{}", str_of(order, "kind")),
            format!("{} of {}", count(order, "done"), edges(order)),
            ingest::shown(str_of(order, "what")).into_owned(),
            ingest::shown(str_of(order, "reason")).into_owned(),
        ]
    }));
    table(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(counts: Value, is_done: bool) -> Value {
        json!({
            "number": 7, "kind": "url", "soft": true, "what": "/films/a.mp4", "by": "anna", "reason": "rights ended",
            "ordered_unix_seconds": 910, "counts": counts, "is_done": is_done,
            "nodes": [
                { "node": "n1", "site": "paris", "state": "done", "films": 1, "responses": 0, "is_everything": false },
                { "node": "n2", "site": "rome", "state": "waiting", "why": "no server answers" },
                { "node": "n3", "site": "rome", "state": "too_old", "why": "update it" },
            ]
        })
    }

    #[test]
    fn a_purge_is_done_when_each_edge_has_confirmed_it() {
        let done = order(json!({ "done": 2, "no_edge": 3 }), true);
        assert!(outcome(&done).is_ok() && !is_open(&done));
        for (counts, open) in [
            (json!({ "done": 2, "waiting": 1 }), true),
            (json!({ "done": 2, "too_old": 1 }), true),
            (json!({ "done": 2, "refused": 1 }), false),
        ] {
            let order = order(counts, false);
            let failed = outcome(&order).err().map(|Failed(code, text)| (code, text));
            let (code, text) = failed.unwrap();
            assert!(code == 1 && text.starts_with("2 of 3 edges"), "{text}");
            assert_eq!(is_open(&order), open);
        }
        let none = outcome(&order(json!({ "no_edge": 3 }), true)).err();
        assert!(none.is_some_and(|Failed(code, text)| code == 1 && text.contains("--edge")));
    }

    #[test]
    fn receipts_and_orders_are_tables() {
        let order = order(json!({ "done": 1, "waiting": 1, "too_old": 1 }), false);
        let text = receipts(&order);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "purge 7: soft url /films/a.mp4");
        assert_eq!(
            lines[2].split_whitespace().collect::<Vec<_>>(),
            ["n1", "paris", "done", "1", "0"]
        );
        assert!(lines[3].ends_with("no server answers") && lines[4].contains("too old"), "{text}");
        let text = list(&json!({ "purges": [order] }), 1000);
        let words: Vec<_> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(words[..9], ["7", "1m", "30s", "anna", "soft", "url", "1", "of", "3"], "{text}");
    }
}
