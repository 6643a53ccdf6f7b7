//! Reads a machine from a file's text and checks it. docs/plan.md has all keys.

use crate::cost::CostTable;
use crate::demand::{Demand, PlannedRoute, PlannedSilo, SealedBy};
use crate::hardware::{Bus, DiskGroup, Fabric, Hardware, NetworkCard, NumaNode};
use crate::keys::{BadMachine, Number, Section};
use toml::Table;

/// A file's content.
#[derive(Clone, Debug, PartialEq)]
pub struct Specified {
    /// The hardware to buy.
    pub hardware: Hardware,
    /// The work it should do.
    pub demand: Demand,
    /// The costs of that work: [`CostTable::USUAL`], changed by what the file sets.
    pub costs: CostTable,
}

impl Specified {
    /// The same with TLS encrypted elsewhere, on the usual route for that.
    ///
    /// # Errors
    /// If the machine cannot do it.
    pub fn with_tls(self, tls: Option<SealedBy>) -> Result<Self, BadMachine> {
        let Some(tls) = tls.filter(|tls| *tls != self.demand.tls) else { return Ok(self) };
        let demand = self.demand.sealed_by(tls);
        check(&demand, &self.hardware)?;
        Ok(Self { demand, ..self })
    }
}

const fn number(
    key: &'static str,
    what: &'static str,
    (low, high): (f64, f64),
    example: &'static str,
) -> Number {
    Number { key, what, range: low..=high, example }
}

const CORES: Number = number("cores", "cores of the node, not threads", (1.0, 1024.0), "8");
const MEMORY: Number = number(
    "memory_gbytes_per_second",
    "what STREAM measures on the node, in GB/s",
    (1.0, 4000.0),
    "37.5",
);
const LINKS: Number = number("links", "links between the nodes in all", (1.0, 64.0), "6");
const LINK: Number =
    number("link_gbytes_per_second", "what one link carries, in GB/s", (1.0, 1000.0), "47");
const HOTTEST: Number = number(
    "hottest_link_percent",
    "the share of crossing bytes on the busiest link, in percent",
    (1.0, 100.0),
    "25",
);
const NODE: Number =
    number("node", "the node that it is plugged into, from 0 on", (0.0, 63.0), "0");
const COUNT: Number = number("count", "how many of them", (1.0, 256.0), "4");
const DISK: Number =
    number("gbytes_per_second", "what one disk reads, in GB/s", (0.05, 64.0), "3.2");
const PORTS: Number = number("ports", "ports of one card", (1.0, 8.0), "2");
const PORT: Number =
    number("gbits_per_second", "the rate of one port in Gb/s", (0.1, 1600.0), "100");
const LANES: Number = number("lanes", "PCIe lanes", (1.0, 16.0), "16");
const GENERATION: Number = number("pcie_generation", "the generation of PCIe", (1.0, 6.0), "4");
const SEALED: Number = number(
    "tls_gbits_per_second_max",
    "what one card seals at most in Gb/s, if less than its ports",
    (0.1, 1600.0),
    "160",
);
const READS: Number = number(
    "pcie_reads_in_flight",
    "PCIe reads that a card may have in flight (32 without extended tags)",
    (1.0, 4096.0),
    "256",
);
const HIT: Number =
    number("hit_percent", "the share of bytes found in memory, in percent", (0.0, 100.0), "10");
const SOFTWARE: Number = number(
    "software_percent",
    "the share of bytes that software seals although cards seal, in percent",
    (0.0, 100.0),
    "33",
);
const EXTRA: Number =
    number("extra_copies", "further copies in the server's memory", (0.0, 8.0), "1");
const VIEWERS: Number = number("viewers", "viewers at the busiest time", (1.0, 1e8), "20000");
const VIEWER: Number =
    number("viewer_mbits_per_second", "what a viewer takes, in Mb/s", (0.01, 1e5), "4");
const HANDSHAKES: Number =
    number("handshakes_per_second", "new TLS connections a second", (0.0, 1e7), "500");

/// More than any machine has.
const NODES_MAX: usize = 64;

