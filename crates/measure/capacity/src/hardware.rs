//! A machine, as far as it limits serving. `input` has checked everything here.

/// The hardware to buy: nodes, links between them, disks and cards.
#[derive(Clone, Debug, PartialEq)]
pub struct Hardware {
    /// A name for people.
    pub name: String,
    /// NUMA nodes, at least one.
    pub nodes: Vec<NumaNode>,
    /// Links between nodes; `None` if there is only one node.
    pub fabric: Option<Fabric>,
    /// At least one disk.
    pub disks: Vec<DiskGroup>,
    /// At least one port.
    pub cards: Vec<NetworkCard>,
}

/// Cores and the memory next to them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NumaNode {
    /// Cores, not threads.
    pub cores: f64,
    /// The rate that STREAM measures, not the product of channels and clock.
    pub memory_gbytes_per_second: f64,
}

/// Links between nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fabric {
    /// Total links.
    pub links: f64,
    /// The rate of one link.
    pub link_gbytes_per_second: f64,
    /// The share of all crossing bytes on the busiest link, 0 to 1: one divided by the number of links if they are even.
    pub hottest_share: f64,
}

/// Identical disks on one node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DiskGroup {
    /// The node that they are plugged into.
    pub node: usize,
    /// Number of disks.
    pub count: f64,
    /// Read rate of one disk.
    pub gbytes_per_second: f64,
    /// The PCIe link of one disk, if it has one.
    pub bus: Option<Bus>,
}

/// Identical cards on one node.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkCard {
    /// The node that they are plugged into.
    pub node: usize,
    /// Number of cards.
    pub count: f64,
    /// Ports per card.
    pub ports: f64,
    /// Rate of one port.
    pub gbits_per_second: f64,
    /// The PCIe link of one card.
    pub bus: Bus,
    /// Set if the card can encrypt TLS records.
    pub seals: bool,
    /// Limit on what one card encrypts, if it is lower than its ports carry.
    pub sealed_gbits_per_second_max: Option<f64>,
    /// PCIe reads that one card may have in flight: 32 without extended tags, 256 with them.
    pub reads_in_flight: f64,
    /// Nodes whose connections leave by these cards.
    pub serves: Vec<usize>,
}

/// A PCIe link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bus {
    /// PCIe generation, 1 to 6.
    pub generation: u8,
    /// Lanes, 1 to 16.
    pub lanes: f64,
}

impl Bus {
    /// The rate in one direction, after line coding and before packet headers (PCI Express Base Specification; 8b/10b up to generation 2,
    /// then 128b/130b).
    pub fn gbytes_per_second(&self) -> f64 {
        let lane = match self.generation {
            1 => 0.25,
            2 => 0.5,
            generation => 0.985 * 2_f64.powi(i32::from(generation) - 3),
        };
        lane * self.lanes
    }
}

impl NetworkCard {
    /// All ports of all cards in the group, in Gb/s on the wire.
    pub fn wire_gbps(&self) -> f64 {
        self.count * self.ports * self.gbits_per_second
    }
}

impl Hardware {
    /// Cores of all nodes.
    pub fn cores(&self) -> f64 {
        self.nodes.iter().map(|node| node.cores).sum()
    }

    /// Disks of all nodes.
    pub fn disk_count(&self) -> f64 {
        self.disks.iter().map(|group| group.count).sum()
    }
}
