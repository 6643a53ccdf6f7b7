//! Free room on the disks of the library.

use std::path::Path;

/// At least this much stays free on a disk, or a hundredth of it if that is less: filesystems get slow when they are full.
const KEPT_FREE_BYTES: u64 = 1 << 30;

/// Bytes that may still be written to the disk of `folder`; 0 if it cannot be told.
pub(crate) fn free_bytes(folder: &Path) -> u64 {
    rustix::fs::statvfs(folder).map_or(0, |disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Bytes that are to stay free on the disk of `folder`.
pub(crate) fn kept_free_bytes(folder: &Path) -> u64 {
    let all =
        rustix::fs::statvfs(folder).map_or(0, |disk| disk.f_blocks.saturating_mul(disk.f_frsize));
    KEPT_FREE_BYTES.min(all / 100)
}
