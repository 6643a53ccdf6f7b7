//! PCIe links: trained below the maximum of device and slot, and ports that several devices share.

use super::pci_device::{self, Kind, PciDevice, TrainedLink};
use crate::finding::{Area, Cost, Finding};
use crate::source;
use crate::visit::Visit;
use std::collections::BTreeMap;

/// A device's link.
struct Linked {
    device: PciDevice,
    now: TrainedLink,
    best: TrainedLink,
}

pub(crate) fn check(visit: &mut Visit<'_>) {
    let mut linked = Vec::<Linked>::new();
    for device in pci_device::all(visit) {
        // Functions of one card share its link.
        if linked.last().is_some_and(|last| last.device.slot() == device.slot()) {
            continue;
        }
        let now = pci_device::link(visit, &device.address, "current");
        let best = pci_device::link(visit, &device.address, "max");
        if let (Some(now), Some(best)) = (now, best) {
            linked.push(Linked { device, now, best });
        }
    }
    let needed_gbps = network_gbps(visit);
    for kind in [Kind::Disk, Kind::Card] {
        let links: Vec<_> = linked.iter().filter(|link| link.device.kind == kind).collect();
        trained_below(visit, kind, &links, needed_gbps);
        shared(visit, kind, &links, needed_gbps);
    }
}

/// The total rate of all links to the network; `None` if one is unknown.
fn network_gbps(visit: &Visit<'_>) -> Option<f64> {
    let speeds = visit.topology.links().into_iter().map(|link| link.bits_per_second);
    let bits: u64 = speeds.sum::<Option<u64>>()?;
    (bits > 0).then_some(bits as f64 / 1e9)
}

fn sum_gbps(links: impl Iterator<Item = TrainedLink>) -> f64 {
    links.map(TrainedLink::gbps).sum()
}

/// The cost of having `left` instead of `whole`: nothing while the network takes less.
fn lost(kind: Kind, left_gbps: f64, whole_gbps: f64, needed_gbps: Option<f64>) -> Cost {
    let what = match kind {
        Kind::Disk => "disks",
        Kind::Card => "cards",
    };
    let wanted_gbps = needed_gbps.unwrap_or(whole_gbps).min(whole_gbps);
    let percent = 100.0 * (1.0 - left_gbps / wanted_gbps);
    let sums =
        format!("the links of all {what} carry {left_gbps:.0} Gb/s instead of {whole_gbps:.0}");
    match needed_gbps {
        Some(network) if percent < 0.5 => Cost::unmeasured(format!(
            "{sums}; the network has {network:.0}, so it is not the limit"
        )),
        Some(network) => Cost::percent(
            percent,
            format!("{sums}; the network has {network:.0}"),
            source::ARITHMETIC,
        ),
        None => Cost::percent(percent.max(0.0), sums, source::ARITHMETIC),
    }
}

fn trained_below(visit: &mut Visit<'_>, kind: Kind, links: &[&Linked], needed_gbps: Option<f64>) {
    let slow: Vec<_> =
        links.iter().filter(|link| link.now.gbps() < 0.99 * link.best.gbps()).collect();
    let Some(first) = slow.first() else { return };
    let left_gbps = sum_gbps(links.iter().map(|link| link.now));
    let whole_gbps = sum_gbps(links.iter().map(|link| link.best));
    visit.found(Finding {
        area: Area::Pcie,
        name: match kind {
            Kind::Disk => "disk-link",
            Kind::Card => "card-link",
        },
        on: slow.iter().map(|link| link.device.address.clone()).collect(),
        found: first.now.describe(),
        wanted: first.best.describe(),
        cost: lost(kind, left_gbps, whole_gbps, needed_gbps),
        mend: "reseat the device, or move it to a slot that has its lanes and its generation; firmware setup: link speed \"Auto\", no bifurcation that halves it".into(),
        check: "lspci -s DEVICE -vv: LnkSta is what LnkCap says".into(),
    });
}

/// Devices behind one root port share its link.
fn shared(visit: &mut Visit<'_>, kind: Kind, links: &[&Linked], needed_gbps: Option<f64>) {
    let mut by_port = BTreeMap::<&str, Vec<&Linked>>::new();
    for link in links {
        if let Some(port) = link.device.ports.last() {
            by_port.entry(port).or_default().push(link);
        }
    }
    let whole_gbps = sum_gbps(links.iter().map(|link| link.now));
    for (port, behind) in by_port.into_iter().filter(|(_, behind)| behind.len() > 1) {
        let Some(above) = pci_device::link(visit, port, "current") else { continue };
        let below_gbps = sum_gbps(behind.iter().map(|link| link.now));
        if below_gbps <= 1.05 * above.gbps() {
            continue;
        }
        let left_gbps = whole_gbps - below_gbps + above.gbps();
        let count = behind.len();
        visit.found(Finding {
            area: Area::Pcie,
            name: match kind {
                Kind::Disk => "disks-share-port",
                Kind::Card => "cards-share-port",
            },
            on: behind.iter().map(|link| link.device.address.clone()).collect(),
            found: format!("{count} devices behind root port {port}, which has {}", above.describe()),
            wanted: format!("ports with {below_gbps:.0} Gb/s together"),
            cost: lost(kind, left_gbps, whole_gbps, needed_gbps),
            mend: "move a device to a slot with a root port of its own (the board's manual has a diagram)".into(),
            check: "lspci -tv: the devices are on different branches".into(),
        });
    }
}
