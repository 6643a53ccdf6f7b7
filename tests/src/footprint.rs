//! What the kernel says of a running server: its memory, descriptors, leases and threads.

use crate::server::Server;
use std::fs;
use std::path::PathBuf;

impl Server {
    fn proc(&self, name: &str) -> PathBuf {
        format!("/proc/{}/{name}", self.process_id()).into()
    }

    /// File descriptors that it has open.
    ///
    /// # Panics
    /// When it is gone.
    pub fn descriptors(&self) -> usize {
        self.proc("fd").read_dir().expect("the server runs").count()
    }

    /// Leases that it holds on files.
    ///
    /// # Panics
    /// When the kernel lists none.
    pub fn leases(&self) -> usize {
        let locks = fs::read_to_string("/proc/locks").expect("the kernel tells");
        let process = self.process_id().to_string();
        // 1: LEASE  ACTIVE    READ  1234 08:01:42 0 EOF
        let leases = locks.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
        leases
            .filter(|words| words.get(1) == Some(&"LEASE") && words.get(4) == Some(&&*process))
            .count()
    }

    /// Resident memory of its own, in bytes: what it wrote to, not the program's pages on disk, nor the files that it serves.
    ///
    /// # Panics
    /// When it is gone.
    pub fn own_memory_bytes(&self) -> u64 {
        self.status_bytes("RssAnon:")
    }

    /// All that is resident, in bytes.
    ///
    /// # Panics
    /// When it is gone.
    pub fn resident_bytes(&self) -> u64 {
        self.status_bytes("VmRSS:")
    }

    /// A field of its `/proc/PID/status` that is of memory, in bytes.
    ///
    /// # Panics
    /// When it is gone, or there is no such field.
    pub fn status_bytes(&self, field: &str) -> u64 {
        let status = fs::read_to_string(self.proc("status")).expect("the server runs");
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kibibytes = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kibibytes.expect("the kernel tells what a process has resident") * 1024
    }

    /// The first word of a field of each of its threads' `/proc/PID/task/TID/status`.
    ///
    /// # Panics
    /// When it is gone, or there is no such field.
    pub fn of_every_thread(&self, field: &str) -> Vec<String> {
        let threads = self.proc("task").read_dir().expect("the server runs");
        // The kernel's own workers for the ring come and go; one that has gone has no status.
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
