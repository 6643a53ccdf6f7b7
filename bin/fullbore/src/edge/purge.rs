//! `fullbore edge purge`: drops what a running caching edge has stored.

use super::server_choice::ServerChoice;
use crate::{say, tell};
use clap::{ArgGroup, Args};
use edge::purge::{Purge, PurgeScope, Purged};
use serde_json::json;
use server::upgrade;
use std::process::ExitCode;

/// Drop stored responses before their time: at once, whole films and all variants
///
/// A purged film is gone from the cache, and its space is free. The next request fetches it from the origin. With --soft it stays, and the edge asks
/// the origin whether it is still the same before it serves it again. When the command ends, no later request gets what was purged. Run it as the
/// server's user, on its machine.
#[derive(Args)]
#[command(
    group = ArgGroup::new("what").required(true).args(["url", "prefix", "tag"]),
    after_help = "Exit codes:\n  0  done, even if nothing was stored there\n  1  not done\n  2  wrong usage\n\n\
    Examples:\n  fullbore edge purge https://edge.example/films/a.mp4 --config /etc/fullbore/fullbore.toml\n  \
    fullbore edge purge --prefix /films/2025/ --soft\n  fullbore edge purge --tag film-7 --tag season-2 --json"
)]
pub(super) struct PurgeCommand {
    /// URL of the responses, with its query; a path will do
    #[arg(value_name = "URL")]
    url: Option<String>,
    /// Purge all URLs that begin like this, such as /films/
    #[arg(long, value_name = "PATH")]
    prefix: Option<String>,
    /// Purge all responses that the origin gave this tag (Surrogate-Key, Cache-Tag); repeat it for several
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Keep them, but ask the origin before serving them again
    #[arg(long)]
    soft: bool,
    /// Print JSON to standard output
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerChoice,
}

impl PurgeCommand {
    /// Purges, and prints what was found.
    pub(super) fn run(self) -> ExitCode {
        let socket = match self.server.socket_or_exit() {
            Ok(socket) => socket,
            Err(code) => return code,
        };
        let (as_json, is_soft) = (self.json, self.soft);
        match upgrade::purge(&socket, self.purge()) {
            Ok(purged) => {
                say(&if as_json { as_document(purged, is_soft) } else { as_line(purged, is_soft) });
                ExitCode::SUCCESS
            }
            Err(why) => {
                tell(&why.to_string());
                ExitCode::FAILURE
            }
        }
    }

    fn purge(self) -> Purge {
        let scope = match (self.url, self.prefix) {
            (Some(url), _) => PurgeScope::Url(url),
            (None, Some(prefix)) => PurgeScope::Prefix(prefix),
            (None, None) => PurgeScope::Tags(self.tag),
        };
        Purge { scope, is_soft: self.soft }
    }
}

fn as_document(Purged { films, responses }: Purged, is_soft: bool) -> String {
    let document = json!({
        "version": 1,
        "kind": "purge",
        "soft": is_soft,
        "films": films,
        "responses": responses,
    });
    format!("{document:#}\n")
}

fn as_line(purged: Purged, is_soft: bool) -> String {
    let did = if is_soft { "marked as stale" } else { "purged" };
    format!("{did}: {purged}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outcome_is_a_line_or_a_document() {
        let purged = Purged { films: 1, responses: 2 };
        assert_eq!(as_line(purged, false), "purged: 1 film, 2 other responses\n");
        assert_eq!(
            as_line(Purged::default(), true),
            "marked as stale: 0 films, 0 other responses\n"
        );
        let document: serde_json::Value = serde_json::from_str(&as_document(purged, true)).unwrap();
        assert_eq!((&document["soft"], &document["films"]), (&true.into(), &1.into()));
    }
}
