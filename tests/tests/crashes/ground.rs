//! The folder of a crashing program.

use std::path::Path;

use fullbore_tests::{FailingDisk, tool};
use tempfile::TempDir;

const DISK_BYTES: u64 = 256 << 20;

/// How a program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crash {
    /// It is killed. The page cache stays.
    Kill,
    /// The power fails: unsynced data is lost.
    PowerFailure,
}

/// A folder in which a program keeps the data that it must not lose.
pub(crate) struct Ground {
    /// Unmounted before its folder is removed.
    disk: Option<FailingDisk>,
    folder: TempDir,
}

impl Ground {
    /// A folder in which the program will crash like this. Reports what is missing if that is impossible here.
    pub(crate) fn new(crash: Crash) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let disk = match crash {
            Crash::Kill => None,
            Crash::PowerFailure => match FailingDisk::mount_forgetful(folder.path(), DISK_BYTES) {
                Ok(disk) => Some(disk),
                Err(why) => {
                    tool::skip(&why);
                    return None;
                }
            },
        };
        Some(Self { disk, folder })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Runs `kill`, which kills all users of the folder. If the power fails, it fails first: from then on, nothing can be written.
    pub(crate) fn crash(&self, kill: impl FnOnce()) {
        if let Some(disk) = &self.disk {
            disk.fail();
        }
        kill();
        if let Some(disk) = &self.disk {
            disk.recover().unwrap();
        }
    }
}
