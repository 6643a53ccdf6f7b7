//! Copies one title, so that an interruption at any point leaves either a whole copy or none.

use std::fs::{self, File, FileTimes};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use catalog::{MARK, Promoted, RECORD, Record};
use rustix::fs::{
    Advice, CWD, Mode, OFlags, RenameFlags, ResolveFlags, open, openat2, renameat_with,
};

use super::error::{Attempt, PromoteError};
use super::original::Original;

/// Copies a title to the top of the folder `to`, where its name is still free. The copy is verified by the record's checksums before it
/// appears, with its mark in it. Its files keep the modification times of the originals.
pub(super) fn copy(original: &Original, to: &Path) -> Result<(), PromoteError> {
    let (from, name) = (original.folder(), original.title.as_str());
    let work = Promoted::Work.of(to);
    let made = work.join(name);
    let record = &original.record;
    let source = Source::open(&from)?;
    for file in &record.files {
        source.copy(&file.path, Some(file.bytes), &made)?;
    }
    for form in &record.manifest_forms {
        // Titles that a fleet's nodes have copied lack them.
        if source.has(&form.path) {
            source.copy(&form.path, Some(form.bytes), &made)?;
        }
    }
    source.copy(RECORD, None, &made)?;
    write_mark(original, &made.join(MARK))?;
    for folder in [record.folder.as_str(), ""] {
        keep_mode(&from.join(folder), &made.join(folder))?;
        sync(&made.join(folder))?;
    }
    let changed = || PromoteError::Changed(from.clone());
    let copied = catalog::find(&work, &original.title).map_err(|unread| unread.why);
    let copied = copied.attempt("look into", &made)?.ok_or_else(changed)?;
    if let Some(fault) = catalog::verify(&copied).first() {
        return Err(PromoteError::Damaged(from, fault.to_string()));
    }
    // The title may have been replaced during the copy.
    let edition = Some(record.edition());
    let is_same = |folder: &Path| Record::read(folder).ok().map(|one| one.edition()) == edition;
    if !is_same(&made) || !is_same(&from) {
        return Err(changed());
    }
    let place = to.join(name);
    renameat_with(CWD, &made, CWD, &place, RenameFlags::NOREPLACE)
        .map_err(io::Error::from)
        .attempt("put in place", &place)?;
    sync(to)
}

/// Writes the mark of a copy of `original` to the new file `to`.
pub(super) fn write_mark(original: &Original, to: &Path) -> Result<(), PromoteError> {
    let write = || -> io::Result<()> {
        let text = original.mark()?.text()?;
        let mut file = File::create_new(to)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().attempt("mark the copy with", to)
}

/// The folder of a title. Its paths come from an untrusted record, and files may change while they are copied. So nothing outside the
/// folder is opened, and no link is followed.
struct Source {
    path: PathBuf,
    folder: OwnedFd,
}

impl Source {
    fn open(path: &Path) -> Result<Self, PromoteError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = open(path, flags, Mode::empty()).map_err(io::Error::from);
        Ok(Self { path: path.to_owned(), folder: folder.attempt("open the folder", path)? })
    }

    fn open_file(&self, path: &str) -> io::Result<File> {
        // Opening a pipe must not block.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let file = File::from(openat2(&self.folder, path, flags, Mode::empty(), resolve)?);
        let is_file = file.metadata()?.is_file();
        let no_file = || io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
        is_file.then_some(file).ok_or_else(no_file)
    }

    /// Returns false if there is no file at `path`.
    fn has(&self, path: &str) -> bool {
        !matches!(self.open_file(path), Err(error) if error.kind() == io::ErrorKind::NotFound)
    }

    /// Copies the file at `path`, which should have `bytes` bytes, to the same path in the folder `made`.
    fn copy(&self, path: &str, bytes: Option<u64>, made: &Path) -> Result<(), PromoteError> {
        let (from, to) = (self.path.join(path), made.join(path));
        let folder = to.parent().unwrap_or(made);
        fs::create_dir_all(folder).attempt("make the folder", folder)?;
        let source = self.open_file(path).attempt("read", &from)?;
        let metadata = source.metadata().attempt("look at", &from)?;
        let length = metadata.len();
        if let Some(bytes) = bytes.filter(|bytes| *bytes != length) {
            let why = format!("{path} has {length} bytes instead of {bytes}");
            return Err(PromoteError::Damaged(self.path.clone(), why));
        }
        let write = || -> io::Result<()> {
            let mut target = File::create_new(&to)?;
            // No more than that, even if it grows meanwhile.
            io::copy(&mut source.take(length), &mut target)?;
            // Clients may send conditional requests with the date.
            target.set_times(FileTimes::new().set_modified(metadata.modified()?))?;
            // The copy has the original's read permissions, and only its owner may write.
            let mode = metadata.permissions().mode() & 0o444 | 0o200;
            target.set_permissions(fs::Permissions::from_mode(mode))?;
            target.sync_all()?;
            // So that the verification reads from the disk.
            rustix::fs::fadvise(&target, 0, None, Advice::DontNeed).map_err(io::Error::from)
        };
        write().attempt("copy to", &to)
    }
}

/// Sets a folder's permissions to the original's. We must be able to rename and remove it.
fn keep_mode(from: &Path, to: &Path) -> Result<(), PromoteError> {
    let mode = fs::metadata(from).attempt("look at", from)?.permissions().mode();
    let mode = fs::Permissions::from_mode(mode & 0o555 | 0o700);
    fs::set_permissions(to, mode).attempt("set the permissions of", to)
}

pub(super) fn sync(folder: &Path) -> Result<(), PromoteError> {
    File::open(folder).and_then(|folder| folder.sync_all()).attempt("write to the disk", folder)
}
