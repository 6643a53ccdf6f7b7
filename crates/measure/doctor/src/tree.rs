//! The files below the folder that contains `proc` and `sys`.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// More than any file read here has; `/proc/cpuinfo` of 512 CPUs is the longest.
const FILE_BYTES_MAX: u64 = 4 << 20;

pub(crate) struct Tree(PathBuf);

impl Tree {
    pub(crate) fn new(root: &Path) -> Self {
        Self(root.to_path_buf())
    }

    pub(crate) fn bytes(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(self.0.join(path))?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The file's content without surrounding white space.
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&self.bytes(path)?).trim().to_owned())
    }

    pub(crate) fn has(&self, path: impl AsRef<Path>) -> bool {
        self.0.join(path).exists()
    }

    /// The names in a folder, sorted; none if it cannot be read.
    pub(crate) fn names(&self, path: impl AsRef<Path>) -> Vec<String> {
        let entries = fs::read_dir(self.0.join(path)).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<_> = names.collect();
        names.sort_unstable();
        names
    }

    /// The target of `path`, with all links followed.
    pub(crate) fn real(&self, path: impl AsRef<Path>) -> Option<PathBuf> {
        fs::canonicalize(self.0.join(path)).ok()
    }
}
