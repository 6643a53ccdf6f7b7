//! Copies one title, so that an interruption at any point leaves either a whole copy or none.

use std::fs::{self, File, FileTimes};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use catalog::{Promoted, RECORD, Record, TitlePath};
use rustix::fs::{Advice, CWD, RenameFlags, renameat_with};

use super::error::{Attempt, PromoteError};

/// Copies the title from the folder `library` to the top of the folder `to`, where nothing of that name is. The copy is checked against the
/// record's sums before it appears. Its files have the modification times of the originals.
pub(super) fn copy(library: &Path, title: &TitlePath, to: &Path) -> Result<(), PromoteError> {
    let (from, name) = (title.folder(library), title.as_str());
    let work = Promoted::Work.of(to);
    let made = work.join(name);
    let record = read(&from)?;
    for file in record.files.iter().map(|file| file.path.as_str()).chain([RECORD]) {
        copy_file(&from.join(file), &made.join(file))?;
    }
    for folder in [record.folder.as_str(), ""] {
        keep_mode(&from.join(folder), &made.join(folder))?;
        sync(&made.join(folder))?;
    }
    let copied = catalog::find(&work, title).map(|entry| catalog::verify(&entry));
    match copied.as_deref() {
        Some([]) => {}
        Some([fault, ..]) => return Err(PromoteError::Damaged(from, fault.to_string())),
        None => return Err(PromoteError::Changed(from)),
    }
    // The title may have been replaced while it was copied.
    if catalog::edition(&from) != Some(record.edition()) {
        return Err(PromoteError::Changed(from));
    }
    let mark = Promoted::Copies.of(to).join(name);
    File::create(&mark).and_then(|mark| mark.sync_all()).attempt("mark", &mark)?;
    sync(&Promoted::Copies.of(to))?;
    let place = to.join(name);
    renameat_with(CWD, &made, CWD, &place, RenameFlags::NOREPLACE)
        .map_err(io::Error::from)
        .attempt("put in place", &place)?;
    sync(to)
}

fn read(folder: &Path) -> Result<Record, PromoteError> {
    Record::read(folder).map_err(|why| PromoteError::Damaged(folder.to_owned(), why.to_string()))
}

fn copy_file(from: &Path, to: &Path) -> Result<(), PromoteError> {
    // Paths in a record have at most one folder, but a folder may be missing in any case.
    let folder = to.parent().unwrap_or(to);
    fs::create_dir_all(folder).attempt("make the folder", folder)?;
    let mut source = File::open(from).attempt("read", from)?;
    let metadata = source.metadata().attempt("look at", from)?;
    let mut write = || -> io::Result<()> {
        let mut target = File::create(to)?;
        io::copy(&mut source, &mut target)?;
        // Viewers' programs may ask by the date.
        target.set_times(FileTimes::new().set_modified(metadata.modified()?))?;
        // Whoever may read the original may read the copy; nobody writes to it.
        target.set_permissions(fs::Permissions::from_mode(
            metadata.permissions().mode() & 0o444 | 0o200,
        ))?;
        target.sync_all()?;
        // So that checking it reads the disk.
        rustix::fs::fadvise(&target, 0, None, Advice::DontNeed).map_err(io::Error::from)
    };
    write().attempt("copy to", to)
}

/// Lets everybody enter a folder who may enter the original's.
fn keep_mode(from: &Path, to: &Path) -> Result<(), PromoteError> {
    let mode = fs::metadata(from).attempt("look at", from)?.permissions();
    fs::set_permissions(to, mode).attempt("set the permissions of", to)
}

pub(super) fn sync(folder: &Path) -> Result<(), PromoteError> {
    File::open(folder).and_then(|folder| folder.sync_all()).attempt("write to the disk", folder)
}