/// Reads a machine.
///
/// # Errors
/// If something is wrong: one line with the key and an example.
pub fn read_machine(text: &str) -> Result<Specified, BadMachine> {
    let table: Table = toml::from_str(text).map_err(|error| not_toml(text, &error))?;
    let mut file = Section::new("the file".to_owned(), table);
    let name = file.text("name")?.unwrap_or_else(|| "this machine".to_owned());
    let nodes = nodes(&mut file)?;
    let fabric = fabric(&mut file, nodes.len())?;
    let disks = disks(&mut file, nodes.len())?;
    let cards = cards(&mut file, nodes.len())?;
    let hardware = Hardware { name, nodes, fabric, disks, cards };
    let demand = demand(&mut file, &hardware)?;
    let costs = costs(&mut file)?;
    file.end()?;
    Ok(Specified { hardware, demand, costs })
}

fn not_toml(text: &str, error: &toml::de::Error) -> BadMachine {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let message = error.message().lines().collect::<Vec<_>>().join(", ");
    BadMachine(format!(
        "line {line} is not TOML ({message}): a line is KEY = VALUE or a heading, for example cores = 8"
    ))
}

fn nodes(file: &mut Section) -> Result<Vec<NumaNode>, BadMachine> {
    let mut nodes = Vec::new();
    for mut section in file.sections("node")? {
        let cores = section.required_whole(&CORES)?;
        let memory_gbytes_per_second = section.required(&MEMORY)?;
        let count = section.whole(&COUNT)?.unwrap_or(1.0);
        section.end()?;
        nodes.extend((0..count as usize).map(|_| NumaNode { cores, memory_gbytes_per_second }));
    }
    if nodes.is_empty() {
        let why = "is missing: begin each NUMA node with [[node]], for example cores = 8 and memory_gbytes_per_second = 40 below it";
        return Err(file.wrong("node", why));
    }
    if nodes.len() > NODES_MAX {
        let why = format!(
            "is there {} times, more than {NODES_MAX}: is count right? For example count = 4",
            nodes.len()
        );
        return Err(file.wrong("node", &why));
    }
    Ok(nodes)
}

fn fabric(file: &mut Section, nodes: usize) -> Result<Option<Fabric>, BadMachine> {
    let Some(mut section) = file.section("fabric")? else {
        if nodes > 1 {
            let why = "is missing: several nodes have links between them, for example [fabric] with links = 6 and link_gbytes_per_second = 47";
            return Err(file.wrong("fabric", why));
        }
        return Ok(None);
    };
    if nodes == 1 {
        return Err(file
            .wrong("fabric", "is for machines with several nodes: remove it, or add a [[node]]"));
    }
    let links = section.required_whole(&LINKS)?;
    let link_gbytes_per_second = section.required(&LINK)?;
    let hottest_share = section.number(&HOTTEST)?.map_or(1.0 / links, |percent| percent / 100.0);
    if hottest_share < 0.99 / links {
        let least = 100.0 / links;
        let why = format!(
            "is less than its part: the busiest of {links} links has at least {least:.0} percent, for example hottest_link_percent = {least:.0}"
        );
        return Err(section.wrong(HOTTEST.key, &why));
    }
    section.end()?;
    Ok(Some(Fabric { links, link_gbytes_per_second, hottest_share }))
}

fn node_of(section: &mut Section, nodes: usize) -> Result<usize, BadMachine> {
    let node = section.whole(&NODE)?;
    match node {
        Some(node) if node as usize >= nodes => {
            let why = format!(
                "= {node} is not there: nodes are 0 to {}, for example node = 0",
                nodes - 1
            );
            Err(section.wrong("node", &why))
        }
        None if nodes > 1 => Err(section
            .wrong("node", "is missing: the node that it is plugged into, for example node = 0")),
        node => Ok(node.unwrap_or(0.0) as usize),
    }
}

