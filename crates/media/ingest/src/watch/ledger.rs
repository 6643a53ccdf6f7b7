//! The result of each film of a watched folder, in a hidden file of the library. It survives a restart, so that a film is ingested once:
//! a title that an operator removes does not return, and a film that cannot become a title is not retried forever. It is tried again when it
//! changes, or with other options, another ffmpeg or another Fullbore.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use catalog::sha256;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::look::Stamp;
use super::{Found, WatchError};

/// Names of ledgers in a library: this, and a digest of the watched folder's path.
const PREFIX: &str = ".watch-";
const SUFFIX: &str = ".json";
/// Letters of the digest. Two of a library's watched folders practically never share them.
const DIGEST_LETTERS: usize = 16;
/// Most entries. When there are more, those that were written first go: their files were moved away, or would be ingested again with the
/// outcome that the title exists already.
const ENTRIES_MAX: usize = 100_000;
/// 100,000 entries with long names have some 60 MB.
const BYTES_MAX: u32 = 256 << 20;

/// What became of a film.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FilmResult {
    /// Its path below the watched folder.
    pub file: String,
    #[serde(flatten)]
    pub(super) stamp: Stamp,
    /// The title that it became.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Why it did not become a title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What it failed with (`conditions.rs`). `None` in titles, and in failures that an earlier version wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) conditions: Option<String>,
    /// Whether the reason may pass, so that it is tried again even if it does not change.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub will_retry: bool,
    /// When, in seconds since 1970.
    pub unix_seconds: u64,
}

/// A ledger as it is written.
#[derive(Serialize)]
struct Written<'a> {
    version: u32,
    kind: &'static str,
    folder: &'a str,
    films: Vec<&'a FilmResult>,
}

/// A ledger as it is read.
#[derive(Deserialize)]
struct Document {
    version: u32,
    kind: String,
    /// The watched folder.
    folder: String,
    films: Vec<FilmResult>,
}

const VERSION: u32 = 1;
const KIND: &str = "ingest-watch";

/// The ledger of one watched folder, locked: no other process watches that folder for this library.
#[derive(Debug)]
pub(super) struct Ledger {
    path: PathBuf,
    folder: String,
    films: BTreeMap<String, FilmResult>,
    /// Those of this watch.
    conditions: String,
    _lock: File,
}

