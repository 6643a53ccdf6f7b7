//! `fullbore library`: manages the titles that ingest has made.

use crate::folders::Folders;
use crate::promote::Promote;
use crate::{say, say_line, tell};
use ::ingest::sample::{Recipe, on_terminal};
use ::ingest::watch::results;
use catalog::{BLOCK_BYTES, CatalogError, Fault, LibraryEntry, RecordError, TitleName, TitlePath};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// List, check, remove and promote titles that ingest made
#[derive(Args)]
pub(crate) struct Library {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// List the titles
    List {
        /// The library; repeat it if the library has several folders
        #[arg(long, value_name = "DIR", required = true)]
        library: Vec<PathBuf>,
        /// Print JSON to standard output
        #[arg(long)]
        json: bool,
    },
    /// Check every file against its SHA-256; the exit code is 1 if anything is wrong
    Verify {
        /// Check only this title, by its path in the library [default: all of them]
        title: Option<String>,
        /// The library; repeat it if the library has several folders
        #[arg(long, value_name = "DIR", required = true)]
        library: Vec<PathBuf>,
        /// Add SHA-256 sums of each 4 MiB block, which earlier versions did not record, to titles without faults
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
        /// The library; repeat it if the library has several folders
        #[arg(long, value_name = "DIR", required = true)]
        library: Vec<PathBuf>,
        /// Remove only earlier versions, which the title has replaced
        #[arg(long)]
        replaced: bool,
    },
    /// List films in watched folders that could not become titles, with the reasons; the exit code is 1 if there are any
    Failures {
        /// The library; repeat it if the library has several folders
        #[arg(long, value_name = "DIR", required = true)]
        library: Vec<PathBuf>,
        /// Print JSON to standard output
        #[arg(long)]
        json: bool,
    },
    Promote(Promote),
    /// Make a film for trying things out and for load tests: a test picture with a timecode, a beep each second and captions, in small sizes
    /// from 400 kb/s. An existing film is kept; 15 minutes of film take two CPUs about four minutes
    Sample {
        /// The library to put it in
        #[arg(long, value_name = "DIR")]
        library: PathBuf,
        /// How long the film is
        #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=600))]
        minutes: u32,
        /// Name of the title [default: sample-15 for 15 minutes]
        #[arg(long)]
        title: Option<String>,
    },
}

/// The error message, and its exit code.
struct Failed(u8, String);

impl Library {
    /// Runs the subcommand.
    pub(crate) fn run(self) -> ExitCode {
        let done = match self.verb {
            Verb::List { library, json } => open(library).and_then(|folders| list(folders, json)),
            Verb::Verify { title, library, complete, json } => {
                open(library).and_then(|folders| verify(title.as_deref(), folders, complete, json))
            }
            Verb::Remove { title, library, replaced } => {
                open(library).and_then(|folders| remove(&title, &folders, replaced))
            }
            Verb::Failures { library, json } => failures(&library, json),
            Verb::Promote(promote) => return promote.run(),
            Verb::Sample { library, minutes, title } => sample(&library, minutes, title),
        };
        done.unwrap_or_else(|Failed(code, what)| {
            tell(&what);
            ExitCode::from(code)
        })
    }
}

fn open(library: Vec<PathBuf>) -> Result<Folders, Failed> {
    Folders::open(library).map_err(|error| Failed(2, error.to_string()))
}

fn path(title: &str) -> Result<TitlePath, Failed> {
    TitlePath::new(title).map_err(|error| Failed(2, error.to_string()))
}

fn sample(library: &Path, minutes: u32, title: Option<String>) -> Result<ExitCode, Failed> {
    let title = title.unwrap_or_else(|| format!("sample-{minutes}"));
    let name = TitleName::new(&title).map_err(|error| Failed(2, error.to_string()))?;
    let recipe = Recipe::small(minutes * 60);
    let made = ::ingest::sample::ensure_title(library, &name, &recipe, on_terminal());
    let made = made.map_err(|error| Failed(1, error.to_string()))?;
    say_line(&made.display().to_string());
    Ok(ExitCode::SUCCESS)
}

fn list(mut folders: Folders, as_json: bool) -> Result<ExitCode, Failed> {
    let entries = folders.entries();
    let code = if folders.lacks_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    if as_json {
        let titles: Vec<_> = entries.iter().map(listed).collect();
        print_json(&json!({
            "version": 1, "kind": "library-list", "titles": titles, "hidden": folders.hidden_json(),
            "unread": folders.unread_json()
        }));
        return Ok(code);
    }
    for (_, entry) in &entries {
        say_line(&line(entry));
    }
    if entries.is_empty() && !folders.lacks_some() {
        let arguments = folders.arguments();
        tell(&format!("no titles yet; to add one, run: fullbore ingest FILE {arguments}"));
    }
    Ok(code)
}

/// The record, or the reason why it cannot be shown.
fn listed((folder, entry): &(PathBuf, LibraryEntry)) -> Value {
    let record = entry.record.as_ref();
    json!({
        "title": entry.title.as_str(),
        "folder": folder.to_string_lossy(),
        "record": record.ok(),
        "error": record.err().map(ToString::to_string),
    })
}

