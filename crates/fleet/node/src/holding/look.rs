//! Scans the library: at the start, and again when another program may have changed it.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use catalog::{RECORD, Record, TitleName, TitlePath, Workshop, is_version};
use fleet_protocol::Digest;

use super::arrival::ARRIVING;
use super::block_map;
use super::error::{Attempt, HoldingError};
use super::hidden::Hidden;
use super::removal::ReplacedVersion;
use super::stamp::stamp;
use super::table::Held;
use super::{Replicator, lock};

/// How to treat a title whose files no longer look as they did when it was verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    /// Hide it until it is verified: the agent did not run meanwhile, so nothing watched over the files.
    Hide,
    /// Verify it as soon as possible.
    Verify,
}

/// Deeper than the library's own listing goes.
pub(super) const DEPTH_MAX: usize = 8;

/// Whether a title no longer has a record in its place.
fn is_gone(path: &str, held: &Held) -> bool {
    let record = title_path(path).map(|title| title.folder(&held.library).join(RECORD));
    record.is_ok_and(|record| !record.exists())
}

impl Replicator {
    /// Brings the table up to date with the library.
    ///
    /// # Errors
    /// If a folder of the library cannot be listed. The table then stays as it was.
    pub(super) fn look(&self, changed: Changed) -> io::Result<()> {
        let mut entries = Vec::new();
        let libraries = self.libraries();
        for library in &libraries {
            // A folder that cannot be listed cannot be served either.
            let of_library = catalog::list(library)?.entries.into_iter();
            entries.extend(of_library.map(|entry| (library.clone(), entry)));
        }
        let mut listed = BTreeSet::new();
        for (library, entry) in entries {
            if fs::symlink_metadata(entry.folder.join(catalog::MARK)).is_ok() {
                continue; // A copy on a faster disk: the original counts.
            }
            let path = entry.title.as_str().to_owned();
            match &entry.record {
                Ok(record) => self.look_at(&path, &library, &entry.folder, record, changed),
                Err(why) => self.look_at_damaged(&path, &library, &why.to_string()),
            }
            listed.insert(path);
        }
        for (path, held) in self.table.titles() {
            // A folder that is away proves nothing yet, and titles that have arrived since the listing are there.
            if !listed.contains(&path) && libraries.contains(&held.library) && is_gone(&path, &held)
            {
                self.table.take(&path);
            }
        }
        let inside = Path::new(ARRIVING).join(RECORD);
        for library in &libraries {
            let mut found = Vec::new();
            find_hidden(library, "", DEPTH_MAX, &inside, &mut found);
            let why = |path: &String| {
                let title = title_path(path).ok()?;
                let workshop = title.above(library).join(Workshop::folder_name(title.name()));
                Some((path.clone(), Hidden::find(&workshop)))
            };
            let found: Vec<_> = found.iter().filter_map(why).collect();
            lock(&self.hidden).extend(found);
        }
        Ok(())
    }

    fn look_at(
        &self,
        path: &str,
        library: &Path,
        folder: &Path,
        record: &Record,
        changed: Changed,
    ) {
        let Ok(version) = record.sha256.parse::<Digest>() else { return };
        self.note_replaced(path, folder, record);
        if self.table.title(path).is_some_and(|held| held.version == version) {
            return;
        }
        let kept = self.table.kept(path, version);
        let seen = fs::File::open(folder).and_then(|place| stamp(place, record)).ok();
        let is_unchanged = kept.is_some_and(|kept| seen == Some(kept.stamp));
        if kept.is_some() && !is_unchanged && changed == Changed::Hide && record.has_blocks() {
            let why = "its files have changed since they were verified";
            match self.hide(path, library, why) {
                Ok(()) => return,
                Err(error) => crate::tell(&format!("cannot hide {path}: {error}")),
            }
        }
        let verified = kept.filter(|_| is_unchanged);
        let (library, bytes) = (library.to_owned(), record.bytes());
        self.table.put(path, Held { version, library, bytes, verified, has_changed: false });
    }

    /// A record that cannot be read says nothing about the title. If the fleet has published it, it is repaired.
    fn look_at_damaged(&self, path: &str, library: &Path, why: &str) {
        self.table.distrust(path);
        if self.desired().titles.iter().all(|wanted| wanted.path != path) {
            crate::tell(&format!(
                "{path} is not verified, because its title.json is damaged: {why}"
            ));
            return;
        }
        if let Err(error) = self.hide(path, library, &format!("its title.json is damaged: {why}")) {
            crate::tell(&format!("cannot hide {path}: {error}"));
        }
    }

    /// Moves a title out of the server's sight, for the copier to verify and repair.
    ///
    /// # Errors
    /// If it cannot be moved.
    pub(super) fn hide(&self, path: &str, library: &Path, why: &str) -> Result<(), HoldingError> {
        self.hide_and(path, library, why, || {})
    }

    /// As [`Self::hide`]. `moved` is called once the title has left its place, before the copier can see it.
    fn hide_and(
        &self,
        path: &str,
        library: &Path,
        why: &str,
        moved: impl FnOnce(),
    ) -> Result<(), HoldingError> {
        let hidden = self.move_away(path, library, moved);
        hidden.inspect_err(|failed| self.note_disk(library, failed))?;
        crate::tell(&format!("{path} is not served until it is verified: {why}"));
        self.copier.wake();
        Ok(())
    }

