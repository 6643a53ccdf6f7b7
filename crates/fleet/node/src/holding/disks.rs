//! The folders of the library, each of which may be a disk: if one fails, only its own titles are lost.
//!
//! A folder is lost if its path leads elsewhere than at the start, or nowhere, or if it cannot be listed, for [`PATIENCE`]; and at once if
//! a write to it fails because of the disk, because titles there can then be neither repaired nor withdrawn. From then on the box no longer
//! holds those titles, so the fleet sends viewers elsewhere, and the titles count as missing: they are fetched again, into the remaining
//! folders. The server restarts without the folder, because otherwise it would look for the titles there. The operator has to replace the
//! disk at some point and then restart the agent; nothing else waits for that.
//!
//! A disk may also hang, and then every thread that touches it blocks, perhaps forever. Only the threads that work on titles touch the
//! disks, and one that checks them each second; all other questions are answered from its last check.
//!
//! A mount point without its disk must not pass for an empty library, or titles would fill the system disk. So the agent saves which
//! folders had a disk of their own, and writes nothing to a folder that is not the one of the start.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::error::HoldingError;
use super::{Replicator, lock, room};
use crate::persistence;

/// How often the folders are checked.
const LOOK: Duration = Duration::from_secs(1);
/// How long a folder must be away before it is lost: one that is remounted at once was never lost.
const PATIENCE: Duration = Duration::from_secs(3);
/// The saved state of the folders.
const FOLDERS: &str = "folders.json";
/// Errors of a disk that has failed, or whose filesystem has given up. A full disk gives none of these.
const FAILED: [Errno; 5] = [Errno::IO, Errno::ROFS, Errno::NXIO, Errno::NODEV, Errno::UCLEAN];

/// The identity of the folder at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    device: u64,
    inode: u64,
}

/// All folders of the library.
#[derive(Debug, Default)]
pub(super) struct Disks {
    /// As they were at the start.
    folders: Vec<(PathBuf, Place)>,
    /// The lost ones, and why.
    lost: Mutex<BTreeMap<PathBuf, String>>,
    /// Free space of the usable ones, at the last check.
    free_bytes: Mutex<BTreeMap<PathBuf, u64>>,
}

/// Whether an error means a failed disk.
pub(super) fn is_failure(error: &io::Error) -> bool {
    FAILED.iter().any(|failed| error.raw_os_error() == Some(failed.raw_os_error()))
}

fn look(path: &Path) -> io::Result<Place> {
    let found = rustix::fs::stat(path)?;
    // A failed disk may still resolve the folder's name, so list it, too.
    fs::read_dir(path)?.next().transpose()?;
    Ok(Place { device: found.st_dev, inode: found.st_ino })
}

impl Disks {
    /// Checks the folders, and creates the new ones.
    ///
    /// # Errors
    /// If none is usable, or their state cannot be saved.
    pub(super) fn open(libraries: &[PathBuf], state: &Path) -> io::Result<Self> {
        let noted = state.join(FOLDERS);
        let mut own_disk: BTreeMap<PathBuf, bool> =
            persistence::read_json(&noted).unwrap_or_default();
        let root = rustix::fs::stat("/").map_or(0, |root| root.st_dev);
        let mut disks = Self::default();
        let mut first = None;
        for library in libraries {
            let had_disk = own_disk.get(library) == Some(&true);
            let made = if had_disk { Ok(()) } else { persistence::make_folder(library) };
            let found = made.and_then(|()| look(library)).and_then(|place| {
                let is_mounted = !had_disk || place.device != root;
                let bare = || {
                    io::Error::other(
                        "its disk is not mounted (if it no longer has one, remove folders.json)",
                    )
                };
                is_mounted.then_some(place).ok_or_else(bare)
            });
            match found {
                Ok(place) => {
                    own_disk.insert(library.clone(), place.device != root);
                    disks.folders.push((library.clone(), place));
                }
                Err(error) => {
                    tell_lost(library, &error.to_string());
                    lock(&disks.lost).insert(library.clone(), error.to_string());
                    first = first.or(Some(error));
                }
            }
        }
        if disks.folders.is_empty() {
            return Err(first.unwrap_or_else(|| io::ErrorKind::NotFound.into()));
        }
        persistence::write_json(&noted, &own_disk)?;
        disks.measure(&BTreeMap::new());
        Ok(disks)
    }

    /// The folders that can be used now.
    pub(super) fn usable(&self) -> Vec<PathBuf> {
        let troubles = self.troubles();
        self.left().into_iter().filter(|path| !troubles.contains_key(path)).collect()
    }

    /// The folders that are not lost, in order.
    pub(super) fn left(&self) -> Vec<PathBuf> {
        let lost = lock(&self.lost);
        let all = self.folders.iter().map(|(path, _)| path);
        all.filter(|path| !lost.contains_key(*path)).cloned().collect()
    }

    /// The lost folders, and why.
    pub(super) fn lost(&self) -> BTreeMap<PathBuf, String> {
        lock(&self.lost).clone()
    }

    /// Free space for titles, as of the last check, so that a disk that hangs blocks no caller.
    pub(super) fn free_bytes(&self) -> u64 {
        let (left, free_bytes) = (self.left(), lock(&self.free_bytes));
        // Folders on one disk share its space.
        let mut devices = BTreeSet::new();
        let usable = self.folders.iter().filter(|(path, _)| left.contains(path));
        let found = usable.filter_map(|(path, place)| Some((*free_bytes.get(path)?, place.device)));
        found.filter(|(_, device)| devices.insert(*device)).map(|(bytes, _)| bytes).sum()
    }

