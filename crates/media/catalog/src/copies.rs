//! Copies of titles on a faster disk.
//!
//! A folder of the library may contain copies of titles in other folders, to serve them from a faster disk. The copies are at the folder's
//! top, named like their originals. Each contains its [`Mark`], a hidden file. So the mark comes and goes with the copy, by one rename, and
//! a title of the folder's own never counts as a copy. Next to them is a hidden folder:
//!
//! * `.promoted/work/NAME`: an unfinished copy.
//! * `.promoted/gone/TIME-NAME`: a copy that was removed at that time (nanoseconds since 1970), and is kept for viewers who are still
//!   watching it.
//!
//! A folder without `.promoted` has no copies.
//!
//! A copy depends on its original: it is served as long as both have the same [`edition`]. If the original is gone, so is the title.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, statat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::record::{Record, RecordError, read_small};
use crate::sha256;

/// The hidden folder for copies that are not in place.
const FOLDER: &str = ".promoted";

/// The name of the [`Mark`] in a copy's folder.
pub const MARK: &str = ".copy.json";

/// The folder in which copies are made or kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promoted {
    /// Unfinished copies.
    Work,
    /// Removed copies.
    Gone,
}

impl Promoted {
    fn path(self) -> &'static str {
        match self {
            Self::Work => ".promoted/work",
            Self::Gone => ".promoted/gone",
        }
    }

    /// Its path in `folder`.
    pub fn of(self, folder: &Path) -> PathBuf {
        folder.join(self.path())
    }

    /// The folder that contains both.
    pub fn all(folder: &Path) -> PathBuf {
        folder.join(FOLDER)
    }
}

/// The description in a copy's folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The library folder of the original.
    pub from: PathBuf,
    /// That folder's device.
    pub device: u64,
    /// The edition that was copied.
    pub edition: String,
}

impl Mark {
    /// Reads the mark in the title's folder `title`, if this is still the copy that was marked. A folder without a mark, or of another
    /// edition than its mark says, belongs to others and must not be changed.
    ///
    /// # Errors
    /// If the mark or the record cannot be read.
    pub fn of(title: &Path) -> io::Result<Option<Self>> {
        let is_folder = fs::symlink_metadata(title)?.is_dir();
        let text = match read_small(&title.join(MARK)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read?,
        };
        let mark: Self = serde_json::from_slice(&text)?;
        let is_marked = is_folder && edition(title)?.as_ref() == Some(&mark.edition);
        Ok(is_marked.then_some(mark))
    }

    /// The mark in its file format.
    ///
    /// # Errors
    /// If the folder's name cannot be written, because it is not UTF-8.
    pub fn text(&self) -> io::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

/// Whether the title `name` at the top of `folder` has the mark of a copy, even of another edition.
///
/// # Errors
/// If that cannot be determined.
pub fn is_copy(folder: &Path, name: &str) -> io::Result<bool> {
    match fs::symlink_metadata(folder.join(name).join(MARK)) {
        Err(error) if is_absence(&error) => Ok(false),
        found => found.map(|_| true),
    }
}

/// Returns the `names` in an open folder that are copies. For names that cannot be checked, the earlier result stands. A title that may not
/// be entered counts as a copy: then its original is served, if there is one.
pub fn copies(
    folder: impl AsFd,
    names: &[Arc<[u8]>],
    was_copy: impl Fn(&Arc<[u8]>) -> bool,
) -> Vec<Arc<[u8]>> {
    let look = |path: &[u8]| statat(&folder, path, AtFlags::SYMLINK_NOFOLLOW).map(drop);
    if look(FOLDER.as_bytes()) == Err(Errno::NOENT) {
        return Vec::new();
    }
    let is_copy = |name: &&Arc<[u8]>| match look(&[&name[..], b"/", MARK.as_bytes()].concat()) {
        Ok(()) | Err(Errno::ACCESS) => true,
        Err(Errno::NOENT | Errno::NOTDIR) => false,
        Err(_) => was_copy(name),
    };
    names.iter().filter(is_copy).cloned().collect()
}

/// Identifies the contents that viewers get of the title in `folder`: its current version, and its manifests. Two folders with one edition
/// have the same files. `None` if there is no record, or it is damaged.
///
/// # Errors
/// If the record cannot be looked up or read.
pub fn edition(folder: &Path) -> io::Result<Option<String>> {
    match Record::read(folder) {
        Ok(record) => Ok(Some(record.edition())),
        Err(RecordError::Io(error)) if !is_absence(&error) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Whether the error means that the name does not exist, rather than that it cannot be looked up.
fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

impl Record {
    /// As [`edition`].
    pub fn edition(&self) -> String {
        let names = [&self.folder, &self.hls, &self.dash].map(|name| name.as_bytes());
        let files =
            self.files.iter().flat_map(|file| [file.path.as_bytes(), file.sha256.as_bytes()]);
        sha256::of_parts(names.into_iter().chain(files))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_copy_is_what_has_the_mark_in_it() {
        let root = tempfile::tempdir().unwrap();
        for title in ["copy", "own"] {
            fs::create_dir(root.path().join(title)).unwrap();
        }
        fs::write(root.path().join("film.mp4"), "").unwrap();
        fs::write(root.path().join("copy").join(MARK), "{}").unwrap();
        let names =
            ["copy", "own", "film.mp4", "missing"].map(|name| Arc::<[u8]>::from(name.as_bytes()));
        let open = File::open(root.path()).unwrap();
        assert!(copies(&open, &names, |_| true).is_empty(), "nothing was ever promoted to here");
        fs::create_dir(root.path().join(FOLDER)).unwrap();
        assert_eq!(copies(&open, &names, |_| true), names[..1]);
        let marked = ["copy", "own", "film.mp4"].map(|name| is_copy(root.path(), name).unwrap());
        assert_eq!(marked, [true, false, false]);
        assert!(Mark::of(&root.path().join("own")).unwrap().is_none());
        assert!(Mark::of(&root.path().join("copy")).is_err(), "it says nothing");
        let mark = Mark { from: "/hdd".into(), device: 1, edition: "another".into() };
        fs::write(root.path().join("copy").join(MARK), mark.text().unwrap()).unwrap();
        assert!(Mark::of(&root.path().join("copy")).unwrap().is_none(), "it has no record");
    }
}
