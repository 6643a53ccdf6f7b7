//! What a worker knows of silos, on a machine with several: where disks and network cards are.

use crate::carrier::Carrier;
use telemetry::{Family, Numbers, Source};

/// A worker's silo, and those of disks and network cards.
#[derive(Clone, Debug)]
pub struct Silos {
    /// The silo of the worker.
    pub own: usize,
    /// Network interfaces by the kernel's number, each with its silo.
    pub cards: Vec<(u32, usize)>,
    /// Disks by the number of their files' device (`st_dev`), each with its silo.
    pub disks: Vec<(u64, usize)>,
    /// Whether connections come from an IPv6 listener.
    pub listener_is_ipv6: bool,
}

impl Silos {
    /// The silo of the card on which a connection arrived: one system call.
    pub(crate) fn of_connection(&self, socket: &impl Carrier) -> Option<usize> {
        let card = socket.arrived_on(self.listener_is_ipv6)?;
        self.cards.iter().find(|(index, _)| *index == card).map(|(_, silo)| *silo)
    }

    /// Counts a new connection that arrived on a card of this silo.
    pub(crate) fn count(&self, numbers: &Numbers, card: Option<usize>) {
        let home = match card {
            None => "unknown",
            Some(silo) if silo == self.own => "own",
            Some(_) => "other",
        };
        numbers.count(Family::Homes, home);
    }

    /// Where a window came from: the disk with this device number, or memory.
    pub(crate) fn source(&self, disk: Option<u64>) -> Source {
        let Some(device) = disk else { return Source::Memory };
        Source::Disk(self.disks.iter().find(|(known, _)| *known == device).map(|(_, silo)| *silo))
    }
}
