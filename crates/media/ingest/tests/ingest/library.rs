//! A library in a temporary folder, with helpers to ingest into it.

use std::fs;
use std::path::{Path, PathBuf};

use catalog::{Fault, LibraryEntry, TitleName, TitlePath};
use fullbore_ingest::ingest::{IngestError, Ingested, Options, Progress, Speed, Stop, ingest};
use fullbore_ingest::{Ladder, Rung};
use tempfile::TempDir;

pub(crate) struct Library(TempDir);

/// Quick to make: two small sizes.
pub(crate) fn options() -> Options {
    let rungs = vec![Rung { height: 90, kbps: 150 }, Rung { height: 180, kbps: 400 }];
    let ladder = Ladder::new(rungs).expect("a ladder");
    Options { ladder, speed: Speed::Fastest, segment_seconds: 2.0, ..Options::default() }
}

pub(crate) fn name(text: &str) -> TitleName {
    TitleName::new(text).expect("a name")
}

pub(crate) fn path(text: &str) -> TitlePath {
    TitlePath::new(text).expect("a path")
}

impl Library {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn title(&self, title: &str) -> PathBuf {
        self.path().join(title)
    }

    pub(crate) fn ingest(
        &self,
        file: &Path,
        title: &str,
        options: &Options,
    ) -> Result<Ingested, IngestError> {
        self.ingest_with(file, title, options, &Stop::default(), |_| {})
    }

    pub(crate) fn ingest_with(
        &self,
        file: &Path,
        title: &str,
        options: &Options,
        stop: &Stop,
        progress: impl FnMut(Progress),
    ) -> Result<Ingested, IngestError> {
        ingest(file, self.path(), &name(title), options, stop, progress)
    }

    /// The title's entry, with its record.
    pub(crate) fn entry(&self, title: &str) -> LibraryEntry {
        catalog::find(self.path(), &path(title)).expect("a folder to look into").expect("a title")
    }

    /// The faults of the title.
    pub(crate) fn faults(&self, title: &str) -> Vec<Fault> {
        catalog::verify(&self.entry(title))
    }

    /// The names in it, hidden folders included.
    pub(crate) fn names(&self) -> Vec<String> {
        names(self.path())
    }
}

/// The names in a folder, sorted.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<_> = entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
