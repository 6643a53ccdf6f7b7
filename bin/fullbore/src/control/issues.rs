//! `fullbore control issues`, `snooze` and `wake`: what is wrong in the fleet.

use clap::Args;
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::Failed;
use super::ask::{At, now_unix_seconds};
use super::report::{str_of, table};
use crate::edge::span;
use crate::load::Time;

/// Most ended issues that a gateway lists.
const ENDED_MAX: u64 = 1000;

/// The columns of CSV.
const COLUMNS: [&str; 10] = [
    "id",
    "kind",
    "severity",
    "subject",
    "site",
    "since",
    "ended",
    "snoozed_until",
    "text",
    "advice",
];

/// List what is wrong in the fleet, since when, and what to do about it
///
/// Critical issues come first, and snoozed ones last. The list is this gateway's: each gateway hears all nodes and keeps a list of its own.
#[derive(Args)]
#[command(
    after_help = "Exit codes:\n  0  no critical issue is open, apart from snoozed ones\n  1  a critical issue is open\n  2  wrong usage\n\n\
    Examples:\n  fullbore control issues\n  fullbore control issues --ended --csv > issues.csv\n  \
    fullbore control snooze node_disk_errors/paris-3 --for 3d --reason \"the disk comes on Monday\""
)]
pub(super) struct Issues {
    /// List issues that have ended as well, at most 1,000
    #[arg(long)]
    ended: bool,
    /// Print CSV, with times in UTC
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    #[command(flatten)]
    at: At,
}

/// Stop counting an issue for some time, for example until a spare part arrives
#[derive(Args)]
pub(super) struct SnoozeIssue {
    /// The issue's ID, as "fullbore control issues" shows it
    id: String,
    /// For how long, such as 8h or 3d; at most 90 days
    #[arg(long = "for", value_name = "TIME")]
    time: Time,
    /// Why; other operators will see it
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    at: At,
}

/// Count a snoozed issue again
#[derive(Args)]
pub(super) struct WakeIssue {
    /// The issue's ID
    id: String,
    #[command(flatten)]
    at: At,
}

impl Issues {
    /// Prints the issues.
    pub(super) async fn run(self) -> Result<(), Failed> {
        let ended = if self.ended { ENDED_MAX } else { 0 };
        let query = [("ended", ended.to_string())];
        let answer = self.at.client()?.get("/api/v1/issues", &query).await?;
        let now = now_unix_seconds();
        match self.csv {
            true => self.at.print(&answer, csv),
            false => self.at.print(&answer, |answer| list(answer, self.ended, now)),
        }
        match answer["counts"]["critical"].as_u64() {
            None | Some(0) => Ok(()),
            Some(1) => Err(Failed(1, "1 critical issue is open".to_owned())),
            Some(count) => Err(Failed(1, format!("{count} critical issues are open"))),
        }
    }
}

impl SnoozeIssue {
    /// Snoozes the issue.
    pub(super) async fn run(self) -> Result<(), Failed> {
        let seconds = self.time.0.as_secs();
        let body = json!({ "id": self.id, "seconds": seconds, "reason": self.reason });
        let answer = self.at.client()?.post("/api/v1/issues/snooze", &body).await?;
        self.at.print(&answer, |answer| format!("{} is snoozed\n", str_of(answer, "id")));
        Ok(())
    }
}

impl WakeIssue {
    /// Wakes the issue.
    pub(super) async fn run(self) -> Result<(), Failed> {
        let body = json!({ "id": self.id });
        let answer = self.at.client()?.post("/api/v1/issues/wake", &body).await?;
        self.at.print(&answer, |answer| format!("{} counts again\n", str_of(answer, "id")));
        Ok(())
    }
}

fn rows<'a>(answer: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    answer[name].as_array().into_iter().flatten()
}

fn seconds(issue: &Value, name: &str) -> Option<u64> {
    issue[name].as_u64().map(|millis| millis / 1000)
}

