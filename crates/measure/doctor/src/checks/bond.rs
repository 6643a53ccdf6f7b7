//! Bonds: whether all their cards carry traffic (kernel documentation: networking/bonding).

use super::nic::fault;
use crate::finding::Cost;
use crate::source;
use crate::visit::Visit;

const WHAT: &str = "bonds";

pub(crate) fn check(visit: &mut Visit<'_>) {
    for bond in visit.tree.names("sys/class/net") {
        let folder = format!("sys/class/net/{bond}/bonding");
        if visit.tree.has(&folder) {
            of(visit, &bond, &folder);
        }
    }
}

fn of(visit: &mut Visit<'_>, bond: &str, folder: &str) {
    let Some(members) = visit.needed(WHAT, &format!("{folder}/slaves")) else { return };
    let members: Vec<_> = members.split_whitespace().map(str::to_owned).collect();
    down(visit, bond, &members);
    // `802.3ad 4`: a name and the kernel's number for it.
    let path = format!("{folder}/mode");
    let Some(mode) = visit.needed(WHAT, &path) else { return };
    let one_of = 100.0 * (1.0 - 1.0 / members.len().max(1) as f64);
    match mode.split(' ').next().unwrap_or_default() {
        "802.3ad" | "balance-xor" => hash(visit, bond, folder, one_of),
        "active-backup" if members.len() > 1 => visit.found(fault(
            bond,
            "bond-mode",
            [
                format!("active-backup: one of {} cards sends", members.len()),
                "802.3ad (LACP)".into(),
            ],
            Cost::percent(one_of, "of the links, while one is not enough", source::ARITHMETIC),
            [
                "set the bond's mode to 802.3ad, and the switch's ports to LACP",
                "cat /proc/net/bonding/BOND",
            ],
        )),
        "balance-rr" if members.len() > 1 => visit.found(fault(
            bond,
            "bond-mode",
            [
                "balance-rr: packets of a connection take turns over the cards".into(),
                "802.3ad (LACP)".into(),
            ],
            Cost::unmeasured("packets arrive out of order, which TCP takes for losses"),
            [
                "set the bond's mode to 802.3ad, and the switch's ports to LACP",
                "cat /proc/net/bonding/BOND",
            ],
        )),
        "active-backup" | "balance-rr" | "broadcast" | "balance-tlb" | "balance-alb" => {}
        _ => {
            visit.understood(WHAT, &path, None::<()>);
        }
    }
}

fn hash(visit: &mut Visit<'_>, bond: &str, folder: &str, one_of: f64) {
    let path = format!("{folder}/xmit_hash_policy");
    let Some(policy) = visit.needed(WHAT, &path) else { return };
    match policy.split(' ').next().unwrap_or_default() {
        "layer3+4" | "encap3+4" => {}
        policy @ ("layer2" | "layer2+3" | "encap2+3" | "vlan+srcmac") => {
            let cost = match policy {
                "layer2" | "vlan+srcmac" if one_of > 0.0 => Cost::percent(
                    one_of,
                    "of the links: behind a router all packets have the same two addresses, and leave by one card",
                    source::ARITHMETIC,
                ),
                _ => Cost::unmeasured("all connections to a viewer's network leave by one card"),
            };
            visit.found(fault(
                bond,
                "bond-hash",
                [format!("cards are chosen by {policy}"), "layer3+4".into()],
                cost,
                ["ip link set BOND type bond xmit_hash_policy layer3+4, and the same in its configuration", "cat /sys/class/net/BOND/bonding/xmit_hash_policy"],
            ));
        }
        _ => {
            visit.understood(WHAT, &path, None::<()>);
        }
    }
}

fn down(visit: &mut Visit<'_>, bond: &str, members: &[String]) {
    let state = |visit: &mut Visit<'_>, member: &String| {
        visit.optional(WHAT, &format!("sys/class/net/{member}/operstate"))
    };
    let is_down = |member: &&String| state(visit, member).is_some_and(|state| state == "down");
    let down: Vec<_> = members.iter().filter(is_down).cloned().collect();
    if down.is_empty() {
        return;
    }
    let part = down.len() as f64 / members.len() as f64;
    visit.found(fault(
        bond,
        "bond-member-down",
        [format!("down: {}", down.join(", ")), "all of its cards are up".into()],
        Cost::percent(100.0 * part, "of the bond's links", source::ARITHMETIC),
        [
            "look at cable, module and the switch's port; ip link set CARD up",
            "cat /proc/net/bonding/BOND",
        ],
    ));
}
