//! `fullbore edge purges`: the latest purges at a running caching edge.

use super::server_choice::ServerChoice;
use super::shown::span;
use crate::{say, tell};
use clap::Args;
use edge::purge::PurgeRecord;
use serde_json::{Value, json};
use server::upgrade;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// Show the latest purges, the last one first
///
/// One line for each of the last 100 purges since the edge was started: how long ago it was, by which address or process, its kind, how many films
/// and other responses it found, and the URL, prefix or tags. The server's log has all of them. Run it as the server's user, on its machine.
#[derive(Args)]
#[command(
    after_help = "Exit codes:\n  0  done, even if nothing was purged\n  1  not done\n  2  wrong usage\n\n\
    Examples:\n  fullbore edge purges --config /etc/fullbore/fullbore.toml\n  fullbore edge purges --json"
)]
pub(super) struct PurgesCommand {
    /// Print JSON to standard output
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerChoice,
}

impl PurgesCommand {
    /// Prints the latest purges.
    pub(super) fn run(self) -> ExitCode {
        let socket = match self.server.socket_or_exit() {
            Ok(socket) => socket,
            Err(code) => return code,
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        match upgrade::purges(&socket) {
            Ok(purges) => {
                say(&if self.json { as_document(&purges) } else { as_lines(&purges, now) });
                ExitCode::SUCCESS
            }
            Err(why) => {
                tell(&why.to_string());
                ExitCode::FAILURE
            }
        }
    }
}

fn as_document(purges: &[PurgeRecord]) -> String {
    let purges: Vec<Value> = purges.iter().map(record_document).collect();
    let document = json!({ "version": 1, "kind": "edge_purges", "purges": purges });
    format!("{document:#}\n")
}

fn record_document(record: &PurgeRecord) -> Value {
    json!({
        "at": record.at_unix_seconds,
        "by": record.by,
        "kind": record.kind,
        "soft": record.is_soft,
        "what": record.what,
        "films": record.purged.films,
        "responses": record.purged.responses,
    })
}

fn as_lines(purges: &[PurgeRecord], now: u64) -> String {
    let mut lines = format!(
        "{:>8} {:20} {:11} {:>7} {:>9} {}\n",
        "AGO", "BY", "KIND", "FILMS", "RESPONSES", "WHAT"
    );
    for PurgeRecord { at_unix_seconds, by, kind, is_soft, what, purged } in purges {
        let ago = span(now.saturating_sub(*at_unix_seconds));
        let kind = if *is_soft { format!("soft {kind}") } else { kind.clone() };
        let found = format!("{:>7} {:>9}", purged.films, purged.responses);
        let line = format!("{ago:>8} {by:20} {kind:11} {found} {what}");
        lines += &(ingest::shown(&line).into_owned() + "\n");
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge::purge::Purged;

    #[test]
    fn each_purge_is_a_line_or_a_document() {
        let record = PurgeRecord {
            at_unix_seconds: 1000,
            by: "192.0.2.7".into(),
            kind: "prefix".into(),
            is_soft: true,
            what: "/films/\n".into(),
            purged: Purged { films: 3, responses: 1 },
        };
        let lines = as_lines(std::slice::from_ref(&record), 1090);
        assert_eq!(lines.lines().count(), 2, "{lines}");
        let words: Vec<_> = lines.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(words[..7], ["1m", "30s", "192.0.2.7", "soft", "prefix", "3", "1"], "{lines}");
        let document: Value = serde_json::from_str(&as_document(&[record])).unwrap();
        assert_eq!(
            (&document["purges"][0]["by"], &document["kind"]),
            (&json!("192.0.2.7"), &json!("edge_purges"))
        );
    }
}