fn list(answer: &Value, with_ended: bool, now: u64) -> String {
    let ago = |seconds: Option<u64>| {
        seconds.map_or_else(String::new, |then| span(now.saturating_sub(then)))
    };
    let mut text = String::new();
    for issue in rows(answer, "issues") {
        let snoozed = &issue["snoozed"];
        let state = if snoozed.is_null() { str_of(issue, "severity") } else { "snoozed" };
        text += &format!(
            "{state}, for {}: {}\n",
            ago(seconds(issue, "since_unix_millis")),
            ingest::shown(str_of(issue, "text"))
        );
        if let Some(until) = snoozed["until_unix_seconds"].as_u64() {
            let (by, reason) = (str_of(snoozed, "by"), ingest::shown(str_of(snoozed, "reason")));
            let left = span(until.saturating_sub(now));
            text += &format!("    snoozed by {by} for {left} more: {reason}\n");
        }
        text += &format!("    {}\n    {}\n", str_of(issue, "advice"), str_of(issue, "id"));
    }
    if text.is_empty() {
        text = "nothing is wrong\n".to_owned();
    }
    if with_ended {
        let mut ended = vec![["ENDED", "LASTED", "SEVERITY", "WHAT"].map(str::to_owned)];
        ended.extend(rows(answer, "ended").map(|issue| {
            let end = seconds(issue, "ended_unix_millis");
            let lasted = end.zip(seconds(issue, "since_unix_millis"));
            [
                format!("{} ago", ago(end)),
                lasted.map_or_else(String::new, |(end, since)| span(end.saturating_sub(since))),
                str_of(issue, "severity").to_owned(),
                ingest::shown(str_of(issue, "text")).into_owned(),
            ]
        }));
        text = format!("{text}\n{}", table(&ended));
    }
    text
}

fn csv(answer: &Value) -> String {
    let mut text = COLUMNS.join(",") + "\n";
    for issue in rows(answer, "issues").chain(rows(answer, "ended")) {
        let field = |name: &str| match name {
            "since" => utc(seconds(issue, "since_unix_millis")),
            "ended" => utc(seconds(issue, "ended_unix_millis")),
            "snoozed_until" => utc(issue["snoozed"]["until_unix_seconds"].as_u64()),
            name => str_of(issue, name).to_owned(),
        };
        let fields = COLUMNS.map(|name| format!("\"{}\"", field(name).replace('"', "\"\"")));
        text += &(fields.join(",") + "\n");
    }
    text
}

/// A time in UTC by RFC 3339; empty if there is none.
pub(super) fn utc(seconds: Option<u64>) -> String {
    let seconds = seconds.and_then(|seconds| i64::try_from(seconds).ok());
    let Some(Ok(time)) = seconds.map(OffsetDateTime::from_unix_timestamp) else {
        return String::new();
    };
    let (year, month, day) = time.to_calendar_date();
    let (hour, minute, second) = time.to_hms();
    format!("{year:04}-{:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z", u8::from(month))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Value {
        let issue = |id: &str, severity: &str, snoozed: Value| {
            json!({
                "id": id, "kind": "node_hot", "severity": severity, "subject": "n1", "site": "paris",
                "text": "n1 is \"hot\", very.", "advice": "Check its fans.",
                "since_unix_millis": 1_790_000_000_000_u64, "snoozed": snoozed,
            })
        };
        let snooze =
            json!({ "until_unix_seconds": 1_790_007_300, "by": "anna", "reason": "Monday" });
        let mut ended = issue("node_lost/n2", "critical", Value::Null);
        ended["ended_unix_millis"] = json!(1_790_000_060_000_u64);
        let open =
            [issue("node_hot/n1", "warning", Value::Null), issue("node_hot/n3", "warning", snooze)];
        json!({ "issues": open, "ended": [ended] })
    }

    #[test]
    fn issues_are_listed_with_the_next_step() {
        let text = list(&answer(), true, 1_790_000_100);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "warning, for 1m 40s: n1 is \"hot\", very.");
        assert_eq!(lines[1..3], ["    Check its fans.", "    node_hot/n1"]);
        assert_eq!(lines[4], "    snoozed by anna for 2h more: Monday");
        let ended = lines.last().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let words = ended.unwrap_or_default();
        assert_eq!(words[..5], ["40s", "ago", "1m", "critical", "n1"], "{text}");
        let none = list(&json!({ "issues": [], "ended": [] }), false, 0);
        assert_eq!(none, "nothing is wrong\n");
    }

    #[test]
    fn csv_has_a_row_for_each_issue_and_quotes_its_fields() {
        let text = csv(&answer());
        let rows: Vec<_> = text.split('\n').collect();
        assert_eq!((rows.len(), rows[4]), (5, ""));
        assert_eq!(rows[0], COLUMNS.join(","));
        let first = "\"node_hot/n1\",\"node_hot\",\"warning\",\"n1\",\"paris\",\"2026-09-21T14:13:20Z\",\"\",\"\",";
        assert!(rows[1].starts_with(first), "{}", rows[1]);
        assert!(rows[1].contains("\"n1 is \"\"hot\"\", very.\""), "{}", rows[1]);
        assert!(
            rows[2].contains("\"2026-09-21T16:15:00Z\"")
                && rows[3].contains("\"2026-09-21T14:14:20Z\"")
        );
    }
}
