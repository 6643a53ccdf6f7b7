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

    /// The crate that the file belongs to, if any, and its path there: `crates/GROUP/NAME/PATH` or `bin/NAME/PATH`.
    pub(crate) fn in_crate(&self) -> Option<(&str, &str)> {
        let rest = self.path.strip_prefix("crates/").and_then(|rest| rest.split_once('/'));
        rest.map(|(_group, rest)| rest).or_else(|| self.path.strip_prefix("bin/"))?.split_once('/')
    }

    /// The crate that the file is a source of, if any.
    pub(crate) fn source_of(&self) -> Option<&str> {
        self.in_crate().filter(|(_, path)| path.starts_with("src/")).map(|(name, _)| name)
    }

    /// The crate that the file is the manifest of, if any.
    pub(crate) fn manifest_of(&self) -> Option<&str> {
        self.in_crate().filter(|(_, path)| *path == "Cargo.toml").map(|(name, _)| name)
    }

    /// A line's place, as compilers write it.
    pub(crate) fn at(&self, line_index: usize) -> String {
        format!("{}:{}", self.path, line_index + 1)
    }
}

/// The package of the crate in a folder of that name.
pub(crate) fn package(folder: &str) -> String {
    if folder == "fullbore" {
        folder.to_owned()
    } else {
        format!("fullbore-{}", folder.replace('_', "-"))
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
