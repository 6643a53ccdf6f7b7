//! A plan as text: what it does, or would do.

use std::fmt::Write;

use gateway::buying::bytes_in_words;
use serde_json::Value;

use super::report::{str_of, table};

/// `is_asked`: the plan was requested with --apply.
pub(super) fn plan(answer: &Value, is_asked: bool) -> String {
    let mut text = outlook(answer);
    let watched = answer["watched_bytes"].as_u64().unwrap_or(0);
    let [before, after] =
        ["near_before_permille", "near_after_permille"].map(|name| percent(&answer[name]));
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "Of {} a day, {before} is watched at sites that hold the title now, and {after} {} by this plan",
        bytes_in_words(watched),
        if is_asked { "will be" } else { "would be" }
    );
    let _ = writeln!(
        text,
        "To copy: {} ({})",
        bytes_in_words(answer["moved_bytes"].as_u64().unwrap_or(0)),
        by_why(&answer["moves"])
    );
    text.push_str(&policy(&answer["policy"]));
    for (name, what) in [("pins_unmet", "pins ask"), ("floors_unmet", "the floor asks")] {
        let count = answer[name].as_u64().unwrap_or(0);
        if count > 0 {
            let _ = writeln!(text, "No room for {count} copies that {what} for");
        }
    }
    for node in answer["left_out"].as_array().into_iter().flatten() {
        let _ = writeln!(text, "Without node {}: {}", str_of(node, "node"), str_of(node, "why"));
    }
    for note in answer["bounded"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let _ = writeln!(text, "{note}");
    }
    text.push_str(&clusters(answer));
    text.push_str(&first_moves(answer));
    for hint in answer["buy"].as_array().into_iter().flatten() {
        let _ = writeln!(text, "{}", str_of(hint, "text"));
    }
    text.push_str(end(answer, is_asked));
    text
}

/// The placement policy, as text.
pub(super) fn policy(policy: &Value) -> String {
    let whole = |place: &str| policy.pointer(place).and_then(Value::as_u64);
    let Some(copies) = whole("/floor_copies") else { return String::new() };
    let churn = whole("/churn_bytes_max").map(bytes_in_words);
    let part = |kind: &str| percent(&policy["cut_offs"][format!("{kind}_permille")]);
    let times = |name: &str| policy[name].as_u64().unwrap_or(0) as f64 / 1000.0;
    format!(
        "Policy: at least {copies} copies of each title; a plan moves {} at most; storage takes {} of titles for demand, flash {}, global {}; \
         a move serves {} of its bytes a day and is worth {:.2} times what it displaces; a further copy counts {}; titles below {} starts join the rest\n",
        churn.as_deref().unwrap_or("as much as is worth it"),
        part("storage"),
        part("flash"),
        part("global"),
        percent(&policy["worth_permille"]),
        times("margin_permille"),
        percent(&policy["further_permille"]),
        whole("/starts_min").unwrap_or(0),
    )
}

/// The last line: the result, and the next command.
fn end(answer: &Value, is_asked: bool) -> &'static str {
    let is_placed = answer["planned_unix_seconds"].is_u64();
    match (is_asked, answer["is_applied"] == true, is_placed) {
        (true, true, _) => "Nodes follow this plan from now on: see fullbore control fill\n",
        (true, false, _) => "Nothing changed: nodes follow this plan already\n",
        (false, _, true) => "Nothing was moved; to move it: fullbore control plan --apply\n",
        (false, _, false) => {
            "Nothing was moved: nodes hold all that is published; to follow this plan: fullbore control plan --apply\n"
        }
    }
}

pub(super) fn undone(answer: &Value) -> String {
    match answer["is_undone"] == true {
        true => "Nodes hold everything that is published from now on: see fullbore control fill\n",
        false => "Nothing changed: nodes hold everything that is published already\n",
    }
    .to_owned()
}

fn percent(permille: &Value) -> String {
    permille
        .as_u64()
        .map_or_else(|| "nothing".to_owned(), |share| format!("{:.1}%", share as f64 / 10.0))
}

fn by_why(moves: &Value) -> String {
    let of = |why: &str| {
        let copies = moves[why]["copies"].as_u64().filter(|copies| *copies > 0)?;
        let size = bytes_in_words(moves[why]["bytes"].as_u64().unwrap_or(0));
        Some(format!("{copies} copies for {why}, {size}"))
    };
    let told: Vec<_> = ["pin", "floor", "demand"].into_iter().filter_map(of).collect();
    if told.is_empty() { "no copies".to_owned() } else { told.join("; ") }
}

fn outlook(answer: &Value) -> String {
    let regions = answer["regions"].as_array().map(Vec::as_slice).unwrap_or_default();
    if regions.is_empty() {
        return "No node has reported yet what viewers watch: this plan considers only pins and the floor\n".to_owned();
    }
    let columns = ["REGION", "STARTS", "WATCHED", "CHANGED", "OF AN AVERAGE DAY", "NEW TITLES"];
    let mut rows = vec![columns.map(str::to_owned)];
    rows.extend(regions.iter().map(|region| {
        let whole = |name: &str| region[name].as_u64().unwrap_or(0);
        [
            str_of(region, "region").to_owned(),
            whole("starts").to_string(),
            bytes_in_words(whole("bytes")),
            percent(&region["changed_permille"]),
            percent(&region["day_permille"]),
            match whole("new_in_series") {
                0 => whole("new_titles").to_string(),
                series => format!("{}, {series} of a series", whole("new_titles")),
            },
        ]
    }));
    format!("Expected in the coming day:\n{}\n", table(&rows))
}

