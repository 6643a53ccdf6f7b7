//! A gateway's answers, as text.

use gateway::buying::bytes_in_words;
use gateway::live::SILENCE_OF_DEATH;
use serde_json::Value;
use std::fmt::Write;

pub(super) fn str_of<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

/// A text field of the answer.
pub(super) fn text(answer: &Value, name: &str) -> String {
    format!("{}\n", str_of(answer, name).trim_end())
}

pub(super) fn invite(answer: &Value) -> String {
    format!("Run this on the new box, once:\n\n{}\n", str_of(answer, "command"))
}

pub(super) fn node_state(answer: &Value) -> String {
    format!("{}: {}\n", str_of(answer, "node"), str_of(answer, "state"))
}

pub(super) fn nodes(answer: &Value) -> String {
    let mut rows = vec![
        [
            "NODE", "SITE", "STATE", "LOAD", "CEILING", "VIEWERS", "TITLES", "MISSING", "HEARD",
            "NOTES",
        ]
        .map(str::to_owned),
    ];
    rows.extend(answer["nodes"].as_array().into_iter().flatten().map(node_row));
    let mut text = table(&rows);
    for (name, heading) in
        [("frozen", "States are frozen"), ("store_problem", "The store takes no changes")]
    {
        if let Some(problem) = answer[name].as_str() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "\n{heading}: {problem}");
        }
    }
    text
}

fn node_row(node: &Value) -> [String; 10] {
    let whole = |name: &str| node[name].as_u64().unwrap_or(0);
    let silent = node["silent_millis"].as_u64();
    // The last figures of a silent node say nothing about its viewers now.
    let is_silent = str_of(node, "state") == "lost"
        || silent.is_some_and(|silent| u128::from(silent) >= SILENCE_OF_DEATH.as_millis());
    let unless_silent = |text: String| if is_silent { "-".to_owned() } else { text };
    // Load is relative to the ceiling.
    let (load, ceiling) = match whole("ceiling_bits_per_second") {
        0 => ("-".to_owned(), "-".to_owned()),
        ceiling => (
            unless_silent(format!("{:.1}%", whole("load_permille") as f64 / 10.0)),
            format!("{:.1}G", ceiling as f64 / 1e9),
        ),
    };
    [
        str_of(node, "name").to_owned(),
        str_of(node, "site").to_owned(),
        str_of(node, "state").to_owned(),
        load,
        ceiling,
        unless_silent(whole("connections").to_string()),
        whole("titles").to_string(),
        whole("missing").to_string(),
        silent.map_or_else(|| "-".to_owned(), |silent| format!("{:.0}s", silent as f64 / 1000.0)),
        notes(node),
    ]
}

fn notes(node: &Value) -> String {
    let mut notes: Vec<String> = node["reason"].as_str().map(str::to_owned).into_iter().collect();
    let reasons = node["not_me"].as_array().into_iter().flatten().filter_map(Value::as_str);
    notes.extend(reasons.map(|reason| format!("wants no viewers: {reason}")));
    notes.extend(node["weight_note"].as_str().map(str::to_owned));
    let off = node["clock_off_millis"].as_i64().unwrap_or(0);
    if off.unsigned_abs() > gateway::live::CLOCK_OFF_MILLIS_MAX {
        notes.push(format!("its clock is off by {:.1} s", off as f64 / 1000.0));
    }
    let own = &node["served_at"];
    if let (Some(scheme), Some(port)) = (own["scheme"].as_str(), own["port"].as_u64()) {
        notes.push(format!("serves {scheme} at port {port}, but viewers are not sent there"));
    }
    match node["receipts_waiting"].as_u64() {
        None | Some(0) => {}
        Some(count) => notes.push(format!("{count} withdrawals not answered")),
    }
    notes.join("; ")
}

pub(super) fn gateways(answer: &Value) -> String {
    let mut rows = vec![["GATEWAY", "FOR NODES", "ANSWERS", "ADVERTISED"].map(str::to_owned)];
    let yes = |value: &Value| if value == true { "yes" } else { "no" }.to_owned();
    rows.extend(answer["gateways"].as_array().into_iter().flatten().map(|gateway| {
        let (name, machines) = (str_of(gateway, "name"), str_of(gateway, "machines"));
        [name.to_owned(), machines.to_owned(), yes(&gateway["answers"]), yes(&gateway["is_told"])]
    }));
    table(&rows)
}