    /// Hides a title that is damaged, and counts it. The node no longer claims it, even if it cannot be hidden yet.
    ///
    /// # Errors
    /// If it cannot be moved; it is not counted then.
    pub(super) fn hide_damaged(
        &self,
        path: &str,
        library: &Path,
        why: &str,
    ) -> Result<(), HoldingError> {
        // Hide it first: a damaged title that is no longer in the inventory is not served any more, unless hiding failed.
        let hidden = self.hide_and(path, library, why, || self.scrub.note_damage());
        hidden.inspect_err(|_| self.table.distrust(path))
    }

    fn move_away(
        &self,
        path: &str,
        library: &Path,
        moved: impl FnOnce(),
    ) -> Result<(), HoldingError> {
        let title = title_path(path)?;
        let above = title.above(library);
        let workshop = Workshop::lock(&above, title.name())?;
        let (place, arriving) = (title.folder(library), workshop.path().join(ARRIVING));
        if fs::symlink_metadata(&place).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            // Another thread has hidden or removed it. The hidden folder may have the only copy.
            workshop.leave();
            return Err(HoldingError::Cancelled);
        }
        if arriving.exists() {
            fs::remove_dir_all(&arriving).attempt("remove", &arriving)?;
        }
        // The map describes another copy, not this one.
        block_map::forget(workshop.path()).attempt("remove the map in", workshop.path())?;
        fs::rename(&place, &arriving).attempt("hide", &place)?;
        // The node no longer has it, even if the rest fails.
        self.table.take(path);
        moved();
        // Read first: others wait for the lock, and the disk may hang.
        let hidden = Hidden::find(workshop.path());
        lock(&self.hidden).insert(path.to_owned(), hidden);
        catalog::sync(&above)?;
        workshop.leave();
        Ok(())
    }

    /// Notes old versions in the title's folder: each is removed a day after it was first seen.
    fn note_replaced(&self, path: &str, folder: &Path, record: &Record) {
        let names = fs::read_dir(folder).into_iter().flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        let others = names.filter(|name| is_version(name.as_bytes()) && *name != record.folder);
        for name in others {
            self.add_replaced(ReplacedVersion {
                path: path.to_owned(),
                folder: name,
                version: None,
                unix_seconds: self.unix_seconds(),
            });
        }
    }

    /// The folder of the library for a title: the one that has its top-level name already, else the one with the most free space. Empty if
    /// none is usable.
    pub(super) fn library_of(&self, title: &TitlePath) -> PathBuf {
        let libraries = self.libraries();
        let top = title.as_str().split('/').next().unwrap_or_default();
        let hidden = TitleName::new(top).map(|name| Workshop::folder_name(&name));
        let has = |library: &&PathBuf| {
            let of_hidden = hidden.as_ref().is_ok_and(|name| library.join(name).exists());
            library.join(top).exists() || of_hidden
        };
        let roomiest = || libraries.iter().max_by_key(|library| super::room::free_bytes(library));
        libraries.iter().find(has).or_else(roomiest).cloned().unwrap_or_default()
    }
}

/// Parses a path from the table or a gateway, which was checked there.
pub(super) fn title_path(path: &str) -> Result<TitlePath, HoldingError> {
    TitlePath::new(path).map_err(|error| HoldingError::Title(error.to_string()))
}

/// Finds titles whose hidden folder contains `inside`: an earlier run has hidden them, or not finished them.
pub(super) fn find_hidden(
    library: &Path,
    below: &str,
    depth_left: usize,
    inside: &Path,
    found: &mut Vec<String>,
) {
    for entry in fs::read_dir(library.join(below)).into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if let Some(title) = TitleName::new(name.trim_start_matches(".ingest-"))
            .ok()
            .filter(|title| Workshop::folder_name(title) == name)
        {
            if entry.path().join(inside).exists() {
                found.push(format!("{below}{title}"));
            }
        } else if !name.starts_with('.') && depth_left > 0 && !entry.path().join(RECORD).exists() {
            find_hidden(library, &format!("{below}{name}/"), depth_left - 1, inside, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::HoldingOptions;
    use super::*;

    /// Two threads may find a title damaged. The second one removed the hidden folder's contents, and with them the title.
    #[test]
    fn a_title_that_is_hidden_twice_is_still_there() {
        let root = tempfile::tempdir().unwrap();
        let library = root.path().join("library");
        fs::create_dir_all(library.join("film")).unwrap();
        fullbore_tests::make_title(&library.join("film"), b"a film").unwrap();
        fs::create_dir(root.path().join("state")).unwrap();
        let one = Replicator::open(HoldingOptions {
            node: "n1".parse().unwrap(),
            state: root.path().join("state"),
            libraries: vec![library.clone()],
            copy_bytes_per_second: 0,
            windows: Vec::new(),
            fill_bytes_max: 0,
            fill_wait: Duration::ZERO,
            scrub: Duration::from_secs(3600),
            evict_after: Duration::ZERO,
            clock: super::super::wall_clock,
            origins: Vec::new(),
            trust: tls::client::Trust::System,
        })
        .unwrap();
        assert!(one.table.title("film").is_some());
        one.hide_damaged("film", &library, "for a test").unwrap();
        let again = one.hide_damaged("film", &library, "for a test");
        assert!(matches!(again, Err(HoldingError::Cancelled)), "{again:?}");
        let hidden = library.join(".ingest-film").join(ARRIVING);
        assert!(hidden.join(RECORD).exists() && !library.join("film").exists());
        assert!(one.table.title("film").is_none() && lock(&one.hidden).contains_key("film"));
        assert_eq!(one.status().scrub.damaged_titles, 1);
    }
}
