//! An origin and a box with real folders.

#![allow(dead_code)] // Each test file uses only a part of it.

use std::fs::{self, FileTimes, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use catalog::{RECORD, Record, TitlePath};
use fleet_protocol::{Desired, Digest, HeldTitle, PublishedTitle, TitleDocument};
use fullbore_node::{HoldingOptions, Replicator};
use fullbore_tests::{FILM, make_title};
use tempfile::TempDir;

/// A block, as records have them.
pub(crate) const BLOCK: usize = 4 << 20;

/// Two blocks and a part of a third.
pub(crate) fn film(seed: u8) -> Vec<u8> {
    (0..2 * BLOCK + 12_345).map(|at| (at / 7 % 251) as u8 ^ seed).collect()
}

/// Folders for a test.
pub(crate) struct Folders {
    root: TempDir,
}

impl Default for Folders {
    fn default() -> Self {
        let root = tempfile::tempdir().unwrap();
        for name in ["origin", "library", "state"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        Self { root }
    }
}

impl Folders {
    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn origin(&self) -> PathBuf {
        self.root.path().join("origin")
    }

    pub(crate) fn library(&self) -> PathBuf {
        self.root.path().join("library")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.root.path().join("state")
    }

    /// Puts a title, or a new version of it, into the origin.
    pub(crate) fn publish(&self, path: &str, film: &[u8]) -> PublishedTitle {
        let folder = self.origin().join(path);
        fs::create_dir_all(&folder).unwrap();
        make_title(&folder, film).unwrap();
        published(&self.origin(), path)
    }

    pub(crate) fn options(&self) -> HoldingOptions {
        HoldingOptions {
            node: "n1".parse().unwrap(),
            state: self.state(),
            libraries: vec![self.library()],
            copy_bytes_per_second: 0,
            windows: Vec::new(),
            fill_bytes_max: 0,
            fill_wait: Duration::ZERO,
            scrub: Duration::from_secs(3600),
            evict_after: Duration::ZERO,
            clock: fullbore_node::wall_clock,
            origins: Vec::new(),
            trust: tls::client::Trust::System,
        }
    }

    /// Opens a box that is idle, as it does before its server starts.
    pub(crate) fn open(&self) -> Box {
        self.open_with(self.options())
    }

    pub(crate) fn open_with(&self, options: HoldingOptions) -> Box {
        Box { replicator: Arc::new(Replicator::open(options).unwrap()), threads: Vec::new() }
    }

    /// The place of a title's film in the box's library.
    pub(crate) fn film(&self, path: &str) -> PathBuf {
        let folder = self.library().join(path);
        let record = Record::read(&folder).unwrap();
        folder.join(record.folder).join(FILM)
    }

    /// The hidden folder in which a title arrives.
    pub(crate) fn arriving(&self, path: &str) -> PathBuf {
        self.library().join(format!(".ingest-{path}")).join("arriving")
    }
}

/// The published form of a title in the library `origin`.
pub(crate) fn published(origin: &Path, path: &str) -> PublishedTitle {
    let folder = TitlePath::new(path).unwrap().folder(origin);
    let record = Record::read(&folder).unwrap();
    let document = |name: &str| TitleDocument {
        path: name.to_owned(),
        sha256: Digest::of(&fs::read(folder.join(name)).unwrap()),
    };
    PublishedTitle {
        path: path.to_owned(),
        version: record.sha256.parse().unwrap(),
        bytes: record.bytes(),
        duration_seconds: record.duration_seconds,
        record: document(RECORD),
        hls: document(&record.hls),
        dash: document(&record.dash),
        origin: format!("file://{}", origin.display()),
        published_unix_seconds: 1,
    }
}

/// A box's holder, which stops at the end of the test.
pub(crate) struct Box {
    pub(crate) replicator: Arc<Replicator>,
    threads: Vec<JoinHandle<()>>,
}

impl Box {
    pub(crate) fn start(mut self) -> Self {
        self.threads = self.replicator.start().unwrap();
        self
    }

    pub(crate) fn desire(&self, titles: &[&PublishedTitle], withdrawn: &[HeldTitle]) {
        let titles = titles.iter().map(|title| (*title).clone()).collect();
        let withdrawn = withdrawn.to_vec();
        let known = self.replicator.desired();
        let (epoch, revision) = (known.epoch, known.revision + 1);
        let desired = Desired { epoch, revision, titles, withdrawn, ..Desired::default() };
        self.replicator.handle_desired(desired).unwrap();
    }

    pub(crate) fn holds(&self, title: &PublishedTitle) -> bool {
        self.replicator.inventory().held.contains(&title.held())
    }

    pub(crate) fn trouble(&self, path: &str) -> Option<String> {
        self.replicator.status().troubles.get(path).cloned()
    }
}

impl Drop for Box {
    fn drop(&mut self) {
        self.replicator.stop();
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}

/// Flips one byte of a file, and sets its modification time back to what it was.
pub(crate) fn flip(path: &Path, at: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let before = file.metadata().unwrap().modified().unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    file.set_times(FileTimes::new().set_modified(before)).unwrap();
    assert_eq!(file.metadata().unwrap().modified().unwrap(), before);
}
