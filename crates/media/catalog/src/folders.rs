//! The folders of a library, and which of them holds which name.
//!
//! A library is one folder, or several: one for each disk. Each name at the top of a folder (a title's folder, a film) belongs to one
//! folder entirely, so a title is never assembled from files of two. If several folders have a name, the first in the configured order
//! holds it, and the others' are hidden. While a server runs, a holder stays the holder as long as it has the name, so no viewer changes
//! from one copy to the other in the middle of a film.
//!
//! A copy on a faster disk ([`crate::copies()`]) is different: it has the same bytes. So it holds its name as long as it is an exact copy
//! of the title that would hold it otherwise, and its folder does not fail. Files that it lacks are served from the original.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, statat};
use rustix::io::Errno;

/// The most folders of a library. Servers have up to a hundred disks.
pub const FOLDERS_MAX: usize = 256;

/// The most names at the top of a folder: with these a server keeps some 30 MB for the folder.
pub const NAMES_MAX: usize = 250_000;

/// Every ext4 filesystem has this folder, and only root can enter it. It is not a title.
pub(crate) const LOST_AND_FOUND: &[u8] = b"lost+found";

/// Why a list of folders is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FoldersError {
    /// It has this many folders, which is too many.
    #[error("the library has {0} folders; it may have 1 to {FOLDERS_MAX}")]
    TooMany(usize),
    /// Two of them are the same folder.
    #[error(fmt = write_twice)]
    Twice(PathBuf, PathBuf),
    /// The first is inside the second.
    #[error(
        "the library's folder {0} is inside its folder {1}, so its titles would be served twice: name only one of them"
    )]
    Inside(PathBuf, PathBuf),
}

fn write_twice(one: &Path, other: &Path, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let is_same_path = one == other;
    let (one, other) = (one.display(), other.display());
    if is_same_path {
        write!(f, "the library has the folder {one} twice: name it once")
    } else {
        write!(f, "the library's folders {one} and {other} are the same folder: name it once")
    }
}

/// Checks that all `folders` are different, and that none lies in another. A missing folder is compared by its name.
///
/// # Errors
/// [`FoldersError`].
pub fn check_folders(folders: &[PathBuf]) -> Result<(), FoldersError> {
    if folders.len() > FOLDERS_MAX {
        return Err(FoldersError::TooMany(folders.len()));
    }
    let known: Vec<_> =
        folders.iter().map(|folder| (folder, real(folder), inode(folder))).collect();
    for (index, (folder, path, inode)) in known.iter().enumerate() {
        for (earlier, earlier_path, earlier_inode) in &known[..index] {
            let is_same = path == earlier_path || inode.is_some() && inode == earlier_inode;
            if is_same {
                return Err(FoldersError::Twice(earlier.into(), folder.into()));
            }
            if path.starts_with(earlier_path) {
                return Err(FoldersError::Inside(folder.into(), earlier.into()));
            }
            if earlier_path.starts_with(path) {
                return Err(FoldersError::Inside(earlier.into(), folder.into()));
            }
        }
    }
    Ok(())
}

fn real(folder: &Path) -> PathBuf {
    let written = || std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    folder.canonicalize().unwrap_or_else(|_| written())
}

