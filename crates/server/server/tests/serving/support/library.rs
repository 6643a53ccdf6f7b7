//! A library of one film with known bytes, and a hole that is too long for any buffer.

use super::content::Content;
use super::viewer::Viewer;
use std::fs::File;
use std::path::Path;
use tempfile::TempDir;

/// The size of `long.mp4`: far more than the kernel buffers for a viewer that reads nothing.
const LONG_BYTES: u64 = 64 << 20;

pub(crate) struct Library {
    dir: TempDir,
    /// The content of `a.mp4`.
    pub(crate) a: Content,
}

impl Library {
    /// `a.mp4`, and `long.mp4`, which is a hole.
    pub(crate) fn new() -> Self {
        let (dir, a) = (tempfile::tempdir().unwrap(), Content::new(1, 100_000));
        a.write(&dir.path().join("a.mp4")).unwrap();
        File::create(dir.path().join("long.mp4")).unwrap().set_len(LONG_BYTES).unwrap();
        Self { dir, a }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Requests `a.mp4`, and compares every byte.
    #[track_caller]
    pub(crate) fn assert_served(&self, viewer: &mut Viewer) {
        let response = viewer.ask("/a.mp4");
        assert_eq!((response.status, response.body.len() as u64), (200, self.a.size));
        self.a.assert_holds(0, &response.body, "a.mp4");
    }
}
