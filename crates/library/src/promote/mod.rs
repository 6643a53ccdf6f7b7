//! Keeps copies of the busiest titles on a faster disk. The server only reads; this is a program beside it.
//!
//! A copy is made in a hidden folder, with a mark in it, checked against the record's sums, and renamed into place (`copy`). It is taken away by
//! a rename into a hidden folder, and removed a day later (`gone`): responses under way read on, and every other request finds the original.
//! `catalog::copies` describes the folders and how the server uses them. What has no mark, or is not what its mark says, is never touched; nor
//! is a copy whose original cannot be seen (`original`).
//!
//! Only titles with a record, at the top of a folder of the library, can be copied: a name at the top belongs to one folder whole.
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

/// What to promote where.
#[derive(Clone, Debug)]
pub struct Promotion {
    /// The folder for the copies, itself a folder of the library.
    pub to: PathBuf,
    /// The library's other folders.
    pub from: Vec<PathBuf>,
    /// Bytes that copies may take.
    pub bytes_max: u64,
}

/// A title that viewers request, as the server's status tells.
#[derive(Clone, Debug, PartialEq)]
pub struct Busy {
    /// Its path in the library.
    pub title: String,
    /// How much of it was sent on average of the last hour or so.
    pub gbps: f64,
    /// Whether it was requested in the last minutes.
    pub is_watched: bool,
}

/// What a run has done.
#[derive(Debug, PartialEq, Eq)]
pub enum Done {
    /// This title has a copy now.
    Promoted(String),
    /// The copy of this title was taken away, for this reason.
    TakenAway(String, &'static str),
    /// The copy of this title should go, but is being watched.
    Watched(String),
    /// The copy of this title stays, because its original cannot be seen, for this reason.
    Kept(String, String),
    /// This could not be taken away or removed, for this reason.
    Left(PathBuf, String),
    /// This title is not one that can be copied.
    Skipped(String, String),
    /// This title could not be copied this time.
    Failed(String, String),
}

/// What a run knows of the copies and the titles.
#[derive(Default)]
struct Known {
    originals: HashMap<String, Original>,
    /// Exact copies.
    kept: Vec<String>,
    /// Bytes of copies that stay in any case.
    fixed_bytes: u64,
    /// Bytes of copies that were taken away, and are still there.
    gone_bytes: u64,
}

impl Promotion {
    /// Takes away copies that are no longer exact or worth their place, and makes those that are, the busiest first. Tells `tell` of each as it
    /// is done.
    ///
    /// # Errors
    /// If the folder for the copies cannot be used. A title that cannot be copied is told, and the others are copied.
    pub fn run(&self, busy: &[Busy], mut tell: impl FnMut(Done)) -> Result<(), PromoteError> {
        let _lock = self.lock()?;
        let gone_bytes = self.clean(&mut tell)?;
        let mut known = Known { gone_bytes, ..Known::default() };
        self.compare(&mut known, &mut tell)?;
        self.look_up(busy, &mut known, &mut tell);
        // What was taken away keeps its room for a day, but nothing else has to go for that.
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

    /// Compares the copies with their originals. Takes away those that are not exact.
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
                // It is told as a copy that stays.
                Ok(Some(_)) if catalog::is_copy(&self.to, name).is_ok_and(|is_copy| is_copy) => {}
                Ok(Some(_)) => {
                    let to = self.to.display();
                    let why = format!("{to} has a title of that name, which is no copy");
                    tell(Done::Skipped(name.clone(), why));
                }
                Ok(None) => {}
                Err(why) => tell(Done::Skipped(name.clone(), why)),
            }
        }
    }

    /// Copies a title, and tells whether that was done.
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

    /// Takes a copy away, and tells whether that was done.
    fn end(&self, name: &str, why: &'static str, tell: &mut impl FnMut(Done)) -> bool {
        let taken = self.take_away(name);
        let is_taken = taken.is_ok();
        tell(match taken {
            Ok(()) => Done::TakenAway(name.to_owned(), why),
            Err(error) => Done::Left(self.to.join(name), error.to_string()),
        });
        is_taken
    }

    /// Notes where the original is now: a disk's number may change when the machine is started anew.
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

    /// Makes the hidden folders, and keeps other processes from promoting to the same folder.
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

    /// The copies, each with its mark. What has a mark and is another title is told.
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

    /// The titles that should have a copy, the busiest first.
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
