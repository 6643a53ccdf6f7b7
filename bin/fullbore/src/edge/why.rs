//! `fullbore edge why`: what a running caching edge has of a URL, until when, or why nothing.

use super::server_choice::ServerChoice;
use super::shown::{document, lifetime, size, span};
use crate::{say, tell};
use clap::Args;
use edge::inquiry::{FetchedAhead, Findings, HoldingRule, Inquiry, KeptCopy};
use serde_json::json;
use server::upgrade;
use std::process::ExitCode;

/// Say what is kept of a URL, until when, and if nothing is, why not
///
/// Shows the film or the response with all its variants: how much of it is in the cache, its version, its age, for how long it is fresh and may be
/// used after that, and its tags. If nothing is kept, shows the latest reason, as far as the edge remembers it: it remembers some thousand URLs,
/// and forgets them when it restarts. Run it as the server's user, on its machine.
#[derive(Args)]
#[command(
    after_help = "Exit codes:\n  0  done, even if nothing is kept there\n  1  not done\n  2  wrong usage\n\n\
    Examples:\n  fullbore edge why https://edge.example/films/a.mp4 --config /etc/fullbore/fullbore.toml\n  \
    fullbore edge why '/page?a=1' --json"
)]
pub(super) struct WhyCommand {
    /// URL of the response, with its query; a path will do
    #[arg(value_name = "URL")]
    url: String,
    /// Print JSON to standard output
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerChoice,
}

impl WhyCommand {
    /// Prints what is kept.
    pub(super) fn run(self) -> ExitCode {
        let socket = match self.server.socket_or_exit() {
            Ok(socket) => socket,
            Err(code) => return code,
        };
        match upgrade::inquire(&socket, Inquiry::Why { url: self.url.clone() }) {
            Ok(findings) => {
                let text = match self.json {
                    true => as_document(&findings),
                    false => as_text(&self.url, &findings),
                };
                say(&text);
                ExitCode::SUCCESS
            }
            Err(why) => {
                tell(&why.to_string());
                ExitCode::FAILURE
            }
        }
    }
}

fn as_document(findings: &Findings) -> String {
    let paths: Vec<_> = findings.paths.iter().map(document).collect();
    let reason = findings.reason.as_ref();
    let document = json!({
        "version": 1,
        "kind": "edge_why",
        "paths": paths,
        "rule": findings.rule.as_ref().map(|rule| json!({
            "number": rule.number,
            "path": rule.path,
            "settings": rule.settings,
        })),
        "last_reason": reason.map(|one| json!({ "why": one.why, "seconds_ago": one.seconds_ago })),
    });
    format!("{document:#}\n")
}

fn as_text(url: &str, findings: &Findings) -> String {
    let mut lines = Vec::new();
    for kept in &findings.paths {
        lines.push(kept.path.clone());
        lines.extend(kept.copies.iter().flat_map(copy_lines));
    }
    if findings.paths.is_empty() {
        lines.push(url.to_owned());
        lines.push(match &findings.reason {
            Some(reason) => {
                format!("  not kept: {} ({} ago)", reason.why, span(reason.seconds_ago))
            }
            None => "  not kept: no viewer has requested it since the edge started, or too long ago to be remembered".to_owned(),
        });
    }
    lines.extend(findings.rule.as_ref().map(rule_line));
    let lines = lines.iter().map(|line| ingest::shown(line).into_owned() + "\n");
    lines.collect()
}

/// The rule that holds for the URL, and what it says.
fn rule_line(HoldingRule { number, path, settings }: &HoldingRule) -> String {
    let says = if settings.is_empty() { "as without a rule".into() } else { settings.join(", ") };
    format!("  by rule {number} for {path:?}: {says}")
}

fn copy_lines(copy: &KeptCopy) -> Vec<String> {
    let what = match copy.is_film {
        true => format!("film: {} of {} present", size(copy.present_bytes), size(copy.bytes)),
        false => format!("response {}: {}", copy.status, size(copy.bytes)),
    };
    let version = copy.version.as_ref().map(|version| format!(", version {version}"));
    let used = match copy.used_seconds_ago {
        Some(seconds) => format!("last used {} ago", span(seconds)),
        None => "not used since the edge started".to_owned(),
    };
    let mut lines = vec![
        format!("  {what}{}", version.unwrap_or_default()),
        format!("    {}", lifetime(copy)),
        format!("    age {}, {used}", span(copy.age_seconds)),
    ];
    lines.extend(copy.cache_control.iter().map(|said| format!("    the origin says {said}")));
    lines.extend(copy.origin.iter().map(|origin| format!("    from {origin}")));
    lines.extend(copy.ahead.iter().map(ahead));
    if !copy.selected_by.is_empty() {
        let fields = copy
            .selected_by
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.as_deref().unwrap_or("(none)")));
        lines.push(format!("    for requests with {}", fields.collect::<Vec<_>>().join(", ")));
    }
    if !copy.tags.is_empty() || copy.tags_left_out > 0 {
        let more = match copy.tags_left_out {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        lines.push(format!("    tags: {}{more}", copy.tags.join(" ")));
    }
    lines
}

/// How it came here before a viewer requested it.
fn ahead(FetchedAhead { source, seconds_ago, is_used }: &FetchedAhead) -> String {
    let why = match source.as_str() {
        "cmcd" => "a player had announced it",
        "playlist" => "it follows in a playlist",
        "number" => "it follows by its number",
        other => other,
    };
    let since = if *is_used { "used since" } else { "not used yet" };
    format!("    fetched ahead {} ago, because {why}; {since}", span(*seconds_ago))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::shown::copy;
    use edge::inquiry::{KeptPath, RecentReason};

    #[test]
    fn what_is_kept_and_why_nothing_is_reads_well() {
        let kept = KeptPath { path: "/a.mp4".into(), copies: vec![copy()] };
        let findings = Findings { paths: vec![kept], ..Findings::default() };
        let text = as_text("/a.mp4", &findings);
        assert_eq!(
            text,
            "/a.mp4\n  film: 1.0 MiB of 3.0 MiB present, version \"v1\"\n    \
             fresh for 59m 3s more, then used for 1d 57s if the origin doesn't answer\n    \
             age 57s, not used since the edge started\n    the origin says max-age=3600\n    \
             from http://b\n    \
             fetched ahead 1m 5s ago, because a player had announced it; not used yet\n    \
             for requests with accept-language: de, x: (none)\n    tags: film-7\n"
        );
        let why = "the response to GET with status 200: Cache-Control: no-store\n".to_owned();
        let reason = Some(RecentReason { why, seconds_ago: 5 });
        let findings = Findings { reason, ..Findings::default() };
        let text = as_text("/b", &findings);
        assert!(
            text.starts_with("/b\n  not kept: the response to GET") && text.lines().count() == 2
        );
        let document: serde_json::Value = serde_json::from_str(&as_document(&findings)).unwrap();
        assert_eq!(document["last_reason"]["seconds_ago"], 5);
        let settings = vec!["cache = false".to_owned()];
        let rule = Some(HoldingRule { number: 2, path: "/c*".into(), settings });
        let text = as_text("/c", &Findings { rule, ..Findings::default() });
        assert!(text.ends_with("\n  by rule 2 for \"/c*\": cache = false\n"), "{text}");
        assert!(as_text("/c", &Findings::default()).contains("no viewer has requested it"));
    }
}
