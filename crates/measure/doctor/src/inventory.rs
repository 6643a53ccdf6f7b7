//! The disks and cards, and the node of each. Facts, not faults: unknown values are left out.

use crate::checks::pci_device::{self, DEVICES};
use crate::checks::{nic, pcie, text_of};
use crate::visit::Visit;
use machine::{DiskHealth, TLS_FEATURE};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A disk or a network card.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HardwareDevice {
    /// `disk` or `card`.
    pub kind: &'static str,
    /// The kernel's name.
    pub name: String,
    /// The card's driver, or the disk's model.
    pub what: Option<String>,
    /// The running version.
    pub firmware: Option<String>,
    /// The node that it is on.
    pub node: Option<u32>,
    /// How the IOMMU is set for it (`identity`, `DMA-FQ`, `DMA`).
    pub iommu: Option<String>,
    /// Ports above it redirect traffic to neighbouring devices through the root complex (ACS).
    pub acs_redirects: Option<bool>,
    /// It may send atomic operations.
    pub atomics: Option<bool>,
    /// A card's TLS: `on`, `off` or `none`.
    pub tls: Option<&'static str>,
    /// The part of a disk's life that is used.
    pub used_percent: Option<u8>,
}

/// The disks and the cards that are up.
pub(crate) fn all(visit: &mut Visit<'_>) -> Vec<HardwareDevice> {
    let disks = visit.tree.names("sys/class/nvme");
    let disks: Vec<_> = disks.into_iter().map(|name| disk(visit, name)).collect();
    let nics = nic::physical(visit);
    disks.into_iter().chain(nics.into_iter().map(|name| nic_device(visit, name))).collect()
}

fn disk(visit: &Visit<'_>, name: String) -> HardwareDevice {
    let folder = format!("sys/class/nvme/{name}");
    let health = visit.evidence.disk_logs.health(&name).ok();
    let health = health.and_then(|log| DiskHealth::parse(&log));
    HardwareDevice {
        kind: "disk",
        what: text_of(visit, &format!("{folder}/model")),
        firmware: text_of(visit, &format!("{folder}/firmware_rev")),
        used_percent: health.map(|health| health.used_percent),
        name,
        ..on_its_bus(visit, &format!("{folder}/device"))
    }
}

fn nic_device(visit: &Visit<'_>, name: String) -> HardwareDevice {
    let device = format!("sys/class/net/{name}/device");
    let settings = visit.evidence.ethtool.settings(&name).unwrap_or_default();
    let tls = settings.features.map(|features| {
        let has = |names: &BTreeSet<String>| names.contains(TLS_FEATURE);
        match (has(&features.on), has(&features.switchable)) {
            (true, _) => "on",
            (false, true) => "off",
            (false, false) => "none",
        }
    });
    let firmware = settings.firmware.unwrap_or_default().into_iter().next();
    let driver = visit.tree.real(format!("{device}/driver"));
    HardwareDevice {
        kind: "card",
        what: driver.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned())),
        firmware: firmware.map(|part| part.running),
        tls,
        name,
        ..on_its_bus(visit, &device)
    }
}

/// Facts from the PCIe device: `device` itself, or the one that it is part of, as with virtio.
fn on_its_bus(visit: &Visit<'_>, device: &str) -> HardwareDevice {
    let folder = visit.tree.real(device).unwrap_or_default();
    let names = folder.ancestors().filter_map(|above| above.file_name()?.to_str());
    let mut addresses = names.filter(|name| visit.tree.has(format!("{DEVICES}/{name}")));
    let Some(address) = addresses.next() else { return HardwareDevice::default() };
    let ports = pci_device::find(&visit.tree, address).map(|known| known.ports);
    let redirects = |port: String| {
        let config = visit.tree.bytes(format!("{DEVICES}/{port}/config")).ok()?;
        pci_device::acs_redirects(&config)
    };
    // A hypervisor makes registers up.
    let config = visit.tree.bytes(format!("{DEVICES}/{address}/config"));
    let config = config.ok().filter(|_| !pcie::is_guest(visit));
    let told: Vec<_> = ports.into_iter().flatten().filter_map(redirects).collect();
    let text = |name: &str| text_of(visit, &format!("{DEVICES}/{address}/{name}"));
    HardwareDevice {
        node: text("numa_node").and_then(|node| node.parse().ok()),
        iommu: text("iommu_group/type"),
        acs_redirects: (!told.is_empty()).then(|| told.contains(&true)),
        atomics: config.and_then(|config| pci_device::sends_atomics(&config)),
        ..HardwareDevice::default()
    }
}

impl HardwareDevice {
    /// The device in one line.
    pub(crate) fn describe(&self) -> String {
        let tls = self.tls.filter(|tls| *tls != "none");
        let parts = [
            self.what.clone(),
            self.firmware.as_ref().map(|version| format!("firmware {version}")),
            self.node.map(|node| format!("node {node}")),
            self.iommu.as_ref().map(|mode| format!("IOMMU {mode}")),
            self.acs_redirects.filter(|redirects| *redirects).map(|_| "ACS redirects".to_owned()),
            self.atomics.filter(|sends| *sends).map(|_| "atomic operations on".to_owned()),
            tls.map(|tls| format!("TLS offload {tls}")),
            self.used_percent.map(|percent| format!("{percent}% worn")),
        ];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        format!("{:9} {}: {}", self.kind, self.name, parts.join(", "))
    }

    pub(crate) fn to_json(&self) -> Value {
        let Self {
            kind,
            name,
            what,
            firmware,
            node,
            iommu,
            acs_redirects,
            atomics,
            tls,
            used_percent,
        } = self;
        json!({
            "kind": kind,
            "name": name,
            "what": what,
            "firmware": firmware,
            "node": node,
            "iommu": iommu,
            "acs_redirects": acs_redirects,
            "atomics": atomics,
            "tls": tls,
            "used_percent": used_percent,
        })
    }
}
