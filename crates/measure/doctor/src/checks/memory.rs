//! Memory: nodes, large pages, and the kernel's memory settings.

use crate::finding::{Area, Cost, Finding};
use crate::source;
use crate::visit::Visit;
use std::collections::BTreeMap;

const NODES: &str = "sys/devices/system/node";

pub(crate) fn check(visit: &mut Visit<'_>) {
    large_pages(visit);
    pressure(visit);
    limit(visit);
    let nodes = visit.topology.nodes();
    if nodes.len() > 1 {
        sizes(visit, &nodes);
        reclaim(visit);
        balancing(visit);
    }
}

fn large_pages(visit: &mut Visit<'_>) {
    const WHAT: &str = "large pages";
    let path = "sys/kernel/mm/transparent_hugepage/enabled";
    let Some(chosen) = visit.chosen(WHAT, path) else { return };
    match chosen.as_str() {
        "always" | "madvise" => {}
        "never" => visit.found(Finding::of_machine(
            Area::Memory,
            "large-pages",
            ["transparent large pages are switched off".into(), "madvise".into()],
            Cost::percent(
                23.0,
                "of the bytes from disk: buffers in large pages brought 1.3 times as many; 2% of what comes from memory",
                source::BUFFERS,
            ),
            ["echo madvise > /sys/kernel/mm/transparent_hugepage/enabled; to keep it: transparent_hugepage=madvise on the kernel's command line", "cat /sys/kernel/mm/transparent_hugepage/enabled shows [madvise]"],
        )),
        _ => {
            visit.understood(WHAT, path, None::<()>);
        }
    }
}

fn pressure(visit: &mut Visit<'_>) {
    // Without the kernel's other files there is nothing to conclude.
    if visit.tree.has("proc/pressure/memory") || !visit.tree.has("proc/meminfo") {
        return;
    }
    visit.found(Finding::of_machine(
        Area::Memory,
        "pressure",
        [
            "the kernel does not report how long programs wait for memory (PSI)".into(),
            "/proc/pressure/memory".into(),
        ],
        Cost::unmeasured("the hot set gives memory back later when it is short (docs/memory.md)"),
        ["boot with psi=1, or a kernel built with CONFIG_PSI", "cat /proc/pressure/memory"],
    ));
}

fn limit(visit: &mut Visit<'_>) {
    let machine = &visit.machine;
    let (Some(limit), Some(all)) = (machine.memory_limit_bytes, machine.memory_bytes) else {
        return;
    };
    if limit > all / 2 {
        return;
    }
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    visit.found(Finding::of_machine(
        Area::Memory,
        "memory-limit",
        [
            format!("control groups allow {:.1} GiB of {:.1}", gib(limit), gib(all)),
            "more than half of the machine's memory, if it serves films only".into(),
        ],
        Cost::unmeasured("hot set and page cache are smaller, so more is read from disk"),
        [
            "raise MemoryMax= of the unit or its slice, or the container's limit",
            "cat memory.max of the server's control group",
        ],
    ));
}

/// Modules are missing on a node, or are installed only on some nodes.
fn sizes(visit: &mut Visit<'_>, nodes: &[(u32, Vec<u32>)]) {
    const WHAT: &str = "memory of nodes";
    let mut by_node = BTreeMap::new();
    for (node, cpus) in nodes {
        let path = format!("{NODES}/node{node}/meminfo");
        let Some(text) = visit.needed(WHAT, &path) else { return };
        // `Node 0 MemTotal:       131845612 kB`
        let line = text.lines().find_map(|line| line.split_once("MemTotal:"));
        let kib =
            line.and_then(|(_, size)| size.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        let Some(kib) = visit.understood(WHAT, &path, kib) else { return };
        if !cpus.is_empty() {
            by_node.insert(*node, kib);
        }
    }
    let (Some(most), Some(least)) = (by_node.values().max(), by_node.values().min()) else {
        return;
    };
    if *most <= least.saturating_mul(2) {
        return;
    }
    let gib = |kib: &u64| format!("{:.0}", *kib as f64 / f64::from(1 << 20));
    let sizes: Vec<_> = by_node.values().map(gib).collect();
    visit.found(Finding::of_machine(
        Area::Memory,
        "uneven-memory",
        [format!("GiB by node: {}", sizes.join(", ")), "as much on each node".into()],
        Cost::unmeasured("CPUs of nodes with little memory read that of others, and share its bandwidth instead of having their own"),
        ["put as many modules into the channels of each node", "numactl -H"],
    ));
}

fn reclaim(visit: &mut Visit<'_>) {
    let path = "proc/sys/vm/zone_reclaim_mode";
    let Some(0) = visit.optional_number::<u32>("reclaiming of memory", path) else { return };
    visit.found(Finding::of_machine(
        Area::Memory,
        "zone-reclaim",
        [
            "a full node takes the memory of others before it evicts its own page cache".into(),
            "vm.zone_reclaim_mode = 1".into(),
        ],
        Cost::unmeasured(
            "buffers and hot sets may lie on other nodes than their workers (docs/numa.md)",
        ),
        [
            "sysctl vm.zone_reclaim_mode=1 before the server starts, and the same in /etc/sysctl.d",
            "grep prefer: /proc/PID/numa_maps: pages are on the preferred node",
        ],
    ));
}

fn balancing(visit: &mut Visit<'_>) {
    let path = "proc/sys/kernel/numa_balancing";
    let Some(mode) = visit.optional_number::<u32>("balancing of nodes", path) else { return };
    // 2 moves pages to slower memory only.
    if mode & 1 == 0 {
        return;
    }
    visit.found(Finding::of_machine(
        Area::Memory,
        "numa-balancing",
        [
            "the kernel moves pages to the node that uses them".into(),
            "off: the server places its memory itself".into(),
        ],
        Cost::unmeasured(
            "it unmaps pages to see which node uses them, and each of them then costs a fault",
        ),
        [
            "sysctl kernel.numa_balancing=0, and the same in /etc/sysctl.d",
            "sysctl kernel.numa_balancing",
        ],
    ));
}
