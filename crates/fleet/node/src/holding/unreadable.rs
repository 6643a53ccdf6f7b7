//! Titles with files that the server could not read because of the disk: they are hidden and repaired one by one, and counted, to tell a
//! disk with bad sectors from one that fails.
//!
//! The server lists such files in `/status.json`, each with the time of its last failure. That time identifies the failure, so none counts
//! twice, whether the server restarts or the agent: titles are counted, not failures, and a title that was verified after the failure is
//! left alone. The paths are whole ones, because a server may have several libraries, by host or by disk.
//!
//! A title is no longer claimed once a failure of it is known. If the fleet publishes it, it is hidden at once, because other nodes have
//! it. One that is only here is hidden only if the copier finds it damaged. The thread that asks the server must not wait for a disk, so
//! the remover hides titles.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fleet_protocol::{Digest, PublishedTitle};
use serde_json::Value;

use super::error::HoldingError;
use super::table::Held;
use super::{Replicator, lock};

/// How long a title counts after its last failure.
const COUNTED: Duration = Duration::from_secs(60);
/// The most titles that are counted. Three are already a failing disk.
const TITLES_MAX: usize = 1000;

/// A file that the server could not open or read.
#[derive(Clone, Debug, PartialEq)]
struct FailedFile {
    file: PathBuf,
    /// When it last failed, in milliseconds since 1970: identifies the failure.
    last_unix_ms: u64,
    /// The time since then.
    age: Duration,
}

impl FailedFile {
    /// The list in `/status.json`; `None` if the server is of an older release, which has none.
    fn list(status: &Value) -> Option<Vec<Self>> {
        let listed = status["failed_files"].as_array()?;
        let read = |entry: &Value| {
            let age = Duration::try_from_secs_f64(entry["age_seconds"].as_f64()?).ok()?;
            let file = PathBuf::from(entry["file"].as_str()?);
            Some(Self { file, last_unix_ms: entry["last_unix_ms"].as_u64()?, age })
        };
        Some(listed.iter().filter_map(read).collect())
    }
}

/// What is known about files that the server could not read.
#[derive(Debug, Default)]
pub(super) struct Unreadable {
    /// The last failure of each file that the server listed last.
    known: BTreeMap<PathBuf, u64>,
    /// The titles that failed lately, and until when each counts, by the agent's monotonic clock.
    counted: BTreeMap<String, Duration>,
    /// Titles to hide. Bounded by the titles that the box holds.
    waiting: BTreeMap<String, Waiting>,
}

/// A title to hide.
#[derive(Clone, Debug)]
struct Waiting {
    version: Digest,
    file: PathBuf,
}

impl Unreadable {
    /// Takes the server's list, and returns the failures that are new.
    fn take(&mut self, listed: Vec<FailedFile>) -> Vec<FailedFile> {
        let known = listed.iter().map(|one| (one.file.clone(), one.last_unix_ms)).collect();
        let before = std::mem::replace(&mut self.known, known);
        let is_new = |one: &FailedFile| before.get(&one.file) != Some(&one.last_unix_ms);
        listed.into_iter().filter(is_new).collect()
    }

    /// Counts a title that failed `age` before `now`.
    fn count(&mut self, title: String, age: Duration, now: Duration) {
        let Some(left) = COUNTED.checked_sub(age) else { return };
        if self.counted.len() < TITLES_MAX || self.counted.contains_key(&title) {
            let until = self.counted.entry(title).or_default();
            *until = (*until).max(now + left);
        }
    }

    /// Whether a title waits until it can be hidden. It is not worth verifying until then.
    pub(super) fn waits(&self, path: &str) -> bool {
        self.waiting.contains_key(path)
    }

    /// The titles that have failed within the last minute.
    fn titles(&mut self, now: Duration) -> u64 {
        self.counted.retain(|_, until| *until > now);
        self.counted.len() as u64
    }
}

impl Replicator {
    /// Takes the server's list of files that it could not read from its `/status.json`. Returns how many titles have failed within the last
    /// minute; `None` if the server is of an older release, which lists none. Does not touch the library's disks, which may hang.
    pub fn note_failed_files(&self, status: &Value) -> Option<u64> {
        let listed = FailedFile::list(status)?;
        let now = self.started.elapsed();
        let news = lock(&self.unreadable).take(listed);
        for FailedFile { file, age, .. } in news {
            let (path, held) = self.title_of(&file);
            lock(&self.unreadable).count(path.clone(), age, now);
            if let Some(held) = held.filter(|held| self.is_verified_before(held, age)) {
                // Both under one lock: no thread sees a title that waits and is verified, or one that is not and does not wait.
                let mut unreadable = lock(&self.unreadable);
                self.table.distrust(&path);
                unreadable.waiting.insert(path, Waiting { version: held.version, file });
                drop(unreadable);
                self.remover.wake();
            }
        }
        Some(lock(&self.unreadable).titles(now))
    }

