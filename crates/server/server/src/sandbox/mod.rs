//! Least privilege after startup: the server gives up everything that it no longer needs, so that an attacker who takes it over gains
//! little. docs/sandbox.md describes the effect for the operator.
//!
//! There are four measures. Each is independent, and none is fatal if the kernel lacks it: no new privileges (no set-user-id
//! program can give any back), capabilities (`privileges`), Landlock over files and TCP (`files`), and a filter of system
//! calls (`calls`). Operations on an io_uring bypass the filter. Landlock applies to them, and each ring refuses operations that
//! the server never uses (`reactor::ring`).
//!
//! Invariants: [`confine_files`] comes before any thread starts, because Landlock covers the calling thread and those that it
//! starts (all threads at once needs Linux 7.0). [`confine_calls`] comes after every ring exists, because no new ring can be
//! made after it; it covers every thread.

mod calls;
mod files;
mod privileges;

pub use privileges::{give_up_for_rings, give_up_network_privileges};

use config::Config;
use config::silos::marks_when_moving;
use delivery::KernelOffload;
use std::fmt;
use std::sync::Arc;

/// The privileges that were given up and those that could not be, for the startup message.
#[derive(Clone, Debug, Default)]
pub struct SandboxReport {
    privileges: Option<String>,
    capabilities: Option<String>,
    files: Option<String>,
    calls: Option<String>,
    _kept: Option<Arc<files::Kept>>,
}

impl fmt::Display for SandboxReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [&self.privileges, &self.capabilities, &self.files, &self.calls];
        let said: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
        f.write_str(if said.is_empty() { "off" } else { "" })?;
        f.write_str(&said.join(", "))
    }
}

/// Gives up new privileges, all capabilities and files that serving does not need, and new TCP sockets, for this thread and
/// those that it starts from now on. This cannot be undone: a thread that has called it stays confined.
pub fn confine_files(config: &Config, offload: KernelOffload) -> SandboxReport {
    let privileges = match rustix::thread::set_no_new_privs(true) {
        Ok(()) => "no new privileges".to_owned(),
        Err(error) => format!("new privileges possible ({error})"),
    };
    let (files, kept) = match files::confine(config) {
        Ok((said, kept)) => (said, Some(Arc::new(kept))),
        Err(error) => (format!("files not confined ({error})"), None),
    };
    // Last, so that a folder that only root can reach is still granted.
    let capabilities = privileges::give_up(offload, marks_when_moving(config));
    SandboxReport {
        privileges: Some(privileges),
        capabilities: Some(capabilities),
        files: Some(files),
        calls: None,
        _kept: kept,
    }
}

/// Gives up the system calls that serving does not need, for every thread of the process, and notes it in `report`.
pub fn confine_calls(report: &mut SandboxReport, offload: KernelOffload) {
    report.calls = Some(match calls::confine(offload) {
        Ok(count) => format!("{count} system calls allowed (seccomp)"),
        Err(error) => format!("system calls not filtered ({error})"),
    });
}
