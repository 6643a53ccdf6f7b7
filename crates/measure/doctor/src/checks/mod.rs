//! The checks, one file for each idea. Each reads through a [`Visit`] and adds its findings.

mod bond;
mod clock;
mod cpu;
mod dimms;
mod disk_health;
mod filesystem;
mod kernel;
mod limits;
mod link;
mod memory;
mod mitigations;
pub(crate) mod nic;
mod node_links;
mod nvme;
mod pacing;
pub(crate) mod pci_device;
pub(crate) mod pcie;
mod placement;
mod queues;
mod rights;
mod socket_links;

use crate::visit::Visit;

/// A text that exists and is not empty.
pub(crate) fn text_of(visit: &Visit<'_>, path: &str) -> Option<String> {
    visit.tree.text(path).ok().filter(|text| !text.is_empty())
}

/// The checks, in the order of the areas.
pub(crate) const ALL: [fn(&mut Visit<'_>); 20] = [
    pcie::check,
    link::check,
    placement::check,
    node_links::check,
    socket_links::check,
    nvme::check,
    disk_health::check,
    filesystem::check,
    nic::check,
    queues::check,
    bond::check,
    cpu::check,
    clock::check,
    mitigations::check,
    memory::check,
    dimms::check,
    kernel::check,
    pacing::check,
    limits::check,
    rights::check,
];
