//! `fullbore ingest --watch`: makes a title of each film that appears in a folder.

use super::{Ingest, tell};
use clap::{Args, value_parser};
use ingest::ingest::{Options, Stop, on_terminal};
use ingest::watch::{WatchEvent, WatchedFolder, watch};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Args)]
#[command(next_help_heading = "Watching a folder")]
pub(super) struct WatchArgs {
    /// Folder to watch: every film put into it, or into a folder below it, becomes a title. Runs until stopped;
    /// `fullbore library failures` lists the films that failed
    #[arg(long, value_name = "DIR", conflicts_with_all = ["file", "title", "poster", "subtitle", "again"])]
    pub(super) watch: Option<PathBuf>,
    /// Seconds a file must stay unchanged before it counts as complete
    #[arg(long, value_name = "SECONDS", default_value_t = 30, requires = "watch")]
    #[arg(value_parser = value_parser!(u64).range(1..=86_400))]
    settle_seconds: u64,
    /// Number of films to ingest at once; they share the memory limit
    #[arg(long, value_name = "N", default_value_t = 1, requires = "watch")]
    #[arg(value_parser = value_parser!(u64).range(1..=64))]
    at_once: u64,
}

impl Ingest {
    /// Watches `folder` until a signal stops it.
    pub(super) fn watch(&self, folder: PathBuf, mut options: Options, stop: &Stop) -> ExitCode {
        options.bounds.memory_bytes_max /= self.watch.at_once;
        let what = WatchedFolder {
            folder,
            library: self.library.clone(),
            into: self.into.clone(),
            options,
            settle: Duration::from_secs(self.watch.settle_seconds),
            at_once: self.watch.at_once as usize,
        };
        crate::say_started(&format!("watching {}\n", what.folder.display()));
        let alone = what.at_once == 1;
        match watch(&what, stop, &report, &|title| on_terminal(title.as_str(), alone)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                crate::tell(&error.to_string());
                ExitCode::FAILURE
            }
        }
    }
}

fn report(event: WatchEvent) {
    match event {
        WatchEvent::Made { ingested, .. } => tell(&ingested),
        WatchEvent::Failed { file, reason, again } => {
            let again = again.map_or_else(
                || "not retried until the file or the options change".to_owned(),
                |wait| format!("retrying in {} s", wait.as_secs()),
            );
            crate::tell(&format!("{file}: {reason} ({again})"));
        }
        WatchEvent::Problem(problem) => crate::tell(&problem),
    }
}
