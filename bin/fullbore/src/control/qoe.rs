//! `fullbore control qoe`: what viewers experience in the whole fleet.

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::Value;

use super::Failed;
use super::ask::At;
use super::issues::utc;
use super::report::{str_of, table};

/// Counts of sessions in CSV, each with its share.
const COUNTS: [&str; 5] =
    ["troubled", "not_started", "stalled", "left_stalled", "quality_not_reached"];

/// Plain figures in CSV.
const PLAIN: [&str; 4] = ["stalls", "stalled_seconds", "played_seconds", "stall_ratio"];

/// Quantities in CSV, each with its median and its worst tenth.
const QUANTITIES: [&str; 4] =
    ["play_delay_seconds", "time_to_quality_seconds", "stall_seconds", "megabits_per_second"];

/// Show what viewers experience: where films don't start, start late or stall
///
/// The figures are those that players report (CMCD), of the first five minutes of each session. A session counts once, at the node where it began,
/// six to sixteen minutes later. Groups of fewer than ten sessions are in `(others)`. The group with the most trouble comes first; the figures in
/// brackets say between which values the true one lies in 95 of 100 cases.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  fullbore control qoe\n  fullbore control qoe day --by site\n  \
    fullbore control qoe week --by network --site paris --csv > networks.csv"
)]
pub(super) struct Qoe {
    /// The last quarter of an hour, 24 hours, or seven days
    #[arg(value_parser = PossibleValuesParser::new(["now", "day", "week"]), default_value = "now")]
    over: String,
    /// What a row is of; a node is what players call a pathway
    #[arg(
        long,
        default_value = "title",
        value_parser = PossibleValuesParser::new(["title", "site", "region", "network", "player", "node"])
    )]
    by: String,
    /// Only sessions at this site
    #[arg(long, value_name = "NAME")]
    site: Option<fleet_protocol::Name>,
    /// Most rows to show
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: u64,
    /// Print CSV
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    #[command(flatten)]
    at: At,
}

impl Qoe {
    /// Prints the list.
    pub(super) async fn run(self) -> Result<(), Failed> {
        let mut query =
            vec![("over", self.over), ("by", self.by), ("limit", self.limit.to_string())];
        query.extend(self.site.map(|site| ("site", site.to_string())));
        let answer = self.at.client()?.get("/api/v1/qoe", &query).await?;
        self.at.print(&answer, if self.csv { csv } else { list });
        Ok(())
    }
}

fn rows(answer: &Value) -> impl Iterator<Item = &Value> {
    answer["rows"].as_array().into_iter().flatten()
}

fn list(answer: &Value) -> String {
    if answer["total"]["sessions"] == 0 {
        return "No sessions yet: a session counts six to sixteen minutes after it began, and a node reports ten sessions at least. \
                Players must report (CMCD): see docs/fleet-qoe.md\n"
            .to_owned();
    }
    let by = str_of(answer, "by");
    let heads =
        ["", "SESSIONS", "TROUBLE", "NOT STARTED", "STALLED", "STALL TIME", "PLAY DELAY", "MBIT/S"];
    let mut lines = vec![heads.map(str::to_owned)];
    lines[0][0] = by.to_uppercase();
    lines.push(line("all", &answer["total"]));
    lines.extend(rows(answer).map(|row| line(row["name"].as_str().unwrap_or("(others)"), row)));
    let mut text = table(&lines);
    let shown = rows(answer).count() as u64;
    if let Some(more) = answer["row_count"].as_u64().and_then(|all| all.checked_sub(shown)) {
        if more > 0 {
            text += &format!("and {more} more: --limit {}\n", shown + more);
        }
    }
    let [since, complete] = ["since_unix_seconds", "complete_since_unix_seconds"]
        .map(|field| answer[field].as_u64().unwrap_or(0));
    if complete > since {
        let since = utc(Some(complete));
        text +=
            &format!("This gateway has all reports since {since} only: it is new, or was away.\n");
    }
    text
}

fn line(name: &str, row: &Value) -> [String; 8] {
    [
        ingest::shown(name).into_owned(),
        row["sessions"].as_u64().unwrap_or(0).to_string(),
        share(&row["troubled"]),
        share(&row["not_started"]),
        share(&row["stalled"]),
        row["stall_ratio"].as_f64().map_or_else(|| "-".to_owned(), |one| percent(one) + "%"),
        quantile(&row["play_delay_seconds"]["median"], "s"),
        quantile(&row["megabits_per_second"]["median"], ""),
    ]
}

fn percent(of_one: f64) -> String {
    format!("{:.1}", of_one * 100.0)
}

/// A share and its interval.
fn share(counted: &Value) -> String {
    let figure = |name: &str| counted[name].as_f64().map(percent);
    match (figure("share"), figure("low"), figure("high")) {
        (Some(share), Some(low), Some(high)) => format!("{share}% ({low} to {high})"),
        _ => "-".to_owned(),
    }
}

