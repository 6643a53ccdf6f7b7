//! Links between sockets (xGMI), as AMD's processors report them. `node_links` checks how fast they really are.

use crate::finding::{Area, Cost, Finding};
use crate::source;
use crate::visit::Visit;
use machine::{FabricClocks, LinkQuestion, LinkWidths};
use std::io;

const WHAT: &str = "links between sockets";

/// An assumption: at rest the fabric may run at two thirds of the memory's clock (1600 of 2400 MHz), and the next lower state is below half.
const FABRIC_SHARE_MIN: f64 = 0.5;

pub(crate) fn check(visit: &mut Visit<'_>) {
    let sockets = visit.sockets();
    if sockets < 2 {
        return;
    }
    let tells_widths = family_and_model(visit)
        .is_some_and(|(family, model)| LinkWidths::is_told_by(family, model));
    for socket in 0..sockets as u16 {
        let of = format!("socket {socket}");
        match visit.evidence.socket_links.ask(socket, LinkQuestion::Clocks) {
            Ok(told) => {
                let clocks = visit.understood(WHAT, &of, FabricClocks::parse(told));
                clocks.into_iter().for_each(|clocks| slow(visit, &of, clocks));
            }
            Err(error) => return refused(visit, &error, &of),
        }
        if !tells_widths {
            continue;
        }
        match visit.evidence.socket_links.ask(socket, LinkQuestion::Widths) {
            Ok(told) => {
                let widths = visit.understood(WHAT, &of, LinkWidths::parse(told));
                widths.into_iter().for_each(|widths| narrow(visit, &of, widths));
            }
            Err(error) => refused(visit, &error, &of),
        }
    }
}

/// Other makers' processors cannot be queried; measurements between nodes show the same.
fn refused(visit: &mut Visit<'_>, error: &io::Error, of: &str) {
    match error.kind() {
        io::ErrorKind::NotFound if !visit.evidence.node_rates.is_empty() => {}
        io::ErrorKind::NotFound => visit.unknown(
            WHAT,
            "the kernel has no /dev/hsmp: add --measure; on AMD, modprobe amd_hsmp or hsmp_acpi",
            of,
        ),
        _ => visit.refused(WHAT, error, of),
    }
}

fn family_and_model(visit: &Visit<'_>) -> Option<(u32, u32)> {
    let text = visit.tree.text("proc/cpuinfo").ok()?;
    let value = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = lines.find(|(key, _)| key.trim() == name)?;
        value.trim().parse().ok()
    };
    Some((value("cpu family")?, value("model")?))
}

fn narrow(visit: &mut Visit<'_>, socket: &str, widths: LinkWidths) {
    let LinkWidths { lanes_min, lanes_max } = widths;
    let wanted = format!("always {} lanes", LinkWidths::LANES);
    if lanes_max < LinkWidths::LANES {
        visit.found(Finding {
            area: Area::Pcie,
            name: "socket-link-width",
            on: vec![socket.to_owned()],
            found: format!("links between sockets have at most {lanes_max} lanes"),
            wanted,
            cost: Cost::percent(
                16.0,
                "of what crosses between sockets: 420 Gb/s with links of two lanes, 500 after that was mended",
                source::GALLATIN_2022,
            ),
            mend: "firmware setup: \"xGMI Max Link Width\" to x16, \"xGMI Link Width Control\" to Manual".into(),
            check: CHECK.into(),
        });
    } else if lanes_min < lanes_max {
        visit.found(Finding {
            area: Area::Pcie,
            name: "socket-link-width-changes",
            on: vec![socket.to_owned()],
            found: format!("links between sockets change from {lanes_min} to {lanes_max} lanes with the load"),
            wanted,
            cost: Cost::unmeasured("a link that gets wider pauses for a moment; some firmware widens it too late"),
            mend: "firmware setup: \"xGMI Force Link Width\" to x16, or dynamic link width management (DLWM) off".into(),
            check: CHECK.into(),
        });
    }
}

const CHECK: &str = "fullbore doctor, with the module amd_hsmp or hsmp_acpi loaded";

fn slow(visit: &mut Visit<'_>, socket: &str, clocks: FabricClocks) {
    let FabricClocks { fabric_mhz, memory_mhz } = clocks;
    if f64::from(fabric_mhz) >= FABRIC_SHARE_MIN * f64::from(memory_mhz) {
        return;
    }
    visit.found(Finding {
        area: Area::Pcie,
        name: "fabric-clock",
        on: vec![socket.to_owned()],
        found: format!("the fabric runs at {fabric_mhz} MHz, and memory at {memory_mhz}"),
        wanted: "at half of the memory's clock or more, at rest too".into(),
        cost: Cost::unmeasured("bytes from devices and other sockets wait until the fabric runs faster"),
        mend: "firmware setup: \"APBDIS\" to 1 and \"DF P-state\" to 0 (the fabric stays at its highest clock), DF C-states off".into(),
        check: CHECK.into(),
    });
}