impl Ledger {
    /// Opens the ledger for the watched folder `folder` in `library`, and locks it. Failures under other conditions than `conditions` may pass.
    ///
    /// # Errors
    /// [`WatchError::Busy`] if another process has it; [`WatchError::Ledger`] if it cannot be used.
    pub(super) fn open(
        folder: &Path,
        library: &Path,
        conditions: String,
    ) -> Result<Self, WatchError> {
        let digest = sha256::of_parts([folder.as_os_str().as_encoded_bytes()]);
        let name = format!("{PREFIX}{}", &digest[..DIGEST_LETTERS]);
        let path = library.join(format!("{name}{SUFFIX}"));
        let lock = library.join(format!("{name}.lock"));
        let failed = |path: &Path, source| WatchError::Ledger { path: path.to_owned(), source };
        let mut open = File::options();
        let file = open.create(true).truncate(false).write(true).open(&lock);
        let file = file.map_err(|error| failed(&lock, error))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(WatchError::Busy(folder.to_owned())),
            locked => locked.map_err(|error| failed(&lock, error.into()))?,
        }
        let films = match read(&path) {
            Ok(document) => document.films,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(failed(&path, error)),
        };
        let films = films.into_iter().map(|one| (one.file.clone(), one)).collect();
        let folder = folder.to_string_lossy().into_owned();
        Ok(Self { path, folder, films, conditions, _lock: file })
    }

    /// Whether there is nothing to do for a film, as long as neither it nor the conditions change.
    pub(super) fn is_done(&self, found: &Found) -> bool {
        let known = self.films.get(&found.file);
        known.is_some_and(|known| {
            let is_title = known.reason.is_none();
            known.stamp == found.stamp && !known.will_retry && (is_title || self.is_current(known))
        })
    }

    fn is_current(&self, known: &FilmResult) -> bool {
        known.conditions.as_ref() == Some(&self.conditions)
    }

    /// Why a film failed, if only the conditions have changed since.
    pub(super) fn reason_under_others(&self, found: &Found) -> Option<String> {
        let known = self.films.get(&found.file)?;
        let is_final = known.stamp == found.stamp && !known.will_retry;
        known.reason.clone().filter(|_| is_final && !self.is_current(known))
    }

    /// Whether a film is a title, and has not changed since.
    pub(super) fn has_title(&self, found: &Found) -> bool {
        let known = self.films.get(&found.file);
        known.is_some_and(|known| known.stamp == found.stamp && known.reason.is_none())
    }

    /// Whether this failure of the film, under these conditions, is already in the ledger.
    pub(super) fn has_reason(&self, found: &Found, reason: &str) -> bool {
        let known = self.films.get(&found.file);
        known.is_some_and(|known| {
            let is_same = known.reason.as_deref() == Some(reason);
            known.stamp == found.stamp && is_same && self.is_current(known)
        })
    }

    /// Forgets failures of films that are gone.
    ///
    /// # Errors
    /// As for [`Self::add`].
    pub(super) fn keep_failures_of(&mut self, found: &[Found]) -> Result<(), WatchError> {
        let names: HashSet<_> = found.iter().map(|one| one.file.as_str()).collect();
        let before = self.films.len();
        self.films.retain(|file, one| one.reason.is_none() || names.contains(file.as_str()));
        if self.films.len() == before { Ok(()) } else { self.write() }
    }

    /// Adds a result, with the conditions if it is a failure, and writes the ledger.
    ///
    /// # Errors
    /// If it cannot be written. The result still counts until the process ends.
    pub(super) fn add(&mut self, mut result: FilmResult) -> Result<(), WatchError> {
        result.conditions = result.reason.as_ref().map(|_| self.conditions.clone());
        self.films.insert(result.file.clone(), result);
        while self.films.len() > ENTRIES_MAX {
            let Some((first, _)) = self.films.iter().min_by_key(|(_, one)| one.unix_seconds) else {
                break;
            };
            let first = first.clone();
            self.films.remove(&first);
        }
        self.write()
    }

    fn write(&self) -> Result<(), WatchError> {
        let films = self.films.values().collect();
        let document = Written { version: VERSION, kind: KIND, folder: &self.folder, films };
        let written = serde_json::to_vec_pretty(&document).map_err(io::Error::from);
        let written = written.and_then(|bytes| files::replace(&self.path, &bytes, 0o644));
        written.map_err(|source| WatchError::Ledger { path: self.path.clone(), source })
    }
}

fn read(path: &Path) -> io::Result<Document> {
    let text = files::read_text(path, BYTES_MAX)?;
    let document: Document = serde_json::from_str(&text).map_err(io::Error::from)?;
    if document.version != VERSION || document.kind != KIND {
        return Err(io::Error::new(ErrorKind::InvalidData, "another version of fullbore wrote it"));
    }
    Ok(document)
}

