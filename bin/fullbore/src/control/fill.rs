//! `fullbore control fill`: what nodes are copying, by cluster.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::report::{str_of, table};

/// Extracts what concerns filling from the answer about all nodes, by cluster. A cluster is done when the last of its nodes is.
pub(super) fn filling(nodes: &Value) -> Value {
    let mut clusters: BTreeMap<(&str, &str), Vec<&Value>> = BTreeMap::new();
    let all = nodes["nodes"].as_array().into_iter().flatten();
    for node in all.filter(|node| node["state"] != "revoked") {
        clusters.entry((str_of(node, "site"), str_of(node, "cluster"))).or_default().push(node);
    }
    let clusters = clusters.into_iter().map(|((site, cluster), nodes)| {
        let done = |node: &&Value| match &node["fill"] {
            Value::Null => Some(0),
            fill => fill["done_unix_seconds"].as_u64(),
        };
        let sum = |field: &str| {
            let all = nodes.iter().filter_map(|node| node["fill"][field].as_u64());
            // A node's own figures are untrusted, so the sum may overflow.
            all.fold(0, u64::saturating_add)
        };
        // Unknown if it is unknown for one node.
        let done = nodes.iter().map(done).try_fold(0, |last, done| Some(done?.max(last)));
        let missing_bytes = sum("missing_bytes");
        let kept = ["name", "state", "fill"];
        let of = |node: &&Value| kept.map(|field| (field.to_owned(), node[field].clone()));
        json!({
            "site": site, "cluster": cluster, "missing_bytes": missing_bytes,
            "bytes_per_second": sum("bytes_per_second"),
            "done_unix_seconds": done.filter(|done| *done > 0),
            "nodes": nodes.iter().map(|node| Value::Object(of(node).into_iter().collect())).collect::<Vec<_>>(),
        })
    });
    json!({ "version": 1, "clusters": clusters.collect::<Vec<_>>() })
}

/// Formats a table with a row for each node.
pub(super) fn words(filling: &Value) -> String {
    let now = super::ask::now_unix_seconds();
    let mut rows =
        vec![["CLUSTER", "NODE", "COPYING", "SHARE", "LEFT", "RATE", "DONE"].map(str::to_owned)];
    for cluster in filling["clusters"].as_array().into_iter().flatten() {
        let nodes = cluster["nodes"].as_array().into_iter().flatten();
        rows.extend(nodes.map(|node| row(str_of(cluster, "cluster"), node, now)));
    }
    table(&rows)
}

fn row(cluster: &str, node: &Value, now: u64) -> [String; 7] {
    let fill = &node["fill"];
    let whole = |field: &str| fill[field].as_u64().unwrap_or(0);
    let (cluster, name) = (cluster.to_owned(), str_of(node, "name").to_owned());
    let none = || "-".to_owned();
    if fill.is_null() {
        let is_heard = matches!(str_of(node, "state"), "serving" | "draining" | "drained");
        let done = if is_heard { "has everything" } else { str_of(node, "state") }.to_owned();
        return [cluster, name, none(), none(), none(), none(), done];
    }
    let waits = if fill["is_open"] == false { "waits for its window" } else { "waits" };
    let title = fill["title"].as_str().unwrap_or(waits).to_owned();
    let share = (u128::from(whole("done_bytes")) * 100).checked_div(whole("title_bytes").into());
    let left = format!(
        "{} titles, {:.1} GB",
        whole("missing_titles"),
        whole("missing_bytes") as f64 / 1e9
    );
    let rate = format!("{:.0} Mb/s", whole("bytes_per_second") as f64 * 8.0 / 1e6);
    let done = fill["done_unix_seconds"].as_u64();
    [
        cluster,
        name,
        title,
        share.map_or_else(none, |share| format!("{share}%")),
        left,
        rate,
        done.map_or_else(
            || "unknown".to_owned(),
            |done| format!("in {}", span(done.saturating_sub(now))),
        ),
    ]
}

fn span(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, cluster: &str, state: &str, fill: Value) -> Value {
        json!({ "name": name, "site": "paris", "cluster": cluster, "state": state, "fill": fill })
    }

    #[test]
    fn clusters_are_done_when_their_last_node_is() {
        let fill = |done: Value| {
            json!({
                "title": "films/a", "done_bytes": 25, "title_bytes": 100, "missing_titles": 3,
                "missing_bytes": 7_000_000_000_u64, "bytes_per_second": 50_000_000, "is_open": true,
                "done_unix_seconds": done
            })
        };
        let nodes = json!({ "nodes": [
            node("n1", "c1", "serving", fill(json!(2_000))),
            node("n2", "c1", "serving", fill(json!(3_000))),
            node("n3", "c2", "serving", Value::Null),
            node("n4", "c3", "serving", fill(Value::Null)),
            node("n5", "c3", "serving", fill(json!(9))),
            node("n6", "c4", "revoked", fill(json!(9))),
        ]});
        let filling = filling(&nodes);
        let clusters = filling["clusters"].as_array().unwrap();
        let done: Vec<_> = clusters.iter().map(|one| one["done_unix_seconds"].as_u64()).collect();
        assert_eq!(done, [Some(3_000), None, None]);
        assert_eq!(clusters[0]["missing_bytes"], 14_000_000_000_u64);
        let text = words(&filling);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 6, "{text}");
        assert!(
            lines[1].starts_with("c1       n1    films/a  25%    3 titles, 7.0 GB  400 Mb/s"),
            "{text}"
        );
        assert!(lines[3].ends_with("has everything") && lines[4].ends_with("unknown"), "{text}");
        assert_eq!([span(59), span(600), span(90_000)], ["59 s", "10 min", "25 h 0 min"]);
    }
}
