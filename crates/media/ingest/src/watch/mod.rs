//! Watches a folder, and makes a title of each film that appears in it.
//!
//! `look.rs` lists the folder, `settle.rs` decides which films are complete, `ledger.rs` remembers the results, and `conditions.rs` says when a
//! failure may pass although the film has not changed. This file ingests films as
//! they are due, some at once. The folder is listed at intervals instead of by notifications, because network filesystems send none.
//!
//! A watch can be killed at any time: a title is visible only when it is complete, finished renditions are kept for the next attempt, and a
//! film whose result was not written yet is ingested again, which finds the title complete.

mod conditions;
mod ledger;
mod look;
mod settle;

pub use ledger::{FilmResult, results};

use std::collections::{HashMap, HashSet};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use catalog::TitleName;

use crate::ingest::{IngestError, Ingested, Options, Outcome, Progress, Stop, folder_for, ingest};
use ledger::Ledger;
use look::{Found, look};
use settle::Settling;

/// The lowest priority: encoding takes processor time that nothing else wants, for example a server on the same machine.
const NICE: i32 = 19;
/// Time between two looks at the folder; less if films are complete sooner than that.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
const LOOK_INTERVAL_MIN: Duration = Duration::from_millis(100);
/// Looking takes at most one part of this many of the time, so a slow folder is listed less often.
const LOOK_PART: u32 = 20;

/// What to watch, and what to do with the films.
#[derive(Clone, Debug)]
pub struct WatchedFolder {
    /// The folder to watch.
    pub folder: PathBuf,
    /// The library's folders. The first holds the results.
    pub library: Vec<PathBuf>,
    /// The folder for new titles, if it is not the one with the most free space.
    pub into: Option<PathBuf>,
    /// Options for each title. Subtitle files next to a film are added.
    pub options: Options,
    /// A film is complete when it has not changed for this long.
    pub settle: Duration,
    /// How many films are ingested at once; at least 1.
    pub at_once: usize,
}

/// What happened. Paths of films are below the watched folder.
#[derive(Debug)]
pub enum WatchEvent {
    /// A film is a title now.
    Made {
        /// The film.
        file: String,
        /// Its title.
        ingested: Box<Ingested>,
    },
    /// A film did not become a title.
    Failed {
        /// The film.
        file: String,
        /// The reason.
        reason: String,
        /// When it is tried again. `None`: when it changes, or under other conditions, such as other options.
        again: Option<Duration>,
    },
    /// The folder, a part of it, or the list of results cannot be used at the moment.
    Problem(String),
}

/// Why a folder cannot be watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The folder to watch, or the library, cannot be used.
    #[error("cannot use {path}: {source}")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The folder to watch and the library contain each other.
    #[error("{0} and the library must not contain each other: watch a folder outside of it")]
    Inside(PathBuf),
    /// Another process watches the same folder for the same library.
    #[error("another fullbore is watching {0} for this library: stop it first")]
    Busy(PathBuf),
    /// The list of results cannot be used.
    #[error(
        "cannot use the list of results {path}: {source}; if it is damaged, remove it, and every film is looked at again"
    )]
    Ledger {
        /// The list, or the library's folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// There is no ffmpeg, or no ffprobe.
    #[error(transparent)]
    Tool(IngestError),
}

/// The state that the threads share.
struct Shared {
    ledger: Ledger,
    settling: Settling,
    /// Films that are waiting for a thread, or are being ingested.
    taken: HashSet<String>,
    /// The reason to end early.
    fatal: Option<WatchError>,
}

/// One run of [`watch`].
struct Watching<'a, R> {
    watch: &'a WatchedFolder,
    stop: &'a Stop,
    report: &'a R,
    began: Instant,
    shared: Mutex<Shared>,
}

/// Watches until `stop`, which also ends films that are being ingested; their finished parts are kept. `report` gets what happens, and
/// `progress` gives a receiver for the progress of each title. The calling thread, and all that it starts, get the lowest priority.
///
/// # Errors
/// [`WatchError`], at the start, or when ffmpeg is missing.
pub fn watch<P: FnMut(Progress)>(
    watch: &WatchedFolder,
    stop: &Stop,
    report: &(impl Fn(WatchEvent) + Sync),
    progress: &(impl Fn(&TitleName) -> P + Sync),
) -> Result<(), WatchError> {
    let folder = watch.checked_folder()?;
    // Threads and programs inherit it. It cannot fail, because lowering the priority needs no rights.
    let _ = rustix::process::nice(NICE);
    let first = watch.library.first().cloned().unwrap_or_default();
    let ledger = Ledger::open(&folder, &first, conditions::of(&watch.options))?;
    let settling = Settling::new(watch.settle);
    let shared = Shared { ledger, settling, taken: HashSet::new(), fatal: None };
    let watching =
        Watching { watch, stop, report, began: Instant::now(), shared: Mutex::new(shared) };
    let (due, queue) = mpsc::channel();
    let queue = Mutex::new(queue);
    thread::scope(|scope| {
        for _ in 0..watch.at_once.max(1) {
            scope.spawn(|| watching.ingest_all(&queue, progress));
        }
        watching.look_until_stopped(&folder, due);
    });
    let shared = watching.shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    shared.fatal.map_or(Ok(()), Err)
}

