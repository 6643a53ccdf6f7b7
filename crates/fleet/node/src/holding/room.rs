//! Free space on the disks of the library.

use std::path::Path;

/// The reserve to leave free on a disk, or a hundredth of the disk if that is less: filesystems get slow when they are full.
const KEPT_FREE_BYTES: u64 = 1 << 30;

/// Bytes that can still be written to the disk of `folder`; 0 if unknown.
pub(crate) fn free_bytes(folder: &Path) -> u64 {
    rustix::fs::statvfs(folder).map_or(0, |disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// The reserve on the disk of `folder`, in bytes.
pub(crate) fn kept_free_bytes(folder: &Path) -> u64 {
    let all =
        rustix::fs::statvfs(folder).map_or(0, |disk| disk.f_blocks.saturating_mul(disk.f_frsize));
    KEPT_FREE_BYTES.min(all / 100)
}
