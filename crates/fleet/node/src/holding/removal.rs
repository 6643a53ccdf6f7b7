//! The thread that removes: withdrawn titles, at once; versions that were replaced a day ago; titles that the plan no longer assigns to
//! this box (`eviction`). It also notices changed files.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use catalog::{REPLACED_KEPT_SECONDS, Record, RecordError, TitlePath, Workshop};
use fleet_protocol::{Digest, HeldTitle, Receipt, ReceiptState};
use serde::{Deserialize, Serialize};

use super::arrival::ARRIVING;
use super::block_map;
use super::error::{Attempt, HoldingError};
use super::eviction::REMOVED;
use super::look::{Changed, title_path};
use super::stamp::stamp;
use super::{RECEIPTS, REPLACED, Replicator, lock};
use crate::persistence;

/// How often failed removals are retried.
const RETRY: Duration = Duration::from_secs(1);
/// The shortest interval between checks of all files. A check takes some 50 microseconds a title.
const WATCH: Duration = Duration::from_secs(10);
/// How often the whole library is listed, to find titles that other programs have put there.
const LIST: Duration = Duration::from_secs(300);
/// Checks take at most a hundredth of a processor.
const WATCH_SHARE: u32 = 100;

/// A version that another one has replaced. Its files stay for viewers who are watching it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ReplacedVersion {
    /// The title's path.
    pub(super) path: String,
    /// The version's folder in it.
    pub(super) folder: String,
    /// The version itself, if it is known.
    pub(super) version: Option<Digest>,
    /// When it was replaced, in seconds since 1970.
    pub(super) unix_seconds: u64,
}

impl Replicator {
    /// The remover's loop.
    pub(super) fn keep_removing(&self) {
        self.finish_removals();
        let (mut watch_at, mut list_at) = (Instant::now() + WATCH, Instant::now() + LIST);
        while !self.remover.is_stopped() {
            self.withdraw_all();
            self.expire_replaced(self.unix_seconds());
            self.evict();
            let begun = Instant::now();
            if begun >= watch_at {
                self.watch();
                watch_at = Instant::now() + WATCH.max(begun.elapsed() * WATCH_SHARE);
            }
            if begun >= list_at {
                if let Err(error) = self.look(Changed::Verify) {
                    crate::tell(&format!("cannot list the library: {error}"));
                }
                list_at = Instant::now() + LIST.max(begun.elapsed() * WATCH_SHARE);
            }
            self.remover.wait(RETRY);
        }
    }

    /// Removes every withdrawn title that is still there, and keeps a receipt for each.
    pub(super) fn withdraw_all(&self) {
        let desired = self.desired();
        let mut has_news = false;
        for withdrawn in &desired.withdrawn {
            let known = lock(&self.receipts).get(withdrawn).copied();
            let is_done = matches!(known, Some(ReceiptState::Removed | ReceiptState::Absent));
            let is_back = || {
                self.table
                    .title(&withdrawn.path)
                    .is_some_and(|now| now.version == withdrawn.version)
            };
            if is_done && !is_back() {
                continue;
            }
            let state = match self.withdraw(withdrawn) {
                // Another thread or program is working on it, and will be done soon.
                Err(HoldingError::Busy) => continue,
                Err(why) => {
                    if known != Some(ReceiptState::Failed) {
                        crate::tell(&format!("cannot remove {}: {why}", withdrawn.path));
                    }
                    ReceiptState::Failed
                }
                Ok(ReceiptState::Absent) if known == Some(ReceiptState::Failed) => {
                    ReceiptState::Removed
                }
                Ok(state) => state,
            };
            has_news |= lock(&self.receipts).insert(withdrawn.clone(), state) != Some(state);
        }
        if has_news {
            self.keep_receipts();
        }
    }

    fn keep_receipts(&self) {
        let receipts = lock(&self.receipts).clone();
        let receipts: Vec<_> =
            receipts.into_iter().map(|(held, state)| Receipt { held, state }).collect();
        let place = self.options.state.join(RECEIPTS);
        if let Err(error) = persistence::write_json(&place, &receipts) {
            crate::tell(&format!("cannot write {}: {error}", place.display()));
        }
    }

    /// Removes a version of a title, wherever it is: in its place, hidden, or kept after it was replaced.
    fn withdraw(&self, withdrawn: &HeldTitle) -> Result<ReceiptState, HoldingError> {
        let title = title_path(&withdrawn.path)?;
        let (mut was_there, mut failed) = (false, None);
        // A failed disk must not keep the copy on another one from being removed.
        for library in &self.options.libraries {
            match self.withdraw_from(library, &title, withdrawn) {
                Ok(is_there) => was_there |= is_there,
                Err(why) => {
                    self.note_disk(library, &why);
                    failed = failed.or(Some(why));
                }
            }
        }
        if let Some(why) = failed {
            return Err(why);
        }
        if !was_there {
            return Ok(ReceiptState::Absent);
        }
        crate::tell(&format!("removed {}: it was withdrawn", withdrawn.path));
        Ok(ReceiptState::Removed)
    }

