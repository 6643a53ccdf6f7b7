//! A library in a temporary folder.

use std::fs;
use std::path::Path;

use fullbore_catalog::{Fault, LibraryEntry, RECORD, Record, TitlePath, find, verify};
use tempfile::TempDir;

pub(crate) struct Place(TempDir);

pub(crate) fn path(text: &str) -> TitlePath {
    TitlePath::new(text).unwrap()
}

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, file: &str, content: &[u8]) {
        let place = self.path().join(file);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, content).unwrap();
    }

    pub(crate) fn read(&self, file: &str) -> Vec<u8> {
        fs::read(self.path().join(file)).unwrap()
    }

    pub(crate) fn entry(&self, title: &str) -> LibraryEntry {
        find(self.path(), &path(title)).unwrap().expect("a title")
    }

    pub(crate) fn faults(&self, title: &str) -> Vec<Fault> {
        verify(&self.entry(title))
    }

    /// Changes a title's record and updates its checksum.
    pub(crate) fn change_record(&self, title: &str, change: impl FnOnce(&mut Record)) {
        let mut record = self.entry(title).record.unwrap();
        change(&mut record);
        self.write(&format!("{title}/{RECORD}"), record.seal().as_bytes());
    }

    /// The names in it, including hidden folders.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}
