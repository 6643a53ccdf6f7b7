//! The node of a disk, from /sys/dev/block (kernel documentation: ABI, sysfs-dev, sysfs-block).

use crate::root::Root;
use crate::topology::{LAYERS_MAX, Topology, agreed, node_above};
use std::path::Path;

impl Topology {
    /// The node of the disk under a filesystem. `device` is the block device as `stat` says it in `st_dev` (or in `st_rdev` of a device
    /// file). `None` if it is unknown, or if the filesystem lies on disks of several nodes.
    pub fn node_of_disk(&self, device: u64) -> Option<u32> {
        of_block_device(&self.root, &self.folder_of_disk(device)?, LAYERS_MAX)
    }

    /// The kernel's name of a block device, such as `nvme0n1p1`.
    pub fn name_of_disk(&self, device: u64) -> Option<String> {
        let folder = self.folder_of_disk(device)?;
        Some(folder.file_name()?.to_string_lossy().into_owned())
    }

    fn folder_of_disk(&self, device: u64) -> Option<std::path::PathBuf> {
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        self.root.real(format!("sys/dev/block/{major}:{minor}"))
    }
}

fn of_block_device(root: &Root, folder: &Path, layers: usize) -> Option<u32> {
    let disk = if root.has(folder.join("partition")) { folder.parent()? } else { folder };
    // Device mapper and md say which devices they lie on.
    let parts = disk.join("slaves");
    let below = root.names(&parts);
    if below.is_empty() {
        return node_above(root, disk).or_else(|| of_controllers(root, disk));
    }
    let layers = layers.checked_sub(1)?;
    agreed(below.iter().map(|part| of_block_device(root, &root.real(parts.join(part))?, layers)))
}

/// The node of an NVMe disk that could be reached by several controllers: it lies in its subsystem, beside links to the controllers.
fn of_controllers(root: &Root, disk: &Path) -> Option<u32> {
    let subsystem = disk.parent()?;
    let is_controller = |name: &&String| {
        name.strip_prefix("nvme").is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let names = root.names(subsystem);
    agreed(names.iter().filter(is_controller).map(|name| node_above(root, subsystem.join(name))))
}
