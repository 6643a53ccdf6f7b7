//! `fullbore edge ls`: lists what a running caching edge has stored.

use super::server_choice::ServerChoice;
use super::shown::{document, size, span};
use crate::{say, tell};
use clap::Args;
use edge::inquiry::{Inquiry, KeptCopy, KeptPath};
use serde_json::json;
use server::upgrade::{self, EdgeRequestError};
use std::path::Path;
use std::process::ExitCode;

/// List what is kept, in the order of the paths
///
/// One line for each film and each variant of a response: its kind, its status, how much of it is in the cache, its size, for how long it is fresh
/// and may be used after that, and its path. Run it as the server's user, on its machine.
#[derive(Args)]
#[command(
    after_help = "Exit codes:\n  0  done, even if nothing is kept there\n  1  not done\n  2  wrong usage\n\n\
    Examples:\n  fullbore edge ls /films/2025/ --config /etc/fullbore/fullbore.toml\n  fullbore edge ls --limit 50 --json"
)]
pub(super) struct LsCommand {
    /// List the URLs that begin like this, such as /films/
    #[arg(value_name = "PREFIX", default_value = "/")]
    prefix: String,
    /// The most URLs to list
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// List those after this path, which was the last one of an earlier list
    #[arg(long, value_name = "PATH")]
    after: Option<String>,
    /// Print JSON to standard output
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerChoice,
}

/// What has been found, page by page.
#[derive(Default)]
struct List {
    paths: Vec<KeptPath>,
    has_more: bool,
    is_incomplete: bool,
}

impl LsCommand {
    /// Lists what is kept.
    pub(super) fn run(self) -> ExitCode {
        let socket = match self.server.socket_or_exit() {
            Ok(socket) => socket,
            Err(code) => return code,
        };
        match self.list(&socket) {
            Ok(list) => {
                say(&if self.json { as_document(&list) } else { as_lines(&list) });
                if !self.json {
                    notes(&list).iter().for_each(|note| tell(note));
                }
                ExitCode::SUCCESS
            }
            Err(why) => {
                tell(&why.to_string());
                ExitCode::FAILURE
            }
        }
    }

    fn list(&self, socket: &Path) -> Result<List, EdgeRequestError> {
        let (mut list, mut after) = (List::default(), self.after.clone());
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        loop {
            let prefix = self.prefix.clone();
            let page = upgrade::inquire(socket, Inquiry::List { prefix, after })?;
            list.is_incomplete = !page.are_all_found;
            list.has_more = page.has_more;
            after = page.paths.last().map(|kept| kept.path.clone());
            list.paths.extend(page.paths);
            if list.paths.len() > limit {
                list.paths.truncate(limit);
                list.has_more = true;
            }
            if !page.has_more || after.is_none() || list.paths.len() >= limit {
                return Ok(list);
            }
        }
    }
}

fn as_document(list: &List) -> String {
    let paths: Vec<_> = list.paths.iter().map(document).collect();
    let document = json!({
        "version": 1,
        "kind": "edge_ls",
        "paths": paths,
        "has_more": list.has_more,
        "is_incomplete": list.is_incomplete,
    });
    format!("{document:#}\n")
}

fn as_lines(list: &List) -> String {
    let mut lines = format!(
        "{:8} {:>6} {:>10} {:>10} {:>8} {:>8} {}\n",
        "KIND", "STATUS", "PRESENT", "SIZE", "FRESH", "STALE", "PATH"
    );
    for kept in &list.paths {
        for copy in &kept.copies {
            lines += &line(&kept.path, copy);
        }
    }
    lines
}

fn line(path: &str, copy: &KeptCopy) -> String {
    let kind = if copy.is_film { "film" } else { "response" };
    let stale = copy.usable_seconds.saturating_sub(copy.fresh_seconds);
    let (present, all) = (size(copy.present_bytes), size(copy.bytes));
    let (fresh, stale) = (span(copy.fresh_seconds), span(stale));
    let line =
        format!("{kind:8} {:>6} {present:>10} {all:>10} {fresh:>8} {stale:>8} {path}", copy.status);
    ingest::shown(&line).into_owned() + "\n"
}

/// What the list lacks, for people.
fn notes(list: &List) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(last) = list.paths.last().filter(|_| list.has_more) {
        notes.push(format!("there are more: go on with --after '{}', or raise --limit", last.path));
    }
    if list.is_incomplete {
        notes.push(
            "the edge has just started, and is still reading what was stored before: list again"
                .to_owned(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::shown::copy;

    #[test]
    fn a_list_has_a_line_for_each_copy_and_says_what_it_lacks() {
        let response = KeptCopy { is_film: false, status: 404, ..copy() };
        let kept = KeptPath { path: "/a".into(), copies: vec![copy(), response] };
        let list = List { paths: vec![kept], has_more: true, is_incomplete: true };
        let lines = as_lines(&list);
        assert_eq!(lines.lines().count(), 3);
        let film = lines.lines().nth(1).unwrap();
        let words: Vec<_> = film.split_whitespace().collect();
        assert_eq!(words[..4], ["film", "200", "1.0", "MiB"], "{film}");
        assert!(film.ends_with(" /a") && film.contains("59m 3s"), "{film}");
        let notes = notes(&list);
        assert!(notes[0].contains("--after '/a'") && notes[1].contains("just started"));
        let document: serde_json::Value = serde_json::from_str(&as_document(&list)).unwrap();
        assert_eq!(document["paths"][0]["copies"][1]["status"], 404);
    }
}
