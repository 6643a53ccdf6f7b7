//! A second descriptor of a file, on which the kernel may read ahead. It is opened by the first thread that loads a part of the file, and never by
//! the worker's own: on a network filesystem an open asks the server, which may hang.
//!
//! All loads of a file share it, and with it the kernel's read-ahead state. Decision 133 says why a descriptor for each load would be worse.

use rustix::fs::{Mode, OFlags};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

/// What a thread needs to load parts of a file.
#[derive(Debug)]
pub(crate) struct Sequential {
    opened: Arc<OnceLock<OwnedFd>>,
    /// The file's own descriptor, if the other one was not open yet. A duplicate, because the worker may close the file before the thread opens it.
    own: Option<OwnedFd>,
}

impl Sequential {
    /// For the file that is open as `own`.
    ///
    /// # Errors
    /// If no descriptor is left.
    pub(crate) fn new(opened: &Arc<OnceLock<OwnedFd>>, own: BorrowedFd<'_>) -> io::Result<Self> {
        let own = match opened.get() {
            Some(_) => None,
            None => Some(own.try_clone_to_owned()?),
        };
        Ok(Self { opened: Arc::clone(opened), own })
    }

    /// The descriptor. This may wait for the disk. `None` if it cannot be opened.
    pub(crate) fn open(&self) -> Option<&OwnedFd> {
        if self.opened.get().is_none() {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let fd = rustix::fs::open(path_of(self.own.as_ref()?), flags, Mode::empty()).ok()?;
            // If another thread has opened one meanwhile, this one is closed.
            let _ = self.opened.set(fd);
        }
        self.opened.get()
    }
}

/// A path that leads to the same inode as `fd` while that is open.
pub(crate) fn path_of(fd: &impl AsRawFd) -> CString {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    CString::new(path).expect("a number has no NUL")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    #[test]
    fn the_first_thread_opens_the_same_file_although_the_worker_has_closed_it_and_the_others_share_it()
     {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"a film").unwrap();
        let opened = Arc::default();
        let first = Sequential::new(&opened, file.as_fd()).unwrap();
        let second = Sequential::new(&opened, file.as_fd()).unwrap();
        assert!(opened.get().is_none(), "nothing is opened on the thread of the worker");
        drop(file);
        let number = first.open().unwrap().as_raw_fd();
        assert_eq!(second.open().unwrap().as_raw_fd(), number);
        let mut read = String::new();
        std::fs::File::from(first.open().unwrap().try_clone().unwrap())
            .read_to_string(&mut read)
            .unwrap();
        assert_eq!(read, "a film", "its position is its own");
    }

    #[test]
    fn once_it_is_open_a_load_needs_no_other_descriptor() {
        let file = tempfile::tempfile().unwrap();
        let opened = Arc::default();
        assert!(Sequential::new(&opened, file.as_fd()).unwrap().open().is_some());
        assert!(Sequential::new(&opened, file.as_fd()).unwrap().own.is_none());
    }
}