    /// Records the free space of the usable folders.
    fn measure(&self, troubles: &BTreeMap<PathBuf, String>) {
        let usable = self.left().into_iter().filter(|path| !troubles.contains_key(path));
        let free = |path: PathBuf| {
            let free = room::free_bytes(&path).saturating_sub(room::kept_free_bytes(&path));
            (path, free)
        };
        let measured = usable.map(free).collect();
        *lock(&self.free_bytes) = measured;
    }

    /// The problems of folders that are not lost yet.
    fn troubles(&self) -> BTreeMap<PathBuf, String> {
        let trouble = |(path, place): &(PathBuf, Place)| match look(path) {
            Ok(now) if now == *place => None,
            Ok(_) => Some("it is not the folder that was there at the start".to_owned()),
            Err(error) => Some(error.to_string()),
        };
        let left = self.left();
        let all = self.folders.iter().filter(|(path, _)| left.contains(path));
        all.filter_map(|one| Some((one.0.clone(), trouble(one)?))).collect()
    }
}

fn tell_lost(library: &Path, why: &str) {
    crate::tell(&format!(
        "the folder {} of the library is lost: {why}; its titles are fetched again, to other folders and by other nodes (replace its disk, then restart \
         the agent)",
        library.display()
    ));
}

impl Replicator {
    /// The folders of the library that can be used now.
    pub(super) fn libraries(&self) -> Vec<PathBuf> {
        self.disks.usable()
    }

    /// The folders that are not lost: the server serves these.
    pub(crate) fn folders_left(&self) -> Vec<PathBuf> {
        self.disks.left()
    }

    /// The watcher's loop.
    pub(super) fn keep_watching_disks(&self) {
        let mut since: BTreeMap<PathBuf, Instant> = BTreeMap::new();
        while !self.watcher.is_stopped() {
            let troubles = self.disks.troubles();
            self.disks.measure(&troubles);
            since.retain(|path, _| troubles.contains_key(path));
            for (path, why) in troubles {
                if since.entry(path.clone()).or_insert_with(Instant::now).elapsed() >= PATIENCE {
                    self.lose(&path, &why);
                }
            }
            self.watcher.pause(LOOK);
        }
    }

    /// Takes a failure in a folder of the library. If the disk caused it, the folder is lost.
    pub(super) fn note_disk(&self, library: &Path, why: &HoldingError) {
        if let HoldingError::Disk(why) = why {
            self.lose(library, why);
        }
    }

    /// Gives up all titles in this folder. Their saved state is kept in case the folder comes back.
    fn lose(&self, library: &Path, why: &str) {
        if lock(&self.disks.lost).insert(library.to_owned(), why.to_owned()).is_some() {
            return;
        }
        tell_lost(library, why);
        self.table.lose(library);
        self.copier.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_point_without_its_disk_is_no_library_and_a_new_folder_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let (state, one, other) =
            (folder.path().join("state"), folder.path().join("one"), folder.path().join("other"));
        fs::create_dir(&state).unwrap();
        let both = [one.clone(), other.clone()];
        let disks = Disks::open(&both, &state).unwrap();
        assert_eq!(disks.usable(), both);
        // An earlier run saw a disk there.
        let root = rustix::fs::stat("/").unwrap().st_dev;
        let has_disk = rustix::fs::stat(&one).unwrap().st_dev != root;
        persistence::write_json(&state.join(FOLDERS), &BTreeMap::from([(&one, true)])).unwrap();
        let disks = Disks::open(&both, &state).unwrap();
        assert_eq!(disks.left().contains(&one), has_disk, "on the disk of the system");
        fs::remove_dir(&one).unwrap();
        let disks = Disks::open(&both, &state).unwrap();
        assert_eq!(disks.left(), std::slice::from_ref(&other));
        assert!(disks.lost().contains_key(&one) && !one.exists(), "it is not created again");
        let alone = Disks::open(std::slice::from_ref(&one), &state);
        assert_eq!(alone.unwrap_err().kind(), io::ErrorKind::NotFound);
        // A folder whose place another one has taken is not used, but not lost yet.
        fs::rename(&other, folder.path().join("away")).unwrap();
        fs::create_dir(&other).unwrap();
        assert!(disks.usable().is_empty() && disks.left() == [other]);
        assert_eq!(disks.troubles().len(), 1);
    }

    /// The agent asks each second, and must not block on a disk that hangs.
    #[test]
    fn free_room_is_told_without_a_look_at_the_disks() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        let disks = Disks::open(&[one.clone(), other.clone()], folder.path()).unwrap();
        let free_bytes = disks.free_bytes();
        assert!(free_bytes > 0 && free_bytes <= room::free_bytes(&one), "they share a disk");
        for path in [&one, &other] {
            fs::remove_dir(path).unwrap();
        }
        assert_eq!(disks.free_bytes(), free_bytes, "the disks were not checked");
        disks.measure(&disks.troubles());
        assert_eq!(disks.free_bytes(), 0);
    }

    #[test]
    fn a_full_disk_has_not_failed() {
        let of = |errno: Errno| io::Error::from(errno);
        assert!(is_failure(&of(Errno::IO)) && is_failure(&of(Errno::ROFS)));
        assert!(!is_failure(&of(Errno::NOSPC)) && !is_failure(&of(Errno::NOENT)));
    }
}
