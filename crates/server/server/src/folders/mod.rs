//! The folders of a library: one, or one per disk of a server with many.
//!
//! Each folder has a thread of its own ([`watch`]), so that a hanging disk delays nothing but its own folder. Once a second the thread
//! checks whether the folder still exists, and lists the names at its top. From these lists [`catalog::Holders`] decides which folder
//! holds which name. The workers adopt that table once a second, so a new title is served within about two seconds.
//!
//! A folder that cannot be read keeps its names. So while its disk is dead, its titles fail, and no title of the same name on
//! another disk replaces them. A folder that was missing at startup has no names, because its content is unknown.
//!
//! Workers report the folder of each file that cannot be read: a dead disk may still list its folders from memory.
//!
//! A folder may hold copies of other folders' titles, on a faster disk ([`catalog::copies()`]). Its thread checks once a second whether they are
//! still exact. If a copy is not, or its folder fails, the original is served instead.
//!
//! A library of one folder holds every name: nothing is listed, and every path is looked up there.

mod all;
mod failed_files;
mod place;
mod watch;

use crate::file_abilities::Access;
use crate::start_error::StartError;
pub(crate) use all::{AllFolders, LibraryFolders};
use catalog::{Hidden, Holders, Title, is_held, list_held, on_one_disk};
use disk::Names;
use failed_files::FailedFiles;
use place::Place;
use rustix::io::Errno;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use telemetry::since_1970;

/// A look at a folder that takes longer is reported as trouble. A disk that spins up takes up to ten seconds or so.
const LOOK_MAX: Duration = Duration::from_secs(15);

/// How long a failed read is reported.
const FAILURE_TOLD: Duration = Duration::from_secs(60);

/// The most hidden names listed at startup, and reported at once later; more would scroll the other lines away.
const HIDDEN_SHOWN: usize = 20;

/// The library's folders while the server runs.
pub(crate) struct Folders {
    folders: Vec<Folder>,
    /// Held while lists are merged, which may take long. Workers do not wait for it.
    holders: Mutex<Holders>,
    tables: Mutex<Tables>,
    /// Replaced tables. They are kept until no worker uses them, so that no worker has to free one, which takes long.
    replaced: Mutex<Vec<Arc<Names>>>,
    /// The hidden names that have been reported to the operator.
    hidden_told: Mutex<BTreeSet<Hidden>>,
    /// The files that could not be read lately.
    failed_files: Mutex<FailedFiles>,
}

/// The tables for looking up names. The two belong together: a name that no copy holds any more has no original either.
#[derive(Clone, Default)]
pub(crate) struct Tables {
    /// The folder that holds each name.
    pub(crate) names: Arc<Names>,
    /// For names held by a copy, the folder of the original.
    pub(crate) originals: Arc<Names>,
}

/// One folder.
struct Folder {
    place: Place,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The trouble found by the last finished look.
    trouble: Option<Trouble>,
    /// When reading a viewer's file failed last.
    failed: Option<Instant>,
    /// When the current look began.
    looking_since: Option<Instant>,
    /// The last report to the operator.
    told: Option<String>,
}

/// A folder's trouble.
#[derive(Clone)]
struct Trouble {
    said: String,
    /// The only trouble is that it is empty: it may be new, or a mount point without its disk.
    is_emptiness: bool,
}

/// The health of a library.
pub(crate) enum Health {
    /// All of it.
    Well,
    /// All but the folders that the text names.
    Partly(String),
    /// None of it.
    Lost(String),
}

impl Health {
    /// The trouble, if there is any.
    pub(crate) fn trouble(&self) -> Option<&str> {
        match self {
            Self::Well => None,
            Self::Partly(why) | Self::Lost(why) => Some(why),
        }
    }
}

impl Folders {
    /// Opens the folders of a `library`. Missing ones are reported later.
    ///
    /// # Errors
    /// If one is a file.
    pub(crate) fn open(library: &[PathBuf]) -> Result<Self, StartError> {
        let places: Vec<_> = library.iter().map(|path| Place::of(path)).collect();
        let is_file = |place: &&Place| place.missing() == Some(Errno::NOTDIR);
        if let Some(file) = places.iter().find(is_file) {
            return Err(StartError::LibraryNotAFolder(file.path().to_owned()));
        }
        let count = places.len();
        let folder = |place| Folder { place, state: Mutex::default() };
        Ok(Self {
            folders: places.into_iter().map(folder).collect(),
            holders: Mutex::new(Holders::new(count)),
            tables: Mutex::default(),
            replaced: Mutex::default(),
            hidden_told: Mutex::default(),
            failed_files: Mutex::default(),
        })
    }

