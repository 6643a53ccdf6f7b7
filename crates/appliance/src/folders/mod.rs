//! The folders that the library consists of: one, or one for each disk of a server with many.
//!
//! Each folder has a thread of its own ([`watch`]), so that a disk that hangs delays nothing but its own folder. Once a second the thread
//! checks whether the folder is still there, and lists the names at its top. From these lists [`catalog::Holders`] decides which folder
//! holds which name. The workers take that table over once a second, so a new title is served within about two seconds.
//!
//! A folder that cannot be read keeps the names it had. So while its disk is dead, its titles fail, and no title of the same name on
//! another disk takes their place. A folder that was missing at the start has no names: what it holds is unknown.
//!
//! Workers tell which folder's files cannot be read: a dead disk may still list its folders from memory.
//!
//! A folder may hold copies of titles of other folders, on a faster disk ([`catalog::copies()`]). Its thread checks once a second whether they are
//! still exact. A copy that is not, and any copy in a folder that fails, holds nothing: its original is served.
//!
//! A library of one folder holds every name: nothing is listed, and every path is looked up there.

mod all;
mod place;
mod watch;

use crate::access::Access;
use crate::start_error::StartError;
pub(crate) use all::{AllFolders, LibraryFolders};
use catalog::{Hidden, Holders, Title, is_held, list_held, on_one_disk};
use disk::Names;
use place::Place;
use rustix::io::Errno;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// A look at a folder that takes longer is told as trouble. A disk that wakes up takes up to ten seconds or so.
const LOOK_MAX: Duration = Duration::from_secs(15);

/// How long a read that failed is told.
const FAILURE_TOLD: Duration = Duration::from_secs(60);

/// The most hidden names listed at the start, and told at once later; more would scroll the rest away.
const HIDDEN_SHOWN: usize = 20;

/// The library's folders while the server runs.
pub(crate) struct Folders {
    folders: Vec<Folder>,
    /// Held while lists are merged, which may take long. Workers do not wait for it.
    holders: Mutex<Holders>,
    tables: Mutex<Tables>,
    /// Tables that were replaced. They are kept until no worker uses them, so that no worker has to free one, which takes long.
    replaced: Mutex<Vec<Arc<Names>>>,
    /// The hidden names that the operator knows of.
    hidden_told: Mutex<BTreeSet<Hidden>>,
}

/// Where names are looked up. The two belong together: a name that is no longer held by a copy has no original either.
#[derive(Clone, Default)]
pub(crate) struct Tables {
    /// Which folder holds which name.
    pub(crate) names: Arc<Names>,
    /// For names that a copy holds, the folder of the original.
    pub(crate) originals: Arc<Names>,
}

/// One folder.
struct Folder {
    place: Place,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What is wrong, as of the last look that ended.
    trouble: Option<Trouble>,
    /// When a viewer's file could not be read last.
    failed: Option<Instant>,
    /// When the look under way began.
    looking_since: Option<Instant>,
    /// What the operator was told last.
    told: Option<String>,
}

/// What is wrong with a folder.
#[derive(Clone)]
struct Trouble {
    said: String,
    /// Whether that is only that it is empty: it may be new, or a mount point without its disk.
    is_emptiness: bool,
}

/// Whether the library can be served.
pub(crate) enum Health {
    /// All of it.
    Well,
    /// All but the folders of which this is said.
    Partly(String),
    /// None of it.
    Lost(String),
}

impl Health {
    /// What is wrong, if anything is.
    pub(crate) fn trouble(&self) -> Option<&str> {
        match self {
            Self::Well => None,
            Self::Partly(why) | Self::Lost(why) => Some(why),
        }
    }
}