/// A quantile and its interval.
fn quantile(quantile: &Value, unit: &str) -> String {
    let figure = |name: &str| quantile[name].as_f64().map(|figure| format!("{figure:.2}"));
    match (figure("value"), figure("low"), figure("high")) {
        (Some(value), Some(low), Some(high)) if unit.is_empty() => {
            format!("{value} ({low} to {high})")
        }
        (Some(value), Some(low), Some(high)) => format!("{value} {unit} ({low} to {high})"),
        _ => "-".to_owned(),
    }
}

/// The figures of a row in CSV: the column, and where the answer has it.
fn columns() -> Vec<(String, String)> {
    let mut columns = vec![("sessions".to_owned(), "/sessions".to_owned())];
    for count in COUNTS {
        columns.push((count.to_owned(), format!("/{count}/count")));
        let ends = ["share", "low", "high"]
            .map(|end| (format!("{count}_{end}"), format!("/{count}/{end}")));
        columns.extend(ends);
    }
    columns.extend(PLAIN.map(|name| (name.to_owned(), format!("/{name}"))));
    for quantity in QUANTITIES {
        columns.push((format!("{quantity}_mean"), format!("/{quantity}/mean")));
        for of in ["median", "worst_tenth"] {
            let ends = [("", "value"), ("_low", "low"), ("_high", "high")];
            columns.extend(ends.map(|(end, name)| {
                (format!("{quantity}_{of}{end}"), format!("/{quantity}/{of}/{name}"))
            }));
        }
    }
    columns
}

fn csv(answer: &Value) -> String {
    let (by, columns) = (str_of(answer, "by"), columns());
    let heads: Vec<_> = columns.iter().map(|(head, _)| head.as_str()).collect();
    let mut text = format!("{by},{}\n", heads.join(","));
    for row in rows(answer) {
        let name = row["name"].as_str().unwrap_or_default().replace('"', "\"\"");
        let figures = columns.iter().map(|(_, at)| match row.pointer(at) {
            Some(Value::Number(number)) => number.to_string(),
            _ => String::new(),
        });
        text += &format!("\"{name}\",{}\n", figures.collect::<Vec<_>>().join(","));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(name: Option<&str>, sessions: u64) -> Value {
        let counted = |count: u64, share: f64| json!({ "count": count, "share": share, "low": share / 2.0, "high": share * 2.0 });
        let quantile =
            |value: f64| json!({ "value": value, "low": value - 0.1, "high": value + 0.1 });
        json!({
            "name": name, "sessions": sessions, "troubled": counted(20, 0.02), "not_started": counted(5, 0.005),
            "stalled": counted(15, 0.015), "left_stalled": counted(1, 0.001), "quality_not_reached": counted(2, 0.002),
            "stalls": 30, "stalled_seconds": 41.5, "played_seconds": 200_000.0, "stall_ratio": 0.0002,
            "play_delay_seconds": { "count": 990, "mean": 0.7, "median": quantile(0.6), "worst_tenth": quantile(1.4) },
            "time_to_quality_seconds": null, "stall_seconds": null,
            "megabits_per_second": { "count": 990, "mean": 4.1, "median": quantile(4.2), "worst_tenth": quantile(1.1) },
        })
    }

    fn answer() -> Value {
        let rows = [row(Some("films/\"a\""), 1000), row(None, 20)];
        json!({ "over": "now", "by": "title", "total": row(None, 1020), "row_count": 7, "rows": rows })
    }

    #[test]
    fn the_worst_title_comes_first_and_each_share_says_how_sure_it_is() {
        let text = list(&answer());
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].starts_with("TITLE") && lines[1].starts_with("all "), "{text}");
        assert!(
            lines[2].contains("films/\"a\"") && lines[2].contains("2.0% (1.0 to 4.0)"),
            "{text}"
        );
        assert!(
            lines[2].contains("0.60 s (0.50 to 0.70)") && lines[3].starts_with("(others)"),
            "{text}"
        );
        assert_eq!(lines[4], "and 5 more: --limit 7");
        let mut short = answer();
        (short["since_unix_seconds"], short["complete_since_unix_seconds"]) =
            (60.into(), 86_400.into());
        assert!(list(&short).contains("since 1970-01-02T00:00:00Z only"), "{}", list(&short));
        let none = json!({ "by": "title", "total": { "sessions": 0 }, "row_count": 0, "rows": [] });
        assert!(list(&none).starts_with("No sessions yet"));
    }

    #[test]
    fn experience_as_csv_has_a_column_for_each_figure() {
        let text = csv(&answer());
        let lines: Vec<_> = text.lines().collect();
        let heads: Vec<_> = lines[0].split(',').collect();
        assert_eq!((heads.len(), heads[0]), (1 + columns().len(), "title"));
        let first: Vec<_> = lines[1].split(',').collect();
        assert_eq!((first.len(), first[0], first[1]), (heads.len(), "\"films/\"\"a\"\"\"", "1000"));
        let of = |head: &str| first[heads.iter().position(|one| *one == head).unwrap()];
        assert_eq!((of("troubled_share"), of("troubled_high")), ("0.02", "0.04"));
        assert_eq!((of("play_delay_seconds_median"), of("stall_seconds_mean")), ("0.6", ""));
        assert!(lines[2].starts_with("\"\",20,"));
    }
}