impl Shared {
    /// Another film that has become, or will become, the title of the film at `index`. `same` lists all films of that name, in order.
    fn other_of_its_name(&self, found: &[Found], index: usize, same: &[usize]) -> Option<String> {
        let owns_title = |other: usize| {
            let film = &found[other];
            if self.ledger.has_title(film) || self.taken.contains(&film.file) {
                return true;
            }
            // The first film gets the title, unless it has failed for good.
            other < index && !self.ledger.is_done(film)
        };
        let other = same.iter().copied().find(|&other| other != index && owns_title(other));
        other.map(|other| found[other].file.clone())
    }
}

impl WatchedFolder {
    /// The folder to watch, without links. Creates the library if its parent exists, as [`ingest`] does.
    fn checked_folder(&self) -> Result<PathBuf, WatchError> {
        for library in self.library.iter().filter(|library| !library.is_dir()) {
            let made = std::fs::create_dir(library);
            made.map_err(|source| WatchError::Folder { path: library.clone(), source })?;
        }
        let full = |path: &Path| {
            let full = path.canonicalize();
            full.map_err(|source| WatchError::Folder { path: path.to_owned(), source })
        };
        let folder = full(&self.folder)?;
        for library in &self.library {
            let library = full(library)?;
            if folder.starts_with(&library) || library.starts_with(&folder) {
                return Err(WatchError::Inside(self.folder.clone()));
            }
        }
        Ok(folder)
    }
}