    /// Whether there is more than one.
    pub(crate) fn are_several(&self) -> bool {
        self.folders.len() > 1
    }

    fn places(&self) -> impl Iterator<Item = &Place> {
        self.folders.iter().map(|folder| &folder.place)
    }

    /// Their paths, in the configured order.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.folders.iter().map(|folder| folder.place.path().to_owned()).collect()
    }

    /// The folders that existed at startup, with their positions in the configured order.
    pub(crate) fn present(&self) -> impl Iterator<Item = (u16, &Path)> {
        let present = (0..).zip(&self.folders);
        let present = present.filter(|(_, folder)| folder.place.missing().is_none());
        present.map(|(index, folder)| (index, folder.place.path()))
    }

    /// The files below the folders, for a worker that keeps at most `open_max` open.
    ///
    /// # Errors
    /// If no descriptor is available.
    pub(crate) fn files(&self, open_max: usize) -> io::Result<disk::Files> {
        let root = |folder: &Folder| folder.place.folder().map(|fd| fd.try_clone_to_owned());
        let roots: Result<Vec<Option<OwnedFd>>, _> =
            self.folders.iter().map(|folder| root(folder).transpose()).collect();
        Ok(disk::Files::of_folders(roots?, self.names(), open_max))
    }

    /// The folder that holds each name; none if a single folder holds all.
    pub(crate) fn names(&self) -> Option<Arc<Names>> {
        self.tables().map(|tables| tables.names)
    }

    /// As [`Self::names`], with the originals of copies.
    pub(crate) fn tables(&self) -> Option<Tables> {
        self.are_several().then(|| lock(&self.tables).clone())
    }

    /// Whether `folder` holds what is at `location`, a path in the library.
    pub(crate) fn hold(&self, folder: u16, location: &Path) -> bool {
        self.names().is_none_or(|names| is_held(&names, folder, location))
    }

    /// The folder that holds what is at `location`, a path in the library.
    pub(crate) fn holder(&self, location: &Path) -> Option<&Path> {
        let mut present = self.present();
        present.find(|(index, _)| self.hold(*index, location)).map(|(_, path)| path)
    }

    /// Starts watching the folders, and waits until each was looked at once, but not for a hanging disk. Returns the results
    /// of checking access to their files.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub(crate) fn watch(self: &Arc<Self>) -> io::Result<Access> {
        let access = watch::start(self)?;
        let mut holders = lock(&self.holders);
        holders.settle();
        *lock(&self.hidden_told) = holders.hidden().into_iter().collect();
        Ok(access)
    }

    /// Applies `change` to the known names of the folders, and reports newly hidden ones to the operator.
    fn learn(&self, change: impl FnOnce(&mut Holders)) {
        // Hold no lock here, because writing to standard error may wait for its reader.
        for line in self.hidden_lines(&self.newly_hidden(change)) {
            eprintln!("fullbore: {line}");
        }
    }

    /// Applies `change` to the known names of the folders. Returns the newly hidden names, if they should be reported.
    fn newly_hidden(&self, change: impl FnOnce(&mut Holders)) -> Vec<Hidden> {
        let mut holders = lock(&self.holders);
        let before = Arc::clone(holders.by_name());
        change(&mut holders);
        let (names, originals) = (holders.by_name(), holders.originals());
        let now = Tables { names: Arc::clone(names), originals: Arc::clone(originals) };
        self.renew(now);
        if Arc::ptr_eq(&before, holders.by_name()) {
            return Vec::new();
        }
        if !holders.is_settled() {
            return Vec::new();
        }
        let hidden: BTreeSet<_> = holders.hidden().into_iter().collect();
        let mut told = lock(&self.hidden_told);
        let news = hidden.difference(&told).cloned().collect();
        *told = hidden;
        news
    }

    /// Replaces the tables that workers use, if the new ones differ.
    fn renew(&self, now: Tables) {
        let mut tables = lock(&self.tables);
        let before = std::mem::replace(&mut *tables, now);
        let mut replaced = lock(&self.replaced);
        for (old, new) in [(before.names, &tables.names), (before.originals, &tables.originals)] {
            if !Arc::ptr_eq(&old, new) {
                replaced.push(old);
            }
        }
    }

    /// Records which folders fail, so that copies there are not used.
    fn note_failing(&self) {
        let failing: Vec<_> = self.folders.iter().map(Folder::fails).collect();
        self.learn(|holders| {
            (0..).zip(failing).for_each(|(folder, fails)| holders.note_failing(folder, fails));
        });
    }

    /// Frees the tables that no worker uses any more.
    fn free_replaced(&self) {
        let mut replaced = lock(&self.replaced);
        let (used, unused): (Vec<_>, Vec<_>) =
            replaced.drain(..).partition(|names| Arc::strong_count(names) > 1);
        *replaced = used;
        drop(replaced);
        drop(unused);
    }

    fn hidden_lines(&self, hidden: &[Hidden]) -> Vec<String> {
        let paths = self.paths();
        let shown = hidden.iter().take(HIDDEN_SHOWN);
        let line = |one: &Hidden| ingest::shown(&one.describe(&paths)).into_owned();
        let mut lines: Vec<_> = shown.map(line).collect();
        if hidden.len() > HIDDEN_SHOWN {
            lines.push(format!("{} more names are hidden", hidden.len() - HIDDEN_SHOWN));
        }
        lines
    }

    /// Records that the file at `path`, if that is known, could not be opened or read in `folder`. A library of a single folder has no trouble by
    /// this: it may be one bad sector.
    pub(crate) fn note_failure(&self, folder: Option<u16>, path: Option<&[u8]>) {
        let folder = folder.and_then(|folder| self.folders.get(usize::from(folder)));
        let file = folder.zip(path);
        let file = file.map(|(folder, path)| folder.place.path().join(OsStr::from_bytes(path)));
        lock(&self.failed_files).note(file, Instant::now(), since_1970());
        if let Some(folder) = folder.filter(|_| self.are_several()) {
            lock(&folder.state).failed = Some(Instant::now());
        }
    }

    /// The current trouble of each folder.
    fn troubles(&self) -> Vec<Option<String>> {
        self.folders.iter().map(Folder::trouble).collect()
    }

    /// The library's health. A failed read does not make a folder lost: it may be one bad sector. A new library, whose
    /// folders are all empty, is not lost.
    pub(crate) fn health(&self) -> Health {
        let said: Vec<_> = self.troubles().into_iter().flatten().collect();
        let losses: Vec<_> = self.folders.iter().map(Folder::loss).collect();
        let is_loss = |trouble: &Trouble| !trouble.is_emptiness;
        if said.is_empty() {
            Health::Well
        } else if losses.iter().all(Option::is_some) && losses.iter().flatten().any(is_loss) {
            Health::Lost(said.join("; "))
        } else {
            Health::Partly(said.join("; "))
        }
    }

    /// The number of folders with trouble.
    pub(crate) fn lost(&self) -> u64 {
        self.troubles().iter().flatten().count() as u64
    }

    /// Each folder and its trouble, as JSON.
    pub(crate) fn json(&self) -> Vec<Value> {
        let folders = self.folders.iter().map(|folder| {
            let path = folder.place.path().to_string_lossy();
            let is_lost = folder.loss().is_some();
            json!({ "folder": path, "lost": is_lost, "trouble": folder.trouble() })
        });
        folders.collect()
    }

    /// How often a file could not be opened or read because of its disk.
    fn file_failures_total(&self) -> u64 {
        lock(&self.failed_files).failures_total()
    }

    /// The files for which that happened lately, as JSON.
    fn failed_files_json(&self) -> Vec<Value> {
        lock(&self.failed_files).json(Instant::now())
    }

    /// Reports to the operator what has changed since the last call.
    pub(crate) fn tell(&self) {
        self.folders.iter().for_each(Folder::tell);
    }

    /// Lines for people about folders that deserve a note.
    pub(crate) fn describe(&self) -> Vec<String> {
        let troubles = self.troubles();
        let mut lines: Vec<_> =
            troubles.iter().flatten().map(|trouble| format!("trouble   {trouble}")).collect();
        let paths = self.paths();
        lines.extend(on_one_disk(&paths).iter().map(|sharing| {
            let names: Vec<_> = sharing.iter().map(|path| path.display().to_string()).collect();
            format!(
                "note      {} are on one disk: they die together, and count as one disk",
                names.join(", ")
            )
        }));
        let hidden: Vec<_> = lock(&self.hidden_told).iter().cloned().collect();
        let hidden = self.hidden_lines(&hidden);
        lines.extend(hidden.iter().map(|line| format!("hidden    {line}")));
        lines
    }

    /// The titles of all folders that answer, sorted by name, each with its folder. Reports folders that cannot be listed to the operator.
    pub(crate) fn titles(&self) -> Vec<(PathBuf, Title)> {
        let answers = |folder: u16| !self.folders[usize::from(folder)].is_looked_at();
        let answering = self.present().filter(|(folder, _)| answers(*folder));
        let is_held = |folder, title: &Title| self.hold(folder, &title.location);
        let cannot_list = |path: &Path, error| {
            let told = format!("cannot list {}: {error}", path.display());
            eprintln!("fullbore: {}", ingest::shown(&told));
        };
        let mut titles = list_held(answering, catalog::titles, is_held, cannot_list);
        titles.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
        titles
    }
}

