//! PCIe devices that serve films: their links, their place and their registers (PCI Express Base Specification, 7.5.3;
//! kernel documentation: ABI, sysfs-bus-pci).

use crate::tree::Tree;
use crate::visit::Visit;
use std::path::{Path, PathBuf};

pub(crate) const DEVICES: &str = "sys/bus/pci/devices";

/// The part of a device's registers that ordinary users may read.
const PUBLIC_BYTES: usize = 64;

/// Capabilities are chained; a longer chain is a loop.
const CAPABILITIES_MAX: usize = 48;

/// The kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Disk,
    Card,
}

/// A disk's controller, or a function of a network card.
#[derive(Clone, Debug)]
pub(crate) struct PciDevice {
    /// Domain, bus, device and function: `0000:41:00.0`.
    pub(crate) address: String,
    pub(crate) kind: Kind,
    /// The bridges above, the nearest first; the last one is the root port.
    pub(crate) ports: Vec<String>,
    /// The root complex: `pci0000:40`.
    pub(crate) root: String,
    pub(crate) node: Option<u32>,
}

impl PciDevice {
    /// The slot, which functions of one card share.
    pub(crate) fn slot(&self) -> &str {
        self.address.split('.').next().unwrap_or_default()
    }
}

/// The devices, by address. A device that cannot be read is left out; see [`are_all`].
pub(crate) fn all(visit: &mut Visit<'_>) -> Vec<PciDevice> {
    let mut devices = Vec::new();
    for address in visit.tree.names(DEVICES) {
        let kind = match class(visit, &address) {
            Some(0x0108) => Kind::Disk,
            Some(class) if class >> 8 == 0x02 => Kind::Card,
            _ => continue,
        };
        devices.extend(device(&visit.tree, address, kind));
    }
    devices
}

/// Whether the kinds of all devices are known, so that they can be counted.
pub(crate) fn are_all(visit: &mut Visit<'_>) -> bool {
    let names = visit.tree.names(DEVICES);
    names.iter().all(|address| class(visit, address).is_some())
}

/// The first two parts of `0x010802`: class, subclass and interface.
fn class(visit: &mut Visit<'_>, address: &str) -> Option<u32> {
    const WHAT: &str = "kinds of PCIe devices";
    let path = format!("{DEVICES}/{address}/class");
    let text = visit.needed(WHAT, &path)?;
    let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 6);
    let class = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
    visit.understood(WHAT, &path, class.map(|class| class >> 8))
}

fn device(tree: &Tree, address: String, kind: Kind) -> Option<PciDevice> {
    let folder = tree.real(format!("{DEVICES}/{address}"))?;
    let above: Vec<_> = folder.ancestors().skip(1).map_while(named).collect();
    let root = above.iter().position(|name| name.starts_with("pci"))?;
    let node = tree.text(format!("{DEVICES}/{address}/numa_node")).ok();
    Some(PciDevice {
        address,
        kind,
        root: above[root].clone(),
        ports: above[..root].to_vec(),
        node: node.and_then(|node| node.parse().ok()),
    })
}

/// The disk or card at an address.
pub(crate) fn find(tree: &Tree, address: &str) -> Option<PciDevice> {
    device(tree, address.to_owned(), Kind::Card)
}

fn named(folder: &Path) -> Option<String> {
    Some(PathBuf::from(folder).file_name()?.to_string_lossy().into_owned())
}

/// The trained state of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TrainedLink {
    /// Billions of transfers per second and lane.
    pub(crate) speed_gt: f64,
    pub(crate) lanes: u32,
}

impl TrainedLink {
    /// Gb/s in one direction: up to 5 GT/s a byte takes 10 bits on the wire, above that 128 bits take 130.
    pub(crate) fn gbps(self) -> f64 {
        let coded = if self.speed_gt <= 5.0 { 0.8 } else { 128.0 / 130.0 };
        self.speed_gt * coded * f64::from(self.lanes)
    }

    pub(crate) fn describe(self) -> String {
        format!("x{} at {} GT/s ({:.0} Gb/s)", self.lanes, self.speed_gt, self.gbps())
    }
}