/// Bind mounts give one folder two paths.
fn inode(folder: &Path) -> Option<(u64, u64)> {
    fs::metadata(folder).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Collects the results of `list` for each of `folders`, each with its folder, without those that another folder holds according to
/// `is_held`. Folders that cannot be listed are passed to `cannot_list`.
pub fn list_held<'a, T>(
    folders: impl Iterator<Item = (u16, &'a Path)>,
    mut list: impl FnMut(&Path) -> io::Result<Vec<T>>,
    is_held: impl Fn(u16, &T) -> bool,
    mut cannot_list: impl FnMut(&Path, io::Error),
) -> Vec<(PathBuf, T)> {
    let mut all = Vec::new();
    for (index, path) in folders {
        match list(path) {
            Ok(found) => {
                let held = found.into_iter().filter(|one| is_held(index, one));
                all.extend(held.map(|one| (path.to_owned(), one)));
            }
            Err(error) => cannot_list(path, error),
        }
    }
    all
}

/// Groups those of `folders` that share a filesystem.
pub fn on_one_disk(folders: &[PathBuf]) -> Vec<Vec<&Path>> {
    let mut disks: Vec<(u64, Vec<&Path>)> = Vec::new();
    for folder in folders {
        let Some((device, _)) = inode(folder) else { continue };
        match disks.iter_mut().find(|(known, _)| *known == device) {
            Some((_, sharing)) => sharing.push(folder),
            None => disks.push((device, vec![folder])),
        }
    }
    disks.into_iter().map(|(_, sharing)| sharing).filter(|sharing| sharing.len() > 1).collect()
}

/// The names at the top of an open folder that a request can address, [`NAMES_MAX`] at most.
///
/// # Errors
/// If the folder cannot be read.
pub fn names(folder: impl AsFd) -> io::Result<Vec<Arc<[u8]>>> {
    let mut names = Vec::new();
    for entry in entries(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if is_served(name) {
            names.push(name.into());
        }
        if names.len() == NAMES_MAX {
            break;
        }
    }
    Ok(names)
}

/// Checks that the filesystem can still list an open folder: reads one entry.
///
/// # Errors
/// If the folder cannot be read.
pub fn still_lists(folder: impl AsFd) -> io::Result<()> {
    Ok(entries(folder)?.next().transpose().map(drop)?)
}

/// Whether `name` is no longer in an open folder. An inconclusive error counts as `false`: the name may well be there.
pub fn is_gone(folder: impl AsFd, name: &[u8]) -> bool {
    statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_err_and(|error| error == Errno::NOENT)
}

fn entries(folder: impl AsFd) -> io::Result<Dir> {
    // The folder may have been opened with O_PATH, and cannot be read then.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(Dir::new(rustix::fs::openat(folder, ".", flags, Mode::empty())?)?)
}

/// Names that begin with a dot are not served, except one (RFC 8615), and `-` is reserved for the server.
fn is_served(name: &[u8]) -> bool {
    let is_hidden = name.starts_with(b".") && name != b".well-known";
    !is_hidden && !has_control(name) && name != b"-" && name != LOST_AND_FOUND
}

/// Whether `name` has a control character of ASCII. Requests for such names are refused.
pub(crate) fn has_control(name: &[u8]) -> bool {
    name.iter().any(u8::is_ascii_control)
}

/// The folder that holds each name, by the folder's index in the configured order.
#[derive(Debug, Default)]
pub struct Holders {
    folders: Vec<Known>,
    /// The folder that holds each name if there are no copies.
    own: HashMap<Arc<[u8]>, u16>,
    by_name: Arc<HashMap<Arc<[u8]>, u16>>,
    originals: Arc<HashMap<Arc<[u8]>, u16>>,
    /// Whether holders keep their names.
    is_settled: bool,
}

/// The known state of a folder.
#[derive(Clone, Debug, Default)]
struct Known {
    names: HashSet<Arc<[u8]>>,
    /// Its titles that are copies.
    copies: HashSet<Arc<[u8]>>,
    /// The editions of its titles that have copies somewhere.
    editions: HashMap<Arc<[u8]>, String>,
    is_failing: bool,
}

/// A name that is not served from one folder, because another one holds it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hidden {
    /// The name.
    pub name: Arc<[u8]>,
    /// The folder in which it is hidden.
    pub folder: u16,
    /// The folder that holds it.
    pub holder: u16,
}

impl Holders {
    /// For `count` folders, whose names are not known yet.
    pub fn new(count: usize) -> Self {
        Self { folders: vec![Known::default(); count], ..Self::default() }
    }

    /// From now on, each folder keeps its names as long as it has them.
    pub fn settle(&mut self) {
        self.is_settled = true;
    }

    /// Whether [`Self::settle`] was called.
    pub fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// The names that `folder` had, without the `present` ones.
    pub fn missing(&self, folder: u16, present: &[Arc<[u8]>]) -> Vec<Arc<[u8]>> {
        let present: HashSet<_> = present.iter().collect();
        let known = self.folders[usize::from(folder)].names.iter();
        known.filter(|name| !present.contains(name)).cloned().collect()
    }

    /// Sets the current names in `folder`. Without a change, [`Self::by_name`] keeps its table.
    pub fn take(&mut self, folder: u16, names: Vec<Arc<[u8]>>) {
        let names: HashSet<_> = names.into_iter().collect();
        if self.folders[usize::from(folder)].names != names {
            self.folders[usize::from(folder)].names = names;
            self.decide();
        }
    }

    /// Sets the names of the copies in `folder`.
    pub fn take_copies(&mut self, folder: u16, copies: Vec<Arc<[u8]>>) {
        let copies: HashSet<_> = copies.into_iter().collect();
        if self.folders[usize::from(folder)].copies != copies {
            self.folders[usize::from(folder)].copies = copies;
            self.decide();
        }
    }

