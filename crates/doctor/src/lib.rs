//! What to change about a machine so that it serves faster: reads `/proc`, `/sys`, the settings of network cards and what
//! was tried on the library, and says what is worth changing, the most first.
//!
//! - A check reads; nothing here changes anything, and nothing is measured: what was measured is evidence.
//! - What cannot be read, or makes no sense, is said to be unknown. It is never a fault, and never ends the program.
//! - A cost has a source: a published figure, a measurement in docs/notes, or arithmetic on what was read. Where nobody
//!   has measured it, the cost says so.
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
pub use inventory::Device;

use machine::ethtool::Ethtool;
use machine::{DiskLogs, SocketLinks};
use std::path::{Path, PathBuf};
use visit::Visit;

/// What is to be examined, and what was tried already.
pub struct Evidence<'a> {
    /// The folder that contains `proc` and `sys`.
    pub root: &'a Path,
    /// Tells the settings of network cards.
    pub ethtool: &'a dyn Ethtool,
    /// Tells the health of NVMe disks.
    pub disk_logs: &'a dyn DiskLogs,
    /// Tells of the links between sockets.
    pub socket_links: &'a dyn SocketLinks,
    /// How fast nodes reach each other's memory; empty if that was not measured.
    pub node_rates: &'a [NodeRate],
    /// The folders of the library, free of links and `..`; none if there is no library to look at.
    pub library: &'a [PathBuf],
    /// What was tried on the library's filesystems; one for each.
    pub filesystems: &'a [TriedFilesystem],
    /// Why the kernel refused to make a ring; `None` if it made one.
    pub ring_refused: Option<String>,
    /// What this process may not do with the library's files.
    pub refused: Vec<Finding>,
}

/// A filesystem of the library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriedFilesystem {
    /// A file in it, free of links and `..`.
    pub film: PathBuf,
    /// The size of its blocks; `None` if it does not tell.
    pub block_bytes: Option<u64>,
    /// Why a read that leaves nothing in the page cache (`RWF_DONTCACHE`) failed, by the kernel's number of the error; `None` if it did not.
    pub read_once_refused: Option<i32>,
}

/// How fast the CPUs of a node copy memory of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeRate {
    /// The node of the CPUs.
    pub cpus: u32,
    /// The node of the memory.
    pub memory: u32,
    /// Read and written.
    pub gbytes_per_second: f64,
}

/// Looks at everything.
pub fn examine(evidence: Evidence<'_>) -> Diagnosis {
    let mut visit = Visit::new(evidence);
    for check in checks::ALL {
        check(&mut visit);
    }
    visit.into_diagnosis()
}