/// A link's current (`current`) or possible (`max`) state; `None` for a device without one.
pub(crate) fn link(visit: &mut Visit<'_>, address: &str, which: &str) -> Option<TrainedLink> {
    let path = |what: &str| format!("{DEVICES}/{address}/{which}_link_{what}");
    let speed = visit.optional("PCIe links", &path("speed"))?;
    let lanes = visit.optional("PCIe links", &path("width"))?;
    let speed_gt = speed.split(' ').next().and_then(|speed| speed.parse::<f64>().ok());
    let speed_gt = speed_gt.filter(|speed| (1.0..=1024.0).contains(speed));
    // For a link that is down, or a device that reports none, the kernel shows 0 or 255.
    let lanes = lanes.parse::<u32>().ok().filter(|lanes| (1..=32).contains(lanes));
    let link = speed_gt.zip(lanes).map(|(speed_gt, lanes)| TrainedLink { speed_gt, lanes });
    visit.understood("PCIe links", &path("speed"), link)
}

/// Some registers of a PCIe device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registers {
    pub(crate) relaxed_ordering: bool,
    /// `None` if the device cannot have more than 32 reads in flight.
    pub(crate) extended_tags: Option<bool>,
    pub(crate) payload_bytes: u32,
    pub(crate) payload_bytes_max: u32,
    pub(crate) read_request_bytes: u32,
    pub(crate) atomics: Atomics,
}

/// A device's support for atomic operations: reads that change memory in the same step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Atomics {
    /// The device may send them.
    pub(crate) sends: bool,
    /// The port passes them on.
    routes: bool,
    /// The port blocks them all the same.
    blocks: bool,
    /// The root port carries them out.
    completes: bool,
}

impl Atomics {
    /// From the second capabilities and the second control register, which devices have from version 2 of the capability on.
    fn of(capability: u32, control: u16) -> Self {
        Self {
            sends: control & (1 << 6) != 0,
            routes: capability & (1 << 6) != 0,
            blocks: control & (1 << 7) != 0,
            // Operations of 32, 64 or 128 bits.
            completes: capability & (0b111 << 7) != 0,
        }
    }

    /// Whether they end at this port, which is the root port or one on the way to it.
    pub(crate) fn end_at(self, is_root: bool) -> bool {
        if is_root { !self.completes } else { !self.routes || self.blocks }
    }
}

/// A device's registers; `None` if they cannot be read, or it is not a PCIe device.
pub(crate) fn registers(visit: &mut Visit<'_>, address: &str) -> Option<Registers> {
    const WHAT: &str = "PCIe registers";
    let path = format!("{DEVICES}/{address}/config");
    match visit.tree.bytes(&path) {
        Ok(config) if config.len() <= PUBLIC_BYTES => {
            visit.unknown(WHAT, "the kernel shows them only to root: run it as root", address);
            None
        }
        Ok(config) => match parse(&config) {
            Ok(registers) => registers,
            Err(Misread) => {
                visit.unknown(WHAT, "the kernel reports impossible values", address);
                None
            }
        },
        Err(error) => {
            visit.refused(WHAT, &error, address);
            None
        }
    }
}

/// Whether a port redirects traffic between devices below it to the root complex (ACS: request or completion redirect). `None` if
/// it has no ACS, or does not show it, as to users other than root.
pub(crate) fn acs_redirects(config: &[u8]) -> Option<bool> {
    /// Extended capabilities start here, each with its number and, in the upper 12 bits of its head, the offset of the next.
    const FIRST: usize = 0x100;
    const ACS: u16 = 0x0d;
    const REDIRECTS: u16 = 0b1100;
    let word = |at: usize| Some(u16::from_le_bytes([*config.get(at)?, *config.get(at + 1)?]));
    let mut at = FIRST;
    for _ in 0..CAPABILITIES_MAX {
        if word(at)? == ACS {
            return Some(word(at + 6)? & REDIRECTS != 0);
        }
        at = usize::from(word(at + 2)? >> 4);
        if at < FIRST {
            return None;
        }
    }
    None
}

/// Whether a device may send atomic operations. `None` if it does not show it, as to users other than root.
pub(crate) fn sends_atomics(config: &[u8]) -> Option<bool> {
    parse(config).ok()?.map(|registers| registers.atomics.sends)
}

#[derive(Debug, PartialEq, Eq)]
struct Misread;

