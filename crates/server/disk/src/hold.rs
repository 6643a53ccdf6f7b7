//! Read leases: no program can write to a file while its lease stands.
//!
//! The kernel grants the lease only while no program has the file open or mapped for writing. A program that then opens it for writing, or truncates
//! it, waits until the lease is given back (`fcntl(2)`, "Leases"). So while the lease stands, the bytes stay as they were when it was taken. If the
//! times change meanwhile, only the mode, owner, name or links changed.
//!
//! Writers do not wait for viewers. Within a second the worker sees that a program waits ([`crate::Files::forget_recalled`]) and gives the lease
//! back; viewers of the file are cut off at their next window. The lease stays longer only where the kernel may still refer to the file's pages
//! (`sendfile`): until the sessions have cut those viewers off.
//!
//! The kernel refuses leases on files of other users (without `CAP_LEASE`), on filesystems without leases, and while a
//! program has the file open for writing. Then only the file's times show a change (see [`crate::stamp`]).

use reactor::{Fd, lease};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// How long a refusal counts: a program may be writing now and finish soon.
const REFUSED: Duration = Duration::from_secs(1);

/// How long the answer "no program waits to write" counts: a tenth of the shortest time that the kernel makes a writer wait, which is one second
/// (`fs.lease-break-time`; 45 by default, and 0 means forever).
const STANDS: Duration = Duration::from_millis(100);

/// Filesystems that only this kernel writes to, by their numbers in `statfs(2)`: ext4, XFS, Btrfs, F2FS, tmpfs, ZFS. On a network filesystem, or one
/// in user space, a lease may bind only the programs of this machine.
const LOCAL_FILESYSTEMS: [u64; 6] =
    [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994, 0x2fc1_2fc1];

/// The state of one open file's lease.
pub(crate) struct Hold {
    lease: Cell<Lease>,
    /// Set when the kernel may refer to the file's pages by itself.
    is_in_flight: Cell<bool>,
    /// When the kernel last answered that no program waits to write.
    stood: Cell<Option<Instant>>,
}

#[derive(Clone, Copy)]
enum Lease {
    Untried,
    Held,
    Refused {
        when: Instant,
        /// A program has the file open for writing. If not, leases are unavailable.
        by_writer: bool,
    },
    GivenBack,
}

impl Hold {
    pub(crate) fn new() -> Self {
        Self {
            lease: Cell::new(Lease::Untried),
            is_in_flight: Cell::new(false),
            stood: Cell::new(None),
        }
    }

    /// Takes the lease, unless that was tried a moment ago. Returns whether the lease is new.
    pub(crate) fn take(&self, fd: &Fd) -> bool {
        match self.lease.get() {
            Lease::Held | Lease::GivenBack => return false,
            Lease::Refused { when, .. } if reactor::now().duration_since(when) < REFUSED => {
                return false;
            }
            Lease::Refused { .. } | Lease::Untried => {}
        }
        let taken = lease::take(fd.borrowed());
        self.lease.set(match &taken {
            Ok(()) => Lease::Held,
            Err(error) => Lease::Refused {
                when: reactor::now(),
                by_writer: error.raw_os_error() == Some(libc::EAGAIN),
            },
        });
        taken.is_ok()
    }

    /// Returns true if the lease was taken and not given back. A program may be waiting for it.
    pub(crate) fn is_taken(&self) -> bool {
        matches!(self.lease.get(), Lease::Held)
    }

    pub(crate) fn is_given_back(&self) -> bool {
        matches!(self.lease.get(), Lease::GivenBack)
    }

    /// Returns true if the lease was refused because a program had the file open for writing.
    pub(crate) fn is_refused_by_writer(&self) -> bool {
        matches!(self.lease.get(), Lease::Refused { by_writer: true, .. })
    }

    /// Returns true if a program waits to write to the file, or did.
    pub(crate) fn is_recalled(&self, fd: &Fd) -> bool {
        self.is_given_back() || self.is_taken() && !lease::is_held(fd.borrowed())
    }

    /// As [`Self::is_recalled`], but asks the kernel at most ten times a second: no program can have written in between.
    pub(crate) fn is_recalled_in_passing(&self, fd: &Fd) -> bool {
        // Read the clock before asking the kernel, and not the reactor's cached time: this process may be stopped for a while in between.
        let before = Instant::now();
        let stands = |when| before.duration_since(when) < STANDS;
        if self.is_taken() && self.stood.get().is_some_and(stands) {
            return false;
        }
        let is_recalled = self.is_recalled(fd);
        self.stood.set((!is_recalled).then_some(before));
        is_recalled
    }

    /// Returns true if no program can have written to the file since the lease was taken, whatever its times show.
    pub(crate) fn vouches_for_bytes(&self, fd: &Fd) -> bool {
        self.is_taken() && lease::is_held(fd.borrowed()) && is_local(fd)
    }

    /// Records that the kernel may refer to the file's pages by itself from now on.
    pub(crate) fn note_sending(&self) {
        self.is_in_flight.set(true);
    }

    /// Lets a waiting writer continue, unless the kernel may refer to the file's pages. Returns whether a writer waited.
    pub(crate) fn give_way(&self, fd: &Fd) -> bool {
        let is_recalled = self.is_recalled(fd);
        if is_recalled && self.is_taken() && !self.is_in_flight.get() {
            // If giving the lease back fails, the kernel's own limit ends the wait.
            let _ = lease::give_back(fd.borrowed());
            self.lease.set(Lease::GivenBack);
        }
        is_recalled
    }
}

#[allow(clippy::unnecessary_cast, reason = "the field's width differs between architectures")]
fn is_local(fd: &Fd) -> bool {
    rustix::fs::fstatfs(fd.borrowed())
        .is_ok_and(|about| LOCAL_FILESYSTEMS.contains(&(about.f_type as u32 as u64)))
}
