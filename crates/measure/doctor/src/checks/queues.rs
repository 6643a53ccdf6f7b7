//! The queues of network cards: their number, the CPUs that they interrupt, and how packets are spread over them.

use super::nic::{fault, physical};
use crate::finding::Cost;
use crate::visit::Visit;
use machine::ethtool::{NicSettings, QueueCounts};

pub(crate) fn check(visit: &mut Visit<'_>) {
    for nic in physical(visit) {
        interrupts(visit, &nic);
        sending(visit, &nic);
        // A failed query was reported before.
        let Ok(settings) = visit.evidence.ethtool.settings(&nic) else { continue };
        let Some(channels) = settings.channels else {
            visit.unknown("queues of network cards", "its driver does not report them", &nic);
            continue;
        };
        count(visit, &nic, channels);
        spread(visit, &nic, channels, &settings);
    }
}

/// The card's own node with its CPUs; on a machine with one node, all CPUs. `None` if it is unknown.
fn cpus_beside(visit: &Visit<'_>, nic: &str) -> Option<(u32, Vec<u32>)> {
    let nics = visit.topology.nics();
    let node = nics.into_iter().find(|known| known.name == nic)?.node;
    let mut nodes = visit.topology.nodes().into_iter();
    let own = match node {
        Some(node) => nodes.find(|(number, _)| *number == node),
        None if nodes.len() == 1 => nodes.next(),
        None => None,
    };
    own.filter(|(_, cpus)| !cpus.is_empty())
}

fn count(visit: &mut Visit<'_>, nic: &str, channels: QueueCounts) {
    let Some((_, cpus)) = cpus_beside(visit, nic) else { return };
    let wanted = channels.receive_max.min(u32::try_from(cpus.len()).unwrap_or(u32::MAX));
    let QueueCounts { receive, .. } = channels;
    // Drivers keep some queues back, and hyper-threads do well with half.
    if receive >= wanted.div_ceil(2) {
        return;
    }
    visit.found(fault(
        nic,
        "channels",
        [format!("{receive} queues for {} CPUs on its node", cpus.len()), wanted.to_string()],
        Cost::unmeasured(format!(
            "{receive} CPUs handle all packets of the card, while others idle"
        )),
        ["ethtool -L CARD combined N", "ethtool -l CARD"],
    ));
}

/// The table has an entry for each of 128 or more hashes; a queue without one receives nothing.
fn spread(visit: &mut Visit<'_>, nic: &str, channels: QueueCounts, settings: &NicSettings) {
    let Some(table) = settings.spread.as_ref().filter(|table| !table.is_empty()) else { return };
    let uses = |queue: u32| table.iter().filter(|entry| **entry == queue).count();
    let highest = channels.receive.min(u32::try_from(table.len()).unwrap_or(u32::MAX));
    let uses: Vec<_> = (0..highest).map(uses).collect();
    let (Some(most), Some(least)) = (uses.iter().max(), uses.iter().min()) else { return };
    if *most <= 2 * least.max(&1) && *least > 0 {
        return;
    }
    let idle = uses.iter().filter(|uses| **uses == 0).count();
    visit.found(fault(
        nic,
        "rss",
        [
            format!(
                "of {highest} queues, {idle} get no packets; the busiest has {most} of {} entries",
                table.len()
            ),
            "as many entries for each queue".into(),
        ],
        Cost::unmeasured("some CPUs handle most packets, while others idle"),
        [
            "ethtool -X CARD equal N, with N the number of queues; or ethtool -X CARD default",
            "ethtool -x CARD",
        ],
    ));
}

fn interrupts(visit: &mut Visit<'_>, nic: &str) {
    if visit.topology.nodes().len() < 2 {
        return;
    }
    let Some((node, cpus)) = cpus_beside(visit, nic) else { return };
    let interrupts = visit.topology.interrupts(nic);
    let is_away = |of: &&machine::NicInterrupt| !of.cpus.iter().any(|cpu| cpus.contains(cpu));
    let away = interrupts.iter().filter(is_away).count();
    if interrupts.is_empty() {
        visit.unknown("interrupts of network cards", "the kernel does not report them", nic);
    }
    // One or two are for the card's own events.
    if 2 * away <= interrupts.len() {
        return;
    }
    visit.found(fault(
        nic,
        "interrupts-elsewhere",
        [
            format!("{away} of {} interrupts go to CPUs of other nodes than its own, {node}", interrupts.len()),
            format!("CPUs of node {node}"),
        ],
        Cost::unmeasured("each packet's headers cross between nodes, and a new connection may arrive at the wrong silo"),
        [
            "write CPUs of the node into /proc/irq/N/smp_affinity_list (N: ls /sys/class/net/CARD/device/msi_irqs), and stop irqbalance or configure it accordingly",
            "the server's start lines name interrupts that go elsewhere",
        ],
    ));
}

/// The CPUs that send by each queue (XPS): a mask of CPUs in hexadecimal per queue.
fn sending(visit: &mut Visit<'_>, nic: &str) {
    let folder = format!("sys/class/net/{nic}/queues");
    let queues: Vec<_> =
        visit.tree.names(&folder).into_iter().filter(|name| name.starts_with("tx-")).collect();
    if queues.len() < 2 {
        return;
    }
    for queue in &queues {
        let path = format!("{folder}/{queue}/xps_cpus");
        let Some(mask) = visit.optional("queues for sending", &path) else { return };
        let is_mask = !mask.is_empty() && mask.chars().all(|c| c.is_ascii_hexdigit() || c == ',');
        if visit.understood("queues for sending", &path, is_mask.then_some(())).is_none() {
            return;
        }
        if mask.chars().any(|c| !"0,".contains(c)) {
            return;
        }
    }
    visit.found(fault(
        nic,
        "xps",
        [
            format!("no CPU has a queue of its own among {} for sending", queues.len()),
            "each queue for the CPU that takes its interrupt".into(),
        ],
        Cost::unmeasured("CPUs wait for each other at a queue's lock"),
        [
            "write each queue's mask of CPUs into /sys/class/net/CARD/queues/tx-N/xps_cpus",
            "cat /sys/class/net/CARD/queues/tx-*/xps_cpus",
        ],
    ));
}
