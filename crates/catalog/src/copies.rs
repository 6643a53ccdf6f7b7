//! Copies of titles on a faster disk.
//!
//! A folder of the library may hold copies of titles that other folders hold, so that they are served from a faster disk. The copies lie at the
//! folder's top, named like their originals. Each has its [`Mark`] in it, a hidden file. So the mark comes and goes with the copy, by one
//! rename, and a title of the folder's own is never taken for a copy. Beside them is a hidden folder:
//!
//! * `.promoted/work/NAME`: a copy that is being made.
//! * `.promoted/gone/TIME-NAME`: a copy that was taken away then (nanoseconds since 1970), and is kept for viewers who still watch it.
//!
//! A folder without `.promoted` has no copies.
//!
//! A copy is only as good as its original: it is served as long as both have the same [`edition`]. A title whose original is gone is gone.

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
    /// Copies that are being made.
    Work,
    /// Copies that were taken away.
    Gone,
}

impl Promoted {
    fn path(self) -> &'static str {
        match self {
            Self::Work => ".promoted/work",
            Self::Gone => ".promoted/gone",
        }
    }

    /// Where it is in `folder`.
    pub fn of(self, folder: &Path) -> PathBuf {
        folder.join(self.path())
    }

    /// The folder that has both of them.
    pub fn all(folder: &Path) -> PathBuf {
        folder.join(FOLDER)
    }
}

/// What a copy's folder says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The folder of the library that had the original.
    pub from: PathBuf,
    /// That folder's device.
    pub device: u64,
    /// What was copied.
    pub edition: String,
}

impl Mark {
    /// The mark in the title's folder `title`, if this is still the copy that was marked. Whatever has no mark, or is another edition than
    /// its mark says, is not ours to change.
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

    /// The mark as it is written.
    ///
    /// # Errors
    /// If the folder's name cannot be written: it is not UTF-8.
    pub fn text(&self) -> io::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

/// Whether the title `name` at the top of `folder` has the mark of a copy, even of another edition.
///
/// # Errors
/// If that cannot be seen.
pub fn is_copy(folder: &Path, name: &str) -> io::Result<bool> {
    match fs::symlink_metadata(folder.join(name).join(MARK)) {
        Err(error) if is_absence(&error) => Ok(false),
        found => found.map(|_| true),
    }
}

/// Which of `names` in an open folder are copies. If that cannot be seen, a name is what it was. A title that may not be entered counts as a
/// copy: then its original is served, if there is one.
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

/// Names what viewers get of the title in `folder`: its present version, and its manifests. Two folders with one edition have the same files.
/// `None` if there is no record, or it is damaged.
///
/// # Errors
/// If it cannot be seen whether there is a record, or what it says.
pub fn edition(folder: &Path) -> io::Result<Option<String>> {
    match Record::read(folder) {
        Ok(record) => Ok(Some(record.edition())),
        Err(RecordError::Io(error)) if !is_absence(&error) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Whether this says that nothing of that name is there, rather than nothing about it.
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