pub(super) fn gateway_removed(answer: &Value) -> String {
    format!("{} is removed: nodes leave it within seconds\n", str_of(answer, "name"))
}

pub(super) fn certificates(answer: &Value) -> String {
    let mut rows = vec![["NODE", "HOST", "CERTIFICATE", "NOTES"].map(str::to_owned)];
    let now = super::ask::now_unix_seconds();
    rows.extend(answer["certificates"].as_array().into_iter().flatten().map(|one| {
        let state = str_of(one, "state");
        let notes = match (state, one["expires_unix_seconds"].as_u64()) {
            ("requested", _) => "have its request signed".to_owned(),
            (_, Some(ends)) if ends <= now => "has ended".to_owned(),
            (_, Some(ends)) => format!("holds for {} days", (ends - now) / 86_400),
            _ => String::new(),
        };
        [str_of(one, "node").to_owned(), str_of(one, "host").to_owned(), state.to_owned(), notes]
    }));
    table(&rows)
}

pub(super) fn certificate_request(answer: &Value) -> String {
    str_of(answer, "request").to_owned()
}

pub(super) fn certificate_put(answer: &Value) -> String {
    let (node, host) = (str_of(answer, "node"), str_of(answer, "host"));
    format!("{node} gets its certificate for {host} within seconds\n")
}

pub(super) fn keys(answer: &Value) -> String {
    let keys = answer["keys"].as_array().map(Vec::as_slice).unwrap_or_default();
    if keys.is_empty() {
        return "viewers' addresses are not signed; begin with: fullbore control keys roll\n"
            .to_owned();
    }
    let mut rows = vec![["KEY", "STATE", "NOTES"].map(str::to_owned)];
    let now = super::ask::now_unix_seconds();
    rows.extend(keys.iter().map(|key| {
        [str_of(key, "id").to_owned(), str_of(key, "state").to_owned(), key_notes(key, now)]
    }));
    table(&rows)
}

fn key_notes(key: &Value, now: u64) -> String {
    let left =
        |name: &str| key[name].as_u64().and_then(|at| at.checked_sub(now)).filter(|left| *left > 0);
    let mut notes = Vec::new();
    notes.extend(left("signs_from_unix_seconds").map(|left| format!("signs in {left} s")));
    notes.extend(
        left("told_from_unix_seconds")
            .map(|left| format!("nodes serve without a token for {left} s more")),
    );
    notes.extend(
        left("trusted_until_unix_seconds").map(|left| format!("trusted for {left} s more")),
    );
    notes.join("; ")
}

pub(super) fn published(answer: &Value) -> String {
    let bytes = answer["bytes"].as_u64().unwrap_or(0);
    let (title, digest) = (str_of(answer, "title"), str_of(answer, "digest"));
    format!("published: {title}, version {}, {:.1} MB\n", short(digest), bytes as f64 / 1e6)
}

pub(super) fn withdrawn(answer: &Value) -> String {
    let (title, digest) = (str_of(answer, "title"), str_of(answer, "digest"));
    format!(
        "withdrawn: {title}, version {}; see the nodes' receipts with: fullbore control where {title}\n",
        short(digest)
    )
}

fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

pub(super) fn title_at_nodes(answer: &Value) -> String {
    let columns = ["NODE", "SITE", "STATE", "HOLDS IT", "WHY", "RECEIPT"];
    let mut rows = vec![columns.map(str::to_owned)];
    let nodes = answer["nodes"].as_array().into_iter().flatten();
    rows.extend(nodes.map(|node| {
        [
            str_of(node, "node").to_owned(),
            str_of(node, "site").to_owned(),
            str_of(node, "state").to_owned(),
            holds(node),
            node["why"].as_str().unwrap_or("-").to_owned(),
            node["receipt"].as_str().unwrap_or("-").to_owned(),
        ]
    }));
    format!(
        "{} is {}\n{}{}",
        str_of(answer, "title"),
        str_of(answer, "state"),
        table(&rows),
        watched(answer)
    )
}