fn disks(file: &mut Section, nodes: usize) -> Result<Vec<DiskGroup>, BadMachine> {
    let mut disks = Vec::new();
    for mut section in file.sections("disk")? {
        let node = node_of(&mut section, nodes)?;
        let count = section.whole(&COUNT)?.unwrap_or(1.0);
        let gbytes_per_second = section.required(&DISK)?;
        let lanes = section.whole(&LANES)?;
        let generation = section.whole(&GENERATION)?;
        let bus = match (lanes, generation) {
            (Some(lanes), Some(generation)) => Some(Bus { generation: generation as u8, lanes }),
            (None, None) => None,
            (None, _) => {
                return Err(section.wrong(
                    "lanes",
                    "is missing: pcie_generation needs it, for example lanes = 4",
                ));
            }
            (_, None) => {
                return Err(section.wrong(
                    "pcie_generation",
                    "is missing: lanes needs it, for example pcie_generation = 4",
                ));
            }
        };
        section.end()?;
        disks.push(DiskGroup { node, count, gbytes_per_second, bus });
    }
    if disks.is_empty() {
        let why = "is missing: films lie on disks; begin each group with [[disk]], for example count = 4 and gbytes_per_second = 3.2 below it";
        return Err(file.wrong("disk", why));
    }
    Ok(disks)
}

fn cards(file: &mut Section, nodes: usize) -> Result<Vec<NetworkCard>, BadMachine> {
    let mut cards = Vec::new();
    for mut section in file.sections("card")? {
        let node = node_of(&mut section, nodes)?;
        let card = NetworkCard {
            node,
            count: section.whole(&COUNT)?.unwrap_or(1.0),
            ports: section.required_whole(&PORTS)?,
            gbits_per_second: section.required(&PORT)?,
            bus: Bus {
                lanes: section.required_whole(&LANES)?,
                generation: section.required_whole(&GENERATION)? as u8,
            },
            seals: section.flag("tls", "whether the card seals TLS")?.unwrap_or(false),
            sealed_gbits_per_second_max: section.number(&SEALED)?,
            reads_in_flight: section.whole(&READS)?.unwrap_or(256.0),
            serves: section.nodes("serves", nodes)?.unwrap_or_else(|| vec![node]),
        };
        section.end()?;
        cards.push(card);
    }
    if cards.is_empty() {
        let why = "is missing: bytes leave by a card; begin each with [[card]], for example ports = 2, gbits_per_second = 100, lanes = 16 and pcie_generation = 4 below it";
        return Err(file.wrong("card", why));
    }
    adopt(&mut cards, nodes);
    Ok(cards)
}

/// Assigns a node without cards of its own to the nearest ones, as the server does. Nodes with close numbers count as near.
fn adopt(cards: &mut [NetworkCard], nodes: usize) {
    for node in 0..nodes {
        if cards.iter().any(|card| card.serves.contains(&node)) {
            continue;
        }
        let nearest = cards.iter().map(|card| card.node.abs_diff(node)).min();
        for card in cards.iter_mut().filter(|card| Some(card.node.abs_diff(node)) == nearest) {
            card.serves.push(node);
        }
    }
}

fn demand(file: &mut Section, hardware: &Hardware) -> Result<Demand, BadMachine> {
    let empty = || Section::new("[workload]".to_owned(), Table::new());
    let mut section = file.section("workload")?.unwrap_or_else(empty);
    let tls =
        [("software", SealedBy::Software), ("card", SealedBy::Card), ("none", SealedBy::None)];
    let routes = [
        ("userspace", PlannedRoute::Userspace),
        ("kernel", PlannedRoute::Kernel),
        ("copies", PlannedRoute::Copies),
    ];
    let silos = [
        ("network", PlannedSilo::Network),
        ("memory-at-disk", PlannedSilo::MemoryAtDisk),
        ("disk", PlannedSilo::Disk),
        ("off", PlannedSilo::Off),
    ];
    let tls = section.word("tls", &tls)?.unwrap_or(SealedBy::Software);
    let usual = Demand::usual(tls, hardware.nodes.len());
    let share = |percent: Option<f64>| percent.unwrap_or(0.0) / 100.0;
    let demand = Demand {
        route: section.word("route", &routes)?.unwrap_or(usual.route),
        silo: section.word("silo", &silos)?.unwrap_or(usual.silo),
        hit_share: share(section.number(&HIT)?),
        software_share: share(section.number(&SOFTWARE)?),
        extra_copies: section.whole(&EXTRA)?.unwrap_or(0.0),
        viewers: section.number(&VIEWERS)?,
        viewer_mbits_per_second: section.number(&VIEWER)?,
        handshakes_per_second: section.number(&HANDSHAKES)?.unwrap_or(0.0),
        ..usual
    };
    if demand.viewers.is_some() && demand.viewer_mbits_per_second.is_none() {
        let why =
            "is missing: the rate of each viewer in Mb/s, for example viewer_mbits_per_second = 4";
        return Err(section.wrong(VIEWER.key, why));
    }
    section.end()?;
    check(&demand, hardware)?;
    Ok(demand)
}