impl Trouble {
    fn loss(said: String) -> Self {
        Self { said, is_emptiness: false }
    }
}

impl Folder {
    /// Its current trouble.
    fn trouble(&self) -> Option<String> {
        self.loss().map(|trouble| trouble.said).or_else(|| {
            let failed = lock(&self.state).failed?;
            let path = self.place.path().display();
            (failed.elapsed() < FAILURE_TOLD).then(|| {
                format!("the library {path} has failed to read a file within the last minute; check its disk")
            })
        })
    }

    /// Why none of it can be served, or why it may differ from what the operator sees at the path.
    fn loss(&self) -> Option<Trouble> {
        let state = lock(&self.state);
        if state.looking_since.is_some_and(|since| since.elapsed() > LOOK_MAX) {
            let path = self.place.path().display();
            return Some(Trouble::loss(format!(
                "the library {path} does not answer: its disk hangs, and its titles with it; check the disk"
            )));
        }
        state.trouble.clone()
    }

    /// Whether it cannot be read from, or a recent read failed.
    fn fails(&self) -> bool {
        let is_loss = |trouble: Trouble| !trouble.is_emptiness;
        self.loss().is_some_and(is_loss)
            || lock(&self.state).failed.is_some_and(|at| at.elapsed() < FAILURE_TOLD)
    }

