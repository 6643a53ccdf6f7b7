//! The folder that a bench works in. It is removed when the bench ends.

use std::io;
use std::path::PathBuf;
use tempfile::TempDir;

/// Creates it in `parent`, or in the system's temporary folder.
///
/// # Errors
/// If it cannot be created.
pub(crate) fn folder(parent: Option<&PathBuf>) -> io::Result<TempDir> {
    match parent {
        Some(parent) => tempfile::tempdir_in(parent),
        None => tempfile::tempdir(),
    }
}
