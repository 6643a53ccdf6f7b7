//! The machines that Netflix described, as far as the descriptions go. Anything not described is set so high that it does not limit.

use crate::cost::CostTable;
use crate::hardware::{Bus, DiskGroup, Fabric, Hardware, NetworkCard, NumaNode};

/// Costs that no row gives. Unknown costs do not limit.
pub(super) const UNKNOWN: CostTable = CostTable {
    read_cold: None,
    read_warm: None,
    seal: None,
    seal_hot: None,
    seal_kernel: None,
    send: None,
    sendfile: None,
    ..CostTable::USUAL
};

/// A port of a ConnectX-6 Dx: 100 Gb/s and half of its 16 lanes. Each port serves its own nodes.
fn port(node: usize, serves: &[usize]) -> NetworkCard {
    NetworkCard {
        node,
        count: 1.0,
        ports: 1.0,
        gbits_per_second: 100.0,
        bus: Bus { generation: 4, lanes: 8.0 },
        seals: true,
        sealed_gbits_per_second_max: None,
        reads_in_flight: 128.0,
        serves: serves.to_vec(),
    }
}

/// WD SN720, PCIe generation 3 with four lanes; 3.4 GB/s according to the maker.
fn older_disks(node: usize, count: f64) -> DiskGroup {
    let bus = Some(Bus { generation: 3, lanes: 4.0 });
    DiskGroup { node, count, gbytes_per_second: 3.4, bus }
}

/// EPYC 7502P: 32 cores, 18 disks, two cards of two ports, one node.
pub(super) fn rome_one_node() -> Hardware {
    Hardware {
        name: "400G machine, one node".to_owned(),
        nodes: vec![NumaNode { cores: 32.0, memory_gbytes_per_second: 150.0 }],
        fabric: None,
        disks: vec![older_disks(0, 18.0)],
        cards: (0..4).map(|_| port(0, &[0])).collect(),
    }
}

/// The same as four nodes: STREAM 175 GB/s, six links of 47 GB/s, cards on two nodes. Each port belongs to one node.
pub(super) fn rome_four_nodes(disks: [f64; 4]) -> Hardware {
    Hardware {
        name: "400G machine, four nodes".to_owned(),
        nodes: vec![NumaNode { cores: 8.0, memory_gbytes_per_second: 175.0 / 4.0 }; 4],
        fabric: Some(Fabric { links: 6.0, link_gbytes_per_second: 47.0, hottest_share: 1.0 / 6.0 }),
        disks: (0..4).zip(disks).map(|(node, count)| older_disks(node, count)).collect(),
        cards: vec![port(1, &[0]), port(1, &[1]), port(3, &[2]), port(3, &[3])],
    }
}

/// Disks per node as they are plugged in.
pub(super) const DISKS: [f64; 4] = [2.0, 6.0, 4.0, 6.0];

/// As even as 18 disks on four nodes can be. The talk says that some were treated as being elsewhere, but not how many.
pub(super) const DISKS_REMAPPED: [f64; 4] = [4.0, 5.0, 4.0, 5.0];

/// Two EPYC 7713, four cards of two ports, 16 disks, three links of 18 GT/s and 16 lanes between the sockets. Eight disks per socket are
/// assumed. `links` has the load that was read for each link.
pub(super) fn milan(link_gbytes_per_second: f64, links: [f64; 3]) -> Hardware {
    let busiest = links.iter().copied().fold(0.0, f64::max);
    let hottest_share = busiest / links.iter().sum::<f64>();
    let disks = |node| DiskGroup {
        node,
        count: 8.0,
        gbytes_per_second: 7.0,
        bus: Some(Bus { generation: 4, lanes: 4.0 }),
    };
    Hardware {
        name: "800G prototype".to_owned(),
        // As in the 400G machine: eight channels of DDR4-3200 per socket.
        nodes: vec![NumaNode { cores: 64.0, memory_gbytes_per_second: 150.0 }; 2],
        fabric: Some(Fabric { links: 3.0, link_gbytes_per_second, hottest_share }),
        disks: vec![disks(0), disks(1)],
        cards: (0..8).map(|at| port(at / 4, &[at / 4])).collect(),
    }
}

/// Ampere Altra Q80-30: 80 cores, two cards, 16 disks.
pub(super) fn altra(reads_in_flight: f64) -> Hardware {
    let card = NetworkCard {
        count: 2.0,
        ports: 2.0,
        bus: Bus { generation: 4, lanes: 16.0 },
        reads_in_flight,
        ..port(0, &[0])
    };
    Hardware {
        name: "Ampere Altra".to_owned(),
        nodes: vec![NumaNode { cores: 80.0, memory_gbytes_per_second: 150.0 }],
        fabric: None,
        disks: vec![older_disks(0, 16.0)],
        cards: vec![card],
    }
}

/// A flash appliance of 2016 with one port of 100 Gb/s. Its memory and its disks are not described; the disks are set so high that they do
/// not limit.
pub(super) fn flash_2016(memory_gbytes_per_second: f64) -> Hardware {
    Hardware {
        name: "100G appliance of 2016".to_owned(),
        nodes: vec![NumaNode { cores: 1.0, memory_gbytes_per_second }],
        fabric: None,
        disks: vec![older_disks(0, 100.0)],
        cards: vec![NetworkCard {
            bus: Bus { generation: 3, lanes: 16.0 },
            reads_in_flight: 256.0,
            ..port(0, &[0])
        }],
    }
}

/// Ice Lake 8352V: eight channels that run at 2933 instead of 3200.
pub(super) fn ice_lake() -> Hardware {
    Hardware {
        name: "Ice Lake 8352V".to_owned(),
        nodes: vec![NumaNode { cores: 36.0, memory_gbytes_per_second: 150.0 * 2933.0 / 3200.0 }],
        ..rome_one_node()
    }
}
