//! The titles that the box holds: each title in the library, its version, and when it was verified.
//!
//! The inventory is the verified titles that have not changed since and are not leaving. For each of them, a file in the state folder keeps
//! when it was verified and how its files looked then.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fleet_protocol::{Digest, HeldTitle, Inventory, Name};
use serde::{Deserialize, Serialize};

use crate::persistence;

/// A title in the library.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Held {
    /// Its version.
    pub(crate) version: Digest,
    /// The folder of the library that it is in.
    pub(crate) library: PathBuf,
    /// Bytes of its files.
    pub(crate) bytes: u64,
    /// When all of it was last read and found to match its record; `None` if that has not happened yet.
    pub(crate) verified: Option<Verified>,
    /// Its files have changed since, so it has to be verified at once.
    pub(crate) has_changed: bool,
}

/// When a title was verified, and how its files looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Verified {
    /// From [`super::stamp::stamp`].
    pub(crate) stamp: Digest,
    /// In seconds since 1970.
    pub(crate) unix_seconds: u64,
}

/// The saved form.
#[derive(Serialize, Deserialize)]
struct Kept {
    path: String,
    version: Digest,
    verified: Verified,
}

/// All titles.
pub(crate) struct Table {
    node: Name,
    /// The folder for the saved forms.
    folder: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    titles: BTreeMap<String, Held>,
    /// Titles that are about to be evicted: no more viewers are sent to them.
    leaving: BTreeSet<String>,
    /// The lost folders of the library.
    lost: BTreeSet<PathBuf>,
    /// Built on request, after a change.
    inventory: Option<Arc<Inventory>>,
}

