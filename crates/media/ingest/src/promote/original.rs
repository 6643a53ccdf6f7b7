//! Finds the original of a copy.
//!
//! A disk that is dead, damaged or not mounted looks much like one whose titles were removed, and then the copies are all that is left. So
//! a title counts as removed or replaced only if that is certain.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use catalog::{Mark, Record, RecordError, TitlePath};

/// A title that has a copy or could have one.
pub(super) struct Original {
    pub(super) library: PathBuf,
    pub(super) title: TitlePath,
    pub(super) record: Record,
}

impl Original {
    /// Finds the title with this name, in the first of `folders` that has it, or returns why it cannot be copied.
    pub(super) fn find(folders: &[PathBuf], name: &str) -> Result<Option<Self>, String> {
        if name.contains('/') {
            return Err("only a title at the top of a folder of the library can be copied".into());
        }
        let title = TitlePath::new(name).map_err(|error| error.to_string())?;
        let Some(library) = holder(folders, name)? else { return Ok(None) };
        let record = Record::read(&title.folder(library)).map_err(|why| match why {
            RecordError::Io(error) if is_none(&error) => {
                "only a title made by ingest can be copied, because it has checksums".into()
            }
            RecordError::Io(error) => format!("cannot read its title.json: {error}"),
            why @ RecordError::Broken(_) => format!("its title.json is damaged: {why}"),
        })?;
        Ok(Some(Self { library: library.to_owned(), title, record }))
    }

    /// The title's folder.
    pub(super) fn folder(&self) -> PathBuf {
        self.title.folder(&self.library)
    }

    /// The mark of a copy of it.
    pub(super) fn mark(&self) -> io::Result<Mark> {
        let from = self.library.canonicalize()?;
        let device = fs::metadata(&from)?.dev();
        Ok(Mark { from, device, edition: self.record.edition() })
    }
}

/// The first of `folders` that has the name, if all before it can be read.
fn holder<'f>(folders: &'f [PathBuf], name: &str) -> Result<Option<&'f Path>, String> {
    for folder in folders {
        match fs::symlink_metadata(folder.join(name)) {
            Ok(_) => return Ok(Some(folder)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(format!("cannot look into {}: {error}", folder.display())),
        }
    }
    Ok(None)
}

fn is_none(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// The fate of a copy.
pub(super) enum Fate {
    /// It is exact.
    Kept(Original),
    /// Its title now has another version, or is gone.
    TakenAway(Option<Original>),
    /// Its title cannot be seen, for this reason, so the copy stays.
    Unknown(String),
}

impl Fate {
    /// Decides the fate of the copy of `name` with this mark.
    pub(super) fn of(folders: &[PathBuf], name: &str, mark: &Mark) -> Self {
        let found = match Original::find(folders, name) {
            Err(why) => return Self::Unknown(why),
            Ok(Some(original)) if original.record.edition() == mark.edition => {
                return Self::Kept(original);
            }
            Ok(found) => found,
        };
        // Its disk may have another device number since the machine restarted. A new version in its place is evidence enough.
        let is_in_place =
            |found: &Original| found.library.canonicalize().is_ok_and(|path| path == mark.from);
        if found.as_ref().is_some_and(is_in_place) {
            return Self::TakenAway(found);
        }
        match see_source(folders, mark) {
            Ok(()) => Self::TakenAway(found),
            Err(why) => Self::Unknown(why),
        }
    }
}

/// Checks that all folders can be read, and that the folder of the original is still on the same disk, and not empty.
fn see_source(folders: &[PathBuf], mark: &Mark) -> Result<(), String> {
    let mut is_seen = false;
    for folder in folders {
        let look = || -> io::Result<bool> {
            let names = catalog::names(File::open(folder)?)?;
            let is_source = folder.canonicalize()? == mark.from;
            let is_same_disk = fs::metadata(folder)?.dev() == mark.device;
            Ok(is_source && is_same_disk && !names.is_empty())
        };
        let here = look().map_err(|error| format!("cannot list {}: {error}", folder.display()))?;
        is_seen |= here;
    }
    let from = mark.from.display();
    is_seen.then_some(()).ok_or(format!(
        "{from} is empty, on another disk than when the copy was made, or not named with --library"
    ))
}
