//! The root of one folder, and whether its disk still lets files be opened.

use reactor::Fd;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Each open that waits for a disk takes one of the threads that the kernel gives a ring, of which there are 512 by
/// default. When all wait for a disk that hangs, no file of any folder can be opened. So a folder gets this many.
const WAITING_MAX: usize = 64;

/// So many opens at once are no sign of a disk that hangs: many viewers may ask in the same moment. They are one if
/// they stay that many for this long. A healthy disk has opened them by then.
const HANGS_AFTER: Duration = Duration::from_secs(1);

/// The root of a folder.
pub(crate) struct Root {
    fd: Fd,
    /// Since when the most opens have been waiting.
    full_since: Cell<Option<Instant>>,
}

impl Root {
    pub(crate) fn new(fd: Fd) -> Self {
        Self { fd, full_since: Cell::new(None) }
    }

    pub(crate) fn fd(&self) -> &Fd {
        &self.fd
    }

    /// Whether the disk hangs, so that nothing more should be opened. Ask before each open: only so it notices that
    /// the number of opens falls and rises again.
    pub(crate) fn hangs(&self, now: Instant) -> bool {
        // Each open in the kernel refers to the root, also after its viewer has left.
        let waiting = self.fd.users() - 1;
        if waiting < WAITING_MAX {
            self.full_since.set(None);
            return false;
        }
        let since = self.full_since.get().unwrap_or(now);
        self.full_since.set(Some(since));
        now.duration_since(since) > HANGS_AFTER
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::OwnedFd;

    #[test]
    fn a_disk_hangs_if_many_opens_wait_for_long() {
        let root = Root::new(OwnedFd::from(File::open("/").unwrap()).into());
        let start = Instant::now();
        let long = 2 * HANGS_AFTER;
        let mut waiting: Vec<_> = (1..WAITING_MAX).map(|_| root.fd().clone()).collect();
        assert!(!root.hangs(start) && !root.hangs(start + long));
        waiting.push(root.fd().clone());
        // A burst.
        assert!(!root.hangs(start + long) && !root.hangs(start + long + HANGS_AFTER));
        assert!(root.hangs(start + 2 * long));
        // One open ends, and a new burst begins.
        waiting.pop();
        assert!(!root.hangs(start + 2 * long));
        waiting.push(root.fd().clone());
        assert!(!root.hangs(start + 3 * long) && root.hangs(start + 4 * long));
    }
}
