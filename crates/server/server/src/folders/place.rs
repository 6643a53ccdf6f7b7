//! Checks that a folder of the library is still where it was when the server started.
//!
//! The server serves the folder that it opened at startup. If the path leads elsewhere later (a disk was unmounted or mounted
//! over it, the folder was renamed or recreated), viewers get the old folder and not the one that the operator sees. The server
//! cannot follow the path: the sandbox grants the old folder by its inode and cannot grant another (landlock(7); a rule for a
//! folder under a mount point does not cover a filesystem mounted there). Besides, a mount point without its disk must not pass for a
//! library. So the server reports the problem until the path leads back.

use disk::Inode;
use rustix::fs::{Access, Mode, OFlags, access};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// A folder as it was at startup.
pub(super) struct Place {
    path: PathBuf,
    found: Result<Found, Errno>,
}

/// The folder that the path led to.
struct Found {
    inode: Inode,
    /// Keeps the inode's number from being reused.
    folder: OwnedFd,
}

impl Place {
    /// The folder that `path` leads to now.
    pub(super) fn of(path: &Path) -> Self {
        Self { path: path.to_owned(), found: look(path) }
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder, if it existed at startup.
    pub(super) fn folder(&self) -> Option<BorrowedFd<'_>> {
        self.found.as_ref().ok().map(|found| found.folder.as_fd())
    }

    /// Why it was missing at startup, if it was.
    pub(super) fn missing(&self) -> Option<Errno> {
        self.found.as_ref().err().copied()
    }

    /// Why no file in it can be opened, if so: it was missing at startup, or this user may not enter it.
    pub(super) fn closed(&self) -> Option<Errno> {
        self.missing().or_else(|| access(&self.path, Access::EXEC_OK).err())
    }

    /// The problem, if the path no longer leads to the folder.
    pub(super) fn trouble(&self) -> Option<String> {
        let path = self.path.display();
        match (&self.found, look(&self.path)) {
            (Ok(then), Ok(now)) if now.inode == then.inode => None,
            (Ok(_), Ok(_)) => Some(format!(
                "the library {path} is another folder than at the start of the server (unmounted, mounted over, renamed or \
                 recreated?): put that folder back, or restart the server to serve this one"
            )),
            (Ok(_), Err(error)) => Some(format!(
                "the library {path} cannot be reached: {error}; put it back, or restart the server with another"
            )),
            (Err(_), Ok(_)) => Some(format!(
                "the library {path} was missing at the start of the server, and is there now: restart the server to serve it"
            )),
            (Err(why), Err(_)) => Some(format!(
                "the library {path} is missing ({why}), so its titles are not served: mount or repair its disk, then restart the server"
            )),
        }
    }
}

fn look(path: &Path) -> Result<Found, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(path, flags, Mode::empty())?;
    Ok(Found { inode: Inode::of(&folder)?, folder })
}