impl Table {
    /// An empty table of `node`; an earlier one has saved its data in `folder`.
    pub(crate) fn new(node: Name, folder: PathBuf) -> std::io::Result<Self> {
        persistence::make_folder(&folder)?;
        Ok(Self { node, folder, inner: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The complete, verified versions.
    pub(crate) fn inventory(&self) -> Arc<Inventory> {
        let mut inner = self.lock();
        if let Some(inventory) = &inner.inventory {
            return Arc::clone(inventory);
        }
        let is_told = |(path, held): &(&String, &Held)| {
            held.verified.is_some() && !inner.leaving.contains(*path)
        };
        let held = inner.titles.iter().filter(is_told);
        let held = held.map(|(path, held)| HeldTitle { path: path.clone(), version: held.version });
        let inventory = Arc::new(Inventory::new(self.node.clone(), held.collect()));
        inner.inventory = Some(Arc::clone(&inventory));
        inventory
    }

    /// The title at `path`.
    pub(crate) fn title(&self, path: &str) -> Option<Held> {
        self.lock().titles.get(path).cloned()
    }

    /// Every title.
    pub(crate) fn titles(&self) -> Vec<(String, Held)> {
        self.lock().titles.iter().map(|(path, held)| (path.clone(), held.clone())).collect()
    }

    /// Bytes of all titles.
    pub(crate) fn bytes(&self) -> u64 {
        self.lock().titles.values().map(|held| held.bytes).sum()
    }

    /// Adds the title at `path` to the table, and saves its verification, if it is verified. A title in a lost folder is not added: a thread may
    /// have verified it while the folder was lost.
    pub(crate) fn put(&self, path: &str, held: Held) {
        match held.verified {
            Some(verified) => {
                self.keep(&Kept { path: path.to_owned(), version: held.version, verified });
            }
            None => forget(&self.place(path)),
        }
        let mut inner = self.lock();
        if !inner.lost.contains(&held.library) {
            inner.titles.insert(path.to_owned(), held);
            inner.inventory = None;
        }
    }

    /// No longer takes the title at `path` for verified. It stays in the table, but the inventory leaves it out until it is verified again. After
    /// a restart its files count as changed.
    pub(crate) fn distrust(&self, path: &str) {
        let mut inner = self.lock();
        let Some(held) = inner.titles.get_mut(path) else { return };
        let Some(verified) = held.verified.take() else { return };
        let version = held.version;
        inner.inventory = None;
        drop(inner);
        // No files have this stamp.
        let verified = Verified { stamp: Digest::of(b""), ..verified };
        self.keep(&Kept { path: path.to_owned(), version, verified });
    }

    /// Sets the titles that the inventory leaves out.
    pub(crate) fn set_leaving(&self, leaving: BTreeSet<String>) {
        let mut inner = self.lock();
        if inner.leaving != leaving {
            inner.leaving = leaving;
            inner.inventory = None;
        }
    }

    /// Removes the title at `path` from the table.
    pub(crate) fn take(&self, path: &str) {
        forget(&self.place(path));
        let mut inner = self.lock();
        inner.titles.remove(path);
        inner.inventory = None;
    }

    /// Removes all titles of a folder of the library from the table, for good. Their saved forms stay.
    pub(crate) fn lose(&self, library: &Path) {
        let mut inner = self.lock();
        inner.titles.retain(|_, held| held.library != library);
        inner.lost.insert(library.to_owned());
        inner.inventory = None;
    }

    /// Notes that the title's files no longer look as they did.
    pub(crate) fn note_change(&self, path: &str) {
        if let Some(held) = self.lock().titles.get_mut(path) {
            held.has_changed = true;
        }
    }

    /// The verification of this version of the title at `path`, if an earlier run has saved one.
    pub(crate) fn kept(&self, path: &str, version: Digest) -> Option<Verified> {
        let kept: Kept = persistence::read_json(&self.place(path))?;
        (kept.path == path && kept.version == version).then_some(kept.verified)
    }

    fn keep(&self, kept: &Kept) {
        let place = self.place(&kept.path);
        if let Err(error) = persistence::write_json(&place, kept) {
            // Without the file, it is verified again after the next start.
            crate::tell(&format!("cannot write {}: {error}", place.display()));
            forget(&place);
        }
    }

    /// The name is a digest because titles' paths can be longer than file names.
    fn place(&self, path: &str) -> PathBuf {
        self.folder.join(Digest::of(path.as_bytes()).to_string())
    }
}

fn forget(place: &Path) {
    match fs::remove_file(place) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            crate::tell(&format!("cannot remove {}: {error}", place.display()));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(library: &str) -> Held {
        let verified = Some(Verified { stamp: Digest::of(b"stamp"), unix_seconds: 1 });
        let version = Digest::of(b"film");
        Held { version, library: library.into(), bytes: 1, verified, has_changed: false }
    }

    fn claimed(table: &Table) -> Vec<String> {
        table.inventory().held.iter().map(|held| held.path.clone()).collect()
    }

    #[test]
    fn a_title_that_is_verified_while_its_folder_is_lost_is_not_claimed() {
        let folder = tempfile::tempdir().unwrap();
        let table = Table::new("n1".parse().unwrap(), folder.path().join("verified")).unwrap();
        table.put("a", held("/d0"));
        table.put("b", held("/d1"));
        assert_eq!(claimed(&table), ["a", "b"]);
        table.lose(Path::new("/d0"));
        table.put("a", held("/d0"));
        assert_eq!(claimed(&table), ["b"]);
        table.put("a", held("/d1"));
        assert_eq!(claimed(&table), ["a", "b"], "it was copied to another disk");
    }

    #[test]
    fn a_distrusted_title_is_not_claimed_until_it_is_verified_again_and_counts_as_changed_after_a_restart()
     {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("verified");
        let table = Table::new("n1".parse().unwrap(), place).unwrap();
        table.put("a", held("/d0"));
        table.distrust("a");
        assert!(claimed(&table).is_empty() && table.title("a").is_some());
        let kept = || table.kept("a", Digest::of(b"film")).unwrap().stamp;
        assert_ne!(kept(), Digest::of(b"stamp"));
        table.distrust("none");
        table.put("a", held("/d0"));
        assert_eq!((claimed(&table), kept()), (vec!["a".to_owned()], Digest::of(b"stamp")));
    }
}
