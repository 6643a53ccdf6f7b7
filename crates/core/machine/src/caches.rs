//! The caches of a CPU, from /sys/devices/system/cpu/cpuN/cache (kernel documentation: ABI, sysfs-devices-system-cpu).

use crate::cpus::parse_list;
use crate::root::Root;

/// More than any CPU has.
const CACHES_MAX: u32 = 16;

/// A data or unified cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// 1 is nearest the core.
    pub level: u8,
    /// Its size.
    pub bytes: u64,
    /// The kernel's numbers of the CPUs that share it, ascending; empty if unknown.
    pub shared_by: Vec<u32>,
}

/// The caches of `cpu` that hold data, nearest first; none if unknown.
pub(crate) fn of_cpu(root: &Root, cpu: u32) -> Vec<Cache> {
    let mut caches: Vec<Cache> =
        (0..CACHES_MAX).filter_map(|index| probe(root, cpu, index)).collect();
    caches.sort_by_key(|cache| cache.level);
    caches
}

fn probe(root: &Root, cpu: u32, index: u32) -> Option<Cache> {
    let file = |name: &str| format!("sys/devices/system/cpu/cpu{cpu}/cache/index{index}/{name}");
    if root.read(file("type"))? == "Instruction" {
        return None;
    }
    Some(Cache {
        level: root.read_value(file("level"))?,
        bytes: parse_size(&root.read(file("size"))?)?,
        shared_by: root
            .read(file("shared_cpu_list"))
            .and_then(|list| parse_list(&list))
            .unwrap_or_default(),
    })
}

/// Parses `32K` or `32768K`; newer kernels may use `32M`.
fn parse_size(size: &str) -> Option<u64> {
    let (number, unit) = match (size.strip_suffix('K'), size.strip_suffix('M')) {
        (Some(number), _) => (number, 1 << 10),
        (_, Some(number)) => (number, 1 << 20),
        _ => (size, 1),
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}
