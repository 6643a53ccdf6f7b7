//! `fullbore library`: looks after the titles that ingest has made.

use crate::{say, tell};
use clap::{Args, Subcommand};
use library::TitleName;
use library::catalog::{self, Entry, Fault};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// List, verify and remove the titles that ingest has made
#[derive(Args)]
pub(crate) struct Library {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Say which titles there are
    List {
        /// The library
        #[arg(long, value_name = "DIR")]
        library: PathBuf,
        /// For programs: as JSON, on standard output
        #[arg(long)]
        json: bool,
    },
    /// Read every file and compare it with its SHA-256; exit code 1 if anything is wrong
    Verify {
        /// Only this title [default: all of them]
        title: Option<String>,
        /// The library
        #[arg(long, value_name = "DIR")]
        library: PathBuf,
        /// For programs: as JSON, on standard output
        #[arg(long)]
        json: bool,
    },
    /// Remove a title; who watches it is cut off
    Remove {
        /// Which
        title: String,
        /// The library
        #[arg(long, value_name = "DIR")]
        library: PathBuf,
        /// Remove only what the title was before it was replaced
        #[arg(long)]
        replaced: bool,
    },
}

/// What went wrong, and the exit code for it.
struct Failed(u8, String);

impl Library {
    /// Does what the verb says.
    pub(crate) fn run(self) -> ExitCode {
        let done = match self.verb {
            Verb::List { library, json } => list(&library, json),
            Verb::Verify { title, library, json } => verify(title.as_deref(), &library, json),
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

fn name(title: &str) -> Result<TitleName, Failed> {
    TitleName::new(title).map_err(|error| Failed(2, error.to_string()))
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
        eprintln!("fullbore: no titles yet: fullbore ingest FILE --library {}", library.display());
    }
    Ok(ExitCode::SUCCESS)
}

/// The record as it is, or why there is none to show.
fn listed(entry: &Entry) -> Value {
    match &entry.record {
        Ok(record) => json!({ "title": entry.name.as_str(), "record": record, "error": null }),
        Err(why) => json!({ "title": entry.name.as_str(), "record": null, "error": why }),
    }
}

fn line(entry: &Entry) -> String {
    let record = match &entry.record {
        Ok(record) => record,
        Err(why) => return format!("{}  (its title.json cannot be believed: {why})", entry.name),
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
    format!("{}  {}", entry.name, parts.join("  "))
}

fn clock(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

fn verify(title: Option<&str>, library: &Path, as_json: bool) -> Result<ExitCode, Failed> {
    let entries = match title {
        None => entries(library)?,
        Some(title) => {
            let found = catalog::find(library, &name(title)?);
            let missing = || Failed(1, format!("there is no title {title:?} that ingest has made"));
            vec![found.ok_or_else(missing)?]
        }
    };
    let (mut verified, mut fault_count) = (Vec::new(), 0);
    for entry in &entries {
        let faults = catalog::verify(library, entry);
        fault_count += faults.len();
        if as_json {
            let faults: Vec<_> = faults.iter().map(fault).collect();
            verified.push(json!({ "title": entry.name.as_str(), "faults": faults }));
        } else if faults.is_empty() {
            say(&format!("ok: {}\n", entry.name));
        } else {
            for fault in faults {
                say(&format!("BAD: {}: {fault}\n", entry.name));
            }
        }
    }
    if as_json {
        print_json(&json!({
            "version": 1, "kind": "library-verify", "fault_count": fault_count, "titles": verified
        }));
    }
    if fault_count == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    let advice = "ingest the title again (with --again, from the same file), or restore it";
    Err(Failed(1, format!("{fault_count} faults found: {advice}")))
}

fn fault(fault: &Fault) -> Value {
    json!({ "kind": fault.kind(), "path": fault.path(), "what": fault.to_string() })
}

fn remove(title: &str, library: &Path, replaced: bool) -> Result<ExitCode, Failed> {
    let name = name(title)?;
    let failed = |error: library::ingest::IngestError| Failed(1, error.to_string());
    if replaced {
        let count = catalog::remove_replaced(library, &name).map_err(failed)?;
        say(&format!("removed: {count} replaced versions of {name}\n"));
    } else {
        catalog::remove(library, &name).map_err(failed)?;
        say(&format!("removed: {name}\n"));
    }
    Ok(ExitCode::SUCCESS)
}

fn print_json(value: &Value) {
    say(&library::shown_json(&format!("{value:#}\n")));
}