/// The results of all folders that were watched for the library folder `library`: the watched folder, and its films by path.
///
/// # Errors
/// If the library or one of the ledgers in it cannot be read.
pub fn results(library: &Path) -> Result<Vec<(String, Vec<FilmResult>)>, WatchError> {
    let failed = |path: &Path, source| WatchError::Ledger { path: path.to_owned(), source };
    let mut results = Vec::new();
    for entry in fs::read_dir(library).map_err(|error| failed(library, error))? {
        let entry = entry.map_err(|error| failed(library, error))?;
        let name = entry.file_name();
        let is_ledger = |name: &str| name.starts_with(PREFIX) && name.ends_with(SUFFIX);
        if name.to_str().is_some_and(is_ledger) {
            let document = read(&entry.path()).map_err(|error| failed(&entry.path(), error))?;
            results.push((document.folder, document.films));
        }
    }
    results.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::tempdir;

    fn found(bytes: u64) -> Found {
        let stamp = Stamp { bytes, modified: (1, 2), subtitles: Vec::new() };
        Found {
            file: "a.mkv".into(),
            path: "/in/a.mkv".into(),
            stamp,
            subtitles: Vec::new(),
            ignored: Vec::new(),
        }
    }

    fn result(found: &Found, reason: Option<&str>, will_retry: bool) -> FilmResult {
        let (file, stamp) = (found.file.clone(), found.stamp.clone());
        FilmResult {
            file,
            stamp,
            title: None,
            reason: reason.map(Into::into),
            conditions: None,
            will_retry,
            unix_seconds: 7,
        }
    }

    fn open(library: &Path, conditions: &str) -> Ledger {
        Ledger::open(Path::new("/in"), library, conditions.to_owned()).unwrap()
    }

    #[test]
    fn results_survive_a_restart_and_count_for_the_file_as_it_was() {
        let library = tempdir().unwrap();
        let mut ledger = open(library.path(), "same");
        assert!(!ledger.is_done(&found(1)));
        ledger.add(result(&found(1), Some("broken"), false)).unwrap();
        drop(ledger);
        let mut ledger = open(library.path(), "same");
        assert!(ledger.is_done(&found(1)) && ledger.has_reason(&found(1), "broken"));
        assert!(!ledger.is_done(&found(2)), "it has changed");
        ledger.add(result(&found(2), Some("full disk"), true)).unwrap();
        assert!(!ledger.is_done(&found(2)), "it is tried again");
        let results = results(library.path()).unwrap();
        assert_eq!((results.len(), results[0].0.as_str(), results[0].1.len()), (1, "/in", 1));
    }

    #[test]
    fn failures_count_only_under_their_conditions_and_titles_always() {
        let library = tempdir().unwrap();
        let mut ledger = open(library.path(), "--copy");
        ledger.add(result(&found(1), Some("not H.264"), false)).unwrap();
        assert!(ledger.is_done(&found(1)) && ledger.has_reason(&found(1), "not H.264"));
        drop(ledger);
        let mut ledger = open(library.path(), "");
        assert!(!ledger.is_done(&found(1)) && !ledger.has_reason(&found(1), "not H.264"));
        ledger.add(result(&found(1), None, false)).unwrap();
        assert!(ledger.is_done(&found(1)));
        drop(ledger);
        assert!(open(library.path(), "--copy").is_done(&found(1)));
        // A failure that an earlier version wrote is tried once more.
        let mut ledger = open(library.path(), "");
        ledger.add(result(&found(1), Some("not H.264"), false)).unwrap();
        let path = ledger.path.clone();
        drop(ledger);
        let mut text = read_json(&path);
        let film = text["films"][0].as_object_mut().unwrap();
        assert!(film.remove("conditions").is_some());
        fs::write(&path, text.to_string()).unwrap();
        assert!(!open(library.path(), "").is_done(&found(1)));
    }

    fn read_json(path: &Path) -> serde_json::Value {
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    }

    #[test]
    fn only_one_process_watches_a_folder() {
        let library = tempdir().unwrap();
        let open = |folder: &str| Ledger::open(Path::new(folder), library.path(), String::new());
        let first = open("/in").unwrap();
        let second = open("/in").unwrap_err();
        assert!(matches!(second, WatchError::Busy(_)), "{second}");
        assert!(open("/other").is_ok());
        drop(first);
        assert!(open("/in").is_ok());
    }

    #[test]
    fn a_damaged_ledger_is_named() {
        let library = tempdir().unwrap();
        let ledger = open(library.path(), "");
        fs::write(&ledger.path, "{").unwrap();
        drop(ledger);
        let refused = Ledger::open(Path::new("/in"), library.path(), String::new());
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(".watch-") && refused.contains("remove it"), "{refused}");
        assert!(results(library.path()).is_err());
    }
}
