//! Least privilege after start-up: what the server will not need any more, it gives up, so that whoever finds a way in
//! finds little there. docs/sandbox.md says what that means for the operator.
//!
//! Four things, each on its own and none fatal where the kernel lacks it: no new privileges (no set-user-id program can
//! give any back), capabilities (`privileges`), Landlock over files and TCP (`files`), and a filter of system calls
//! (`calls`). Operations on an io_uring pass the filter unseen; Landlock sees them, and each ring refuses by itself what
//! is never asked of it (`reactor::ring`).
//!
//! Invariants: [`confine_files`] comes before any thread starts, since Landlock holds for the thread that asks and for
//! those that it starts (all threads at once needs Linux 7.0). [`confine_calls`] comes when every ring exists, since no
//! new one can be made after it; it holds for every thread.

mod calls;
mod files;
mod privileges;

pub use privileges::{give_up_for_rings, give_up_network_privileges};

use crate::config::Config;
use delivery::KernelOffload;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// What was given up, and what could not be, for the start-up message.
#[derive(Clone, Debug, Default)]
pub struct Report {
    privileges: Option<String>,
    capabilities: Option<String>,
    files: Option<String>,
    calls: Option<String>,
    _kept: Option<Arc<files::Kept>>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [&self.privileges, &self.capabilities, &self.files, &self.calls];
        let said: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
        f.write_str(if said.is_empty() { "off" } else { "" })?;
        f.write_str(&said.join(", "))
    }
}

/// Gives up new privileges, capabilities and files other than those that serving needs, and new TCP sockets: for this
/// thread and those that it starts from now on. Nothing is undone: a thread that has called this stays confined.
pub fn confine_files(config: &Config, library: &Path, offload: KernelOffload) -> Report {
    let privileges = match rustix::thread::set_no_new_privs(true) {
        Ok(()) => "no new privileges".to_owned(),
        Err(error) => format!("new privileges possible ({error})"),
    };
    let (files, kept) = match files::confine(config, library) {
        Ok((said, kept)) => (said, Some(Arc::new(kept))),
        Err(error) => (format!("files not confined ({error})"), None),
    };
    // Last: a folder that only root reaches is granted all the same.
    let capabilities = privileges::give_up(offload);
    Report {
        privileges: Some(privileges),
        capabilities: Some(capabilities),
        files: Some(files),
        calls: None,
        _kept: kept,
    }
}

/// Gives up the system calls that serving does not need, for every thread of the process, and says so in `report`.
pub fn confine_calls(report: &mut Report, offload: KernelOffload) {
    report.calls = Some(match calls::confine(offload) {
        Ok(count) => format!("{count} system calls allowed (seccomp)"),
        Err(error) => format!("system calls not filtered ({error})"),
    });
}
