//! Removes copies: first from the library, later from the disk.
//!
//! Responses in progress continue to read a copy that was renamed, however long they take, but not one that was deleted. From outside it is
//! impossible to tell whether there are any: bytes are counted when a response ends. So a removed copy stays on disk for [`KEPT`].

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use catalog::{Mark, Promoted, Record};

use super::copy::sync;
use super::error::{Attempt, PromoteError};
use super::{Done, Promotion};

/// Longer than viewers take for a film, including pauses; as long as the files of a replaced version stay.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

impl Promotion {
    /// Removes a copy from the library.
    pub(super) fn take_away(&self, name: &str) -> Result<(), PromoteError> {
        let place = self.to.join(name);
        if Mark::of(&place).attempt("look at", &place)?.is_none() {
            return Err(PromoteError::NoCopy(place));
        }
        let target = Promoted::Gone.of(&self.to).join(format!("{}-{name}", now().as_nanos()));
        fs::rename(&place, &target).attempt("take away", &place)?;
        sync(&self.to)
    }

    /// Deletes leftovers of earlier runs: unfinished copies, and copies that were removed long ago. Failures are reported. Returns the
    /// bytes of the copies that stay.
    pub(super) fn clean(&self, tell: &mut impl FnMut(Done)) -> Result<u64, PromoteError> {
        let mut left = |path: PathBuf, removed: Result<(), PromoteError>| {
            let is_left = removed.is_err();
            removed.unwrap_or_else(|why| tell(Done::Left(path, why.to_string())));
            is_left
        };
        for name in names(&Promoted::Work.of(&self.to))? {
            left(Promoted::Work.of(&self.to).join(&name), self.remove_work(&name));
        }
        let (gone, mut bytes) = (Promoted::Gone.of(&self.to), 0);
        for name in names(&gone)? {
            let folder = gone.join(&name);
            let its_bytes = recorded_bytes(&folder);
            if !is_old(&name) || left(folder, self.remove_gone(&name)) {
                bytes += its_bytes;
            }
        }
        Ok(bytes)
    }

    /// Deletes a removed copy. It is renamed first, so that its remains after an interruption count as unfinished.
    fn remove_gone(&self, name: &str) -> Result<(), PromoteError> {
        let folder = Promoted::Gone.of(&self.to).join(name);
        if Mark::of(&folder).attempt("look at", &folder)?.is_none() {
            return Err(PromoteError::NoCopy(folder));
        }
        let work = Promoted::Work.of(&self.to).join(name);
        fs::rename(&folder, &work).attempt("remove", &folder)?;
        self.remove_work(name)
    }

    /// Deletes the unfinished copy of this name.
    pub(super) fn remove_work(&self, name: &str) -> Result<(), PromoteError> {
        let path = Promoted::Work.of(&self.to).join(name);
        let removed = match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(&path),
            Ok(_) => fs::remove_file(&path),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        };
        removed.attempt("remove", &path)
    }
}

/// Whether the removed copy with this name may be deleted. Entries with other kinds of names stay.
fn is_old(name: &str) -> bool {
    let at = name.split_once('-').and_then(|(nanoseconds, _)| nanoseconds.parse().ok());
    at.is_some_and(|at: u128| now().as_nanos().saturating_sub(at) >= KEPT.as_nanos())
}

/// The time since 1970.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Bytes of the title in a folder, from its record.
pub(super) fn recorded_bytes(folder: &Path) -> u64 {
    Record::read(folder).map_or(0, |record| record.bytes())
}

/// The names in a folder, without hidden ones and those that no title can have.
fn names(folder: &Path) -> Result<Vec<String>, PromoteError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).attempt("list", folder)? {
        let name = entry.attempt("list", folder)?.file_name();
        names.extend(name.into_string().ok().filter(|name| !name.starts_with('.')));
    }
    names.sort();
    Ok(names)
}
