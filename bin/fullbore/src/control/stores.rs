//! `fullbore control backup` and `restore`: the store and its objects in one file.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::sync::Arc;
use store::backup::{BackupError, back_up, check, restore};
use store::{Engine, Objects};

use super::Failed;
use super::serve::state_folder;

const NOT_TO_OUTPUT: &str = "a backup is not written to standard output: it has the fleet's secrets in it, so it goes to a file that only you can read. \
                             Name one, such as fleet.backup";

/// Where the store is.
#[derive(Args)]
pub(super) struct Place {
    /// The store: a folder, or etcd://HOST:PORT [default: store in --state]
    #[arg(long, value_name = "DIR|etcd://...")]
    store: Option<String>,
    /// Where titles' documents are stored: a folder, or s3://BUCKET/PREFIX [default: objects in --state]
    #[arg(long, value_name = "DIR|s3://...")]
    objects: Option<String>,
    /// The gateway's folder [default: ~/.local/state/fullbore/gateway]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Print JSON to standard output
    #[arg(long)]
    json: bool,
}

/// The subcommands.
#[derive(Subcommand)]
pub(super) enum Stores {
    /// Write the store, and the documents that it names, to one file; gateways may keep running
    ///
    /// The file contains the fleet's secrets, so only you can read it. It replaces an older backup of that name, but nothing other than a regular
    /// file.
    Backup {
        /// The file to write
        file: PathBuf,
        #[command(flatten)]
        place: Place,
    },
    /// Replace the store's content with a backup's; no gateway may be running
    ///
    /// Nodes that were revoked, and titles that were withdrawn, since the backup stay so, as far as the store or this gateway's folder still records
    /// it.
    Restore {
        /// The file to read
        file: PathBuf,
        #[command(flatten)]
        place: Place,
    },
}

impl Place {
    /// The places of the store and the objects.
    fn names(&self) -> (String, String) {
        let state = state_folder(self.state.as_deref());
        let below = |name: &str| state.join(name).display().to_string();
        let store = self.store.clone().unwrap_or_else(|| below("store"));
        (store, self.objects.clone().unwrap_or_else(|| below("objects")))
    }

    /// Checks that there is something to back up: opening a missing store would create it.
    fn check(&self) -> Result<(), Failed> {
        let (store, objects) = self.names();
        let wrong = |what: String| Err(Failed(2, what));
        match store::is_there(&store) {
            Err(error) => wrong(format!("cannot look into {store}: {error}")),
            Ok(false) => wrong(format!(
                "there is no store in {store}: name the gateway's folder with --state DIR, or its store with --store"
            )),
            Ok(true) if !objects.contains("://") && !Path::new(&objects).is_dir() => {
                wrong(format!(
                    "there is no folder {objects}: name the folder or bucket of the titles' documents with --objects"
                ))
            }
            Ok(true) => Ok(()),
        }
    }

    fn open(&self) -> Result<(Arc<dyn Engine>, Objects), Failed> {
        let (store, objects) = self.names();
        let failed = |error: &dyn std::fmt::Display| Failed(1, error.to_string());
        let engine = store::open(&store).map_err(|error| failed(&error))?;
        Ok((engine, Objects::open(&objects).map_err(|error| failed(&error))?))
    }

    fn print(&self, answer: &Value, words: &str) {
        match self.json {
            true => crate::say(&format!("{answer:#}\n")),
            false => crate::say(&format!("{words}\n")),
        }
    }
}

impl Stores {
    /// Runs the subcommand.
    pub(super) async fn run(self) -> Result<(), Failed> {
        let failed = |error: BackupError| Failed(1, error.to_string());
        let now = super::ask::now_unix_seconds();
        match self {
            Self::Backup { file, place } => {
                if file == Path::new("-") {
                    return Err(Failed(2, NOT_TO_OUTPUT.to_owned()));
                }
                place.check()?;
                let (engine, objects) = place.open()?;
                let done = back_up(&*engine, &objects, &file, now).await.map_err(failed)?;
                let answer = json!({
                    "version": 1, "entries": done.entries, "objects": done.objects, "lacking": done.lacking
                });
                let (entries, documents) = (done.entries, done.objects);
                let words = format!("{}: {entries} entries, {documents} documents", file.display());
                place.print(&answer, &words);
                match done.lacking.first() {
                    None => Ok(()),
                    Some(lacking) => Err(Failed(
                        1,
                        format!(
                            "documents are missing from the backup, because they cannot be read: {lacking}"
                        ),
                    )),
                }
            }
            Self::Restore { file, place } => {
                // Before a store is created for it.
                check(&file).map_err(failed)?;
                let (engine, objects) = place.open()?;
                let known = gateway::tombstones(&state_folder(place.state.as_deref()));
                let done = restore(&*engine, &objects, &file, &known, now).await.map_err(failed)?;
                let answer = json!({
                    "version": 1, "epoch": done.epoch, "entries": done.entries, "objects": done.objects,
                    "made_unix_seconds": done.made_unix_seconds
                });
                let (entries, documents) = (done.entries, done.objects);
                place.print(
                    &answer,
                    &format!("restored {entries} entries and {documents} documents; the fleet's epoch is now {}", done.epoch),
                );
                Ok(())
            }
        }
    }
}
