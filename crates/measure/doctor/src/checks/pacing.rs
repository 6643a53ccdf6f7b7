//! Congestion control, and the queues that spread packets over time: BBR needs fq below it.

use super::nic::{fault, physical};
use crate::finding::{Area, Cost, Finding};
use crate::source;
use crate::visit::Visit;

/// Queues that send packets at once. Others, such as an operator's own hierarchy, are accepted.
const WITHOUT_PACING: [&str; 6] = ["pfifo_fast", "fq_codel", "pfifo", "sfq", "cake", "noqueue"];

pub(crate) fn check(visit: &mut Visit<'_>) {
    const WHAT: &str = "congestion control";
    let Some(control) = visit.needed(WHAT, "proc/sys/net/ipv4/tcp_congestion_control") else {
        return;
    };
    match control.as_str() {
        "bbr" => {
            pacing(visit);
            nics(visit);
        }
        "reno" => visit.found(Finding::of_machine(
            Area::Kernel,
            "congestion-control",
            ["reno".into(), "bbr, or cubic".into()],
            Cost::unmeasured("viewers far away, or with losses, get a lower rate"),
            ["modprobe tcp_bbr; sysctl net.ipv4.tcp_congestion_control=bbr net.core.default_qdisc=fq, and the same in /etc/sysctl.d", "sysctl net.ipv4.tcp_congestion_control"],
        )),
        _ => {}
    }
}

/// Without fq, TCP itself sets a timer for each packet of a paced connection.
fn pacing(visit: &mut Visit<'_>) {
    let Some(queue) = visit.needed("queueing", "proc/sys/net/core/default_qdisc") else { return };
    if !WITHOUT_PACING.contains(&queue.as_str()) {
        return;
    }
    visit.found(Finding::of_machine(
        Area::Kernel,
        "fq",
        [format!("bbr without fq: new interfaces get {queue}"), "fq".into()],
        timers(),
        ["modprobe sch_fq; sysctl net.core.default_qdisc=fq, and the same in /etc/sysctl.d; it concerns cards that come up later", "sysctl net.core.default_qdisc"],
    ));
}

/// A card keeps the queue that it came up with, whatever the default is now.
fn nics(visit: &mut Visit<'_>) {
    for nic in physical(visit) {
        // A failed query was reported before.
        let Ok(settings) = visit.evidence.ethtool.settings(&nic) else { continue };
        let Some(kinds) = settings.queueing else {
            visit.unknown("queueing of network cards", "the kernel does not report it", &nic);
            continue;
        };
        let Some(kind) = kinds.iter().find(|kind| WITHOUT_PACING.contains(&kind.as_str())) else {
            continue;
        };
        visit.found(fault(
            &nic,
            "queueing",
            [format!("bbr without fq: packets wait in {kind}"), "fq".into()],
            timers(),
            ["modprobe sch_fq; tc qdisc replace dev CARD root fq; for a card with several queues: sysctl net.core.default_qdisc=fq, then tc qdisc replace dev CARD root mq", "tc qdisc show dev CARD"],
        ));
    }
}

fn timers() -> Cost {
    Cost {
        source: source::PERFORMANCE,
        ..Cost::unmeasured(
            "a timer for each packet: a quarter of a worker's time before the server kept its queue short, and less since",
        )
    }
}
