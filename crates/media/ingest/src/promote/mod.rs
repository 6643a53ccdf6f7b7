//! Keeps copies of the busiest titles on a faster disk. The server only reads; this is a separate program.
//!
//! A copy is made in a hidden folder, with a mark in it, verified by the record's checksums, and renamed into place (`copy`). It is removed
//! by a rename into a hidden folder, and deleted a day later (`gone`): responses in progress continue to read it, and all other requests
//! find the original. `catalog::copies` describes the folders and how the server uses them. Folders without a mark, or with contents that
//! differ from their mark, are never touched; nor is a copy whose original cannot be seen (`original`).
//!
//! Only titles with a record, at the top of a folder of the library, can be copied: all titles below one top-level name are in the same
//! folder.
//!
//! Read first: [`Promotion::run`].

mod choose;
mod copy;
mod error;
mod gone;
mod original;

pub use error::PromoteError;

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::path::PathBuf;

use catalog::{MARK, Mark, Promoted};
use choose::{Candidate, choose};
use error::Attempt;
use gone::recorded_bytes;
use original::{Fate, Original};
use rustix::fs::{FlockOperation, flock};

/// The folders and the limit of a promotion.
#[derive(Clone, Debug)]
pub struct Promotion {
    /// The folder for the copies, itself a folder of the library.
    pub to: PathBuf,
    /// The library's other folders.
    pub from: Vec<PathBuf>,
    /// The most bytes that copies may take.
    pub bytes_max: u64,
}

/// A title that viewers request, from the server's status.
#[derive(Clone, Debug, PartialEq)]
pub struct Busy {
    /// Its path in the library.
    pub title: String,
    /// Its average rate over the last hour or so.
    pub gbps: f64,
    /// Whether it was requested in the last minutes.
    pub is_watched: bool,
}

/// An action of a run.
#[derive(Debug, PartialEq, Eq)]
pub enum Done {
    /// This title has a copy now.
    Promoted(String),
    /// The copy of this title was removed, for this reason.
    TakenAway(String, &'static str),
    /// The copy of this title should go, but is being watched.
    Watched(String),
    /// The copy of this title stays, because its original cannot be seen, for this reason.
    Kept(String, String),
    /// This could not be removed or deleted, for this reason.
    Left(PathBuf, String),
    /// This title cannot be copied.
    Skipped(String, String),
    /// This title could not be copied this time.
    Failed(String, String),
}

/// The state of the copies and the titles at the start of a run.
#[derive(Default)]
struct Known {
    originals: HashMap<String, Original>,
    /// Exact copies.
    kept: Vec<String>,
    /// Bytes of copies that stay in any case.
    fixed_bytes: u64,
    /// Bytes of removed copies that are still on disk.
    gone_bytes: u64,
}

impl Promotion {
    /// Removes copies that are no longer exact or worth their place, and makes new ones, busiest titles first. Reports each action to
    /// `tell`.
    ///
    /// # Errors
    /// If the folder for the copies cannot be used. A title that cannot be copied is reported, and the others are copied.
    pub fn run(&self, busy: &[Busy], mut tell: impl FnMut(Done)) -> Result<(), PromoteError> {
        let _lock = self.lock()?;
        let gone_bytes = self.clean(&mut tell)?;
        let mut known = Known { gone_bytes, ..Known::default() };
        self.compare(&mut known, &mut tell)?;
        self.look_up(busy, &mut known, &mut tell);
        // Removed copies keep their space for a day, but no others have to go because of that.
        let wanted = self.wanted(busy, &known);
        let mut used = known.gone_bytes + known.fixed_bytes;
        for name in &known.kept {
            used += known.originals[name].record.bytes();
            if wanted.iter().any(|one| one.title == *name) {
                continue;
            }
            if busy.iter().any(|one| one.title == *name && one.is_watched) {
                tell(Done::Watched(name.clone()));
            } else {
                self.end(name, "less busy than others", &mut tell);
            }
        }
        for one in wanted.iter().filter(|one| !one.is_copied) {
            if used.saturating_add(one.bytes) > self.bytes_max {
                continue;
            }
            if self.promote(&known.originals[&one.title], &mut tell) {
                used += one.bytes;
            }
        }
        Ok(())
    }

    /// Compares the copies with their originals. Removes those that are not exact.
    fn compare(&self, known: &mut Known, tell: &mut impl FnMut(Done)) -> Result<(), PromoteError> {
        for (name, mark) in self.copies(tell)? {
            match Fate::of(&self.from, &name, &mark) {
                Fate::Kept(original) => {
                    self.renew_mark(&original, &mark, tell);
                    known.originals.insert(name.clone(), original);
                    known.kept.push(name);
                }
                Fate::TakenAway(original) => {
                    known.gone_bytes += recorded_bytes(&self.to.join(&name));
                    let why = if original.is_some() { "replaced" } else { "removed" };
                    if self.end(&name, why, tell) {
                        known.originals.extend(original.map(|original| (name, original)));
                    }
                }
                Fate::Unknown(why) => {
                    known.fixed_bytes += recorded_bytes(&self.to.join(&name));
                    tell(Done::Kept(name, why));
                }
            }
        }
        Ok(())
    }

