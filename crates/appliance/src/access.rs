//! What the kernel lets this process do with the library's files, tried on some of them.
//!
//! Two things that serving fast rests on are had for files that the process owns, or with capabilities: a read lease, so
//! that the kernel may send a file by itself, and being told what of a file is in memory. Who may is not guessed from
//! users and modes: it depends on the kernel's version, on the filesystem and on filters of system calls as well.

use crate::config::{Config, Disk, Switch};
use delivery::KernelOffload;
use reactor::lease;
use reactor::residency::{View, cached_pages};
use rustix::fs::{Mode, OFlags};
use serde::Serialize;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// Entries of the library's folders that are looked at for files to try. A library is as a rule made by one user, so that
/// a few files tell of all; a start is not to wait for a disk that is asleep.
const ENTRIES_MAX: usize = 1000;

/// Files that are tried.
const TRIED_MAX: usize = 8;

/// What was found.
#[derive(Debug, Default)]
pub struct Access {
    /// The first file without a lease, and why there is none.
    lease: Option<(PathBuf, io::Error)>,
    /// The first file of which the kernel does not tell page by page what is in memory (mincore).
    view: Option<(PathBuf, io::Error)>,
    /// The first file of which it does not tell how much is there (cachestat), which is cheaper to ask.
    count: Option<(PathBuf, io::Error)>,
}

/// Something that would make serving faster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lack {
    /// Its name.
    pub what: &'static str,
    /// Why it is not there.
    pub why: String,
    /// What that costs.
    pub cost: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

impl Access {
    /// Tries some files of `library`. To be called when the process has given up what it gives up.
    pub fn tried_on(library: &Path) -> Self {
        let mut access = Self::default();
        for path in some_files(library) {
            // Who cannot even read it will hear so from viewers.
            let Ok(file) = open(&path) else { continue };
            access.try_on(&path, &file);
        }
        access
    }

    fn try_on(&mut self, path: &Path, file: &File) {
        let note = |found: &mut Option<_>, tried: io::Result<()>| {
            if let Err(error) = tried {
                found.get_or_insert((path.to_owned(), error));
            }
        };
        match lease::take(file.as_fd()) {
            // Somebody is writing to it: that says nothing of the others.
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {}
            taken => note(&mut self.lease, taken),
        }
        let bytes = file.metadata().map_or(0, |metadata| metadata.len());
        note(&mut self.count, cached_pages(file.as_fd(), 0..bytes).map(drop));
        note(&mut self.view, View::new(file.as_fd(), bytes).map(drop));
    }

    /// Whether the kernel can send files by itself: it takes a lease, and knowing page by page what is in memory.
    pub fn can_send_files(&self) -> bool {
        self.lease.is_none() && self.view.is_none()
    }

    /// What this server would be faster with.
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
            // Either will do to choose where to read from, but not to leave a file to the kernel.
            (Some((path, error)), count) if sends || count.is_some() => {
                lacks.push(no_pages(path, error, sends));
            }
            (None, Some((path, error))) => lacks.push(no_count(path, error)),
            _ => {}
        }
        lacks
    }
}

/// What helps with files of other users.
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
    // NONBLOCK: nobody may hold the start up who holds a file.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Some files that are not empty: those nearest to the library's root. What begins with a dot is not served.
fn some_files(library: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = VecDeque::from([library.to_owned()]);
    let mut entries_left = ENTRIES_MAX;
    while let Some(folder) = folders.pop_front() {
        // A folder that cannot be read holds nothing that could be served.
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

    const SENDS: KernelOffload =
        KernelOffload { seals: false, changes_keys: false, sends_files: true };

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
        // Before Linux 6.5 nobody counts.
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
        // Linux 6.5 to 6.13 count for everybody.
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
