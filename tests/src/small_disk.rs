//! A small disk that fills up soon.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tool;

/// A file system in memory, mounted over a folder, which goes away with it.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts `kibibytes` over the folder `at`, for its owner alone. Reports what is missing if that cannot be done.
    pub fn mount(at: &Path, kibibytes: usize) -> Option<Self> {
        let options = format!("size={kibibytes}k,mode=700");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(at);
        match mount.output() {
            Ok(done) if done.status.success() => Some(Self(at.to_owned())),
            other => {
                tool::skip(&format!("cannot mount a small disk, which takes root: {other:?}"));
                None
            }
        }
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}
