//! What to change about a machine so that it serves faster: reads `/proc`, `/sys`, the settings of network cards and what
//! was tried on the library, and says what is worth changing, the most first.
//!
//! - A check reads; nothing here changes anything, and nothing is measured.
//! - What cannot be read, or makes no sense, is said to be unknown. It is never a fault, and never ends the program.
//! - A cost has a source: a published figure, a measurement in docs/notes, or arithmetic on what was read. Where nobody
//!   has measured it, the cost says so.
//!
//! Read first: [`examine`], then a file of `checks`, one for each area. docs/doctor.md is the operator's view.

mod checks;
mod diagnosis;
mod finding;
mod source;
mod tree;
mod visit;

pub use diagnosis::Diagnosis;
pub use finding::{Area, Cost, Finding, Unread, Worth};

use machine::ethtool::Ethtool;
use std::path::{Path, PathBuf};
use visit::Visit;

/// What is to be examined, and what was tried already.
pub struct Evidence<'a> {
    /// The folder that contains `proc` and `sys`.
    pub root: &'a Path,
    /// Tells the settings of network cards.
    pub ethtool: &'a dyn Ethtool,
    /// The folders of the library, free of links and `..`; none if there is no library to look at.
    pub library: &'a [PathBuf],
    /// Why the kernel refused to make a ring; `None` if it made one.
    pub ring_refused: Option<String>,
    /// What this process may not do with the library's files.
    pub refused: Vec<Finding>,
}

/// Looks at everything.
pub fn examine(evidence: Evidence<'_>) -> Diagnosis {
    let mut visit = Visit::new(evidence);
    for check in checks::ALL {
        check(&mut visit);
    }
    visit.into_diagnosis()
}
