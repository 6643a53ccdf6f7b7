//! The root of one folder, and a check whether its disk still lets files be opened.

use reactor::Fd;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// How many opens of one folder may wait for its disk before the disk can count as hanging. Each takes one of the threads that the kernel gives a
/// ring, of which there are 512 by default. When all of them wait for a disk that hangs, no file of any folder can be opened.
const WAITING_MAX: usize = 64;

/// How long that many opens must have been waiting before the disk counts as hanging. A burst of viewers may cause as many for a moment, and a
/// healthy disk opens them in less time than this.
const HANGS_AFTER: Duration = Duration::from_secs(1);

/// The root of a folder.
pub(crate) struct Root {
    fd: Fd,
    /// Since when the maximum number of opens has been waiting.
    full_since: Cell<Option<Instant>>,
}

impl Root {
    pub(crate) fn new(fd: Fd) -> Self {
        Self { fd, full_since: Cell::new(None) }
    }

    pub(crate) fn fd(&self) -> &Fd {
        &self.fd
    }

    /// Returns true if the disk hangs, so that nothing more should be opened. Call it before each open: only then does it notice that the number of
    /// opens falls and rises again.
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
        // A burst of opens.
        assert!(!root.hangs(start + long) && !root.hangs(start + long + HANGS_AFTER));
        assert!(root.hangs(start + 2 * long));
        // One open ends, and a new burst begins.
        waiting.pop();
        assert!(!root.hangs(start + 2 * long));
        waiting.push(root.fd().clone());
        assert!(!root.hangs(start + 3 * long) && root.hangs(start + 4 * long));
    }
}
