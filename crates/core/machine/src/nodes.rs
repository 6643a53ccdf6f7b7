//! The NUMA nodes, from /sys/devices/system/node (kernel documentation: ABI, sysfs-devices-node). The CPUs of a node
//! are equally far from the same memory.

use crate::caches::{self, Cache};
use crate::cpus::parse_list;
use crate::root::Root;

/// A node, with the CPUs that this process may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The kernel's number for it.
    pub number: u32,
    /// Its CPUs that this thread may run on, ascending: at least one.
    pub cpus: Vec<u32>,
    /// The data and unified caches of the first of these CPUs, nearest first.
    pub caches: Vec<Cache>,
}

impl Node {
    /// One CPU's fair share of the last-level cache: its size divided by all CPUs that share it, usable or not.
    pub fn last_level_bytes_per_cpu(&self) -> Option<u64> {
        self.caches.last().map(|cache| cache.bytes / cache.shared_by.len().max(1) as u64)
    }
}

/// The nodes that have any of `cpus`, ascending. CPUs that belong to no node are added to node 0. If the kernel reports
/// no nodes, that is the only one.
pub(crate) fn of_cpus(root: &Root, cpus: &[u32]) -> Vec<Node> {
    let numbers = root.read("sys/devices/system/node/online").and_then(|list| parse_list(&list));
    let mut left = cpus.to_vec();
    let mut nodes = Vec::<Node>::new();
    for number in numbers.unwrap_or_default() {
        let list = root.read(format!("sys/devices/system/node/node{number}/cpulist"));
        let all = list.and_then(|list| parse_list(&list)).unwrap_or_default();
        let (ours, others) = left.into_iter().partition(|cpu| all.contains(cpu));
        left = others;
        nodes.extend(node(root, number, ours));
    }
    match nodes.first_mut().filter(|node| node.number == 0) {
        Some(first) => {
            first.cpus.extend(left);
            first.cpus.sort_unstable();
        }
        // Node 0 may have none of these CPUs, or may not exist.
        None => drop(nodes.splice(0..0, node(root, 0, left))),
    }
    nodes
}

fn node(root: &Root, number: u32, cpus: Vec<u32>) -> Option<Node> {
    let caches = caches::of_cpu(root, *cpus.first()?);
    Some(Node { number, cpus, caches })
}
