//! The speed of a machine's network links, as reported by drivers (/sys/class/net/NAME/speed; kernel documentation: ABI, sysfs-class-net).

use crate::nics::CARDS;
use crate::topology::Topology;

/// A link that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSpeed {
    /// The interface.
    pub nic: String,
    /// Bits per second in one direction; `None` if the driver does not report it, as in virtual machines.
    pub bits_per_second: Option<u64>,
}

impl Topology {
    /// The links by which packets leave the machine, by name: its devices that are up, and bonds instead of their members. An interface on top of
    /// such a link (a VLAN, a bridge) is not counted twice, and the loopback not at all.
    pub fn links(&self) -> Vec<LinkSpeed> {
        let root = &self.root;
        let has = |nic: &str, what: &str| root.has(format!("{CARDS}/{nic}/{what}"));
        let is_link = |nic: &String| {
            let is_up = root.read(format!("{CARDS}/{nic}/operstate")).as_deref() == Some("up");
            let is_bond = has(nic, "bonding");
            let is_member = has(nic, "master/bonding");
            is_up && (is_bond || has(nic, "device")) && !is_member
        };
        let speed = |nic: String| {
            // In Mb/s; -1 if it is unknown.
            let megabits: Option<u64> = root.read_value(format!("{CARDS}/{nic}/speed"));
            // Some drivers report an unknown speed as 2^32 - 1.
            let known = megabits.filter(|speed| (1..u64::from(u32::MAX)).contains(speed));
            LinkSpeed { nic, bits_per_second: known.map(|speed| speed * 1_000_000) }
        };
        root.names(CARDS).into_iter().filter(is_link).map(speed).collect()
    }
}
