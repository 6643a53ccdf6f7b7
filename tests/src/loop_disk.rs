//! A disk with a read-ahead of its own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tool;

/// An ext4 filesystem in a file, on a loop device, mounted over a folder. It is removed on drop.
pub struct LoopDisk(PathBuf);

impl LoopDisk {
    /// Makes one of `bytes` in the file `image` and mounts it over the folder `at`, where the kernel reads `read_ahead_kib` ahead. Reports what
    /// is missing if that cannot be done.
    pub fn mount(image: &Path, at: &Path, bytes: u64, read_ahead_kib: u32) -> Option<Self> {
        let tools = [
            ("mkfs.ext4", "e2fsprogs"),
            ("losetup", "mount"),
            ("blockdev", "util-linux"),
            ("mount", "mount"),
        ];
        if !tool::are_here(&tools) {
            return None;
        }
        match try_mount(image, at, bytes, read_ahead_kib) {
            Ok(()) => Some(Self(at.to_owned())),
            Err(why) => {
                tool::skip(&format!("cannot mount a loop device, which takes root: {why}"));
                None
            }
        }
    }
}

fn try_mount(image: &Path, at: &Path, bytes: u64, read_ahead_kib: u32) -> Result<(), String> {
    let file = File::create(image).map_err(|error| error.to_string())?;
    file.set_len(bytes).map_err(|error| error.to_string())?;
    run(Command::new("mkfs.ext4").args(["-q", "-F", "-b", "4096"]).arg(image))?;
    let device = run(Command::new("losetup").args(["--find", "--show"]).arg(image))?;
    let sectors = (read_ahead_kib * 2).to_string();
    let mounted = run(Command::new("blockdev").args(["--setra", &sectors, &device]))
        .and_then(|_| run(Command::new("mount").arg(&device).arg(at)));
    // A device in use is removed when it is unmounted.
    let detached = run(Command::new("losetup").args(["--detach", &device]));
    mounted.and(detached).map(drop)
}

/// The output of `command`, without the line's end.
fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}
