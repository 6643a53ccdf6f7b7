//! Removes copies that the fleet's plan no longer assigns to this box.
//!
//! Such a copy goes in four steps, least popular titles first:
//! 1. A gateway gives permission: enough other nodes hold the title and are going to keep it. Permission expires after half a minute, so
//!    nothing is removed on stale facts, and nothing without a gateway.
//! 2. The title leaves the inventory. Gateways send no more viewers here for it, and its current viewers are moved elsewhere within a
//!    minute.
//! 3. Some time later (`HoldingOptions::evict_after`), if the server has none of its files open, the title leaves the library by one
//!    rename. After that its files cannot be opened any more.
//! 4. If the server still has none of them open, they are removed. Otherwise a viewer is watching, and the title goes back to its place.
//!
//! Eviction runs only while titles may be fetched, because it makes room for those.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use catalog::Workshop;
use fleet_protocol::{EVICTIONS_MAX, HeldTitle};
use serde_json::Value;

use super::arrival::ARRIVING;
use super::error::{Attempt, HoldingError};
use super::look::{DEPTH_MAX, find_hidden, title_path};
use super::table::Held;
use super::{OpenFiles, Replicator, block_map, lock};

/// How long a gateway's permission is valid. Nodes ask every few seconds.
const LEAVE_HOLDS: Duration = Duration::from_secs(30);

/// The place of a title in its hidden folder between leaving the library and being deleted.
pub(super) const REMOVED: &str = "removed";

/// Evictions in progress.
#[derive(Default)]
pub(super) struct Evictions {
    /// When a gateway last gave permission to remove a title.
    leaves: Mutex<BTreeMap<HeldTitle, Duration>>,
    /// When each title left the inventory.
    leaving: Mutex<BTreeMap<String, Duration>>,
    /// The server's average rate per title over the last hour, in Gb/s.
    wanted: Mutex<HashMap<String, f64>>,
    /// Titles asked about so far: the next request goes on from there.
    asked: AtomicUsize,
    /// The last failure that was logged.
    told: Mutex<String>,
    open_files: Mutex<Option<OpenFiles>>,
}

impl Evictions {
    /// Titles that are leaving.
    pub(super) fn leaving(&self) -> Vec<String> {
        lock(&self.leaving).keys().cloned().collect()
    }

    /// Notes a gateway's permission.
    fn note_leave(&self, held: Vec<HeldTitle>, now: Duration) {
        let mut leaves = lock(&self.leaves);
        leaves.retain(|_, given| now.saturating_sub(*given) <= LEAVE_HOLDS);
        leaves.extend(held.into_iter().map(|held| (held, now)));
    }

    /// Titles whose permission is still valid.
    fn with_leave(&self, now: Duration) -> BTreeSet<HeldTitle> {
        let leaves = lock(&self.leaves);
        let holds = leaves.iter().filter(|(_, given)| now.saturating_sub(**given) <= LEAVE_HOLDS);
        holds.map(|(held, _)| held.clone()).collect()
    }

    /// Whether the server has one of these files open.
    fn is_open(&self, files: &HashSet<(u64, u64)>) -> Result<bool, HoldingError> {
        let cannot_tell = |why: &str| {
            HoldingError::Library(format!("cannot tell which files the server has open: {why}"))
        };
        let open_files = lock(&self.open_files);
        let open_files = open_files.as_ref().ok_or_else(|| cannot_tell("no server is watched"))?;
        let open = open_files().map_err(|error| cannot_tell(&error.to_string()))?;
        Ok(!files.is_disjoint(&open))
    }
}

impl Replicator {
    /// Sets the function that lists the server's open files. Without it nothing is evicted.
    pub fn watch_server(&self, open_files: OpenFiles) {
        *lock(&self.evictions.open_files) = Some(open_files);
    }

    /// Takes the server's figures per title.
    pub(crate) fn note_wanted(&self, status: &Value) {
        let titles = status["titles"].as_array().into_iter().flatten();
        let wanted = titles.filter_map(|title| {
            Some((title["title"].as_str()?.to_owned(), title["gbps_hour"].as_f64()?))
        });
        *lock(&self.evictions.wanted) = wanted.collect();
    }

