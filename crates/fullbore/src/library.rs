//! `fullbore library`: manages the titles that ingest has made.

use crate::{say, tell};
use catalog::{BLOCK_BYTES, CatalogError, Entry, Fault, TitlePath};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// List, check and remove titles that ingest made
#[derive(Args)]
pub(crate) struct Library {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// List the titles
    List {
        /// The library
        #[arg(long, value_name = "DIR")]
        library: PathBuf,
        /// Print JSON to standard output
        #[arg(long)]
        json: bool,
    },
    /// Check every file against its SHA-256; the exit code is 1 if anything is wrong
    Verify {
        /// Check only this title, by its path in the library [default: all of them]
        title: Option<String>,
        /// The library
        #[arg(long, value_name = "DIR")]
        library: PathBuf,
        /// Add what earlier versions did not record, a SHA-256 of each block of 4 MiB, to titles without a fault
        #[arg(long)]
        complete: bool,
        /// Print JSON to standard output
        #[arg(long)]
        json: bool,
    },
    /// Remove a title; its viewers are disconnected
    Remove {
        /// Path of the title in the library
        title: String,
        /// The library
        #[arg(long, value_name = "DIR")]
        library: PathBuf,
        /// Remove only earlier versions, which the title has replaced
        #[arg(long)]
        replaced: bool,
    },
}

/// What went wrong, and the exit code for it.
struct Failed(u8, String);

impl Library {
    /// Runs the verb.
    pub(crate) fn run(self) -> ExitCode {
        let done = match self.verb {
            Verb::List { library, json } => list(&library, json),
            Verb::Verify { title, library, complete, json } => {
                verify(title.as_deref(), &library, complete, json)
            }
            Verb::Remove { title, library, replaced } => remove(&title, &library, replaced),
        };
        done.unwrap_or_else(|Failed(code, what)| {
            tell(&what);
            ExitCode::from(code)
        })
    }
}

fn entries(library: &Path) -> Result<Vec<Entry>, Failed> {
    catalog::list(library)
        .map_err(|error| Failed(1, format!("cannot list {}: {error}", library.display())))
}

fn path(title: &str) -> Result<TitlePath, Failed> {
    TitlePath::new(title).map_err(|error| Failed(2, error.to_string()))
}

