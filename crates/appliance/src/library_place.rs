//! Whether the library is still where it was when the server started.
//!
//! The server serves the folder that it opened at its start. If the path leads elsewhere later (a disk was unmounted or mounted
//! over it, the folder was renamed or recreated), viewers get the old folder and not the one that the operator sees. The server
//! cannot follow the path: the sandbox grants the old folder by its inode and cannot grant another (landlock(7); a rule for a
//! folder under a mount point does not cover what is mounted there). Besides, a mount point without its disk must not pass for a
//! library. So the server reports the problem until the path leads back.

use disk::Inode;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The library's folder as it was at the start.
pub(crate) struct LibraryPlace {
    path: PathBuf,
    inode: Inode,
    /// Keeps the inode's number from being reused.
    _folder: OwnedFd,
}

/// What is wrong with the library now.
#[derive(Default)]
pub(crate) struct LibraryTrouble(Mutex<Option<String>>);

impl LibraryPlace {
    /// The folder that `path` leads to now.
    pub(crate) fn of(path: &Path) -> Result<Self, Errno> {
        let (inode, folder) = look(path)?;
        Ok(Self { path: path.to_owned(), inode, _folder: folder })
    }

    /// What is wrong, if the path no longer leads there.
    fn trouble(&self) -> Option<String> {
        let path = self.path.display();
        match look(&self.path) {
            Ok((inode, _)) if inode == self.inode => None,
            Ok(_) => Some(format!(
                "the library {path} is another folder than at the start of the server (unmounted, mounted over, renamed or \
                 recreated?): put that folder back, or restart the server to serve this one"
            )),
            Err(error) => Some(format!(
                "the library {path} cannot be reached: {error}; put it back, or restart the server with another"
            )),
        }
    }

    /// Looks, and reports changes to the operator and to `told`.
    pub(crate) fn look_again(&self, told: &LibraryTrouble) {
        let now = self.trouble();
        let mut told = told.0.lock().expect("no holder of this lock can panic");
        if *told == now {
            return;
        }
        match &now {
            Some(trouble) => eprintln!("fullbore: {trouble}"),
            None => eprintln!("fullbore: the library {} is back", self.path.display()),
        }
        *told = now;
    }
}

impl LibraryTrouble {
    /// The problem in words, if there is one.
    pub(crate) fn in_words(&self) -> Option<String> {
        self.0.lock().expect("no holder of this lock can panic").clone()
    }
}

fn look(path: &Path) -> Result<(Inode, OwnedFd), Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::open(path, flags, Mode::empty())?;
    Ok((Inode::of(&folder)?, folder))
}
