//! Finds settings of a machine that make serving slower: reads `/proc`, `/sys`, the settings of network cards and the results of
//! trials on the library, and lists possible changes, the most valuable first.
//!
//! - A check reads; nothing here changes anything, and nothing is measured: measurements are passed in as evidence.
//! - A value that cannot be read, or is impossible, is reported as unknown. It is never a fault, and never ends the program.
//! - A cost has a source: a published figure, a measurement in docs/notes, or arithmetic on the values read. A cost without a
//!   measurement is marked as such.
//!
//! Read first: [`examine`], then a file of `checks`, one for each area. docs/doctor.md is the operator's view.

mod checks;
mod diagnosis;
mod finding;
mod inventory;
mod source;
mod tree;
mod visit;

pub use diagnosis::Diagnosis;
pub use finding::{Area, Cost, Finding, Unread, Worth};
pub use inventory::HardwareDevice;

use machine::ethtool::Ethtool;
use machine::{DiskLogs, SocketLinks};
use std::path::{Path, PathBuf};
use visit::Visit;

/// Everything to examine, and the results of earlier trials.
pub struct Evidence<'a> {
    /// The folder that contains `proc` and `sys`.
    pub root: &'a Path,
    /// The source of network cards' settings.
    pub ethtool: &'a dyn Ethtool,
    /// The source of NVMe disks' health.
    pub disk_logs: &'a dyn DiskLogs,
    /// The source of facts about the links between sockets.
    pub socket_links: &'a dyn SocketLinks,
    /// How fast nodes reach each other's memory; empty if that was not measured.
    pub node_rates: &'a [NodeRate],
    /// The folders of the library, free of links and `..`; none if there is no library to examine.
    pub library: &'a [PathBuf],
    /// The results of trials on the library's filesystems; one each.
    pub filesystems: &'a [TriedFilesystem],
    /// Why the kernel refused to make a ring; `None` if it made one.
    pub ring_refused: Option<String>,
    /// Operations on the library's files that this process may not do.
    pub refused: Vec<Finding>,
}

/// A filesystem of the library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriedFilesystem {
    /// A file in it, free of links and `..`.
    pub film: PathBuf,
    /// The size of its blocks; `None` if it does not report one.
    pub block_bytes: Option<u64>,
    /// Why a read that leaves nothing in the page cache (`RWF_DONTCACHE`) failed, as the kernel's error number; `None` if it succeeded.
    pub read_once_refused: Option<i32>,
}

/// The rate at which the CPUs of a node copy memory of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeRate {
    /// The node of the CPUs.
    pub cpus: u32,
    /// The node of the memory.
    pub memory: u32,
    /// Read and written.
    pub gbytes_per_second: f64,
}

/// Runs all checks.
pub fn examine(evidence: Evidence<'_>) -> Diagnosis {
    let mut visit = Visit::new(evidence);
    for check in checks::ALL {
        check(&mut visit);
    }
    visit.into_diagnosis()
}