/// Checks that the machine can do this work.
pub(crate) fn check(demand: &Demand, hardware: &Hardware) -> Result<(), BadMachine> {
    let wrong = |why: &str| Err(BadMachine(format!("[workload]: {why}")));
    let seals = hardware.cards.iter().all(|card| card.seals);
    match (demand.tls, demand.route) {
        (SealedBy::Card, PlannedRoute::Userspace) => wrong(
            "route = \"userspace\" seals in software: write route = \"kernel\" with tls = \"card\"",
        ),
        (SealedBy::Card, _) if !seals => wrong(
            "tls = \"card\" needs cards that seal: write tls = true below each [[card]], or tls = \"software\" here",
        ),
        (SealedBy::None | SealedBy::Software, _) if demand.software_share > 0.0 => {
            wrong("software_percent is for tls = \"card\": remove it, or write tls = \"card\"")
        }
        _ if hardware.nodes.len() == 1 && demand.silo != PlannedSilo::Off => wrong(
            "silo is for machines with several nodes: write silo = \"off\", or add a [[node]]",
        ),
        _ => Ok(()),
    }
}

fn costs(file: &mut Section) -> Result<CostTable, BadMachine> {
    let mut costs = CostTable::USUAL;
    let Some(mut section) = file.section("costs")? else { return Ok(costs) };
    let percent = |key| number(key, "the usable share, in percent", (1.0, 100.0), "80");
    for (key, cost) in [
        ("cpu_busy_percent_max", &mut costs.cpu_busy_max),
        ("memory_usable_percent", &mut costs.memory_usable),
        ("port_usable_percent", &mut costs.port_usable),
        ("pcie_usable_percent", &mut costs.bus_usable),
        ("fabric_usable_percent", &mut costs.fabric_usable),
        ("disk_usable_percent", &mut costs.disk_usable),
        ("buffers_cached_percent", &mut costs.buffers_cached),
    ] {
        *cost = section.number(&percent(key))?.map_or(*cost, |percent| percent / 100.0);
    }
    let rate = |key| number(key, "what one core does alone, in Gb/s", (0.1, 10_000.0), "40");
    for (key, cost) in [
        ("read_cold_gbits_per_second", &mut costs.read_cold),
        ("read_warm_gbits_per_second", &mut costs.read_warm),
        ("seal_gbits_per_second", &mut costs.seal),
        ("seal_hot_gbits_per_second", &mut costs.seal_hot),
        ("seal_kernel_gbits_per_second", &mut costs.seal_kernel),
        ("send_gbits_per_second", &mut costs.send),
        ("sendfile_gbits_per_second", &mut costs.sendfile),
    ] {
        *cost = section.number(&rate(key))?.or(*cost);
    }
    let time = |key, what, example| number(key, what, (0.0, 1e5), example);
    for (key, what, example, cost) in [
        ("handshake_ms", "processor time of a handshake in ms", "0.1", &mut costs.handshake_ms),
        (
            "pull_us",
            "processor time of serving a paced viewer once in us",
            "13",
            &mut costs.pull_us,
        ),
        (
            "pcie_read_ns",
            "how long a card's read of memory takes in ns",
            "1000",
            &mut costs.bus_read_ns,
        ),
    ] {
        *cost = section.number(&time(key, what, example))?.unwrap_or(*cost);
    }
    let kib = number("pull_kib", "what a paced viewer gets each time, in KiB", (1.0, 4096.0), "64");
    costs.pull_kib = section.number(&kib)?.unwrap_or(costs.pull_kib);
    section.end()?;
    Ok(costs)
}
