//! Network cards: offloads, rings, interrupt coalescing, and the size of packets.

use crate::finding::{Area, Cost, Finding};
use crate::source;
use crate::visit::Visit;
use machine::ethtool::NicSettings;

/// Descriptors. At 100 Gb/s, 1024 full packets arrive or leave in 120 µs.
const RING_MIN: u32 = 1024;

pub(crate) fn check(visit: &mut Visit<'_>) {
    for nic in physical(visit) {
        packet_size(visit, &nic);
        match visit.evidence.ethtool.settings(&nic) {
            Ok(settings) => {
                offloads(visit, &nic, &settings);
                rings(visit, &nic, &settings);
                interrupts(visit, &nic, &settings);
                pause(visit, &nic, &settings);
                firmware(visit, &nic, &settings);
            }
            Err(error) => visit.refused("settings of network cards", &error, &nic),
        }
    }
}

/// Interfaces that are devices, and up: not those that exist in software alone.
pub(crate) fn physical(visit: &mut Visit<'_>) -> Vec<String> {
    let names = visit.tree.names("sys/class/net");
    let is_device =
        |visit: &Visit<'_>, name: &str| visit.tree.has(format!("sys/class/net/{name}/device"));
    let nics: Vec<_> = names.into_iter().filter(|name| is_device(visit, name)).collect();
    let is_up = |nic: &String| {
        let path = format!("sys/class/net/{nic}/operstate");
        visit.needed("states of network cards", &path).is_some_and(|state| state == "up")
    };
    nics.into_iter().filter(is_up).collect()
}

/// A fault of one card.
pub(crate) fn fault(
    nic: &str,
    name: &'static str,
    found_and_wanted: [String; 2],
    cost: Cost,
    mend_and_check: [&str; 2],
) -> Finding {
    let fault = Finding::of_machine(Area::Card, name, found_and_wanted, cost, mend_and_check);
    Finding { on: vec![nic.to_owned()], ..fault }
}

fn offloads(visit: &mut Visit<'_>, nic: &str, settings: &NicSettings) {
    const CHECK: &str = "ethtool -k CARD";
    let Some(features) = &settings.features else {
        return visit.unknown("features of network cards", "its driver does not report them", nic);
    };
    let is_off = |name: &str| !features.on.contains(name);
    let off = |what: &str, feature: &str| {
        let can = if features.switchable.contains(feature) { "" } else { ", and the card cannot" };
        [format!("{what} is off{can}"), "on".to_owned()]
    };
    if is_off("tx-tcp-segmentation") {
        visit.found(fault(
            nic,
            "tso",
            off("cutting large segments (TSO)", "tx-tcp-segmentation"),
            Cost::percent(
                70.0,
                "of what a CPU carries: 2.1 Gb/s for each percent instead of 7.1; 82% compared with no segmentation offload at all (docs/notes/performance.md, gso)",
                source::GALLATIN_2022,
            ),
            ["ethtool -K CARD sg on tx on tso on; a card or a virtual card that can, if it stays off", CHECK],
        ));
    }
    if is_off("tx-scatter-gather") {
        visit.found(fault(
            nic,
            "scatter-gather",
            off("sending from several places (scatter-gather)", "tx-scatter-gather"),
            Cost::unmeasured("the kernel copies each packet once more, and TSO needs it"),
            ["ethtool -K CARD sg on", CHECK],
        ));
    }
    // With large receive offload the card joins them.
    if is_off("rx-gro") && is_off("rx-lro") {
        visit.found(fault(
            nic,
            "gro",
            off("joining received packets (GRO)", "rx-gro"),
            Cost::percent(
                7.0,
                "of what a CPU carries: each acknowledgement goes through TCP alone",
                source::PERFORMANCE,
            ),
            ["ethtool -K CARD gro on", CHECK],
        ));
    }
    let is_member = visit.tree.has(format!("sys/class/net/{nic}/master/bonding"));
    if is_member && !is_off(machine::TLS_FEATURE) {
        visit.found(fault(
            nic,
            "tls-offload-in-bond",
            ["a card of a bond may encrypt (tls-hw-tx-offload)".into(), "off while it is in a bond".into()],
            Cost {
                worth: crate::finding::Worth::Safety,
                what: "when the card that encrypts is set down, the rest of a film may leave in clear text: seen on Linux 6.1 and 7.3 with a card made of software; it concerns every program that gives the kernel keys of TLS 1.2; with --route kernel the server encrypts over such a bond itself (docs/routes.md, \"Never over a bond\")".into(),
                source: source::OFFLOAD,
            },
            ["ethtool -K CARD tls-hw-tx-offload off", CHECK],
        ));
    }
}

