//! `fullbore config`: shows how a configuration differs from a running server's.

use crate::serve::{Misused, Serve};
use crate::{say, tell};
use clap::{Args, Subcommand};
use config::SettingChange;
use serde_json::{Value, json};
use server::upgrade::running_config;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Compare a configuration with that of a running server
#[derive(Args)]
pub(crate) struct ConfigCommand {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Diff(Diff),
}

/// Show what "fullbore upgrade" would change
///
/// The arguments are those of "fullbore serve", as for "fullbore upgrade". Each setting that differs is a line: its key, the running server's
/// value, the new value, and whether it takes an upgrade or a restart to apply it. A reload (SIGHUP) changes no setting: it only re-reads
/// certificates, keys and address lists. Run it as the server's user. Put this command's own options first.
#[derive(Args)]
#[command(
    after_help = "Exit codes:\n  0  nothing differs\n  1  something differs\n  2  wrong usage, or no server can be asked\n\n\
    Examples:\n  fullbore config diff --config /etc/fullbore/fullbore.toml\n  fullbore config diff --json /srv/videos --listen 127.0.0.1:8080 --tls off"
)]
struct Diff {
    /// The running server's socket [default: STATE/upgrade-ADDR:PORT.sock, from the arguments]
    #[arg(long, value_name = "FILE")]
    socket: Option<PathBuf>,
    /// Print JSON to standard output
    #[arg(long)]
    json: bool,
    /// As after "fullbore serve"
    #[arg(value_name = "ARGUMENTS OF SERVE", trailing_var_arg = true, allow_hyphen_values = true)]
    serve: Vec<OsString>,
}

impl ConfigCommand {
    /// Prints the differences.
    pub(crate) fn run(self) -> ExitCode {
        let Verb::Diff(diff) = self.verb;
        let as_json = diff.json;
        match diff.changes() {
            Ok(changes) => {
                say(&if as_json { as_document(&changes) } else { as_lines(&changes) });
                ExitCode::from(u8::from(!changes.is_empty()))
            }
            Err(why) => {
                tell(&why);
                ExitCode::from(2)
            }
        }
    }
}

impl Diff {
    fn changes(self) -> Result<Vec<SettingChange>, String> {
        let serve = Serve::from_arguments(&self.serve);
        let socket = self.socket.unwrap_or_else(|| serve.socket());
        let configured = serve.configure_with_library().map_err(|Misused(why)| why)?;
        let running = running_config(&socket).map_err(|error| error.to_string())?;
        configured.changes_from(&running).map_err(|error| error.to_string())
    }
}

fn as_document(changes: &[SettingChange]) -> String {
    let document = json!({ "version": 1, "kind": "config-diff", "changes": changes });
    format!("{document:#}\n")
}

fn as_lines(changes: &[SettingChange]) -> String {
    let line = |change: &SettingChange| {
        let SettingChange { key, running, configured, takes } = change;
        let (running, configured) = (in_words(running), in_words(configured));
        format!("{key}: {running} -> {configured} ({})\n", takes.describe())
    };
    changes.iter().map(line).collect()
}

fn in_words(value: &Value) -> String {
    if value.is_null() { "none".into() } else { value.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::Takes;

    #[test]
    fn a_change_is_a_line_with_both_values_and_what_it_takes() {
        let change = |key: &str, running, configured, takes| SettingChange {
            key: key.into(),
            running,
            configured,
            takes,
        };
        let changes = [
            change("access_log", Value::Null, json!("/var/log/a log"), Takes::Upgrade),
            change("drain_seconds", json!(30), json!(60), Takes::Restart),
        ];
        let expected = "access_log: none -> \"/var/log/a log\" (takes an upgrade)\n\
                        drain_seconds: 30 -> 60 (takes a restart)\n";
        assert_eq!(as_lines(&changes), expected);
        let document: Value = serde_json::from_str(&as_document(&changes)).unwrap();
        assert_eq!(document["changes"][1]["takes"], "restart");
        assert_eq!(document["changes"][0]["running"], Value::Null);
        assert_eq!(as_lines(&[]), "");
    }
}
