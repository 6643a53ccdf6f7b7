//! Waits until files count as unchanged.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::wait::until;

/// A file's age when the hot set certainly admits its blocks: more than the 3 s that it wants (`SETTLED_AFTER` in
/// `crates/server/disk/src/hot/local.rs`), from the whole second in which the file changed.
const SETTLED_AFTER: Duration = Duration::from_secs(4);

/// Waits until all files in `folder` have been unchanged for so long that the hot set admits their blocks.
///
/// # Panics
/// If a file's metadata cannot be read.
pub fn settle(folder: &Path) {
    until("the files to settle", || is_settled(folder));
}

fn is_settled(path: &Path) -> bool {
    if path.is_dir() {
        let entries = std::fs::read_dir(path).expect("a test's folder can be read");
        return entries.flatten().all(|entry| is_settled(&entry.path()));
    }
    let changed = path.metadata().expect("a test's file has metadata").ctime().unsigned_abs();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_secs(changed)) >= SETTLED_AFTER
}