    /// The title that a file belongs to. For a file of no known title, its folder takes the place of the title. The held title is returned
    /// only if the file is one of its own, and not of a copy on a faster disk or of another library with the same names.
    fn title_of(&self, file: &Path) -> (String, Option<Held>) {
        let folder = file.parent().unwrap_or(file).to_string_lossy().into_owned();
        let inside = |library: &PathBuf| Some((library.clone(), file.strip_prefix(library).ok()?));
        let Some((library, below)) = self.options.libraries.iter().find_map(inside) else {
            return (folder, None);
        };
        let desired = self.desired();
        for above in below.ancestors().skip(1).filter_map(Path::to_str) {
            if let Some(held) = self.table.title(above) {
                return (above.to_owned(), Some(held).filter(|held| held.library == library));
            }
            let is_title = desired.titles.iter().any(|title| title.path == above);
            if is_title || lock(&self.hidden).contains_key(above) {
                return (above.to_owned(), None);
            }
        }
        (folder, None)
    }

    /// Whether the last verification of a title was before a failure that is `age` ago. A title that is not verified is about to be.
    fn is_verified_before(&self, held: &Held, age: Duration) -> bool {
        let now = self.unix_seconds();
        let failed = now.saturating_sub(age.as_secs());
        // A time in the future is useless: the clock was set back.
        held.verified.is_some_and(|one| one.unix_seconds <= failed || one.unix_seconds > now)
    }

    /// Hides the titles that the server could not read, as far as the fleet publishes them, and has the others verified.
    pub(super) fn hide_unreadable(&self) {
        let waiting = lock(&self.unreadable).waiting.clone();
        for (path, title) in waiting {
            if self.handle_unreadable(&path, &title) {
                lock(&self.unreadable).waiting.remove(&path);
            }
        }
    }

    /// Returns whether the title is done with, or has to wait because another thread or program is working on it.
    fn handle_unreadable(&self, path: &str, title: &Waiting) -> bool {
        let is_due = |held: &Held| held.version == title.version && held.verified.is_none();
        let Some(held) = self.table.title(path).filter(is_due) else { return true };
        let is_title =
            |wanted: &PublishedTitle| wanted.path == path && wanted.version == title.version;
        if self.desired().titles.iter().any(is_title) {
            let why = format!("the server could not read {}", title.file.display());
            match self.hide_damaged(path, &held.library, &why) {
                Ok(()) | Err(HoldingError::Cancelled) => {
                    lock(&self.troubles).remove(path);
                    return true;
                }
                Err(HoldingError::Busy) => {
                    self.note_trouble(path, &HoldingError::Busy);
                    return false;
                }
                Err(why) => crate::tell(&format!("cannot hide {path}: {why}")),
            }
        }
        // The copier verifies it, and hides it if it is damaged.
        self.copier.wake();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn status(files: &[(&str, u64, f64)]) -> Value {
        let entry = |(file, last, age): &(&str, u64, f64)| json!({ "file": file, "failures": 1, "last_unix_ms": last, "age_seconds": age });
        json!({ "failed_files": files.iter().map(entry).collect::<Vec<_>>() })
    }

    #[test]
    fn a_failure_is_news_once_whichever_server_lists_it() {
        let mut unreadable = Unreadable::default();
        let mut news = |files: &[(&str, u64, f64)]| {
            let listed = FailedFile::list(&status(files)).unwrap();
            unreadable.take(listed).iter().map(|one| one.last_unix_ms).collect::<Vec<_>>()
        };
        assert_eq!(news(&[("/d/a", 1000, 0.5), ("/d/b", 2000, 0.1)]), [1000, 2000]);
        assert!(news(&[("/d/a", 1000, 1.5), ("/d/b", 2000, 1.1)]).is_empty());
        assert_eq!(news(&[("/d/a", 4000, 0.5), ("/d/b", 2000, 3.1)]), [4000]);
        // A new server starts with an empty list, and a failure in it is new although there was an earlier one.
        assert!(news(&[]).is_empty());
        assert_eq!(news(&[("/d/b", 9000, 0.5)]), [9000]);
        // It failed before this server's first status was read: as often as with the former server, and yet it is another failure.
        assert_eq!(news(&[("/d/a", 9500, 0.5), ("/d/b", 9000, 1.5)]), [9500]);
    }

    #[test]
    fn a_server_of_an_older_release_lists_nothing_which_is_not_an_empty_list() {
        assert_eq!(FailedFile::list(&json!({ "total": {} })), None);
        assert_eq!(FailedFile::list(&status(&[])), Some(Vec::new()));
        // Entries of a later release that this one cannot read are skipped.
        let odd = json!({ "failed_files": [{ "file": "/d/a" }, { "file": "/d/a", "last_unix_ms": 1, "age_seconds": -1.0 }, 7] });
        assert_eq!(FailedFile::list(&odd), Some(Vec::new()));
    }

    #[test]
    fn titles_are_counted_once_for_a_minute_after_their_last_failure() {
        let mut unreadable = Unreadable::default();
        let seconds = Duration::from_secs;
        for (title, age, now) in [("a", 0, 10), ("a", 0, 20), ("b", 30, 20), ("c", 61, 20)] {
            unreadable.count(title.to_owned(), seconds(age), seconds(now));
        }
        assert_eq!(unreadable.titles(seconds(20)), 2, "c failed too long ago");
        assert_eq!(unreadable.titles(seconds(50)), 1, "b failed at -10");
        assert_eq!(unreadable.titles(seconds(79)), 1);
        assert_eq!(unreadable.titles(seconds(80)), 0);
        for number in 0..2 * TITLES_MAX {
            unreadable.count(number.to_string(), Duration::ZERO, seconds(80));
        }
        assert_eq!(unreadable.titles(seconds(80)), TITLES_MAX as u64);
    }
}
