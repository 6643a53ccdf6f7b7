//! Tests on some files of the library which operations the kernel allows this process.
//!
//! Serving fast depends on two things that need ownership of the file, or capabilities: a read lease, so that the kernel may
//! send the file by itself, and asking which parts of it are in memory. Permissions are not guessed from users and modes,
//! because they also depend on the kernel's version, on the filesystem and on filters of system calls.

use config::{Config, Disk, Switch};
use delivery::KernelOffload;
use reactor::lease;
use reactor::residency::{View, cached_pages};
use reactor::{Reactor, RingOptions};
use rustix::fs::{Mode, OFlags};
use rustix::io::ReadWriteFlags;
use serde::Serialize;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// How many entries of the library's folders are examined to find files to try. A library usually belongs to one user, so a
/// few files are representative; and startup must not wait for a disk that is asleep.
const ENTRIES_MAX: usize = 1000;

/// How many files are tried.
const TRIED_MAX: usize = 8;

/// The results.
#[derive(Debug, Default)]
pub struct Access {
    /// The first file for which no lease was granted, and why.
    lease: Option<(PathBuf, io::Error)>,
    /// The first file for which the kernel does not report page by page what is in memory (mincore).
    view: Option<(PathBuf, io::Error)>,
    /// The first file for which it does not report how much is in memory (cachestat), a cheaper call.
    count: Option<(PathBuf, io::Error)>,
}

/// A missing permission or feature that would make serving faster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lack {
    /// Its name.
    pub what: &'static str,
    /// Why it is missing.
    pub why: String,
    /// The cost of its absence.
    pub cost: &'static str,
    /// How to fix it.
    pub remedy: &'static str,
}

impl Access {
    /// Tries some files of `library`. Call it after the process has given up its privileges.
    pub fn tried_on(library: &Path) -> Self {
        let mut access = Self::default();
        for path in some_files(library) {
            // A file that cannot even be read is reported when a viewer requests it.
            let Ok(file) = open(&path) else { continue };
            access.try_on(&path, &file);
        }
        access
    }

    /// Fills in results that are missing here from `later`.
    pub(crate) fn or(self, later: Self) -> Self {
        Self {
            lease: self.lease.or(later.lease),
            view: self.view.or(later.view),
            count: self.count.or(later.count),
        }
    }

    fn try_on(&mut self, path: &Path, file: &File) {
        let note = |found: &mut Option<_>, tried: io::Result<()>| {
            if let Err(error) = tried {
                found.get_or_insert((path.to_owned(), error));
            }
        };
        match lease::take(file.as_fd()) {
            // Another program is writing to the file, which says nothing about other files.
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {}
            taken => note(&mut self.lease, taken),
        }
        let bytes = file.metadata().map_or(0, |metadata| metadata.len());
        note(&mut self.count, cached_pages(file.as_fd(), 0..bytes).map(drop));
        note(&mut self.view, View::new(file.as_fd(), bytes).map(drop));
    }

    /// Whether the kernel can send files by itself: this needs a lease, and page-by-page knowledge of what is in memory.
    pub fn can_send_files(&self) -> bool {
        self.lease.is_none() && self.view.is_none()
    }

    /// The missing permissions and features that would make this server faster.
    pub fn lacks(&self, config: &Config, offload: KernelOffload) -> Vec<Lack> {
        let mut lacks = Vec::new();
        if let (true, Some((path, error))) = (offload.sends_files, &self.lease) {
            lacks.push(no_lease(path, error, config.tls.enabled));
        }
        let (sends, disk) = (offload.sends_files, config.disk);
        let asks = match disk {
            Disk::Auto => sends || config.is_on(Switch::Resident),
            Disk::Cached => sends,
            Disk::Once | Disk::Direct => false,
        };
        match (&self.view, &self.count) {
            _ if !asks => {}
            // Either call is enough to choose where to read from, but sending by the kernel needs mincore's pages.
            (Some((path, error)), count) if sends || count.is_some() => {
                lacks.push(no_pages(path, error, sends));
            }
            (None, Some((path, error))) => lacks.push(no_count(path, error)),
            _ => {}
        }
        lacks
    }
}

/// Everything that could be missing for files of `library`, regardless of the configuration: to examine a machine before it serves.
pub fn all_lacks(library: &Path) -> Vec<Lack> {
    let mut config = Config::default();
    // Over TLS the default route needs less.
    config.tls.enabled = false;
    let offload = KernelOffload { sends_files: true, ..KernelOffload::default() };
    Access::tried_on(library).lacks(&config, offload)
}

/// A filesystem of the library, and the result of a read from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriedFilm {
    /// The film that was tried.
    pub film: PathBuf,
    /// The size of the filesystem's blocks; `None` if it does not report one.
    pub block_bytes: Option<u64>,
    /// The kernel's error number if the film cannot be read without leaving it in the page cache (`RWF_DONTCACHE`).
    pub read_once_refused: Option<i32>,
}