fn line(entry: &LibraryEntry) -> String {
    let record = match &entry.record {
        Ok(record) => record,
        Err(RecordError::Io(why)) => {
            return format!("{}  (its title.json cannot be read: {why})", entry.title);
        }
        Err(RecordError::Broken(why)) => {
            return format!("{}  (its title.json is damaged: {why})", entry.title);
        }
    };
    let sides = record.video.iter().map(|video| video.width.min(video.height).to_string());
    let sizes = sides.collect::<Vec<_>>().join("/");
    let tags = |tags: Vec<Option<String>>| {
        let known = tags.into_iter().map(|tag| tag.unwrap_or_else(|| "und".into()));
        known.collect::<Vec<_>>().join("/")
    };
    let sounds = record.audio.iter().filter(|audio| audio.version_of.is_none());
    let audio = tags(sounds.map(|audio| audio.language.clone()).collect());
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
    mut folders: Folders,
    complete: bool,
    as_json: bool,
) -> Result<ExitCode, Failed> {
    let entries = match title {
        None => folders.entries(),
        Some(title) => vec![one(&folders, &path(title)?)?],
    };
    let (mut told, mut fault_count, mut incomplete) = (Vec::new(), 0, 0);
    let mut failed = usize::from(folders.lacks_some());
    for (library, entry) in &entries {
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
            false => verified.lines(entry).iter().for_each(|line| say_line(line)),
        }
    }
    if as_json {
        print_json(&json!({
            "version": 1, "kind": "library-verify", "fault_count": fault_count, "titles": told,
            "unread": folders.unread_json()
        }));
    }
    if incomplete > 0 && !complete {
        tell(&format!(
            "{incomplete} records were written by an earlier version; to add the SHA-256 of each block, run: fullbore library verify --complete {}",
            folders.arguments()
        ));
    }
    if fault_count > 0 {
        let advice = "ingest the title again (with --again, from the same file), or restore it";
        return Err(Failed(1, format!("{fault_count} faults found: {advice}")));
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The title at this path, with its folder of the library.
fn one(folders: &Folders, title: &TitlePath) -> Result<(PathBuf, LibraryEntry), Failed> {
    let (library, title) = folders.locate(title);
    let found = catalog::find(library, &title).map_err(|unread| Failed(1, unread.to_string()))?;
    let found =
        found.ok_or_else(|| Failed(1, format!("ingest has made no title {:?}", title.as_str())))?;
    Ok((library.to_owned(), found))
}

/// The findings for one title.
struct Verified {
    faults: Vec<Fault>,
    /// Its record was completed just now.
    was_completed: bool,
    /// Its record has everything that this version records.
    is_complete: bool,
}

fn verify_one(
    library: &Path,
    entry: &LibraryEntry,
    complete: bool,
) -> Result<Verified, CatalogError> {
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
    fn lines(&self, entry: &LibraryEntry) -> Vec<String> {
        if !self.faults.is_empty() {
            let bad = |fault| format!("BAD: {}: {fault}", entry.title);
            return self.faults.iter().map(bad).collect();
        }
        let completed = if self.was_completed { " (record completed)" } else { "" };
        vec![format!("ok: {}{completed}", entry.title)]
    }

    fn json(&self, entry: &LibraryEntry) -> Value {
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

fn remove(title: &str, folders: &Folders, replaced: bool) -> Result<ExitCode, Failed> {
    let (library, title) = folders.locate(&path(title)?);
    let failed = |error: CatalogError| Failed(1, error.to_string());
    if replaced {
        let count = catalog::remove_replaced(library, &title).map_err(failed)?;
        say_line(&format!("removed replaced versions of {title}: {count}"));
    } else {
        catalog::remove(library, &title).map_err(failed)?;
        say_line(&format!("removed: {title}"));
        if let Some(next) = folders.next_of(&title) {
            tell(&format!("note: the title of that name in {} is served now", next.display()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn failures(library: &[PathBuf], as_json: bool) -> Result<ExitCode, Failed> {
    let mut failures = Vec::new();
    for folder in library {
        let watched = results(folder).map_err(|error| Failed(2, error.to_string()))?;
        for (watched, films) in watched {
            let failed = films.into_iter().filter(|one| one.reason.is_some());
            failures.extend(failed.map(|one| (Path::new(&watched).join(&one.file), one)));
        }
    }
    if as_json {
        let films = failures.iter().map(|(path, one)| {
            json!({
                "file": path.to_string_lossy(), "reason": one.reason, "will_retry": one.will_retry,
                "unix_seconds": one.unix_seconds,
            })
        });
        let films: Vec<_> = films.collect();
        print_json(&json!({ "version": 1, "kind": "library-failures", "films": films }));
    } else {
        for (path, one) in &failures {
            let again = if one.will_retry { "  (will be retried)" } else { "" };
            let reason = one.reason.as_deref().unwrap_or_default();
            say_line(&format!("{}  {reason}{again}", path.display()));
        }
    }
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print_json(value: &Value) {
    say(&ingest::shown_json(&format!("{value:#}\n")));
}
