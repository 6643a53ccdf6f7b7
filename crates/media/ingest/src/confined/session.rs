//! Gives a program's session the priority of this process.
//!
//! Where `kernel.sched_autogroup_enabled` is 1, as by default on Debian, the kernel shares processors between sessions first, and nice values
//! count only within one session (sched(7), "The autogroup feature"). A film that is encoded at the lowest priority would still get as much as
//! a server that was started elsewhere. So each program has a session of its own, which gets the nice value of this process. Services of
//! systemd are in control groups, which share processors by their weights instead.

use std::fs;
use std::io::ErrorKind;

use rustix::process::{Pid, getpriority_process};

/// The priority that a session does not have yet.
pub(super) struct SessionPriority(Option<i32>);

impl SessionPriority {
    /// That of the calling thread, which is what a watch has lowered. None if it is the usual one.
    pub(super) fn of_this_thread() -> Self {
        Self(getpriority_process(None).ok().filter(|nice| *nice > 0))
    }

    /// Sets the priority of the session of `process`, if it is not set yet. The kernel accepts one change in a tenth of a second from all users but
    /// root, and refuses others with EAGAIN (`proc_sched_autogroup_set_nice`): then try again later.
    pub(super) fn set(&mut self, process: Pid) {
        let Some(nice) = self.0 else { return };
        let path = format!("/proc/{}/autogroup", process.as_raw_nonzero());
        let written = fs::write(path, nice.to_string());
        // Other errors are for good: the kernel has no such groups, or the process has ended.
        if written.err().map(|error| error.kind()) != Some(ErrorKind::WouldBlock) {
            self.0 = None;
        }
    }
}