/// The HOLDS IT column: a node holds a title or not, and a change may be due.
fn holds(node: &Value) -> String {
    let is_held = node["holds"].as_bool() == Some(true);
    match node["moves"].as_str() {
        Some("comes") => "no, arriving",
        Some("goes") => "yes, leaving",
        _ if is_held => "yes",
        _ => "no",
    }
    .to_owned()
}

/// How much of a title each region watched.
fn watched(answer: &Value) -> String {
    let regions = answer["watched"].as_array().map(Vec::as_slice).unwrap_or_default();
    if regions.is_empty() {
        return String::new();
    }
    let mut rows = vec![["REGION", "STARTS A DAY", "WATCHED A DAY"].map(str::to_owned)];
    rows.extend(regions.iter().map(|region| {
        let whole = |name: &str| region[name].as_u64().unwrap_or(0);
        [
            str_of(region, "region").to_owned(),
            whole("starts_a_day").to_string(),
            bytes_in_words(whole("bytes_a_day")),
        ]
    }));
    format!("\n{}", table(&rows))
}

/// The prefixes outside the allow-list, as a phrase, if there are any.
fn refused(of: &Value) -> String {
    match of["refused"].as_u64() {
        None | Some(0) => String::new(),
        Some(count) => format!(
            "; {count} are outside the allow-list and don't count, {} for one",
            of["first_refused"].as_str().unwrap_or("-")
        ),
    }
}

pub(super) fn announced(answer: &Value) -> String {
    let (site, count) = (str_of(answer, "site"), answer["prefixes"].as_u64().unwrap_or(0));
    format!("{site}: its file has {count} prefixes{}\n", refused(answer))
}

pub(super) fn allowed(answer: &Value) -> String {
    let (site, count) = (str_of(answer, "site"), answer["allowed"].as_array().map_or(0, Vec::len));
    match answer["refused"].as_u64() {
        None | Some(0) => format!("{site} may announce what is within {count} prefixes\n"),
        Some(refused) => format!(
            "{site} may announce what is within {count} prefixes; {refused} prefixes of its file are outside and don't count\n"
        ),
    }
}

pub(super) fn announcements(answer: &Value) -> String {
    let allowed: Vec<_> =
        answer["allowed"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let may = match (answer["allows_all"].as_bool(), allowed.len()) {
        (Some(true), _) => "anything".to_owned(),
        (_, 0) => "nothing: it has no allow-list".to_owned(),
        (_, 1..=8) => format!("what is within {}", allowed.join(", ")),
        (_, count) => format!("what is within {count} prefixes"),
    };
    let (site, file) = (str_of(answer, "site"), &answer["file"]);
    let mut text = format!(
        "{site} announces {} prefixes\nIt may announce {may}\nIts file has {} prefixes{}\n",
        answer["prefixes"].as_u64().unwrap_or(0),
        file["prefixes"].as_u64().unwrap_or(0),
        refused(file)
    );
    for feed in answer["feeds"].as_array().into_iter().flatten() {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "Node {} passes on {} routes, {:.0} s ago{}",
            str_of(feed, "node"),
            feed["believed"].as_u64().unwrap_or(0),
            feed["silent_millis"].as_f64().unwrap_or(0.0) / 1000.0,
            refused(feed)
        );
    }
    text
}

pub(super) fn replayed(answer: &Value) -> String {
    let whole = |name: &str| answer[name].as_u64().unwrap_or(0);
    let mut text = format!(
        "{} decisions came out the same, {} otherwise; {} are of a snapshot that the log lacks; {} lines cannot be read\n",
        whole("same"),
        whole("different"),
        whole("without_snapshot"),
        whole("broken_lines")
    );
    for difference in answer["differences"].as_array().into_iter().flatten() {
        let _ = writeln!(text, "otherwise: {difference}");
    }
    text
}

