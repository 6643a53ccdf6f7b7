//! A counted descriptor: open as long as an owner, or an operation in the kernel, still uses it.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;

/// A descriptor that operations keep open while they run.
///
/// Without the count, closing a descriptor between queueing an operation and submitting it would let the kernel run
/// the operation on whatever file got the same number next.
#[derive(Clone, Debug)]
pub struct Fd(Rc<OwnedFd>);

impl Fd {
    /// Borrows the descriptor, for calls that end before they return.
    pub fn borrowed(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.0.as_fd()
    }

    /// How many users the descriptor has: each clone, and each operation that the kernel has not ended.
    pub fn users(&self) -> usize {
        Rc::strong_count(&self.0)
    }

    /// Takes the descriptor out, so that another thread may have it. Returns `self` instead if it has another user, such as an operation in the
    /// kernel.
    ///
    /// # Errors
    /// `self`, unchanged.
    pub fn into_owned(self) -> Result<OwnedFd, Self> {
        Rc::try_unwrap(self.0).map_err(Self)
    }
}

impl From<OwnedFd> for Fd {
    fn from(fd: OwnedFd) -> Self {
        Self(Rc::new(fd))
    }
}

impl AsRawFd for Fd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