/// Tries one film per filesystem below `library`: reads its first bytes.
pub fn filesystems(library: &Path) -> Vec<TriedFilm> {
    let mut tried = Vec::new();
    let mut devices = Vec::new();
    for film in some_files(library) {
        let Ok(file) = open(&film) else { continue };
        let Ok(stat) = rustix::fs::fstat(&file) else { continue };
        if devices.contains(&stat.st_dev) {
            continue;
        }
        devices.push(stat.st_dev);
        let block_bytes = rustix::fs::fstatvfs(&file).ok().map(|facts| facts.f_bsize);
        let mut page = [0; 4096];
        let mut into = [std::io::IoSliceMut::new(&mut page)];
        let once = ReadWriteFlags::from_bits_retain(disk::RWF_DONTCACHE as u32);
        let read = rustix::io::preadv2(&file, &mut into, 0, once);
        let read_once_refused = read.err().map(|error| error.raw_os_error());
        tried.push(TriedFilm { film, block_bytes, read_once_refused });
    }
    tried
}

/// Why the kernel creates no ring for this process; `None` if it does.
pub fn ring_refused() -> Option<io::Error> {
    Reactor::new(RingOptions::default()).err()
}

/// The remedy for files of other users.
const REMEDY_OWNER: &str = "run the server as the user who owns the library, or give it CAP_LEASE and CAP_FOWNER, as the systemd unit does";

const COST_COPIED: &str =
    "each byte is read into a buffer and sent from there, instead of being sent by the kernel";
const COST_COPIED_PLAIN: &str = "each byte is copied through a buffer instead of being sent by the kernel: about 0.4 of the speed per core";

fn no_lease(path: &Path, error: &io::Error, is_sealed: bool) -> Lack {
    let path = path.display();
    let (why, remedy) = match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => (
            format!("{path} belongs to another user, and this process has no CAP_LEASE"),
            REMEDY_OWNER,
        ),
        Some(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOLCK) => (
            format!("the filesystem of {path} has no read leases"),
            "keep the library on a local filesystem such as ext4 or XFS",
        ),
        _ => (format!("cannot take a read lease on {path}: {error}"), REMEDY_OWNER),
    };
    let cost = if is_sealed { COST_COPIED } else { COST_COPIED_PLAIN };
    Lack { what: "read leases", why, cost, remedy }
}

fn no_pages(path: &Path, error: &io::Error, sends_files: bool) -> Lack {
    let path = path.display();
    let cost = if sends_files {
        "the kernel sends nothing by itself, and data that is in memory may be read from disk again"
    } else {
        "data that is in memory may be read from disk again"
    };
    let why = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => format!(
            "the kernel does not say which parts of {path} are in memory: it belongs to another user, and this process has no CAP_FOWNER"
        ),
        _ => format!("the kernel does not say which parts of {path} are in memory: {error}"),
    };
    Lack { what: "page cache", why, cost, remedy: REMEDY_OWNER }
}

fn no_count(path: &Path, error: &io::Error) -> Lack {
    let path = path.display();
    let (why, remedy) = match error.raw_os_error() {
        Some(libc::ENOSYS) => ("this kernel has no cachestat".to_owned(), "use Linux 6.5 or newer"),
        _ => (
            format!("the system call cachestat is refused for {path} ({error})"),
            "allow the system call cachestat (SystemCallFilter= of a systemd unit)",
        ),
    };
    let cost =
        "the server asks the kernel page by page what is in memory, which takes more system calls";
    Lack { what: "cachestat", why, cost, remedy }
}

