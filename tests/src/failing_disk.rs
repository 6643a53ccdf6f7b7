//! A real filesystem that fails on request: ext4 on a loop device, shut down while it is being read.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::ioctl::{Setter, ioctl};
use tempfile::TempDir;

const IMAGE_BYTES: u64 = 24 << 20;

/// Keeps only synced data: by default, ext4 also writes a file out when it is renamed over another, and everything every 5 s.
const FORGETFUL: &str = "loop,noauto_da_alloc,commit=600";

/// `EXT4_IOC_SHUTDOWN` (linux/fs/ext4/ext4.h): after it, every read and every open gives EIO, as after a lost disk.
const SHUTDOWN: rustix::ioctl::Opcode = 0x8004_587d;
/// Without writing the journal out.
const NO_LOG_FLUSH: u32 = 2;

/// A mounted filesystem of its own.
pub struct FailingDisk {
    mounted: PathBuf,
    image: PathBuf,
    options: &'static str,
    _dir: TempDir,
}

impl FailingDisk {
    /// Makes and mounts one on the directory `at`.
    ///
    /// # Errors
    /// Says what is missing, if that is impossible here.
    pub fn mount(at: &Path) -> Result<Self, String> {
        Self::mount_with(at, IMAGE_BYTES, "loop")
    }

    /// As [`Self::mount`], a disk of `bytes` that fails as in a power failure: data that was not synced is lost when it is mounted
    /// again. The filesystem's journal keeps more than was synced, though: one sync writes out the names in all folders. And the image keeps
    /// data that a real disk might have lost from a cache that was not flushed.
    ///
    /// # Errors
    /// As [`Self::mount`].
    pub fn mount_forgetful(at: &Path, bytes: u64) -> Result<Self, String> {
        Self::mount_with(at, bytes, FORGETFUL)
    }

    fn mount_with(at: &Path, bytes: u64, options: &'static str) -> Result<Self, String> {
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        let image = dir.path().join("image");
        let made = File::create(&image).and_then(|file| file.set_len(bytes));
        made.map_err(|error| error.to_string())?;
        run(Command::new("mkfs.ext4").arg("-q").arg(&image), "apt install e2fsprogs")?;
        let disk = Self { mounted: at.into(), image, options, _dir: dir };
        disk.mount_again()?;
        Ok(disk)
    }

    /// Mounts it, for the first time or after it has failed.
    ///
    /// # Errors
    /// mount's error.
    pub fn mount_again(&self) -> Result<(), String> {
        let mut mount = Command::new("mount");
        mount.args(["-o", self.options]).arg(&self.image).arg(&self.mounted);
        run(&mut mount, "needs root, loop devices and apt install mount")
    }

    /// From now on, every access to it returns EIO.
    ///
    /// # Panics
    /// If that fails.
    pub fn fail(&self) {
        let root = File::open(&self.mounted).expect("it is mounted");
        // SAFETY: this request reads one u32, and returns nothing.
        let done = unsafe { ioctl(&root, Setter::<SHUTDOWN, u32>::new(NO_LOG_FLUSH)) };
        done.expect("ext4 shuts down");
    }

    /// Mounts it again after it has failed, with what it kept, once no process has files of it open.
    ///
    /// # Errors
    /// mount's error.
    ///
    /// # Panics
    /// If a process keeps using it.
    pub fn recover(&self) -> Result<(), String> {
        let mut umount = Command::new("umount");
        umount.arg(&self.mounted);
        crate::until("the disk to be out of use", || run(&mut umount, "").is_ok());
        self.mount_again()
    }

    /// Unmounts it, although a server may still have files of it open.
    ///
    /// # Errors
    /// umount's error.
    pub fn unmount(&self) -> Result<(), String> {
        run(
            Command::new("umount").arg("-l").arg(&self.mounted),
            "umount must work where mount does",
        )
    }
}

impl Drop for FailingDisk {
    fn drop(&mut self) {
        // Mounted once or, after a test that failed halfway, not at all.
        let _ = self.unmount();
    }
}

fn run(command: &mut Command, advice: &str) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}; {advice}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}; {advice}", String::from_utf8_lossy(&output.stderr).trim()))
}
