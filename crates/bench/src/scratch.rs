//! The folder that a bench works in. It goes away with the bench.

use std::io;
use std::path::PathBuf;
use tempfile::TempDir;

/// Below `parent`, or in the system's temporary folder.
///
/// # Errors
/// If it cannot be made.
pub(crate) fn folder(parent: Option<&PathBuf>) -> io::Result<TempDir> {
    match parent {
        Some(parent) => tempfile::tempdir_in(parent),
        None => tempfile::tempdir(),
    }
}