    fn withdraw_from(
        &self,
        library: &Path,
        title: &TitlePath,
        withdrawn: &HeldTitle,
    ) -> Result<bool, HoldingError> {
        let (place, above) = (title.folder(library), title.above(library));
        let hidden = above.join(Workshop::folder_name(title.name()));
        if fs::symlink_metadata(&place).is_err() && fs::symlink_metadata(&hidden).is_err() {
            return Ok(false);
        }
        let workshop = Workshop::lock(&above, title.name())?;
        let out_of_sight = hidden.join(REMOVED);
        let mut was_there = fs::symlink_metadata(&out_of_sight).is_ok();
        let is_it = |folder: &Path| match Record::read(folder) {
            Ok(record) => record.sha256 == withdrawn.version.to_string(),
            // With a damaged record, assume that it is the withdrawn version.
            Err(RecordError::Broken(_)) => true,
            Err(RecordError::Io(_)) => false,
        };
        if was_there {
            fs::remove_dir_all(&out_of_sight).attempt("remove", &out_of_sight)?;
        }
        for folder in [place.clone(), hidden.join(ARRIVING)] {
            if is_it(&folder) {
                // The blocks on the map are gone.
                block_map::forget(&hidden).attempt("remove the map in", &hidden)?;
                fs::rename(&folder, &out_of_sight).attempt("remove", &folder)?;
                self.table.take(&withdrawn.path);
                lock(&self.hidden).remove(&withdrawn.path);
                // Sync the folder: a power failure must not undo what the receipt reports, nor leave the title in place without its files.
                catalog::sync(folder.parent().unwrap_or(&above))?;
                fs::remove_dir_all(&out_of_sight).attempt("remove", &out_of_sight)?;
                was_there = true;
            }
        }
        for one in self.take_replaced(|one| {
            one.path == withdrawn.path && one.version == Some(withdrawn.version)
        }) {
            catalog::remove_version(&place, &one.folder)?;
            was_there = true;
        }
        workshop.leave();
        Ok(was_there)
    }

    /// Removes versions that were replaced long ago.
    pub(super) fn expire_replaced(&self, now_unix_seconds: u64) {
        let is_old =
            |one: &ReplacedVersion| one.unix_seconds + REPLACED_KEPT_SECONDS <= now_unix_seconds;
        for one in self.take_replaced(is_old) {
            let removed = title_path(&one.path).and_then(|title| {
                let library = self.library_of(&title);
                let workshop = Workshop::lock(&title.above(&library), title.name())?;
                let place = title.folder(&library);
                // It may be the current version again.
                let is_present = Record::read(&place).is_ok_and(|now| now.folder == one.folder);
                if !is_present {
                    catalog::remove_version(&place, &one.folder)?;
                }
                workshop.leave();
                Ok(())
            });
            if let Err(why) = removed {
                crate::tell(&format!("cannot remove {}/{}: {why}", one.path, one.folder));
            }
        }
    }

    /// Notes a replaced version, unless it is already noted.
    pub(super) fn add_replaced(&self, one: ReplacedVersion) {
        let mut replaced = lock(&self.replaced);
        if replaced.iter().any(|known| known.path == one.path && known.folder == one.folder) {
            return;
        }
        replaced.push(one);
        self.keep_replaced(&replaced);
    }

    fn take_replaced(&self, wanted: impl Fn(&ReplacedVersion) -> bool) -> Vec<ReplacedVersion> {
        let mut replaced = lock(&self.replaced);
        let (taken, left): (Vec<_>, Vec<_>) = replaced.drain(..).partition(wanted);
        *replaced = left;
        if !taken.is_empty() {
            self.keep_replaced(&replaced);
        }
        taken
    }

    fn keep_replaced(&self, replaced: &[ReplacedVersion]) {
        let place = self.options.state.join(REPLACED);
        if let Err(error) = persistence::write_json(&place, &replaced) {
            crate::tell(&format!("cannot write {}: {error}", place.display()));
        }
    }

    /// Checks whether files have changed since they were verified. Changed titles are verified again at once.
    fn watch(&self) {
        let mut has_news = false;
        for (path, held) in self.table.titles() {
            let Some(verified) = held.verified.filter(|_| !held.has_changed) else { continue };
            let Ok(title) = title_path(&path) else { continue };
            let folder = title.folder(&held.library);
            let seen = Record::read(&folder).ok().and_then(|record| {
                fs::File::open(&folder).and_then(|place| stamp(place, &record)).ok()
            });
            if seen != Some(verified.stamp) {
                self.table.note_change(&path);
                has_news = true;
            }
            if self.remover.is_stopped() {
                return;
            }
        }
        if has_news {
            self.copier.wake();
        }
    }
}