fn rings(visit: &mut Visit<'_>, nic: &str, settings: &NicSettings) {
    let Some(rings) = settings.rings else { return };
    let is_short = |now: u32, most: u32| now < RING_MIN.min(most);
    if !is_short(rings.receive, rings.receive_max) && !is_short(rings.send, rings.send_max) {
        return;
    }
    visit.found(fault(
        nic,
        "rings",
        [
            format!(
                "rings of {} descriptors for receiving and {} for sending; {} and {} are possible",
                rings.receive, rings.send, rings.receive_max, rings.send_max
            ),
            format!("{RING_MIN} or more, as far as possible"),
        ],
        Cost::unmeasured("packets are dropped in bursts, which viewers see as retransmissions"),
        [
            "ethtool -G CARD rx N tx N",
            "ethtool -g CARD; ethtool -S CARD: what counts drops and missed packets does not grow",
        ],
    ));
}

fn interrupts(visit: &mut Visit<'_>, nic: &str, settings: &NicSettings) {
    let Some(coalescing) = settings.coalescing else { return };
    if coalescing.is_adaptive || coalescing.receive_us > 0 {
        return;
    }
    visit.found(fault(
        nic,
        "coalescing",
        [
            "an interrupt for each received packet".into(),
            "a wait of some microseconds, or adaptive".into(),
        ],
        Cost::unmeasured("each acknowledgement interrupts a CPU"),
        ["ethtool -C CARD adaptive-rx on; or ethtool -C CARD rx-usecs 16", "ethtool -c CARD"],
    ));
}

fn pause(visit: &mut Visit<'_>, nic: &str, settings: &NicSettings) {
    let Some(pause) = settings.pause.filter(|pause| pause.heeds || pause.sends) else { return };
    let how = match (pause.heeds, pause.sends) {
        (true, true) => "obeys and sends pause frames",
        (true, false) => "obeys pause frames",
        _ => "sends pause frames",
    };
    visit.found(fault(
        nic,
        "pause",
        [how.into(), "no pause frames".into()],
        Cost::unmeasured(
            "a pause stops all viewers of the card, where TCP slows down those of one full queue",
        ),
        [
            "ethtool -A CARD rx off tx off, unless your network is made lossless on purpose",
            "ethtool -a CARD",
        ],
    ));
}

/// Not every driver reports versions; a missing one is no fault.
fn firmware(visit: &mut Visit<'_>, nic: &str, settings: &NicSettings) {
    let parts = || settings.firmware.iter().flatten();
    for (index, part) in parts().enumerate() {
        let Some(stored) = part.stored.as_ref().filter(|stored| **stored != part.running) else {
            continue;
        };
        // mlx5 reports the same versions under two names, `fw.version` and `fw`.
        let is_told = parts()
            .take(index)
            .any(|earlier| (&earlier.running, &earlier.stored) == (&part.running, &part.stored));
        if is_told {
            continue;
        }
        visit.found(fault(
            nic,
            "firmware",
            [
                format!("{} {} runs, and {stored} is stored", part.name, part.running),
                stored.clone(),
            ],
            Cost::unmeasured("the fixes in the stored firmware are not active yet"),
            [
                "switch the machine off and on; or devlink dev reload pci/DEVICE action fw_activate, which takes the card down for a moment",
                "devlink dev info",
            ],
        ));
    }
}

fn packet_size(visit: &mut Visit<'_>, nic: &str) {
    const WHAT: &str = "packet sizes";
    /// Headers of IPv4 and TCP with timestamps; of Ethernet with preamble and gap.
    const HEADS: [f64; 2] = [52.0, 38.0];
    let path = format!("sys/class/net/{nic}/mtu");
    let Some(mtu) = visit.number::<u32>(WHAT, &path) else { return };
    if !(68..=1 << 16).contains(&mtu) {
        visit.understood(WHAT, &path, None::<()>);
        return;
    }
    if mtu >= 1500 {
        return;
    }
    let carried = |mtu: f64| (mtu - HEADS[0]) / (mtu + HEADS[1]);
    visit.found(fault(
        nic,
        "mtu",
        [
            format!("packets of at most {mtu} bytes"),
            "1500, or more if the whole way takes it".into(),
        ],
        Cost::percent(
            100.0 * (1.0 - carried(mtu.into()) / carried(1500.0)),
            format!(
                "of the link; and {:.1} times as many packets",
                1448.0 / (f64::from(mtu) - HEADS[0]).max(1.0)
            ),
            source::ARITHMETIC,
        ),
        ["ip link set CARD mtu 1500", "ip link show CARD"],
    ));
}
