//! The checks, one file for each idea. Each reads by a [`Visit`] and adds what it found.

mod bond;
mod card;
mod clock;
mod cpu;
mod dimms;
mod filesystem;
mod kernel;
mod limits;
mod link;
mod memory;
mod mitigations;
mod nvme;
mod pci_device;
mod pcie;
mod placement;
mod queues;
mod rights;

use crate::visit::Visit;

/// In the order of the areas.
pub(crate) const ALL: [fn(&mut Visit<'_>); 16] = [
    pcie::check,
    link::check,
    placement::check,
    nvme::check,
    filesystem::check,
    card::check,
    queues::check,
    bond::check,
    cpu::check,
    clock::check,
    mitigations::check,
    memory::check,
    dimms::check,
    kernel::check,
    limits::check,
    rights::check,
];
