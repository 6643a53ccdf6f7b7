//! Keeps copies of the busiest titles on a faster disk. The server only reads; this is a program beside it.
//!
//! A copy is made in a hidden folder, checked against the record's sums, marked as a copy, and renamed into place (`copy`). It is taken away by
//! a rename into a hidden folder, and removed by a later run: viewers who have its files open read on, and every other request finds the
//! original. `catalog::copies` describes the folders and how the server uses them.
//!
//! Only titles with a record, at the top of a folder of the library, can be copied: a name at the top belongs to one folder whole.
//!
//! Read first: [`Promotion::run`].

mod choose;
mod copy;
mod error;

pub use error::PromoteError;

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use catalog::{Promoted, Record, TitlePath};
use choose::{Candidate, choose};
use error::Attempt;
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
    /// This title is not one that can be copied.
    Skipped(String, String),
    /// This title could not be copied this time.
    Failed(String, String),
}

/// A title that has a copy or could have one.
struct Original {
    library: PathBuf,
    title: TitlePath,
    record: Record,
}

impl Promotion {
    /// Takes away copies that are no longer exact or worth their place, and makes those that are, the busiest first. Tells `tell` of each as it
    /// is done.
    ///
    /// # Errors
    /// If the folder for the copies cannot be used. A title that cannot be copied is told, and the others are copied.
    pub fn run(&self, busy: &[Busy], mut tell: impl FnMut(Done)) -> Result<(), PromoteError> {
        let _lock = self.lock()?;
        let is_watched = |title: &str| busy.iter().any(|one| one.title == title && one.is_watched);
        let gone_bytes = self.clean(&is_watched)?;
        let copies = self.copies()?;
        // What cannot be seen is not gone: its disk may have died, and then the copies are all there is.
        let sees_all = self.from.iter().all(|folder| fs::read_dir(folder).is_ok());
        let mut originals = HashMap::new();
        let names: BTreeSet<_> = busy.iter().map(|one| &one.title).chain(&copies).collect();
        for name in names {
            match self.original(name) {
                Ok(Some(original)) => drop(originals.insert(name.clone(), original)),
                Ok(None) => {}
                Err(why) => tell(Done::Skipped(name.clone(), why)),
            }
        }
        let exact = |name: &String| {
            let original = originals.get(name).map(|original| original.record.edition());
            original.map_or(!sees_all, |original| {
                catalog::edition(&self.to.join(name)) == Some(original)
            })
        };
        let (kept, inexact): (Vec<_>, Vec<_>) = copies.iter().cloned().partition(exact);
        // What is taken away is free after the next run.
        let mut used = gone_bytes;
        for name in inexact {
            used += recorded_bytes(&self.to.join(&name));
            self.take_away(&name)?;
            let why = if originals.contains_key(&name) { "replaced" } else { "removed" };
            tell(Done::TakenAway(name, why));
        }
        let wanted = self.wanted(busy, &originals, &kept, used);
        for name in &kept {
            used += self.bytes_of(&originals, name);
            if wanted.iter().any(|one| one.title == *name) {
                continue;
            }
            if is_watched(name) {
                tell(Done::Watched(name.clone()));
            } else {
                self.take_away(name)?;
                tell(Done::TakenAway(name.clone(), "less busy than others"));
            }
        }
        for one in wanted.iter().filter(|one| !one.is_copied) {
            if used + one.bytes > self.bytes_max {
                continue;
            }
            let original = &originals[&one.title];
            match copy::copy(&original.library, &original.title, &self.to) {
                Ok(()) => {
                    used += one.bytes;
                    tell(Done::Promoted(one.title.clone()));
                }
                Err(why) => {
                    self.remove_work(&one.title)?;
                    tell(Done::Failed(one.title.clone(), why.to_string()));
                }
            }
        }
        Ok(())
    }