impl<R: Fn(WatchEvent) + Sync> Watching<'_, R> {
    fn shared(&self) -> MutexGuard<'_, Shared> {
        // Nothing panics while it holds the lock.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Sends each film to `due` once it is complete.
    fn look_until_stopped(&self, folder: &Path, due: mpsc::Sender<Found>) {
        let mut problems = Vec::new();
        loop {
            let began = Instant::now();
            let look = look(folder).unwrap_or_else(|error| look::Look {
                films: Vec::new(),
                problems: vec![format!("cannot list {}: {error}", folder.display())],
            });
            // Each problem is reported once, not at every look.
            for problem in look.problems.iter().filter(|one| !problems.contains(*one)) {
                (self.report)(WatchEvent::Problem(problem.clone()));
            }
            // A part that cannot be read may hold the films that are missing.
            if look.problems.is_empty() {
                let kept = self.shared().ledger.keep_failures_of(&look.films);
                self.report_problem(kept);
            }
            problems = look.problems;
            for found in self.due(look.films) {
                // There is no receiver only if every thread has ended, which happens after a stop.
                let _ = due.send(found);
            }
            let usual = LOOK_INTERVAL.min(self.watch.settle).max(LOOK_INTERVAL_MIN);
            if self.stop.wait(usual.max(began.elapsed() * LOOK_PART)) {
                return;
            }
        }
    }

    /// The films to ingest now. They count as taken.
    fn due(&self, found: Vec<Found>) -> Vec<Found> {
        let now = self.now();
        let mut shared = self.shared();
        let settled = shared.settling.settled(now, &found);
        let mut by_name: HashMap<_, Vec<usize>> = HashMap::new();
        for (index, one) in found.iter().enumerate() {
            by_name.entry(look::stem(&one.path)).or_default().push(index);
        }
        let (mut due, mut refused) = (Vec::new(), Vec::new());
        for index in settled {
            let one = &found[index];
            if shared.taken.contains(&one.file) || shared.ledger.is_done(one) {
                continue;
            }
            let same = by_name.get(&look::stem(&one.path)).map_or(&[][..], Vec::as_slice);
            match shared.other_of_its_name(&found, index, same) {
                Some(other) => refused.push((one.clone(), other)),
                None => due.push(one.clone()),
            }
            shared.taken.insert(one.file.clone());
        }
        drop(shared);
        for (one, other) in refused {
            let reason = format!("{other} would become the same title: rename one of them");
            self.failed(&one, reason, true);
        }
        due
    }

    /// Ingests films from the queue until there are no more senders.
    fn ingest_all<P: FnMut(Progress)>(
        &self,
        queue: &Mutex<Receiver<Found>>,
        progress: &impl Fn(&TitleName) -> P,
    ) {
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(found) = next else { return };
            if self.stop.is_stopped() {
                continue;
            }
            // It may have waited for hours. If it has changed, the next look finds it again.
            let now = self.now();
            let mut shared = self.shared();
            if !shared.settling.is_settled(now, &found) {
                shared.taken.remove(&found.file);
                continue;
            }
            drop(shared);
            // One film must not end the watch for all others.
            let ingest = AssertUnwindSafe(|| self.ingest_one(&found, progress));
            if catch_unwind(ingest).is_err() {
                let reason = "a fault of fullbore: please report it, with this film if you can";
                self.failed(&found, reason.to_owned(), false);
            }
        }
    }

    fn ingest_one<P: FnMut(Progress)>(&self, found: &Found, progress: &impl Fn(&TitleName) -> P) {
        let title = match TitleName::of_file(&found.path) {
            Ok(title) => title,
            Err(error) => return self.failed(found, error.to_string(), false),
        };
        let mut options = self.watch.options.clone();
        options.subtitles.extend(found.subtitles.iter().cloned());
        let folder = folder_for(&title, &self.watch.library, self.watch.into.as_deref());
        let reason = self.shared().ledger.reason_under_others(found);
        let has_title =
            |library: &PathBuf| title.in_folder(library).is_ok_and(|name| name.is_some());
        if let Some(reason) = reason.filter(|_| folder.as_ref().is_ok_and(has_title)) {
            // Someone has made the title by hand, maybe with options that this watch lacks.
            return self.add(found, None, Some(reason), false);
        }
        let ingested = folder.and_then(|library| {
            ingest(&found.path, &library, &title, &options, self.stop, progress(&title))
        });
        match ingested {
            Ok(ingested) => self.made(found, ingested),
            Err(IngestError::Interrupted) => drop(self.shared().taken.remove(&found.file)),
            Err(error @ IngestError::ToolMissing(_)) => {
                self.shared().fatal.get_or_insert(WatchError::Tool(error));
                self.stop.stop();
            }
            // The file was removed or renamed: there is nothing to list.
            Err(_) if !found.path.exists() => drop(self.shared().taken.remove(&found.file)),
            Err(error) => self.failed(found, error.to_string(), may_pass(&error)),
        }
    }

    fn made(&self, found: &Found, mut ingested: Ingested) {
        if ingested.outcome != Outcome::Kept {
            ingested.notes.extend(found.ignored.iter().map(|one| format!("left out: {one}")));
        }
        self.add(found, Some(ingested.record.title.clone()), None, false);
        (self.report)(WatchEvent::Made { file: found.file.clone(), ingested: Box::new(ingested) });
    }

    fn failed(&self, found: &Found, reason: String, will_retry: bool) {
        let is_known = self.shared().ledger.has_reason(found, &reason);
        let again = will_retry.then(|| self.shared().settling.postpone(self.now(), &found.file));
        self.add(found, None, Some(reason.clone()), will_retry);
        if !is_known {
            (self.report)(WatchEvent::Failed { file: found.file.clone(), reason, again });
        }
    }

    fn add(&self, found: &Found, title: Option<String>, reason: Option<String>, will_retry: bool) {
        let unix_seconds = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
        let (file, stamp) = (found.file.clone(), found.stamp.clone());
        let mut shared = self.shared();
        let conditions = None; // the ledger adds them
        let result =
            FilmResult { file, stamp, title, reason, conditions, will_retry, unix_seconds };
        let added = shared.ledger.add(result);
        shared.taken.remove(&found.file);
        drop(shared);
        self.report_problem(added);
    }

    fn report_problem(&self, done: Result<(), WatchError>) {
        if let Err(error) = done {
            (self.report)(WatchEvent::Problem(error.to_string()));
        }
    }
}

/// Whether the film itself is not the reason, so that the same film may become a title later.
fn may_pass(error: &IngestError) -> bool {
    // ffmpeg's words for a disk or a network that fails for a moment; and the kernel's end of a process when memory runs out.
    const OF_MACHINE: [&str; 3] = ["Input/output error", "Stale file handle", "signal: 9"];
    if let IngestError::NotMedia(said) | IngestError::FfmpegFailed { said, .. } = error {
        return OF_MACHINE.iter().any(|one| said.contains(one));
    }
    matches!(
        error,
        IngestError::Busy(_)
            | IngestError::DiskFull { .. }
            | IngestError::Io { .. }
            | IngestError::Elsewhere(_)
            | IngestError::Copy(_)
            | IngestError::Foreign(_)
    )
}
