//! A disk of its own in a library: a filesystem in memory, mounted below it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A mounted filesystem.
pub(crate) struct OwnDisk(PathBuf);

impl OwnDisk {
    /// Makes the folder `at` a filesystem of its own; reports what is missing if that cannot be done here.
    pub(crate) fn mount(at: &Path) -> Result<Self, String> {
        std::fs::create_dir_all(at).map_err(|error| error.to_string())?;
        let mut mount = Command::new("mount");
        let output = mount.args(["-t", "tmpfs", "none"]).arg(at).output();
        let output = output.map_err(|error| format!("mount: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(format!("mounting needs root: {said}"));
        }
        Ok(Self(at.into()))
    }
}

impl Drop for OwnDisk {
    fn drop(&mut self) {
        // Lazily, because a server may still have files of it open.
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}