    /// Reports its trouble to the operator if it has changed since the last call.
    fn tell(&self) {
        let now = self.trouble();
        // Workers take this lock, so don't hold it while writing to standard error, which may wait for its reader.
        if std::mem::replace(&mut lock(&self.state).told, now.clone()) == now {
            return;
        }
        let back = || format!("the library {} is back", self.place.path().display());
        eprintln!("fullbore: {}", ingest::shown(&now.unwrap_or_else(back)));
    }

    /// Whether the first look or a later one has not ended yet.
    fn is_looked_at(&self) -> bool {
        lock(&self.state).looking_since.is_some()
    }
}

/// Why there is nothing to serve.
fn none_there<'p>(places: impl Iterator<Item = &'p Place>) -> StartError {
    let places: Vec<_> = places.collect();
    let why = |place: &Place| place.closed().unwrap_or(Errno::NOENT);
    match &places[..] {
        [] => StartError::NoLibrary,
        // As for a file: the path exists, but not as a folder that can be served.
        [place] => match why(place) {
            Errno::NOENT => StartError::LibraryNotAFolder(place.path().to_owned()),
            why => StartError::Library { library: place.path().to_owned(), why: why.into() },
        },
        [first, ..] => StartError::NoFolder {
            count: places.len(),
            first: first.path().to_owned(),
            why: why(first).into(),
        },
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no holder of this lock can panic")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_could_not_be_read_is_listed_with_its_folder_which_is_not_lost() {
        let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let folders = Folders::open(&dirs.each_ref().map(|dir| dir.path().to_owned())).unwrap();
        folders.note_failure(Some(1), Some(b"film/a.mp4"));
        let json = folders.json();
        assert!(json[0]["trouble"].is_null() && json[1]["trouble"].is_string());
        assert!(json.iter().all(|folder| folder["lost"] == false));
        let file = dirs[1].path().join("film/a.mp4");
        assert_eq!(folders.failed_files_json()[0]["file"], file.to_str().unwrap());
        // An edge's object has no path in the library.
        folders.note_failure(None, None);
        assert_eq!((folders.file_failures_total(), folders.failed_files_json().len()), (2, 1));
    }
}
