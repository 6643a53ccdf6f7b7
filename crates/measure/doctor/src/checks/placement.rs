//! The node of each device, and how devices are spread over nodes and root complexes. There is nothing to report on one node.

use super::pci_device::{self, Kind, PciDevice};
use crate::finding::{Area, Cost, Finding};
use crate::source;
use crate::visit::Visit;
use std::collections::BTreeMap;

/// Fewer disks than this on a node are too few to be spread over its root complexes.
const SPREAD_DISKS_MIN: usize = 4;

pub(crate) fn check(visit: &mut Visit<'_>) {
    let nodes = visit.topology.nodes();
    let nodes: Vec<_> =
        nodes.into_iter().filter(|(_, cpus)| !cpus.is_empty()).map(|(node, _)| node).collect();
    if nodes.len() < 2 || !pci_device::are_all(visit) {
        return;
    }
    let devices = pci_device::all(visit);
    for device in devices.iter().filter(|device| device.node.is_none()) {
        visit.found(node_unknown(device));
    }
    if devices.iter().any(|device| device.node.is_none()) {
        return;
    }
    let of = |kind| devices.iter().filter(|device| device.kind == kind).collect::<Vec<_>>();
    let (disks, nics) = (of(Kind::Disk), of(Kind::Card));
    let on = |devices: &[&PciDevice]| {
        let on = |node: &u32| devices.iter().filter(|device| device.node == Some(*node)).count();
        nodes.iter().map(on).collect::<Vec<_>>()
    };
    uneven_disks(visit, &on(&disks));
    nics_on_some(visit, &on(&nics));
    for node in &nodes {
        let disks: Vec<_> = disks.iter().filter(|disk| disk.node == Some(*node)).copied().collect();
        root_complexes(visit, *node, &disks, &devices);
    }
}

fn listed(counts: &[usize]) -> String {
    counts.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

fn node_unknown(device: &PciDevice) -> Finding {
    Finding {
        area: Area::Pcie,
        name: "device-node",
        on: vec![device.address.clone()],
        found: "the firmware does not report its node".into(),
        wanted: "a node".into(),
        cost: Cost::unmeasured("the server cannot keep its bytes on one node: up to four crossings per byte instead of one (docs/numa.md)"),
        mend: "update the firmware; in a virtual machine, put the device behind a bridge of its node; or write a map of your own (docs/numa.md)".into(),
        check: "cat /sys/bus/pci/devices/DEVICE/numa_node is not -1".into(),
    }
}

/// Reports a node with fewer than half of the mean.
fn uneven_disks(visit: &mut Visit<'_>, counts: &[usize]) {
    let all: usize = counts.iter().sum();
    let least = counts.iter().min().copied().unwrap_or(0);
    if all < counts.len() || 2 * least * counts.len() >= all {
        return;
    }
    visit.found(Finding {
        area: Area::Nvme,
        name: "uneven-disks",
        on: Vec::new(),
        found: format!("NVMe disks by node: {}", listed(counts)),
        wanted: "about as many on each node".into(),
        cost: Cost::percent(
            14.0,
            "with memory at the disk (--silo memory-at-disk, --silo disk): 300 Gb/s with 2, 6, 4 and 6 disks on four nodes, 350 with some of them remapped; little with --silo network",
            source::GALLATIN_2021,
        ),
        mend: "move disks to slots of the other nodes; until then leave --silo at auto".into(),
        check: "cat /sys/class/nvme/*/device/numa_node".into(),
    });
}

fn nics_on_some(visit: &mut Visit<'_>, counts: &[usize]) {
    let with = counts.iter().filter(|count| **count > 0).count();
    if with == 0 || with == counts.len() {
        return;
    }
    visit.found(Finding {
        area: Area::Card,
        name: "cards-on-some-nodes",
        on: Vec::new(),
        found: format!("network cards by node: {}", listed(counts)),
        wanted: "a card on each node, or fewer nodes".into(),
        cost: Cost {
            source: source::GALLATIN_2019,
            ..Cost::unmeasured("bytes cross between nodes 1.25 times on average instead of once (cards on two of four nodes); it matters from some hundred Gb/s")
        },
        mend: "move a card; or firmware setup: NPS1 (AMD), sub-NUMA clustering off (Intel)".into(),
        check: "cat /sys/class/net/*/device/numa_node".into(),
    });
}

/// Reports a node with three quarters of its disks behind one of its root complexes.
fn root_complexes(visit: &mut Visit<'_>, node: u32, disks: &[&PciDevice], devices: &[PciDevice]) {
    let here = devices.iter().filter(|device| device.node == Some(node));
    let mut by_root: BTreeMap<&str, usize> = here.map(|device| (device.root.as_str(), 0)).collect();
    disks.iter().for_each(|disk| *by_root.entry(&disk.root).or_default() += 1);
    let most = by_root.values().max().copied().unwrap_or(0);
    if by_root.len() < 2 || disks.len() < SPREAD_DISKS_MIN || 4 * most < 3 * disks.len() {
        return;
    }
    let counts: Vec<_> = by_root.iter().map(|(root, count)| format!("{root}: {count}")).collect();
    visit.found(Finding {
        area: Area::Nvme,
        name: "root-complexes",
        on: vec![format!("node {node}")],
        found: format!("NVMe disks by root complex: {}", counts.join(", ")),
        wanted: "spread over the node's root complexes".into(),
        cost: Cost {
            source: source::GALLATIN_2022,
            ..Cost::unmeasured("links between sockets are chosen by root complex: 15, 4 and 2 GB/s on three links at 500 Gb/s, and 670 Gb/s with a placement that used them more evenly; it matters on several sockets from some hundred Gb/s")
        },
        mend: "move disks to slots of other root complexes (the board's manual has a diagram)".into(),
        check: "lspci -tv".into(),
    });
}