    /// Titles that it holds but need not, to ask gateways whether they may be removed.
    pub fn evictable(&self) -> Vec<HeldTitle> {
        let all = self.unplanned();
        if all.len() <= EVICTIONS_MAX {
            return all;
        }
        // Permission for leaving titles has to be renewed. The others take turns: some of them may get no permission for a long time.
        let leaving = self.evictions.leaving();
        let (mut asked, mut rest): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|held| leaving.contains(&held.path));
        asked.truncate(EVICTIONS_MAX / 2);
        let from = self.evictions.asked.fetch_add(EVICTIONS_MAX / 2, Ordering::Relaxed);
        if !rest.is_empty() {
            let from = from % rest.len();
            rest.rotate_left(from);
        }
        let room = EVICTIONS_MAX - asked.len();
        asked.extend(rest.into_iter().take(room));
        asked
    }

    /// Titles that it holds but need not, least popular first.
    fn unplanned(&self) -> Vec<HeldTitle> {
        let desired = self.desired();
        // No gateway has reported yet, or nothing may be fetched now.
        if (desired.epoch, desired.revision) == (0, 0) || !self.may_fill_now() {
            return Vec::new();
        }
        let is_wanted = |path: &str| {
            desired.titles.binary_search_by(|title| title.path.as_str().cmp(path)).is_ok()
        };
        let titles = self.table.titles().into_iter();
        let mut held: Vec<HeldTitle> = titles
            .filter(|(path, _)| !is_wanted(path) && self.published(path).is_some())
            .map(|(path, held)| HeldTitle { path, version: held.version })
            .collect();
        // Titles that have arrived in part, or were damaged.
        let hidden = lock(&self.hidden).clone().into_keys().filter(|path| !is_wanted(path));
        held.extend(hidden.filter_map(|path| self.published(&path)));
        let wanted = lock(&self.evictions.wanted);
        let rate = |held: &HeldTitle| wanted.get(&held.path).copied().unwrap_or(0.0);
        held.sort_by(|one, other| {
            rate(one).total_cmp(&rate(other)).then_with(|| one.path.cmp(&other.path))
        });
        held
    }

    /// Takes a gateway's permission to remove these.
    pub fn handle_eviction_leave(&self, held: Vec<HeldTitle>) {
        self.evictions.note_leave(held, self.started.elapsed());
    }

    /// Takes titles out of the inventory that may go, and removes those that left it long enough ago.
    pub(super) fn evict(&self) {
        let now = self.started.elapsed();
        let due = self.let_go(now);
        for path in due {
            match self.evict_one(&path) {
                Ok(true) => {
                    crate::tell(&format!("evicted {path}: other nodes hold it"));
                    // Removing takes time: withdrawals come first, and the next title needs permission that is still valid.
                    self.remover.wake();
                    return;
                }
                // A viewer watches it, or another thread or process works on it.
                Ok(false) | Err(HoldingError::Busy) => {}
                Err(why) => {
                    if let Some(held) = self.table.title(&path) {
                        self.note_disk(&held.library, &why);
                    }
                    self.tell_once(format!("cannot remove {path}: {why}"));
                }
            }
        }
    }

    /// Logs a line unless it repeats the last one: each second brings a new attempt.
    fn tell_once(&self, line: String) {
        let mut told = lock(&self.evictions.told);
        if *told != line {
            crate::tell(&line);
            *told = line;
        }
    }

    /// Takes titles that may go out of the inventory. Returns those that viewers have had enough time to leave.
    fn let_go(&self, now: Duration) -> Vec<String> {
        let mut leaving = lock(&self.evictions.leaving);
        let leaves = self.evictions.with_leave(now);
        if leaves.is_empty() && leaving.is_empty() {
            return Vec::new();
        }
        let unplanned = self.unplanned().into_iter().filter(|held| leaves.contains(held));
        let may: BTreeSet<String> = unplanned.map(|held| held.path).collect();
        leaving.retain(|path, _| may.contains(path));
        for path in &may {
            leaving.entry(path.clone()).or_insert(now);
        }
        self.table.set_leaving(may);
        let is_due = |since: Duration| now.saturating_sub(since) >= self.options.evict_after;
        leaving.iter().filter(|(_, since)| is_due(**since)).map(|(path, _)| path.clone()).collect()
    }

    /// Removes a title, unless it is being watched. Returns whether it is gone.
    fn evict_one(&self, path: &str) -> Result<bool, HoldingError> {
        let title = title_path(path)?;
        let Some(held) = self.table.title(path) else { return self.forget_part(path) };
        let (place, above) = (title.folder(&held.library), title.above(&held.library));
        let files = files_below(&place).attempt("list", &place)?;
        if self.evictions.is_open(&files)? {
            return Ok(false);
        }
        let workshop = Workshop::lock(&above, title.name())?;
        let removed = workshop.path().join(REMOVED);
        if fs::symlink_metadata(&removed).is_ok() {
            fs::remove_dir_all(&removed).attempt("remove", &removed)?;
        }
        fs::rename(&place, &removed).attempt("remove", &place)?;
        // A server that found a file by its path has it open by now.
        let is_open = self.evictions.is_open(&files);
        if !matches!(is_open, Ok(false)) {
            fs::rename(&removed, &place).attempt("put back", &place)?;
            workshop.leave();
            self.put_back(path, held);
            return is_open.map(|_| false);
        }
        self.table.take(path);
        // Sync the folder: a power failure could otherwise leave the title in place without its files.
        catalog::sync(&above)?;
        fs::remove_dir_all(&removed).attempt("remove", &removed)?;
        workshop.leave();
        Ok(true)
    }

    /// Another thread may have found the title missing for a moment.
    fn put_back(&self, path: &str, held: Held) {
        if self.table.title(path).is_none() {
            self.table.put(path, held);
        }
    }

    /// Removes the parts of a title that have arrived, or that were moved away because of damage: nothing is served from there.
    fn forget_part(&self, path: &str) -> Result<bool, HoldingError> {
        let title = title_path(path)?;
        for library in &self.options.libraries {
            let above = title.above(library);
            let arriving = above.join(Workshop::folder_name(title.name())).join(ARRIVING);
            if fs::symlink_metadata(&arriving).is_err() {
                continue;
            }
            let workshop = Workshop::lock(&above, title.name())?;
            block_map::forget(workshop.path()).attempt("remove the map in", workshop.path())?;
            fs::remove_dir_all(&arriving).attempt("remove", &arriving)?;
            workshop.leave();
        }
        lock(&self.hidden).remove(path);
        lock(&self.troubles).remove(path);
        Ok(true)
    }

    /// Deletes titles that an earlier run took out of the library and did not finish deleting.
    pub(super) fn finish_removals(&self) {
        for library in &self.options.libraries {
            let mut found = Vec::new();
            find_hidden(library, "", DEPTH_MAX, Path::new(REMOVED), &mut found);
            for path in found {
                let removed = title_path(&path).and_then(|title| {
                    let workshop = Workshop::lock(&title.above(library), title.name())?;
                    let removed = workshop.path().join(REMOVED);
                    fs::remove_dir_all(&removed).attempt("remove", &removed)?;
                    workshop.leave();
                    Ok(())
                });
                if let Err(why) = removed {
                    crate::tell(&format!("cannot remove the remains of {path}: {why}"));
                }
            }
        }
    }
}

