//! Finds and reads the files of earlier runs. An unusable file is left out and listed with the reason.

use super::model::Bench;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// The benches write some kilobytes. This bound stops us from reading a film that is named `.json` to its end.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The content of one file.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// Its name without its folder.
    pub(crate) file: String,
    /// The JSON as written.
    pub(crate) raw: Value,
    /// The part that the report shows.
    pub(crate) bench: Bench,
}

/// A file that was left out.
#[derive(Clone, Debug)]
pub struct Skipped {
    /// Its name.
    pub file: String,
    /// The reason, as text.
    pub why: String,
}

/// Reads every `.json` file of a folder, in the order of their names.
///
/// # Errors
/// If the folder cannot be read.
pub(crate) fn read_directory(directory: &Path) -> io::Result<(Vec<Source>, Vec<Skipped>)> {
    let named = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot read {}: {error}", directory.display()))
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).map_err(named)? {
        let path = entry.map_err(named)?.path();
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json")) {
            paths.push(path);
        }
    }
    paths.sort();
    let (mut sources, mut skipped) = (Vec::new(), Vec::new());
    for path in paths {
        match read_file(&path) {
            Ok(several) => sources.extend(several),
            Err(why) => skipped.push(Skipped { file: name(&path), why }),
        }
    }
    Ok((sources, skipped))
}

/// Reads one file. It has several benches if one run made several comparisons (`bench versus --client load,wrk`).
///
/// # Errors
/// A description of the problem.
pub(crate) fn read_file(path: &Path) -> Result<Vec<Source>, String> {
    let mut text = Vec::new();
    // Reading a pipe or a device with such a name could block.
    if !path.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Err("it is not a regular file".to_owned());
    }
    let file = File::open(path).map_err(|error| format!("it cannot be opened: {error}"))?;
    file.take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut text)
        .map_err(|error| format!("it cannot be read: {error}"))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("it is larger than {} MiB", FILE_BYTES_MAX >> 20));
    }
    let raw: Value =
        serde_json::from_slice(&text).map_err(|error| format!("it is not JSON: {error}"))?;
    let raws = match &raw["cells"] {
        Value::Array(cells) if raw["kind"] == "versus-grid" => cells.clone(),
        _ => vec![raw],
    };
    let source = |raw| Bench::of(&raw).map(|bench| Source { file: name(path), raw, bench });
    raws.into_iter().map(source).collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
