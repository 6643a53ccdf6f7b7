//! The node of a disk, and whether it rotates, from /sys/dev/block (kernel documentation: ABI, sysfs-dev, sysfs-block).

use crate::root::Root;
use crate::topology::{LAYERS_MAX, Topology, agreed, node_above};
use std::path::{Path, PathBuf};

impl Topology {
    /// The node of the disk under a filesystem. `device` is the block device as `stat` reports it in `st_dev` (or in `st_rdev` of a device
    /// file). `None` if it is unknown, or if the filesystem is on disks of several nodes.
    pub fn node_of_disk(&self, device: u64) -> Option<u32> {
        of_block_device(&self.root, &self.folder_of_disk(device)?, LAYERS_MAX)
    }

    /// The kernel's name of a block device, such as `nvme0n1p1`.
    pub fn name_of_disk(&self, device: u64) -> Option<String> {
        let folder = self.folder_of_disk(device)?;
        Some(folder.file_name()?.to_string_lossy().into_owned())
    }

    /// Whether the disk under a filesystem rotates, so that a seek takes milliseconds; of several disks, whether one does. `device`
    /// is as for [`Self::node_of_disk`]. virtio disks always report that they rotate, so they do not count; neither does an unknown disk.
    pub fn rotates(&self, device: u64) -> bool {
        self.folder_of_disk(device).is_some_and(|folder| rotates(&self.root, &folder, LAYERS_MAX))
    }

    fn folder_of_disk(&self, device: u64) -> Option<std::path::PathBuf> {
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        self.root.real(format!("sys/dev/block/{major}:{minor}"))
    }
}

/// The whole disk, if `folder` is that of a partition.
fn whole<'a>(root: &Root, folder: &'a Path) -> Option<&'a Path> {
    if root.has(folder.join("partition")) { folder.parent() } else { Some(folder) }
}

/// The devices under a device, as device mapper and md list them.
fn below(root: &Root, disk: &Path) -> Vec<PathBuf> {
    let parts = disk.join("slaves");
    let names = root.names(&parts);
    names.iter().map(|part| root.real(parts.join(part)).unwrap_or_default()).collect()
}

fn of_block_device(root: &Root, folder: &Path, layers: usize) -> Option<u32> {
    let disk = whole(root, folder)?;
    let below = below(root, disk);
    if below.is_empty() {
        return node_above(root, disk).or_else(|| of_controllers(root, disk));
    }
    let layers = layers.checked_sub(1)?;
    agreed(below.iter().map(|part| of_block_device(root, part, layers)))
}

fn rotates(root: &Root, folder: &Path, layers: usize) -> bool {
    let (Some(disk), Some(layers)) = (whole(root, folder), layers.checked_sub(1)) else {
        return false;
    };
    let below = below(root, disk);
    if !below.is_empty() {
        return below.iter().any(|part| rotates(root, part, layers));
    }
    // A disk of virtio lies at `virtioN/block/NAME`.
    let bus = disk.ancestors().nth(2).and_then(Path::file_name);
    let is_virtio = bus.is_some_and(|name| name.as_encoded_bytes().starts_with(b"virtio"));
    !is_virtio && root.read_value(disk.join("queue/rotational")) == Some(1_u8)
}

/// The node of an NVMe disk that several controllers could reach: it is in its subsystem, next to links to the controllers.
fn of_controllers(root: &Root, disk: &Path) -> Option<u32> {
    let subsystem = disk.parent()?;
    let is_controller = |name: &&String| {
        name.strip_prefix("nvme").is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let names = root.names(subsystem);
    agreed(names.iter().filter(is_controller).map(|name| node_above(root, subsystem.join(name))))
}