    /// The titles in `folder` whose editions [`Self::take_editions`] needs: the copies, and those that have a copy in another folder.
    pub fn copied(&self, folder: u16) -> Vec<Arc<[u8]>> {
        let names = &self.folders[usize::from(folder)].names;
        let copied: HashSet<_> = self.folders.iter().flat_map(|known| &known.copies).collect();
        copied.into_iter().filter(|name| names.contains(*name)).cloned().collect()
    }

    /// Sets the current editions of the [copied](Self::copied) titles in `folder`. A title without one has no valid record.
    pub fn take_editions(&mut self, folder: u16, editions: HashMap<Arc<[u8]>, String>) {
        if self.folders[usize::from(folder)].editions != editions {
            self.folders[usize::from(folder)].editions = editions;
            self.decide();
        }
    }

    /// Notes whether reading from `folder` fails: then its copies hold nothing.
    pub fn note_failing(&mut self, folder: u16, is_failing: bool) {
        if std::mem::replace(&mut self.folders[usize::from(folder)].is_failing, is_failing)
            != is_failing
        {
            self.decide();
        }
    }

    /// The holder of each name.
    pub fn by_name(&self) -> &Arc<HashMap<Arc<[u8]>, u16>> {
        &self.by_name
    }

    /// For each name that a copy holds, the folder of the original.
    pub fn originals(&self) -> &Arc<HashMap<Arc<[u8]>, u16>> {
        &self.originals
    }

    /// The names of `folder` that are known to be copies.
    pub fn copies(&self, folder: u16) -> Vec<Arc<[u8]>> {
        self.folders[usize::from(folder)].copies.iter().cloned().collect()
    }

    /// Decides again which folder holds each name.
    fn decide(&mut self) {
        let mut own = HashMap::with_capacity(self.own.len());
        for (folder, known) in (0..).zip(&self.folders) {
            for name in known.names.difference(&known.copies) {
                let held = own.entry(Arc::clone(name)).or_insert(folder);
                if self.is_settled && self.own.get(name) == Some(&folder) {
                    *held = folder;
                }
            }
        }
        let (mut by_name, mut originals) = (own.clone(), HashMap::new());
        for (folder, known) in (0..).zip(&self.folders).filter(|(_, known)| !known.is_failing) {
            for (name, edition) in known.editions.iter().filter(|(n, _)| known.is_copied(n)) {
                let Some(&original) = own.get(name) else { continue };
                let is_exact =
                    self.folders[usize::from(original)].editions.get(name) == Some(edition);
                if is_exact && originals.insert(Arc::clone(name), original).is_none() {
                    by_name.insert(Arc::clone(name), folder);
                }
            }
        }
        self.own = own;
        // New tables even if they are equal: a name may be hidden since, and the caller notices that by the table's identity.
        self.by_name = Arc::new(by_name);
        self.originals = Arc::new(originals);
    }

    /// All hidden names, in order. Copies are not meant to be served themselves, so they do not count.
    pub fn hidden(&self) -> Vec<Hidden> {
        let mut hidden = Vec::new();
        for (folder, known) in (0..).zip(&self.folders) {
            for name in known.names.difference(&known.copies) {
                let Some(&holder) = self.own.get(name).filter(|holder| **holder != folder) else {
                    continue;
                };
                hidden.push(Hidden { name: Arc::clone(name), folder, holder });
            }
        }
        hidden.sort();
        hidden
    }
}

impl Known {
    /// Whether the folder has a copy of this name.
    fn is_copied(&self, name: &Arc<[u8]>) -> bool {
        self.copies.contains(name) && self.names.contains(name)
    }
}

impl Hidden {
    /// A line for the operator.
    pub fn describe(&self, folders: &[PathBuf]) -> String {
        let path = |folder: u16| folders[usize::from(folder)].display();
        let name = String::from_utf8_lossy(&self.name);
        format!(
            "{name} in {} is hidden, because {} has that name, too: rename or remove one of them",
            path(self.folder),
            path(self.holder)
        )
    }
}

