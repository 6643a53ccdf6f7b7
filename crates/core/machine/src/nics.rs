//! Network interfaces, their nodes and their interrupts, from /sys/class/net (kernel documentation: ABI, sysfs-class-net) and /proc/irq.

use crate::cpus::parse_list;
use crate::root::Root;
use crate::topology::{LAYERS_MAX, Topology, agreed, node_above};

pub(crate) const CARDS: &str = "sys/class/net";

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicDevice {
    /// Its name.
    pub name: String,
    /// The kernel's number for it.
    pub index: u32,
    /// Its node; `None` if it is unknown, or if it joins cards of several nodes.
    pub node: Option<u32>,
    /// A device of its own or on top of one: not the loopback, and no interface that exists in software alone.
    pub is_device: bool,
}

/// An interrupt of a card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NicInterrupt {
    /// Its number.
    pub number: u32,
    /// The CPUs that it goes to.
    pub cpus: Vec<u32>,
}

impl Topology {
    /// The network interfaces in `/sys`, by name. They belong to the namespace for which `/sys` was mounted: compare the numbers with the
    /// kernel's before using them.
    pub fn nics(&self) -> Vec<NicDevice> {
        let nic = |name: String| {
            let index = self.root.read_value(format!("{CARDS}/{name}/ifindex"))?;
            let node = node_of(&self.root, &name, LAYERS_MAX);
            let is_device = is_device(&self.root, &name, LAYERS_MAX);
            Some(NicDevice { name, index, node, is_device })
        };
        self.root.names(CARDS).into_iter().filter_map(nic).collect()
    }

    /// The current targets of a card's queue interrupts. None if it has no message-signalled interrupts.
    pub fn interrupts(&self, nic: &str) -> Vec<NicInterrupt> {
        let Some(device) = self.root.real(format!("{CARDS}/{nic}/device")) else {
            return Vec::new();
        };
        // virtio's device lies in the one that has the interrupts.
        let folders = device.ancestors().map(|folder| self.root.names(folder.join("msi_irqs")));
        let numbers = folders.into_iter().find(|numbers| !numbers.is_empty()).unwrap_or_default();
        let interrupt = |number: String| {
            let file = |name: &str| self.root.read(format!("proc/irq/{number}/{name}"));
            // An interrupt that no driver has requested goes nowhere: its list is empty.
            let list = file("effective_affinity_list").or_else(|| file("smp_affinity_list"))?;
            Some(NicInterrupt { number: number.parse().ok()?, cpus: parse_list(&list)? })
        };
        let mut interrupts: Vec<_> = numbers.into_iter().filter_map(interrupt).collect();
        interrupts.sort_unstable_by_key(|interrupt| interrupt.number);
        interrupts
    }
}

fn node_of(root: &Root, nic: &str, layers: usize) -> Option<u32> {
    if root.has(format!("{CARDS}/{nic}/device")) {
        return node_above(root, format!("{CARDS}/{nic}/device"));
    }
    let layers = layers.checked_sub(1)?;
    agreed(members(root, nic).iter().map(|member| node_of(root, member, layers)))
}

fn is_device(root: &Root, nic: &str, layers: usize) -> bool {
    let Some(layers) = layers.checked_sub(1) else { return false };
    root.has(format!("{CARDS}/{nic}/device"))
        || members(root, nic).iter().any(|member| is_device(root, member, layers))
}

/// The interfaces under a bond, a VLAN or a macvlan.
fn members(root: &Root, nic: &str) -> Vec<String> {
    let names = root.names(format!("{CARDS}/{nic}"));
    names.iter().filter_map(|name| name.strip_prefix("lower_")).map(str::to_owned).collect()
}
