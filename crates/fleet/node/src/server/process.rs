//! A process, identified by its number, its start time and its program: the number alone may belong to another process by now.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// Distinguishes a process from a later one with the same number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// Its process ID.
    pub(crate) pid: i32,
    /// When it started, in clock ticks since the machine did (proc_pid_stat(5), field 22).
    start_ticks: u64,
    /// The machine's boot ID, new at each start of the machine.
    boot: String,
    /// Its program. A process whose program file was replaced is still the same one.
    program: PathBuf,
}

impl Identity {
    /// The identity of the process with this number, if it is running and we may inspect it.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The second field is a name in brackets, which may contain anything.
        let fields: Vec<_> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let start_ticks = fields.get(19)?.parse().ok()?;
        // A zombie has no program.
        let program = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
        let shown = program.to_string_lossy();
        let program = PathBuf::from(shown.strip_suffix(" (deleted)").unwrap_or(&shown));
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned();
        Some(Self { pid, start_ticks, boot, program })
    }

    /// The process, if it is still running.
    pub(crate) fn process(&self) -> Option<Process> {
        let number = Pid::from_raw(self.pid)?;
        let descriptor = pidfd_open(number, PidfdFlags::empty()).ok()?;
        // Check after opening: this ensures that the descriptor belongs to that process.
        (Self::of(self.pid).as_ref() == Some(self)).then_some(Process { descriptor })
    }

    /// The files that the process has open: device and inode of each.
    ///
    /// # Errors
    /// If they cannot be listed: the process has ended, or we may not inspect it.
    pub(crate) fn open_files(&self) -> io::Result<HashSet<(u64, u64)>> {
        let mut open = HashSet::new();
        for entry in fs::read_dir(format!("/proc/{}/fd", self.pid))? {
            // A descriptor that was closed meanwhile is not open.
            if let Ok(file) = fs::metadata(entry?.path()) {
                open.insert((file.dev(), file.ino()));
            }
        }
        match Self::of(self.pid).as_ref() == Some(self) {
            true => Ok(open),
            false => Err(io::Error::other("it has ended")),
        }
    }

    /// Finds a running server with this command line: `fullbore serve ... --state STATE ...`.
    pub(crate) fn find(program: &std::path::Path, state: &str) -> Option<Self> {
        let numbers = fs::read_dir("/proc").ok()?.flatten();
        let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_it = |identity: &Self| {
            let words = identity.words();
            let names_state =
                words.windows(2).any(|two| two[0] == b"--state" && two[1] == state.as_bytes());
            let serves = words.get(1).is_some_and(|word| word == b"serve");
            identity.program == program && serves && names_state
        };
        numbers.filter_map(Self::of).find(is_it)
    }

    /// The folders given by the agent that started it: `fullbore serve --library A --library B ...`.
    pub(crate) fn libraries(&self) -> Vec<PathBuf> {
        let words = self.words();
        let pairs = words.get(2..).unwrap_or_default().chunks_exact(2);
        let pairs = pairs.take_while(|pair| pair[0] == b"--library");
        pairs.map(|pair| PathBuf::from(OsString::from_vec(pair[1].clone()))).collect()
    }

    /// Its command line.
    fn words(&self) -> Vec<Vec<u8>> {
        let line = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        line.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
    }
}

/// A running process. Signals reach it, and never a later one with the same number.
#[derive(Debug)]
pub(crate) struct Process {
    descriptor: OwnedFd,
}

impl Process {
    /// Sends it a signal, unless it has ended.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = pidfd_send_signal(&self.descriptor, signal);
    }

    /// Waits until it ends, `most` at most. Returns whether it has ended.
    pub(crate) fn wait(&self, most: Duration) -> io::Result<bool> {
        let mut fds = [PollFd::new(&self.descriptor, PollFlags::IN)];
        let most = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
        match poll(&mut fds, Some(&most)) {
            Err(rustix::io::Errno::INTR) => Ok(false),
            polled => Ok(polled? > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_is_known_until_it_ends_and_its_successor_is_another() {
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let identity = Identity::of(child.id() as i32).unwrap();
        let process = identity.process().expect("it runs");
        assert!(!process.wait(Duration::ZERO).unwrap());
        let successor = Identity { start_ticks: identity.start_ticks + 1, ..identity.clone() };
        assert!(successor.process().is_none());
        process.signal(Signal::KILL);
        assert!(process.wait(Duration::from_secs(10)).unwrap());
        assert!(identity.process().is_none(), "it has ended, and waits for its parent");
        child.wait().unwrap();
        assert_eq!(Identity::of(identity.pid), None);
        assert!(identity.open_files().is_err(), "its open files are unknown");
    }

    #[test]
    fn the_files_that_a_process_has_open_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let [open, other] = ["open", "other"].map(|name| {
            fs::write(folder.path().join(name), name).unwrap();
            fs::File::open(folder.path().join(name)).unwrap()
        });
        let number = |file: &fs::File| file.metadata().map(|one| (one.dev(), one.ino())).unwrap();
        let [open, closed] = [(number(&open), Some(open)), (number(&other), None)];
        drop(other);
        let own = Identity::of(std::process::id() as i32).unwrap().open_files().unwrap();
        assert!(own.contains(&open.0) && !own.contains(&closed.0));
    }
}
