//! Small files in the agent's state folder: each is replaced whole, or not at all.

use std::io;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// No such file is larger. An inventory of 100,000 titles takes 16 MB.
const BYTES_MAX: u32 = 256 << 20;

/// The server rejects key files that their group may write, so the umask must not matter.
const MODE: u32 = 0o644;

/// The umask applies: the server may run as another user.
const FOLDER_MODE: u32 = 0o777;

/// Creates a folder, and its missing parents, durably: they survive a power failure with their contents.
///
/// # Errors
/// If it cannot be created.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    files::make_folders(path, FOLDER_MODE)
}

/// Replaces the file at `path`, and waits until it is on disk.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    files::replace(path, bytes, MODE)
}

/// Like [`write`], for a file that only this user may read.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn write_secret(path: &Path, bytes: &[u8]) -> io::Result<()> {
    files::replace(path, bytes, 0o600)
}

/// Like [`write`], for JSON.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    write(path, &serde_json::to_vec(value)?)
}

/// The contents of the file at `path`; `None` if there is no such file.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match files::read(path, BYTES_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(|bytes| Some(bytes.to_vec())),
    }
}

/// Like [`read`], for JSON. A damaged file is logged and counts as missing: its contents can be obtained again.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let parsed = read(path).and_then(|bytes| match bytes {
        Some(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        None => Ok(None),
    });
    parsed.unwrap_or_else(|error| {
        crate::tell(&format!("{} is damaged, and is replaced: {error}", path.display()));
        None
    })
}