    /// Looks up the busy titles that have no copy.
    fn look_up(&self, busy: &[Busy], known: &mut Known, tell: &mut impl FnMut(Done)) {
        for name in busy.iter().map(|one| &one.title) {
            let is_free = || fs::symlink_metadata(self.to.join(name)).is_err();
            match Original::find(&self.from, name) {
                _ if known.originals.contains_key(name) => {}
                Ok(Some(original)) if is_free() => {
                    known.originals.insert(name.clone(), original);
                }
                // It has been reported as a copy that stays.
                Ok(Some(_)) if catalog::is_copy(&self.to, name).is_ok_and(|is_copy| is_copy) => {}
                Ok(Some(_)) => {
                    let to = self.to.display();
                    let why = format!("{to} has a title of that name, which is not a copy");
                    tell(Done::Skipped(name.clone(), why));
                }
                Ok(None) => {}
                Err(why) => tell(Done::Skipped(name.clone(), why)),
            }
        }
    }

    /// Copies a title, and reports the result.
    fn promote(&self, original: &Original, tell: &mut impl FnMut(Done)) -> bool {
        let name = original.title.as_str();
        match copy::copy(original, &self.to) {
            Ok(()) => {
                tell(Done::Promoted(name.to_owned()));
                true
            }
            Err(why) => {
                tell(Done::Failed(name.to_owned(), why.to_string()));
                if let Err(why) = self.remove_work(name) {
                    tell(Done::Left(Promoted::Work.of(&self.to).join(name), why.to_string()));
                }
                false
            }
        }
    }

    /// Removes a copy, and reports the result.
    fn end(&self, name: &str, why: &'static str, tell: &mut impl FnMut(Done)) -> bool {
        let taken = self.take_away(name);
        let is_taken = taken.is_ok();
        tell(match taken {
            Ok(()) => Done::TakenAway(name.to_owned(), why),
            Err(error) => Done::Left(self.to.join(name), error.to_string()),
        });
        is_taken
    }

    /// Updates the location of the original: a disk's number may change when the machine restarts.
    fn renew_mark(&self, original: &Original, mark: &Mark, tell: &mut impl FnMut(Done)) {
        if original.mark().is_ok_and(|now| now == *mark) {
            return;
        }
        let name = original.title.as_str();
        let (written, place) =
            (Promoted::Work.of(&self.to).join(name), self.to.join(name).join(MARK));
        let written = copy::write_mark(original, &written)
            .and_then(|()| fs::rename(&written, &place).attempt("mark the copy with", &place));
        if let Err(why) = written {
            tell(Done::Left(place, why.to_string()));
        }
    }

    /// Creates the hidden folders, and locks out other processes that promote to the same folder.
    fn lock(&self) -> Result<File, PromoteError> {
        for folder in [Promoted::Work, Promoted::Gone] {
            let folder = folder.of(&self.to);
            fs::create_dir_all(&folder).attempt("make the folder", &folder)?;
        }
        let folder = Promoted::all(&self.to);
        let lock = File::open(&folder).attempt("open the folder", &folder)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => Err(PromoteError::Busy(self.to.clone())),
            locked => locked.map(|()| lock).map_err(Into::into).attempt("lock", &folder),
        }
    }

    /// The copies, each with its mark. A folder that has a mark but is another title is reported.
    fn copies(&self, tell: &mut impl FnMut(Done)) -> Result<BTreeMap<String, Mark>, PromoteError> {
        let open = File::open(&self.to).attempt("open the folder", &self.to)?;
        let names = catalog::names(&open).attempt("list", &self.to)?;
        let mut copies = BTreeMap::new();
        for name in catalog::copies(&open, &names, |_| false) {
            let Ok(name) = String::from_utf8(name.to_vec()) else { continue };
            let place = self.to.join(&name);
            match Mark::of(&place) {
                Ok(Some(mark)) => drop(copies.insert(name, mark)),
                Ok(None) => {
                    let why = PromoteError::NoCopy(place.clone()).to_string();
                    tell(Done::Left(place, why));
                }
                Err(error) => tell(Done::Left(place, format!("cannot read it: {error}"))),
            }
        }
        Ok(copies)
    }

    /// The titles that should have a copy, busiest first.
    fn wanted(&self, busy: &[Busy], known: &Known) -> Vec<Candidate> {
        let gbps =
            |name: &str| busy.iter().find(|one| one.title == name).map_or(0.0, |one| one.gbps);
        let candidate = |name: &String| Candidate {
            title: name.clone(),
            bytes: known.originals[name].record.bytes(),
            gbps: gbps(name),
            is_copied: known.kept.contains(name),
        };
        let requested =
            busy.iter().map(|one| &one.title).filter(|name| known.originals.contains_key(*name));
        let candidates = known.kept.iter().chain(requested).map(candidate);
        choose(candidates.collect(), self.bytes_max.saturating_sub(known.fixed_bytes))
    }
}
