//! Small files in the agent's state folder: replaced whole, or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// No such file is longer. An inventory of 100,000 titles has 16 MB.
const BYTES_MAX: u32 = 256 << 20;

/// Held while a file is replaced: two writers of one file at the same time would take each other's new one away.
static WRITING: Mutex<()> = Mutex::new(());

/// Replaces the file at `path`, and waits until it is on the disk.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let _alone = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let fresh = folder.join(name);
    let mut options = OpenOptions::new();
    // The server takes no keys from a file that its group may write, whatever the umask says.
    let mut file = options.write(true).create(true).truncate(true).mode(0o644).open(&fresh)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    File::open(folder)?.sync_all()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_of_one_file_do_not_take_each_others_new_one_away() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("file");
        std::thread::scope(|scope| {
            for writer in 0..4_u8 {
                let place = &place;
                scope.spawn(move || (0..50).for_each(|_| write(place, &[writer; 100]).unwrap()));
            }
        });
        let bytes = read(&place).unwrap().unwrap();
        assert!(bytes.len() == 100 && bytes.iter().all(|byte| *byte == bytes[0]));
    }
}
