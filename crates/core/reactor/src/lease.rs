//! Read leases: as long as one is held, no program writes to the file (`fcntl(2)`, "Leases").
//!
//! A program that opens a leased file for writing, or truncates it, waits until the lease is given back: at most `/proc/sys/fs/lease-break-time`
//! seconds, 45 by default. A lease ends when its descriptor is closed. The kernel grants it for files that this process owns, or with `CAP_LEASE`,
//! and only while no program has them open for writing.
//!
//! [`is_held`] asks whether a program waits. The kernel also sends a signal; this replaces the default, which would end the process, with one that
//! is ignored by default (`SIGURG`).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The same on every architecture except PA-RISC, and missing from the libc crate.
const F_SETSIG: libc::c_int = 10;

/// Takes a read lease on an open file.
///
/// # Errors
/// `EAGAIN` while a program has it open for writing; `EACCES` for another user's file; `EINVAL` where the filesystem has no leases.
pub fn take(file: BorrowedFd<'_>) -> io::Result<()> {
    control(file, F_SETSIG, libc::SIGURG)?;
    control(file, libc::F_SETLEASE, libc::F_RDLCK).map(drop)
}

/// Gives a lease back.
///
/// # Errors
/// `EAGAIN` where there is none.
pub fn give_back(file: BorrowedFd<'_>) -> io::Result<()> {
    control(file, libc::F_SETLEASE, libc::F_UNLCK).map(drop)
}

/// Returns true if the lease is held and no program waits for its end.
pub fn is_held(file: BorrowedFd<'_>) -> bool {
    control(file, libc::F_GETLEASE, 0).is_ok_and(|kind| kind == libc::F_RDLCK)
}

fn control(file: BorrowedFd<'_>, command: libc::c_int, argument: libc::c_int) -> io::Result<i32> {
    // SAFETY: these commands take an integer and point to no memory.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, argument) };
    if result >= 0 { Ok(result) } else { Err(io::Error::last_os_error()) }
}
