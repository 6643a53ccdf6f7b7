//! Copies of titles on a faster disk.
//!
//! A folder of the library may hold copies of titles that other folders hold, so that they are served from a faster disk. The copies lie at the
//! folder's top, named like their originals. A hidden folder beside them says which of its titles are copies:
//!
//! * `.promoted/copies/NAME`: an empty file. The title `NAME` at the top is a copy.
//! * `.promoted/work/NAME`: a copy that is being made.
//! * `.promoted/gone/NAME`: a copy that was taken away, and is kept for viewers who still watch it.
//!
//! The mark is there before its copy appears, and goes after it. So a copy is never taken for a title of the folder's own.
//!
//! A copy is only as good as its original: it counts as long as both have the same [`edition`]. A title whose original is gone is gone.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Dir, Mode, OFlags, openat};
use rustix::io::Errno;

use crate::record::Record;
use crate::sha256;

/// The hidden folder with the marks.
const FOLDER: &str = ".promoted";

/// The folder in which copies are marked, made or kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promoted {
    /// An empty file for each copy.
    Copies,
    /// Copies that are being made.
    Work,
    /// Copies that were taken away.
    Gone,
}

impl Promoted {
    fn path(self) -> &'static str {
        match self {
            Self::Copies => ".promoted/copies",
            Self::Work => ".promoted/work",
            Self::Gone => ".promoted/gone",
        }
    }

    /// Where it is in `folder`.
    pub fn of(self, folder: &Path) -> PathBuf {
        folder.join(self.path())
    }

    /// The folder that has all of them.
    pub fn all(folder: &Path) -> PathBuf {
        folder.join(FOLDER)
    }
}

/// Whether the title `name` at the top of `folder` is a copy.
pub fn is_copy(folder: &Path, name: &str) -> bool {
    Promoted::Copies.of(folder).join(name).exists()
}

/// The names of the copies in an open folder, whether or not they are there already.
///
/// # Errors
/// If the marks cannot be read.
pub fn copies(folder: impl AsFd) -> io::Result<Vec<Arc<[u8]>>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let marks = match openat(folder, Promoted::Copies.path(), flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(Vec::new()),
        opened => opened?,
    };
    let mut names: Vec<Arc<[u8]>> = Vec::new();
    for entry in Dir::new(marks)? {
        let name = entry?.file_name().to_bytes().to_owned();
        if !name.starts_with(b".") {
            names.push(name.into());
        }
    }
    Ok(names)
}

/// Names what viewers get of the title in `folder`: its present version, and its manifests. Two folders with one edition have the same files.
/// `None` if there is no record, or it is damaged.
pub fn edition(folder: &Path) -> Option<String> {
    Record::read(folder).ok().map(|record| record.edition())
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