fn clusters(answer: &Value) -> String {
    let columns = ["SITE", "CLUSTER", "TITLES", "COPIES", "", "DROPS", ""];
    let mut rows = vec![columns.map(str::to_owned)];
    rows.extend(answer["clusters"].as_array().into_iter().flatten().map(|cluster| {
        let sum = |what: &str, name: &str| cluster[what][name].as_u64().unwrap_or(0);
        [
            str_of(cluster, "site").to_owned(),
            str_of(cluster, "cluster").to_owned(),
            cluster["titles"].as_u64().unwrap_or(0).to_string(),
            sum("brought", "copies").to_string(),
            bytes_in_words(sum("brought", "bytes")),
            sum("dropped", "copies").to_string(),
            bytes_in_words(sum("dropped", "bytes")),
        ]
    }));
    format!("\n{}\n", table(&rows))
}

fn first_moves(answer: &Value) -> String {
    let moves = answer["first_moves"].as_array().map(Vec::as_slice).unwrap_or_default();
    if moves.is_empty() {
        return String::new();
    }
    let columns = ["NODE", "TITLE", "BYTES", "WHY", "WATCHED THERE A DAY"];
    let mut rows = vec![columns.map(str::to_owned)];
    rows.extend(moves.iter().map(|step| {
        [
            str_of(step, "node").to_owned(),
            str_of(step, "title").to_owned(),
            bytes_in_words(step["bytes"].as_u64().unwrap_or(0)),
            str_of(step, "why").to_owned(),
            bytes_in_words(step["watched_bytes"].as_u64().unwrap_or(0)),
        ]
    }));
    format!("{}\n", table(&rows))
}

pub(super) fn pinned(answer: &Value) -> String {
    let title = str_of(answer, "title");
    match answer["pins"].as_array().map_or(0, Vec::len) {
        0 => format!("{title} has no pins\n"),
        count => format!(
            "{title} has {count} pins; see what they would move with: fullbore control plan --dry-run\n"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_plan_is_told_in_words() {
        let answer = json!({
            "regions": [{
                "region": "north", "starts": 12, "bytes": 3_000_000_000_u64, "new_titles": 1,
                "changed_permille": 125, "day_permille": 1000
            }],
            "watched_bytes": 3_000_000_000_u64, "near_before_permille": 500, "near_after_permille": 1000,
            "moves": { "demand": { "copies": 1, "bytes": 7_000_000 } }, "moved_bytes": 7_000_000,
            "clusters": [{
                "site": "paris", "cluster": "paris-1", "titles": 2,
                "brought": { "copies": 1, "bytes": 7_000_000 }, "dropped": { "copies": 0, "bytes": 0 }
            }],
            "first_moves": [{
                "node": "n1", "title": "films/a", "bytes": 7_000_000, "why": "demand",
                "watched_bytes": 1_500_000_000
            }],
            "pins_unmet": 0, "floors_unmet": 2,
            "left_out": [{ "node": "n2", "why": "it is lost" }],
            "buy": [{ "binds": "room", "site": "paris", "text": "Room binds at paris: 1.0 TB." }]
        });
        let text = plan(&answer, false);
        for line in [
            "north   12      3.0 GB   12.5%    100.0%             1",
            "Of 3.0 GB a day, 50.0% is watched at sites that hold the title now, and 100.0% would be by this plan",
            "To copy: 7.0 MB (1 copies for demand, 7.0 MB)",
            "No room for 2 copies that the floor asks for",
            "Without node n2: it is lost",
            "paris  paris-1  2       1       7.0 MB  0      0 B",
            "n1    films/a  7.0 MB  demand  1.5 GB",
            "Room binds at paris: 1.0 TB.",
        ] {
            assert!(text.lines().any(|own| own == line), "{line}\n{text}");
        }
    }

    #[test]
    fn what_comes_of_a_plan_is_its_last_line() {
        let last = |answer: &Value, is_asked: bool| {
            plan(answer, is_asked).lines().last().map(str::to_owned).expect("a line")
        };
        let mut answer = json!({ "regions": [], "moves": {}, "is_applied": false });
        assert!(last(&answer, false).contains("nodes hold all that is published"));
        answer["planned_unix_seconds"] = json!(1_800_000_000);
        assert!(last(&answer, false).starts_with("Nothing was moved; to move it"));
        assert!(last(&answer, true).starts_with("Nothing changed"));
        answer["is_applied"] = json!(true);
        assert!(last(&answer, true).starts_with("Nodes follow this plan from now on"));
        assert!(undone(&json!({ "is_undone": true })).starts_with("Nodes hold everything"));
        assert!(undone(&json!({ "is_undone": false })).starts_with("Nothing changed"));
    }

    #[test]
    fn a_plan_without_viewers_says_so() {
        let text = plan(&json!({ "regions": [], "watched_bytes": 0, "moves": {} }), false);
        assert!(text.starts_with("No node has reported"), "{text}");
        assert!(text.contains("To copy: 0 B (no copies)"), "{text}");
    }
}
