//! A wrong or jumping clock for single processes, by Debian's libfaketime. Only the time of day is wrong; time spans stay right.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::tool;

/// Debian's folder of the library, below `/usr/lib`, by processor.
const LIBRARY: &str = "faketime/libfaketime.so.1";

/// The time for processes that have [`FakeClock::variables`] in their environment.
///
/// They read a file for it now and then, so a server must run without its sandbox, which would prevent that.
pub struct FakeClock {
    library: PathBuf,
    folder: TempDir,
}

impl FakeClock {
    /// A correct clock. If there is no libfaketime here, reports that and returns `None`.
    ///
    /// # Panics
    /// If it cannot write its file.
    pub fn if_possible() -> Option<Self> {
        let processors = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
        let library =
            processors.map(|entry| entry.path().join(LIBRARY)).find(|path| path.is_file());
        let Some(library) = library else {
            tool::skip("there is no libfaketime on this machine: apt install faketime");
            return None;
        };
        let clock = Self { library, folder: tempfile::tempdir().expect("a folder") };
        clock.set_ahead(0);
        Some(clock)
    }

    /// From now on it is this many seconds ahead of the machine's; behind, if negative. Processes notice within a second.
    ///
    /// # Panics
    /// If it cannot write its file.
    pub fn set_ahead(&self, seconds: i64) {
        // Readers must never find half of it.
        let fresh = self.folder.path().join("fresh");
        fs::write(&fresh, format!("{seconds:+}\n")).expect("written");
        fs::rename(fresh, self.place()).expect("renamed");
    }

    /// Environment variables for a process, whose children inherit them.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        vec![
            ("LD_PRELOAD", self.library.display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", self.place().display().to_string()),
            ("FAKETIME_CACHE_DURATION", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ]
    }

    fn place(&self) -> PathBuf {
        self.folder.path().join("clock")
    }
}