fn list(library: &Path, as_json: bool) -> Result<ExitCode, Failed> {
    let entries = entries(library)?;
    if as_json {
        let titles: Vec<_> = entries.iter().map(listed).collect();
        print_json(&json!({ "version": 1, "kind": "library-list", "titles": titles }));
        return Ok(ExitCode::SUCCESS);
    }
    for entry in &entries {
        say(&(line(entry) + "\n"));
    }
    if entries.is_empty() {
        eprintln!(
            "fullbore: no titles yet; to add one, run: fullbore ingest FILE --library {}",
            library.display()
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// The record, or why it cannot be shown.
fn listed(entry: &Entry) -> Value {
    match &entry.record {
        Ok(record) => json!({ "title": entry.title.as_str(), "record": record, "error": null }),
        Err(why) => json!({ "title": entry.title.as_str(), "record": null, "error": why }),
    }
}

fn line(entry: &Entry) -> String {
    let record = match &entry.record {
        Ok(record) => record,
        Err(why) => return format!("{}  (its title.json is damaged: {why})", entry.title),
    };
    let sides = record.video.iter().map(|video| video.width.min(video.height).to_string());
    let sizes = sides.collect::<Vec<_>>().join("/");
    let tags = |tags: Vec<Option<String>>| {
        let known = tags.into_iter().map(|tag| tag.unwrap_or_else(|| "und".into()));
        known.collect::<Vec<_>>().join("/")
    };
    let audio = tags(record.audio.iter().map(|audio| audio.language.clone()).collect());
    let subtitles = tags(record.subtitles.iter().map(|one| one.language.clone()).collect());
    let bytes: u64 = record.files.iter().map(|file| file.bytes).sum();
    let mut parts = vec![clock(record.duration_seconds), format!("{:.1} MB", bytes as f64 / 1e6)];
    let named = [("video", sizes), ("audio", audio), ("subtitles", subtitles)];
    parts.extend(
        named
            .iter()
            .filter(|(_, what)| !what.is_empty())
            .map(|(kind, what)| format!("{kind} {what}")),
    );
    if !record.replaced.is_empty() {
        parts.push(format!("{} replaced", record.replaced.len()));
    }
    format!("{}  {}", entry.title, parts.join("  "))
}

fn clock(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

fn verify(
    title: Option<&str>,
    library: &Path,
    complete: bool,
    as_json: bool,
) -> Result<ExitCode, Failed> {
    let entries = match title {
        None => entries(library)?,
        Some(title) => {
            let found = catalog::find(library, &path(title)?);
            let missing = || Failed(1, format!("ingest has made no title {title:?}"));
            vec![found.ok_or_else(missing)?]
        }
    };
    let (mut told, mut fault_count, mut failed, mut incomplete) = (Vec::new(), 0, 0, 0);
    for entry in &entries {
        let verified = match verify_one(library, entry, complete) {
            Ok(verified) => verified,
            Err(error) => {
                tell(&format!("{}: {error}", entry.title));
                failed += 1;
                continue;
            }
        };
        fault_count += verified.faults.len();
        incomplete += usize::from(!verified.is_complete);
        match as_json {
            true => told.push(verified.json(entry)),
            false => verified.lines(entry).iter().for_each(|line| say(line)),
        }
    }
    if as_json {
        print_json(&json!({
            "version": 1, "kind": "library-verify", "fault_count": fault_count, "titles": told
        }));
    }
    if incomplete > 0 && !complete {
        tell(&format!(
            "{incomplete} records were written by an earlier version; to add the SHA-256 of each block, run: fullbore library verify --complete --library {}",
            library.display()
        ));
    }
    if fault_count > 0 {
        let advice = "ingest the title again (with --again, from the same file), or restore it";
        return Err(Failed(1, format!("{fault_count} faults found: {advice}")));
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The findings for one title.
struct Verified {
    faults: Vec<Fault>,
    /// Whether its record was completed just now.
    was_completed: bool,
    /// Whether its record has everything that records of this version have.
    is_complete: bool,
}

fn verify_one(library: &Path, entry: &Entry, complete: bool) -> Result<Verified, CatalogError> {
    // A record that cannot be read is reported as a fault of its own.
    let has_blocks = entry.record.as_ref().map_or(true, catalog::Record::has_blocks);
    if !complete {
        let faults = catalog::verify(entry);
        return Ok(Verified { faults, was_completed: false, is_complete: has_blocks });
    }
    let completed = catalog::complete(library, &entry.title)?;
    Ok(Verified {
        faults: completed.faults,
        was_completed: completed.was_replaced,
        is_complete: has_blocks || completed.was_replaced,
    })
}

impl Verified {
    fn lines(&self, entry: &Entry) -> Vec<String> {
        if !self.faults.is_empty() {
            let bad = |fault| format!("BAD: {}: {fault}\n", entry.title);
            return self.faults.iter().map(bad).collect();
        }
        let completed = if self.was_completed { " (record completed)" } else { "" };
        vec![format!("ok: {}{completed}\n", entry.title)]
    }

    fn json(&self, entry: &Entry) -> Value {
        let faults: Vec<_> = self.faults.iter().map(fault).collect();
        json!({
            "title": entry.title.as_str(),
            "faults": faults,
            "is_complete": self.is_complete,
            "was_completed": self.was_completed,
        })
    }
}

fn fault(fault: &Fault) -> Value {
    let mut told = json!({ "kind": fault.kind(), "path": fault.path(), "what": fault.to_string() });
    if let Fault::Content { blocks, .. } = fault {
        told["block_bytes"] = BLOCK_BYTES.into();
        told["blocks"] = json!(blocks);
    }
    told
}

fn remove(title: &str, library: &Path, replaced: bool) -> Result<ExitCode, Failed> {
    let title = path(title)?;
    let failed = |error: CatalogError| Failed(1, error.to_string());
    if replaced {
        let count = catalog::remove_replaced(library, &title).map_err(failed)?;
        say(&format!("removed: {count} replaced versions of {title}\n"));
    } else {
        catalog::remove(library, &title).map_err(failed)?;
        say(&format!("removed: {title}\n"));
    }
    Ok(ExitCode::SUCCESS)
}

fn print_json(value: &Value) {
    say(&library::shown_json(&format!("{value:#}\n")));
}
