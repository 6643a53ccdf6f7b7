//! The text files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders with generated content.
const MADE: [&str; 5] = [".git", "target", "node_modules", "dist", "corpus"];

/// A file and its text.
pub(crate) struct File {
    /// From the root of the repository, with `/` between parts.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    /// A file that does not exist, to plant in a test.
    pub(crate) fn planted(path: &str, text: &str) -> Self {
        Self { path: path.into(), text: text.into() }
    }

    /// Whether it is Rust written by people.
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    pub(crate) fn is_markdown(&self) -> bool {
        self.path.ends_with(".md")
    }

    /// The crate that the file is a source of, if any: `crates/NAME/src/`.
    pub(crate) fn source_of(&self) -> Option<&str> {
        let (name, rest) = self.path.strip_prefix("crates/")?.split_once('/')?;
        rest.starts_with("src/").then_some(name)
    }

    /// A line's place, as compilers write it.
    pub(crate) fn at(&self, line_index: usize) -> String {
        format!("{}:{}", self.path, line_index + 1)
    }
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the repository").into()
}

/// All files that are text, sorted by path.
pub(crate) fn files() -> Vec<File> {
    let mut files = Vec::new();
    gather(&root(), "", &mut files);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(files.len() > 500, "only {} files below {}", files.len(), root().display());
    files
}

fn gather(folder: &Path, prefix: &str, files: &mut Vec<File>) {
    // Other tests and builds may remove a folder at the same time; `files` notices if too little is found.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Ok(kind) = entry.file_type() else { continue };
        let path = format!("{prefix}{name}");
        if kind.is_dir() && !MADE.contains(&name.as_str()) {
            gather(&entry.path(), &format!("{path}/"), files);
        } else if kind.is_file() {
            // Files that aren't UTF-8 are data: fuzz seeds, pictures.
            files.extend(fs::read_to_string(entry.path()).ok().map(|text| File { path, text }));
        }
    }
}
