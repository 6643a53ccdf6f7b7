//! What the kernel reports about a running server: its memory, descriptors, leases and threads.

use crate::server::Server;
use std::fs;
use std::path::PathBuf;

impl Server {
    fn proc(&self, name: &str) -> PathBuf {
        format!("/proc/{}/{name}", self.process_id()).into()
    }

    /// How many file descriptors it has open.
    ///
    /// # Panics
    /// If it is gone.
    pub fn descriptors(&self) -> usize {
        self.proc("fd").read_dir().expect("the server runs").count()
    }

    /// How many leases it holds on files.
    ///
    /// # Panics
    /// If the kernel does not list leases.
    pub fn leases(&self) -> usize {
        let locks = fs::read_to_string("/proc/locks").expect("the kernel tells");
        let process = self.process_id().to_string();
        // 1: LEASE  ACTIVE    READ  1234 08:01:42 0 EOF
        let leases = locks.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
        leases
            .filter(|words| words.get(1) == Some(&"LEASE") && words.get(4) == Some(&&*process))
            .count()
    }

    /// Its own resident memory, in bytes: pages that it wrote to, without the program's pages on disk and the files
    /// that it serves.
    ///
    /// # Panics
    /// If it is gone.
    pub fn own_memory_bytes(&self) -> u64 {
        self.status_bytes("RssAnon:")
    }

    /// All its resident memory, in bytes.
    ///
    /// # Panics
    /// If it is gone.
    pub fn resident_bytes(&self) -> u64 {
        self.status_bytes("VmRSS:")
    }

    /// A memory field of its `/proc/PID/status`, in bytes.
    ///
    /// # Panics
    /// If it is gone, or there is no such field.
    pub fn status_bytes(&self, field: &str) -> u64 {
        let status = fs::read_to_string(self.proc("status")).expect("the server runs");
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kibibytes = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kibibytes.expect("the kernel tells what a process has resident") * 1024
    }

    /// The first word of this field in each of its threads' `/proc/PID/task/TID/status`.
    ///
    /// # Panics
    /// If it is gone, or there is no such field.
    pub fn of_every_thread(&self, field: &str) -> Vec<String> {
        let threads = self.proc("task").read_dir().expect("the server runs");
        // The kernel's own workers for the ring come and go, and one that is gone has no status.
        let statuses = threads
            .filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("status")).ok());
        let values = statuses.map(|status| {
            let line = status.lines().find(|line| line.starts_with(&format!("{field}:")));
            let value = line.and_then(|line| line.split_ascii_whitespace().nth(1));
            value.expect("the kernel says so").to_owned()
        });
        values.collect()
    }
}