/// A table with columns two spaces apart.
pub(super) fn table<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<_> = (0..COLUMNS).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_node_whose_ceiling_is_unknown_has_no_load() {
        let node = json!({ "load_permille": 410, "ceiling_bits_per_second": 10_000_000_000_u64 });
        assert_eq!(node_row(&node)[3..5], ["41.0%", "10.0G"]);
        assert_eq!(node_row(&json!({ "load_permille": 0 }))[3..5], ["-", "-"]);
        let node = json!({ "load_permille": 0, "ceiling_bits_per_second": 0 });
        assert_eq!(node_row(&node)[3..5], ["-", "-"]);
    }

    #[test]
    fn a_silent_node_has_no_viewers_to_count_and_a_bounded_weight_is_noted() {
        let mut node = json!({
            "state": "lost", "load_permille": 410, "ceiling_bits_per_second": 10_000_000_000_u64,
            "connections": 25, "silent_millis": 240_000, "reason": "silent for 240 s"
        });
        assert_eq!(node_row(&node)[3..6], ["-", "10.0G", "-"]);
        // A gateway that doubts its own network keeps the state.
        node["state"] = "serving".into();
        assert_eq!(node_row(&node)[3..6], ["-", "10.0G", "-"]);
        node["silent_millis"] = 2000.into();
        assert_eq!(node_row(&node)[3..6], ["41.0%", "10.0G", "25"]);
        node["weight_note"] = "states no ceiling: counts as 10.0 Gb/s".into();
        assert!(node_row(&node)[9].ends_with("; states no ceiling: counts as 10.0 Gb/s"));
    }

    #[test]
    fn what_is_announced_and_refused_is_told_in_words() {
        let feed = json!({
            "node": "n1", "believed": 7, "refused": 2, "first_refused": "10.0.0.0/8",
            "silent_millis": 3400
        });
        let answer = json!({
            "site": "paris", "prefixes": 9, "allows_all": false, "allowed": ["192.0.2.0/24"],
            "file": { "prefixes": 3, "refused": 0 }, "feeds": [feed]
        });
        assert_eq!(
            announcements(&answer),
            "paris announces 9 prefixes\nIt may announce what is within 192.0.2.0/24\nIts file has 3 prefixes\n\
             Node n1 passes on 7 routes, 3 s ago; 2 are outside the allow-list and don't count, 10.0.0.0/8 for one\n"
        );
    }

    #[test]
    fn a_title_is_told_with_why_it_is_where_it_is() {
        let node = |name: &str, holds: bool, why: Value, moves: Value| {
            json!({
                "node": name, "site": "paris", "state": "serving", "holds": holds, "why": why,
                "moves": moves, "receipt": null
            })
        };
        let answer = json!({
            "title": "films/a", "state": "published", "watched": [],
            "nodes": [
                node("n1", true, json!("pin"), Value::Null),
                node("n2", true, Value::Null, json!("goes")),
                node("n3", false, json!("floor"), json!("comes")),
                node("n4", false, Value::Null, Value::Null),
            ]
        });
        assert_eq!(
            title_at_nodes(&answer),
            "films/a is published\n\
             NODE  SITE   STATE    HOLDS IT      WHY    RECEIPT\n\
             n1    paris  serving  yes           pin    -\n\
             n2    paris  serving  yes, leaving  -      -\n\
             n3    paris  serving  no, arriving  floor  -\n\
             n4    paris  serving  no            -      -\n"
        );
    }

    #[test]
    fn nodes_are_a_table_with_what_is_wrong() {
        let answer = json!({
            "frozen": null, "store_problem": "away",
            "nodes": [{
                "name": "n1", "site": "paris", "state": "draining", "load_permille": 125,
                "ceiling_bits_per_second": 10_000_000_000_u64, "connections": 7, "titles": 3,
                "missing": 1, "silent_millis": 1200, "reason": "new disks",
                "not_me": ["hot"], "clock_off_millis": -61_000, "receipts_waiting": 2,
                "served_at": { "scheme": "http", "port": 8080 }
            }]
        });
        let text = nodes(&answer);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[1].starts_with("n1    paris  draining  12.5%  10.0G    7"), "{}", lines[1]);
        assert!(
            lines[1].ends_with(
                "new disks; wants no viewers: hot; its clock is off by -61.0 s; \
                 serves http at port 8080, but viewers are not sent there; 2 withdrawals not answered"
            ),
            "{}",
            lines[1]
        );
        assert_eq!(lines.last(), Some(&"The store takes no changes: away"));
    }
}
