//! The layout of a machine with several NUMA nodes: the nodes of CPUs, disks and network cards, and the distances between nodes.
//!
//! The kernel knows the node of a device from its firmware, and shows it in a file `numa_node` next to the device or next to the device that it is
//! plugged into. Virtual machines often report none (-1), and then the answer is `None`.
//!
//! Read everything before the sandbox closes `/sys`.

use crate::cpus::parse_list;
use crate::root::Root;
use std::path::Path;

pub(crate) const NODES: &str = "sys/devices/system/node";

/// How deep devices may lie on each other: a volume on an encrypted array of partitions takes four.
pub(crate) const LAYERS_MAX: usize = 8;

/// The nodes of a machine and their devices.
pub struct Topology {
    pub(crate) root: Root,
}

impl Topology {
    /// Opens this machine's.
    pub fn open() -> Self {
        Self::open_from(Path::new("/"))
    }

    /// Reads the `proc` and `sys` folders below `root`.
    pub fn open_from(root: &Path) -> Self {
        Self { root: Root::new(root) }
    }

    /// The nodes that are online, ascending, each with all its CPUs, including those that this process may not use. A node may have none.
    pub fn nodes(&self) -> Vec<(u32, Vec<u32>)> {
        let cpus = |number: u32| {
            let list = self.root.read(format!("{NODES}/node{number}/cpulist"));
            (number, list.and_then(|list| parse_list(&list)).unwrap_or_default())
        };
        self.online().into_iter().map(cpus).collect()
    }

    /// The CPUs of the machine, ascending, including those that are switched off, or that this process may not use. `None` if unknown.
    pub fn cpus(&self) -> Option<Vec<u32>> {
        parse_list(&self.root.read("sys/devices/system/cpu/present")?)
    }

    /// How far the memory of node `to` is from node `from`, in the firmware's units: 10 is the node itself, 20 costs twice as much.
    pub fn distance(&self, from: u32, to: u32) -> Option<u32> {
        // A number for each node that is online, in their order.
        let row = self.root.read(format!("{NODES}/node{from}/distance"))?;
        let place = self.online().iter().position(|node| *node == to)?;
        row.split_whitespace().nth(place)?.parse().ok()
    }

    /// The node whose memory is nearest to the CPUs of `node`: that node itself, unless it has no memory. `None` if no other is known.
    pub fn memory_near(&self, node: u32) -> Option<u32> {
        let list = self.root.read(format!("{NODES}/has_memory"));
        let Some(with_memory) = list.and_then(|list| parse_list(&list)) else { return Some(node) };
        if with_memory.contains(&node) {
            return Some(node);
        }
        let far = with_memory.into_iter().filter_map(|to| Some((self.distance(node, to)?, to)));
        far.min().map(|(_, nearest)| nearest)
    }

    fn online(&self) -> Vec<u32> {
        let list = self.root.read(format!("{NODES}/online"));
        list.and_then(|list| parse_list(&list)).unwrap_or_default()
    }
}

/// The node of the device at `path`, or of the nearest device above it that has one.
pub(crate) fn node_above(root: &Root, path: impl AsRef<Path>) -> Option<u32> {
    let device = root.real(path)?;
    let stated = |folder: &Path| root.read_value::<i64>(folder.join("numa_node"));
    // -1 is "unknown"; the device that it is plugged into may know.
    device.ancestors().find_map(|folder| u32::try_from(stated(folder)?).ok())
}

/// The node of all parts of a device; `None` if they are on several, or one is unknown.
pub(crate) fn agreed(mut nodes: impl Iterator<Item = Option<u32>>) -> Option<u32> {
    let first = nodes.next()??;
    nodes.all(|node| node == Some(first)).then_some(first)
}