    /// Makes the hidden folders, and keeps other processes from promoting to the same folder.
    fn lock(&self) -> Result<File, PromoteError> {
        for folder in [Promoted::Copies, Promoted::Work, Promoted::Gone] {
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

    /// Removes what earlier runs have left: unfinished copies, marks without a copy, and copies that were taken away and are not watched any
    /// more. Returns the bytes of those that are.
    fn clean(&self, is_watched: &impl Fn(&str) -> bool) -> Result<u64, PromoteError> {
        for name in names(&Promoted::Work.of(&self.to))? {
            self.remove_work(&name)?;
        }
        let marks = Promoted::Copies.of(&self.to);
        for name in names(&marks)?.iter().filter(|name| !self.to.join(name).exists()) {
            fs::remove_file(marks.join(name)).attempt("remove", &marks.join(name))?;
        }
        let (gone, mut bytes) = (Promoted::Gone.of(&self.to), 0);
        for name in names(&gone)? {
            let folder = gone.join(&name);
            match name.split_once('-') {
                Some((_, title)) if is_watched(title) => bytes += recorded_bytes(&folder),
                _ => fs::remove_dir_all(&folder).attempt("remove", &folder)?,
            }
        }
        Ok(bytes)
    }

    fn remove_work(&self, name: &str) -> Result<(), PromoteError> {
        let folder = Promoted::Work.of(&self.to).join(name);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            removed => removed.attempt("remove", &folder),
        }
    }

    /// The titles that have a copy.
    fn copies(&self) -> Result<Vec<String>, PromoteError> {
        names(&Promoted::Copies.of(&self.to))
    }

    /// The title with this name, in the first folder that has it; or why it cannot be copied.
    fn original(&self, name: &str) -> Result<Option<Original>, String> {
        if name.contains('/') {
            return Err("only a title at the top of a folder of the library can be copied".into());
        }
        let title = TitlePath::new(name).map_err(|error| error.to_string())?;
        let Some(library) = self.from.iter().find(|folder| folder.join(name).exists()) else {
            return Ok(None);
        };
        if self.to.join(name).exists() && !catalog::is_copy(&self.to, name) {
            return Err(format!(
                "{} has a title of that name, which is no copy",
                self.to.display()
            ));
        }
        let Some(entry) = catalog::find(library, &title) else {
            return Err("only a title that ingest made can be copied: it has sums to check".into());
        };
        let record = entry.record.map_err(|why| format!("its title.json is damaged: {why}"))?;
        Ok(Some(Original { library: library.clone(), title, record }))
    }

    /// The titles that should have a copy, the busiest first.
    fn wanted(
        &self,
        busy: &[Busy],
        originals: &HashMap<String, Original>,
        kept: &[String],
        taken_bytes: u64,
    ) -> Vec<Candidate> {
        let gbps =
            |name: &str| busy.iter().find(|one| one.title == name).map_or(0.0, |one| one.gbps);
        let candidate = |name: &String| Candidate {
            title: name.clone(),
            bytes: self.bytes_of(originals, name),
            gbps: gbps(name),
            is_copied: kept.contains(name),
        };
        let requested =
            busy.iter().map(|one| &one.title).filter(|name| originals.contains_key(*name));
        let candidates = kept.iter().chain(requested).map(candidate);
        choose(candidates.collect(), self.bytes_max.saturating_sub(taken_bytes))
    }

    /// Bytes of a title, which is the same for original and copy.
    fn bytes_of(&self, originals: &HashMap<String, Original>, name: &str) -> u64 {
        match originals.get(name) {
            Some(original) => bytes(&original.record),
            None => recorded_bytes(&self.to.join(name)),
        }
    }

    /// Takes a copy out of the library.
    fn take_away(&self, name: &str) -> Result<(), PromoteError> {
        let (place, gone) = (self.to.join(name), Promoted::Gone.of(&self.to));
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let target = gone.join(format!("{}-{name}", since_1970.as_nanos()));
        fs::rename(&place, &target).attempt("take away", &place)?;
        let mark = Promoted::Copies.of(&self.to).join(name);
        fs::remove_file(&mark).attempt("remove", &mark)?;
        copy::sync(&self.to)
    }
}

fn bytes(record: &Record) -> u64 {
    record.files.iter().map(|file| file.bytes).sum()
}

/// Bytes of the title in a folder, by its record.
fn recorded_bytes(folder: &Path) -> u64 {
    Record::read(folder).map_or(0, |record| bytes(&record))
}

/// The names in a folder, but for hidden ones and those that no title can have.
fn names(folder: &Path) -> Result<Vec<String>, PromoteError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).attempt("list", folder)? {
        let name = entry.attempt("list", folder)?.file_name();
        names.extend(name.into_string().ok().filter(|name| !name.starts_with('.')));
    }
    names.sort();
    Ok(names)
}
