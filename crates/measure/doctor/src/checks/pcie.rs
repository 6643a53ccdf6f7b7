//! Settings of PCIe devices: ordering, tags, packet sizes, and the IOMMU between them and memory.

use super::pci_device::{self, DEVICES, Kind, PciDevice, Registers};
use crate::finding::{Area, Cost, Finding};
use crate::source;
use crate::visit::Visit;

/// Headers, sequence number and checksum of a packet on the link, with 64-bit addresses.
const PACKET_HEAD_BYTES: f64 = 24.0;

/// A read for less than this leaves a long link idle between requests.
const READ_REQUEST_BYTES_MIN: u32 = 512;

pub(crate) fn check(visit: &mut Visit<'_>) {
    let is_guest = is_guest(visit);
    for device in pci_device::all(visit) {
        iommu(visit, &device);
        if is_guest {
            visit.unknown(
                "PCIe registers",
                "this is a virtual machine: ask its host",
                &device.address,
            );
            continue;
        }
        // The registers of a virtual function don't matter: its physical function decides.
        if visit.tree.has(format!("{DEVICES}/{}/physfn", device.address)) {
            continue;
        }
        let Some(registers) = pci_device::registers(visit, &device.address) else { continue };
        ordering_and_tags(visit, &device, registers);
        payload(visit, &device, registers);
        read_request(visit, &device, registers);
        atomics(visit, &device, registers);
    }
}

/// Whether this is a virtual machine, whose hypervisor makes registers up.
pub(crate) fn is_guest(visit: &Visit<'_>) -> bool {
    let text = visit.tree.text("proc/cpuinfo").unwrap_or_default();
    text.split_whitespace().any(|flag| flag == "hypervisor")
}

fn ordering_and_tags(visit: &mut Visit<'_>, device: &PciDevice, registers: Registers) {
    if device.kind == Kind::Card && !registers.relaxed_ordering {
        visit.found(Finding {
            area: Area::Pcie,
            name: "relaxed-ordering",
            on: vec![device.address.clone()],
            found: "relaxed ordering is off".into(),
            wanted: "on".into(),
            cost: Cost::percent(
                22.0,
                "each read of the card waits for the writes before it: 125 Gb/s a card without, 160 with",
                source::GALLATIN_2021,
            ),
            mend: "firmware setup: \"PCIe Relaxed Ordering\" enabled; until the next boot: setpci -s DEVICE CAP_EXP+8.w=0x10:0x10".into(),
            check: "lspci -s DEVICE -vv shows RlxdOrd+ in DevCtl".into(),
        });
    }
    if registers.extended_tags == Some(false) {
        visit.found(Finding {
            area: Area::Pcie,
            name: "extended-tags",
            on: vec![device.address.clone()],
            found: "extended tags are off: 32 reads in flight".into(),
            wanted: "on: 256 reads in flight".into(),
            cost: Cost::percent(
                25.0,
                "reads wait for a free tag: 240 Gb/s without, 320 with",
                source::GALLATIN_2021,
            ),
            mend: "firmware setup: \"PCIe Extended Tags\" (or \"10-bit tags\") enabled; until the next boot: setpci -s DEVICE CAP_EXP+8.w=0x100:0x100".into(),
            check: "lspci -s DEVICE -vv shows ExtTag+ in DevCtl".into(),
        });
    }
}

/// A packet must fit every bridge on its way, so the smallest limit counts.
fn payload(visit: &mut Visit<'_>, device: &PciDevice, registers: Registers) {
    let mut possible = registers.payload_bytes_max;
    for port in &device.ports {
        let Some(above) = pci_device::registers(visit, port) else { return };
        possible = possible.min(above.payload_bytes_max);
    }
    let now = registers.payload_bytes;
    if now >= possible {
        return;
    }
    let carried = |bytes: u32| f64::from(bytes) / (f64::from(bytes) + PACKET_HEAD_BYTES);
    visit.found(Finding {
        area: Area::Pcie,
        name: "max-payload",
        on: vec![device.address.clone()],
        found: format!("packets of {now} bytes"),
        wanted: format!("{possible} bytes: the device and the bridges above it take them"),
        cost: Cost::percent(
            100.0 * (1.0 - carried(now) / carried(possible)),
            "of the link, taken by packet headers; nothing while the link is not the limit",
            source::ARITHMETIC,
        ),
        mend: "boot with pci=pcie_bus_perf, or firmware setup: \"Max Payload Size\" to the largest"
            .into(),
        check: "lspci -s DEVICE -vv shows MaxPayload in DevCtl".into(),
    });
}

fn read_request(visit: &mut Visit<'_>, device: &PciDevice, registers: Registers) {
    let now = registers.read_request_bytes;
    if now >= READ_REQUEST_BYTES_MIN {
        return;
    }
    visit.found(Finding {
        area: Area::Pcie,
        name: "max-read-request",
        on: vec![device.address.clone()],
        found: format!("reads of at most {now} bytes"),
        wanted: format!("{READ_REQUEST_BYTES_MIN} bytes or more"),
        cost: Cost::unmeasured("the same number of reads in flight transfers fewer bytes"),
        mend: "firmware setup: \"Max Read Request\" to 4096; until the next boot: setpci -s DEVICE CAP_EXP+8.w=0x5000:0x7000".into(),
        check: "lspci -s DEVICE -vv shows MaxReadReq in DevCtl".into(),
    });
}

/// A card that sends atomic operations although no port passes them on to memory: each ends as an error.
fn atomics(visit: &mut Visit<'_>, device: &PciDevice, registers: Registers) {
    if !registers.atomics.sends {
        return;
    }
    for (index, port) in device.ports.iter().enumerate() {
        let Some(above) = pci_device::registers(visit, port) else { return };
        if !above.atomics.end_at(index + 1 == device.ports.len()) {
            continue;
        }
        visit.found(Finding {
            area: Area::Pcie,
            name: "atomics",
            on: vec![device.address.clone()],
            found: format!("the device may send atomic operations, and port {port} accepts none"),
            wanted: "a way for them to memory, or a device that sends none".into(),
            cost: Cost::unmeasured("nothing for films, which need none; other programs' operations (RDMA) end as errors of the link"),
            mend: "firmware setup: \"PCIe AtomicOp\" enabled; until the next boot: setpci -s DEVICE CAP_EXP+28.w=0:0x40".into(),
            check: "lspci -s DEVICE -vv shows AtomicOpsCtl: ReqEn- in DevCtl2; lspci -s PORT -vv shows AtomicOpsCap".into(),
        });
        return;
    }
}

fn iommu(visit: &mut Visit<'_>, device: &PciDevice) {
    let path = format!("{DEVICES}/{}/iommu_group/type", device.address);
    let Some(mode) = visit.optional("modes of the IOMMU", &path) else { return };
    match mode.as_str() {
        "identity" | "DMA-FQ" => {}
        "DMA" => visit.found(Finding {
            area: Area::Pcie,
            name: "iommu-strict",
            on: vec![device.address.clone()],
            found: "the IOMMU forgets each mapping at once (strict)".into(),
            wanted: "pass-through, or lazy".into(),
            cost: Cost::unmeasured("processor time for each buffer that a device is given"),
            mend: "boot with iommu=pt; or with iommu.strict=0 to keep devices confined".into(),
            check: format!("cat /{DEVICES}/DEVICE/iommu_group/type shows identity or DMA-FQ"),
        }),
        _ => {
            visit.understood("modes of the IOMMU", &path, None::<()>);
        }
    }
}
