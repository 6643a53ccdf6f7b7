//! Small files in the agent's state folder: replaced whole, or not at all.

use std::io;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// No such file is longer. An inventory of 100,000 titles has 16 MB.
const BYTES_MAX: u32 = 256 << 20;

/// The server takes no keys from a file that its group may write, whatever the umask says.
const MODE: u32 = 0o644;

/// What the umask leaves of it: the server may run as another user.
const FOLDER_MODE: u32 = 0o777;

/// Makes a folder, and those above it that are missing, so that they outlive a power failure with what is put into them.
///
/// # Errors
/// If it cannot be made.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    smallfile::make_folders(path, FOLDER_MODE)
}

/// Replaces the file at `path`, and waits until it is on the disk.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    smallfile::replace(path, bytes, MODE)
}

/// As [`write`], of what only this user may read.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn write_secret(path: &Path, bytes: &[u8]) -> io::Result<()> {
    smallfile::replace(path, bytes, 0o600)
}

/// As [`write`], of JSON.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    write(path, &serde_json::to_vec(value)?)
}

/// What is in the file at `path`; none if there is no such file.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match smallfile::read(path, BYTES_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(|bytes| Some(bytes.to_vec())),
    }
}

/// As [`read`], of JSON. A file that is damaged counts as missing, and is told: what is in it can be had again.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let parsed = read(path).and_then(|bytes| match bytes {
        Some(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        None => Ok(None),
    });
    parsed.unwrap_or_else(|error| {
        crate::tell(&format!("{} is damaged, and is made anew: {error}", path.display()));
        None
    })
}