/// Whether `folder` holds the name at `location`, a path in the library. An empty `location` is the folder itself, as a title.
pub fn is_held(by_name: &HashMap<Arc<[u8]>, u16>, folder: u16, location: &Path) -> bool {
    let Some(name) = location.iter().next() else { return true };
    by_name.get(name.as_bytes()) == Some(&folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tempfile::tempdir;

    fn list(names: &[&str]) -> Vec<Arc<[u8]>> {
        names.iter().map(|name| Arc::from(name.as_bytes())).collect()
    }

    fn holder(holders: &Holders, name: &str) -> Option<u16> {
        holders.by_name().get(name.as_bytes()).copied()
    }

    #[test]
    fn the_first_folder_in_order_holds_a_name_whoever_answers_first() {
        let mut holders = Holders::new(3);
        holders.take(2, list(&["a", "c"]));
        holders.take(0, list(&["a", "b"]));
        holders.take(1, list(&["b", "a"]));
        let held = ["a", "b", "c", "d"].map(|name| holder(&holders, name));
        assert_eq!(held, [Some(0), Some(0), Some(2), None]);
        let hidden = holders.hidden();
        let hidden: Vec<_> = hidden.iter().map(|h| (&h.name[..], h.folder, h.holder)).collect();
        assert_eq!(hidden, [(&b"a"[..], 1, 0), (b"a", 2, 0), (b"b", 1, 0)]);
    }

    #[test]
    fn a_holder_stays_until_the_name_is_gone() {
        let mut holders = Holders::new(2);
        holders.take(1, list(&["film"]));
        holders.settle();
        holders.take(0, list(&["film"]));
        assert_eq!(holder(&holders, "film"), Some(1));
        assert_eq!(holders.hidden().len(), 1);
        holders.take(1, list(&[]));
        assert_eq!(holder(&holders, "film"), Some(0));
        assert!(holders.hidden().is_empty());
        holders.take(1, list(&["film"]));
        assert_eq!(holder(&holders, "film"), Some(0));
    }

    #[test]
    fn an_exact_copy_holds_its_name_and_any_other_holds_nothing() {
        let mut holders = Holders::new(3);
        holders.take(1, list(&["film", "other"]));
        holders.settle();
        let editions = |edition: &str| [(Arc::from(&b"film"[..]), edition.to_owned())].into();
        holders.take_copies(0, list(&["film"]));
        holders.take(0, list(&["film", "own"]));
        assert_eq!(holders.copied(0), list(&["film"]));
        assert_eq!(holders.copied(1), list(&["film"]));
        assert!(holders.copied(2).is_empty());
        assert_eq!(holder(&holders, "film"), Some(1), "its edition is not known yet");
        holders.take_editions(0, editions("1"));
        holders.take_editions(1, editions("1"));
        assert_eq!(holder(&holders, "film"), Some(0), "although another one held it before");
        assert_eq!(holders.originals().get(&b"film"[..]), Some(&1));
        assert!(holders.hidden().is_empty(), "a copy is no mistake");
        holders.note_failing(0, true);
        assert_eq!(holder(&holders, "film"), Some(1), "its disk has died");
        assert_eq!(holder(&holders, "own"), Some(0), "a title that is not a copy stays");
        holders.note_failing(0, false);
        assert_eq!(holder(&holders, "film"), Some(0));
        holders.take_editions(1, editions("2"));
        assert_eq!(holder(&holders, "film"), Some(1), "there is a new version");
        holders.take_editions(0, editions("2"));
        assert_eq!(holder(&holders, "film"), Some(0));
        // A third folder with the name is hidden, as always, and the original stays the original.
        holders.take(2, list(&["film"]));
        let hidden = holders.hidden();
        assert_eq!((hidden.len(), hidden[0].folder, hidden[0].holder), (1, 2, 1));
        holders.take(2, list(&[]));
        holders.take(1, list(&["other"]));
        assert_eq!(holder(&holders, "film"), None, "the title was withdrawn");
        assert!(holders.originals().is_empty());
    }

    #[test]
    fn names_that_are_the_same_make_no_new_table() {
        let mut holders = Holders::new(2);
        holders.take(1, list(&["a", "b"]));
        let before = Arc::clone(holders.by_name());
        holders.take(1, list(&["b", "a"]));
        holders.take(0, list(&[]));
        assert!(Arc::ptr_eq(&before, holders.by_name()));
        holders.take(1, list(&["a"]));
        assert_eq!(holder(&holders, "b"), None);
    }

    #[test]
    fn a_name_that_a_listing_misses_is_gone_only_if_it_cannot_be_found() {
        let folder = tempdir().unwrap();
        fs::create_dir(folder.path().join("film")).unwrap();
        symlink("nowhere", folder.path().join("link")).unwrap();
        let mut holders = Holders::new(1);
        holders.take(0, list(&["film", "link", "removed", "listed"]));
        let mut missing = holders.missing(0, &list(&["listed", "new"]));
        missing.sort();
        assert_eq!(missing, list(&["film", "link", "removed"]));
        let root = fs::File::open(folder.path()).unwrap();
        assert!(is_gone(&root, b"removed"));
        assert!(!is_gone(&root, b"film") && !is_gone(&root, b"link"));
        // A failing disk does not mean that the name is gone. A file in place of the folder causes such an error.
        fs::write(folder.path().join("file"), "").unwrap();
        let file = fs::File::open(folder.path().join("file")).unwrap();
        assert!(!is_gone(&file, b"removed"));
    }

    #[test]
    fn names_that_nobody_can_request_are_not_listed() {
        let folder = tempdir().unwrap();
        let refused = [".ingest-film", "-", "lost+found", "a\nb", "a\tb", "\u{7f}"];
        for name in refused.into_iter().chain(["film", ".well-known", "c\u{9b}"]) {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let place = rustix::fs::open(folder.path(), flags, Mode::empty()).unwrap();
        let mut found = names(&place).unwrap();
        found.sort();
        assert_eq!(found, list(&[".well-known", "c\u{9b}", "film"]));
        still_lists(&place).unwrap();
    }

    #[test]
    fn folders_must_be_different_and_beside_each_other() {
        let root = tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        fs::create_dir_all(path("d0/films")).unwrap();
        fs::create_dir(path("d1")).unwrap();
        symlink(path("d0"), path("link")).unwrap();
        let check = |names: &[&str]| {
            check_folders(&names.iter().map(|name| path(name)).collect::<Vec<_>>())
        };
        // A folder whose name begins with another's is not inside it.
        fs::create_dir(path("d10")).unwrap();
        check(&["d0", "d1", "d10", "missing"]).unwrap();
        let twice = |one, other| Err(FoldersError::Twice(path(one), path(other)));
        assert_eq!(check(&["d0", "d1", "d0"]), twice("d0", "d0"));
        assert_eq!(check(&["d0", "link"]), twice("d0", "link"));
        assert_eq!(check(&["missing", "missing"]), twice("missing", "missing"));
        let inside = Err(FoldersError::Inside(path("d0/films"), path("d0")));
        assert_eq!(check(&["d0", "d0/films"]), inside);
        assert_eq!(check(&["d0/films", "d0"]), inside);
        let many = vec![path("d0"); FOLDERS_MAX + 1];
        assert_eq!(check_folders(&many), Err(FoldersError::TooMany(FOLDERS_MAX + 1)));
    }

    #[test]
    fn folders_of_one_filesystem_are_found() {
        let root = tempdir().unwrap();
        let folders = ["d0", "d1"].map(|name| root.path().join(name));
        folders.iter().for_each(|folder| fs::create_dir(folder).unwrap());
        assert_eq!(on_one_disk(&folders), [folders.each_ref().map(PathBuf::as_path)]);
        let others = [folders[0].clone(), "/proc".into(), root.path().join("missing")];
        assert!(on_one_disk(&others).is_empty());
    }

    #[test]
    fn a_folder_lists_what_it_holds_and_one_that_fails_is_told() {
        let [one, other, lost] = ["/d0", "/d1", "/d2"].map(Path::new);
        let list = |path: &Path| match path {
            _ if path == lost => Err(io::ErrorKind::NotFound.into()),
            _ => Ok(vec![Path::new("both").to_owned(), path.to_owned()]),
        };
        let is_held = |folder, found: &PathBuf| found != Path::new("both") || folder == 7;
        let mut failed = Vec::new();
        let folders = [(7, one), (8, lost), (9, other)];
        let held =
            list_held(folders.into_iter(), list, is_held, |path, _| failed.push(path.to_owned()));
        let held: Vec<_> = held.iter().map(|(path, found)| (&**path, &**found)).collect();
        assert_eq!(held, [(one, Path::new("both")), (one, one), (other, other)]);
        assert_eq!(failed, [lost]);
    }

    #[test]
    fn what_is_below_a_name_belongs_to_its_holder() {
        let mut holders = Holders::new(2);
        holders.take(1, list(&["series"]));
        let is_held = |folder, path| is_held(holders.by_name(), folder, Path::new(path));
        assert!(is_held(1, "series/1") && is_held(1, "series") && is_held(1, ""));
        assert!(!is_held(0, "series/1") && !is_held(1, "other"));
    }
}