/// Device and inode of all files below a folder.
fn files_below(folder: &Path) -> io::Result<HashSet<(u64, u64)>> {
    let mut files = HashSet::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let found = entry.metadata()?;
            if found.is_dir() {
                folders.push(entry.path());
            } else {
                files.insert((found.dev(), found.ino()));
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use fleet_protocol::Digest;

    use super::*;

    #[test]
    fn leave_ends_after_half_a_minute_unless_it_is_given_again() {
        let held = |path: &str| HeldTitle { path: path.to_owned(), version: Digest::of(b"x") };
        let (evictions, second) = (Evictions::default(), Duration::from_secs);
        evictions.note_leave(vec![held("a"), held("b")], second(5));
        evictions.note_leave(vec![held("b")], second(20));
        assert_eq!(evictions.with_leave(second(35)), [held("a"), held("b")].into());
        assert_eq!(evictions.with_leave(second(36)), [held("b")].into());
        assert!(evictions.with_leave(second(51)).is_empty());
    }

    #[test]
    fn what_nobody_looks_at_may_be_open() {
        let evictions = Evictions::default();
        assert!(evictions.is_open(&HashSet::from([(1, 2)])).is_err());
        *lock(&evictions.open_files) = Some(Box::new(|| Ok(HashSet::from([(1, 2)]))));
        assert!(matches!(evictions.is_open(&HashSet::from([(1, 2)])), Ok(true)));
        assert!(matches!(evictions.is_open(&HashSet::from([(1, 3)])), Ok(false)));
    }
}