fn open(path: &Path) -> io::Result<File> {
    // NONBLOCK: another program's lease on the file must not delay startup.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Some files that are not empty, nearest to the library's root first. Names that begin with a dot are skipped: they are not served.
fn some_files(library: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = VecDeque::from([library.to_owned()]);
    let mut entries_left = ENTRIES_MAX;
    while let Some(folder) = folders.pop_front() {
        // A folder that cannot be read holds nothing to serve.
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if files.len() == TRIED_MAX || entries_left == 0 {
                return files;
            }
            entries_left -= 1;
            let Ok(kind) = entry.file_type() else { continue };
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            if kind.is_dir() {
                folders.push_back(entry.path());
            } else if kind.is_file() && entry.metadata().is_ok_and(|metadata| metadata.len() > 0) {
                files.push(entry.path());
            }
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENDS: KernelOffload = KernelOffload {
        seals: false,
        changes_keys: false,
        sends_files: true,
        nics: delivery::NicTls::Off,
    };

    fn found(errno: i32) -> Option<(PathBuf, io::Error)> {
        Some(("/srv/film.mp4".into(), io::Error::from_raw_os_error(errno)))
    }

    fn plain() -> Config {
        let mut config = Config::default();
        config.tls.enabled = false;
        config
    }

    fn names(access: &Access, config: &Config, offload: KernelOffload) -> Vec<&'static str> {
        access.lacks(config, offload).into_iter().map(|lack| lack.what).collect()
    }

    #[test]
    fn a_film_of_each_filesystem_is_tried() {
        let library = tempfile::tempdir().unwrap();
        assert_eq!(filesystems(library.path()), [], "no film");
        for name in ["one", "two"] {
            std::fs::write(library.path().join(name), "x").unwrap();
        }
        let tried = filesystems(library.path());
        assert_eq!(tried.len(), 1, "{tried:?}");
        assert!(tried[0].film.starts_with(library.path()));
        assert!(tried[0].block_bytes.is_some_and(u64::is_power_of_two), "{tried:?}");
        // The kernel supports it, does not support it on this filesystem, or does not know it.
        let known = [None, Some(libc::EOPNOTSUPP), Some(libc::EINVAL)];
        assert!(known.contains(&tried[0].read_once_refused), "{tried:?}");
    }

    #[test]
    fn a_filesystem_in_memory_keeps_what_is_read() {
        let Ok(library) = tempfile::tempdir_in("/dev/shm") else {
            fullbore_tests::tool::skip("no /dev/shm, whose filesystem has no RWF_DONTCACHE");
            return;
        };
        std::fs::write(library.path().join("film"), "x").unwrap();
        let refused = filesystems(library.path())[0].read_once_refused;
        assert!([Some(libc::EOPNOTSUPP), Some(libc::EINVAL)].contains(&refused), "{refused:?}");
    }

    #[test]
    fn files_are_found_in_folders_and_hidden_or_empty_ones_are_not() {
        let library = tempfile::tempdir().unwrap();
        let path = |name: &str| library.path().join(name);
        std::fs::create_dir_all(path("a/b")).unwrap();
        std::fs::create_dir_all(path(".hidden")).unwrap();
        for (name, text) in
            [("a/b/film", "x"), (".hidden/film", "x"), (".film", "x"), ("empty", "")]
        {
            std::fs::write(path(name), text).unwrap();
        }
        std::os::unix::fs::symlink("a/b/film", path("link")).unwrap();
        assert_eq!(some_files(library.path()), [path("a/b/film")]);
        for number in 0..20 {
            std::fs::write(path(&number.to_string()), "x").unwrap();
        }
        assert_eq!(some_files(library.path()).len(), TRIED_MAX);
        assert!(some_files(&path("nothing")).is_empty());
    }

    #[test]
    fn own_files_lack_nothing() {
        let library = tempfile::tempdir().unwrap();
        std::fs::write(library.path().join("film"), "film").unwrap();
        let access = Access::tried_on(library.path());
        // Before Linux 6.5 there is no cachestat.
        let lacks = names(&access, &plain(), SENDS);
        assert!(lacks.iter().all(|what| *what == "cachestat"), "{access:?}");
        assert!(access.can_send_files());
    }

    #[test]
    fn a_file_that_is_being_written_says_nothing() {
        let library = tempfile::tempdir().unwrap();
        let mut writer = File::create(library.path().join("film")).unwrap();
        io::Write::write_all(&mut writer, b"film").unwrap();
        let access = Access::tried_on(library.path());
        assert!(access.can_send_files(), "{access:?}");
    }

    #[test]
    fn a_lack_is_told_where_it_costs_something() {
        let others = Access {
            lease: found(libc::EACCES),
            view: found(libc::EPERM),
            count: found(libc::EPERM),
        };
        assert!(!others.can_send_files());
        assert_eq!(names(&others, &plain(), SENDS), ["read leases", "page cache"]);
        assert_eq!(names(&others, &Config::default(), KernelOffload::default()), ["page cache"]);
        let direct = Config { disk: Disk::Direct, ..plain() };
        assert_eq!(names(&others, &direct, SENDS), ["read leases"]);
        assert!(names(&others, &direct, KernelOffload::default()).is_empty());
        // From Linux 6.5 to 6.13 any user may use cachestat.
        let counted = Access { count: None, ..others };
        assert_eq!(names(&counted, &plain(), SENDS), ["read leases", "page cache"]);
        assert!(names(&counted, &Config::default(), KernelOffload::default()).is_empty());
    }

    #[test]
    fn the_reason_is_the_kernels() {
        let why = |errno| {
            let access = Access { lease: found(errno), ..Access::default() };
            access.lacks(&plain(), SENDS).remove(0)
        };
        assert!(why(libc::EACCES).why.contains("/srv/film.mp4 belongs to another user"));
        assert!(why(libc::EINVAL).why.contains("filesystem"));
        assert!(why(libc::EINVAL).remedy.contains("local filesystem"));
        let filtered = Access { count: found(libc::EPERM), ..Access::default() };
        assert!(filtered.can_send_files());
        let lack = filtered.lacks(&plain(), SENDS).remove(0);
        assert!(lack.remedy.contains("SystemCallFilter"), "{lack:?}");
    }
}