/// The registers in a configuration space; `Ok(None)` if the device has no PCIe capability.
fn parse(config: &[u8]) -> Result<Option<Registers>, Misread> {
    /// The PCI Express capability.
    const EXPRESS: u8 = 0x10;
    let byte = |at: usize| config.get(at).copied().ok_or(Misread);
    let has_capabilities = byte(0x06)? & 0x10 != 0;
    let mut at = if has_capabilities { usize::from(byte(0x34)? & !3) } else { 0 };
    for _ in 0..CAPABILITIES_MAX {
        if at == 0 {
            return Ok(None);
        }
        if byte(at)? == EXPRESS {
            let capability =
                u32::from_le_bytes([byte(at + 4)?, byte(at + 5)?, byte(at + 6)?, byte(at + 7)?]);
            let control = u16::from_le_bytes([byte(at + 8)?, byte(at + 9)?]);
            let atomics = match byte(at + 2)? & 0xf {
                0 | 1 => Atomics::default(),
                _ => Atomics::of(
                    u32::from(byte(at + 0x24)?) | u32::from(byte(at + 0x25)?) << 8,
                    u16::from_le_bytes([byte(at + 0x28)?, byte(at + 0x29)?]),
                ),
            };
            return express(capability, control, atomics).map(Some);
        }
        at = usize::from(byte(at + 1)? & !3);
    }
    Err(Misread)
}

/// Parses the device's capabilities and its control register.
fn express(capability: u32, control: u16, atomics: Atomics) -> Result<Registers, Misread> {
    // 6 and 7 are reserved.
    let size = |code: u32| if code <= 5 { Ok(128 << code) } else { Err(Misread) };
    let control = u32::from(control);
    Ok(Registers {
        relaxed_ordering: control & (1 << 4) != 0,
        extended_tags: (capability & (1 << 5) != 0).then_some(control & (1 << 8) != 0),
        payload_bytes: size((control >> 5) & 7)?,
        payload_bytes_max: size(capability & 7)?,
        read_request_bytes: size((control >> 12) & 7)?,
        atomics,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_found_behind_other_capabilities() {
        let mut config = vec![0; 256];
        config[0x06] = 0x10;
        config[0x34] = 0x40;
        (config[0x40], config[0x41]) = (0x01, 0x60);
        config[0x60] = 0x10;
        // Can send 512 bytes and has extended tags; sends 256, asks for 4096, relaxed ordering.
        config[0x64] = 0x22;
        config[0x68..0x6a].copy_from_slice(&0x5130_u16.to_le_bytes());
        let expected = Registers {
            relaxed_ordering: true,
            extended_tags: Some(true),
            payload_bytes: 256,
            payload_bytes_max: 512,
            read_request_bytes: 4096,
            atomics: Atomics::default(),
        };
        assert_eq!(parse(&config), Ok(Some(expected)));
        // Version 2: routes atomic operations, carries those of 64 bits out, may send them, and lets none pass.
        config[0x62] = 2;
        config[0x84..0x86].copy_from_slice(&0x0140_u16.to_le_bytes());
        config[0x88] = 0xc0;
        let all = Atomics { sends: true, routes: true, blocks: true, completes: true };
        assert_eq!(parse(&config), Ok(Some(Registers { atomics: all, ..expected })));
        assert_eq!((all.end_at(true), all.end_at(false)), (false, true));
        config[0x62] = 1;
        assert_eq!(parse(&config), Ok(Some(expected)), "version 1 has other things there");
        config[0x06] = 0;
        assert_eq!(parse(&config), Ok(None), "no capabilities");
        config[0x06] = 0x10;
        (config[0x60], config[0x61]) = (0x05, 0x40);
        assert_eq!(parse(&config), Err(Misread), "a circle");
        assert_eq!(parse(&[0xff; 256]), Err(Misread), "the device does not answer");
        assert_eq!(parse(&[0xff; 3]), Err(Misread));
    }

    #[test]
    fn a_port_that_redirects_is_found_behind_other_capabilities() {
        let mut config = vec![0; 4096];
        // Error reporting (1), then ACS at 0x148, whose control register is at its 6th byte.
        config[0x100..0x104].copy_from_slice(&0x1482_0001_u32.to_le_bytes());
        config[0x148..0x14c].copy_from_slice(&0x0001_000d_u32.to_le_bytes());
        assert_eq!(acs_redirects(&config), Some(false));
        config[0x14e] = 0b1_1101;
        assert_eq!(acs_redirects(&config), Some(true));
        assert_eq!(acs_redirects(&config[..256]), None, "what others than root see");
        config[0x102..0x104].copy_from_slice(&0x1002_u16.to_le_bytes());
        assert_eq!(acs_redirects(&config), None, "a circle");
        assert_eq!(acs_redirects(&[0xff; 4096]), None, "the device does not answer");
    }

    #[test]
    fn a_link_carries_what_its_coding_leaves() {
        let gbps = |speed_gt, lanes| TrainedLink { speed_gt, lanes }.gbps().round();
        assert_eq!([gbps(2.5, 4), gbps(8.0, 4), gbps(16.0, 16)], [8.0, 32.0, 252.0]);
    }
}
