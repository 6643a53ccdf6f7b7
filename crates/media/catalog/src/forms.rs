//! Compressed forms of a title's text files: `NAME.br` and `NAME.gz` next to `NAME`, with the same modification time.
//!
//! The forms of files in the version's folder are files of the title like all others. Those of the manifests are recorded separately
//! ([`Record::manifest_forms`]): manifests are replaced in place, and buckets and a fleet's gateways
//! get them in ways of their own, without forms. So a copy of a title may lack them, and nothing but bytes is lost.

use std::path::Path;
use std::{fs, io};

use crate::error::{Attempt, CatalogError};
use crate::record::Record;

/// The end of the name of a form in Brotli's format (RFC 7932).
pub const BROTLI: &str = ".br";
/// The end of the name of a form in gzip's format (RFC 1952).
pub const GZIP: &str = ".gz";

/// The paths that forms of the record's manifests have, recorded or not.
pub(crate) fn manifest_form_paths(record: &Record) -> impl Iterator<Item = String> {
    let manifests = [&record.hls, &record.dash].into_iter();
    manifests.flat_map(|manifest| [BROTLI, GZIP].map(|suffix| format!("{manifest}{suffix}")))
}

/// Moves the forms of the manifests from the folder `made` to `title`, and removes those in `title` that `made` lacks.
pub(crate) fn put_manifest_forms(
    made: &Path,
    title: &Path,
    record: &Record,
) -> Result<(), CatalogError> {
    for path in manifest_form_paths(record) {
        let place = title.join(&path);
        let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        match fs::rename(made.join(&path), &place) {
            Err(error) if is_missing(&error) => match fs::remove_file(&place) {
                Err(error) if is_missing(&error) => {}
                removed => removed.attempt("remove", &place)?,
            },
            moved => moved.attempt("put in place", &place)?,
        }
    }
    Ok(())
}