impl Folders {
    /// Opens the folders of a `library`. Those that are missing are told later.
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
        })
    }

    /// Whether there is more than one.
    pub(crate) fn are_several(&self) -> bool {
        self.folders.len() > 1
    }

    fn places(&self) -> impl Iterator<Item = &Place> {
        self.folders.iter().map(|folder| &folder.place)
    }

    /// Where they are, in the configured order.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.folders.iter().map(|folder| folder.place.path().to_owned()).collect()
    }

    /// Those that were there at the start, with their places in the configured order.
    pub(crate) fn present(&self) -> impl Iterator<Item = (u16, &Path)> {
        let present = (0..).zip(&self.folders);
        let present = present.filter(|(_, folder)| folder.place.missing().is_none());
        present.map(|(index, folder)| (index, folder.place.path()))
    }

    /// The files below them, for a worker that keeps at most `open_max` open.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub(crate) fn files(&self, open_max: usize) -> io::Result<disk::Files> {
        let root = |folder: &Folder| folder.place.folder().map(|fd| fd.try_clone_to_owned());
        let roots: Result<Vec<Option<OwnedFd>>, _> =
            self.folders.iter().map(|folder| root(folder).transpose()).collect();
        Ok(disk::Files::of_folders(roots?, self.names(), open_max))
    }

    /// Which folder holds which name; none if there is one folder, which holds all.
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

    /// Starts watching the folders, and waits until each was looked at once, but not for a disk that hangs. Returns what was found out
    /// about access to their files.
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

    /// Changes what is known of the folders' names by `change`, and tells the operator which are hidden now.
    fn learn(&self, change: impl FnOnce(&mut Holders)) {
        // No lock is held while this waits for the reader of standard error.
        for line in self.hidden_lines(&self.newly_hidden(change)) {
            eprintln!("fullbore: {line}");
        }
    }

    /// Changes what is known of the folders' names by `change`. Returns the names that are hidden since then, if the operator is to be told.
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

    /// Replaces the tables that workers use, if the new ones are others.
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

    /// Notes which folders fail, so that copies there are not used.
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
        let line = |one: &Hidden| library::shown(&one.describe(&paths)).into_owned();
        let mut lines: Vec<_> = shown.map(line).collect();
        if hidden.len() > HIDDEN_SHOWN {
            lines.push(format!("{} more names are hidden", hidden.len() - HIDDEN_SHOWN));
        }
        lines
    }

    /// Notes that a file of `folder` could not be read. With one folder this tells nothing that the counters do not.
    pub(crate) fn note_failure(&self, folder: Option<u16>) {
        let folder = folder.and_then(|folder| self.folders.get(usize::from(folder)));
        if let Some(folder) = folder.filter(|_| self.are_several()) {
            lock(&folder.state).failed = Some(Instant::now());
        }
    }

    /// What is wrong with each folder now.
    fn troubles(&self) -> Vec<Option<String>> {
        self.folders.iter().map(Folder::trouble).collect()
    }

    /// Whether the library can be served. A read that failed does not make a folder lost: it may be one bad sector. A new library, whose
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

    /// How many folders have trouble.
    pub(crate) fn lost(&self) -> u64 {
        self.troubles().iter().flatten().count() as u64
    }

    /// Each folder and what is wrong with it, as JSON.
    pub(crate) fn json(&self) -> Vec<Value> {
        let folders = self.folders.iter().map(|folder| {
            let path = folder.place.path().to_string_lossy();
            json!({ "folder": path, "trouble": folder.trouble() })
        });
        folders.collect()
    }

    /// Tells the operator what has changed since the last call.
    pub(crate) fn tell(&self) {
        self.folders.iter().for_each(Folder::tell);
    }

    /// Lines for people about folders of which something is to be said.
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

    /// The titles of all folders that answer, sorted by name, each with its folder. Tells the operator which folder cannot be listed.
    pub(crate) fn titles(&self) -> Vec<(PathBuf, Title)> {
        let answers = |folder: u16| !self.folders[usize::from(folder)].is_looked_at();
        let answering = self.present().filter(|(folder, _)| answers(*folder));
        let is_held = |folder, title: &Title| self.hold(folder, &title.location);
        let cannot_list = |path: &Path, error| {
            let told = format!("cannot list {}: {error}", path.display());
            eprintln!("fullbore: {}", library::shown(&told));
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
    /// What is wrong with it now.
    fn trouble(&self) -> Option<String> {
        self.loss().map(|trouble| trouble.said).or_else(|| {
            let failed = lock(&self.state).failed?;
            let path = self.place.path().display();
            (failed.elapsed() < FAILURE_TOLD).then(|| {
                format!("the library {path} has failed to read a file within the last minute; check its disk")
            })
        })
    }

    /// Why none of it can be served, or why it may not be what the operator sees.
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

    /// Whether it cannot be read from, or failed to be lately.
    fn fails(&self) -> bool {
        let is_loss = |trouble: Trouble| !trouble.is_emptiness;
        self.loss().is_some_and(is_loss)
            || lock(&self.state).failed.is_some_and(|at| at.elapsed() < FAILURE_TOLD)
    }

    /// Tells the operator if its trouble has changed since the last call.
    fn tell(&self) {
        let now = self.trouble();
        // Workers take this lock, and must not wait for the reader of standard error.
        if std::mem::replace(&mut lock(&self.state).told, now.clone()) == now {
            return;
        }
        let back = || format!("the library {} is back", self.place.path().display());
        eprintln!("fullbore: {}", library::shown(&now.unwrap_or_else(back)));
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
        // As for a file: whatever is there, it is not a folder that can be served.
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
