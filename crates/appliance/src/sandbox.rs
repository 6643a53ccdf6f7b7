//! Least privilege after start-up.

use crate::config::Config;
use std::fmt;
use std::path::Path;

/// What the kernel let us give up.
#[derive(Clone, Debug, Default)]
pub struct Report {
    files: Option<String>,
    calls: Option<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.files, &self.calls) {
            (None, None) => f.write_str("off"),
            (files, calls) => {
                let said: Vec<&str> =
                    [files, calls].into_iter().flatten().map(String::as_str).collect();
                f.write_str(&said.join(", "))
            }
        }
    }
}

/// Confines the files.
pub fn confine_files(_config: &Config, _library: &Path) -> Report {
    Report::default()
}

/// Confines the calls.
pub fn confine_calls(_report: &mut Report) {}
