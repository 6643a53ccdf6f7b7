//! The folder that contains `proc` and `sys`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

pub(crate) struct Root(PathBuf);

impl Root {
    pub(crate) fn new(path: &Path) -> Self {
        Self(path.to_path_buf())
    }

    /// The file's content, without surrounding white space; `None` if it cannot be read.
    pub(crate) fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        let text = fs::read(self.0.join(path)).ok()?;
        Some(String::from_utf8_lossy(&text).trim().to_owned())
    }

    /// The file, for reading repeatedly; `None` if it cannot be opened.
    pub(crate) fn open(&self, path: impl AsRef<Path>) -> Option<File> {
        File::open(self.0.join(path)).ok()
    }

    /// The file's content, parsed; `None` if that fails.
    pub(crate) fn read_value<T: std::str::FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.read(path)?.parse().ok()
    }

    pub(crate) fn has(&self, path: impl AsRef<Path>) -> bool {
        self.0.join(path).exists()
    }

    /// The target of `path`, with all links followed; `None` if it does not exist.
    pub(crate) fn real(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        fs::canonicalize(self.0.join(path)).ok()
    }

    /// The names in a folder, sorted; none if it cannot be read.
    pub(crate) fn names(&self, path: impl AsRef<Path>) -> Vec<String> {
        let entries = fs::read_dir(self.0.join(path)).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<_> = names.collect();
        names.sort_unstable();
        names
    }
}
