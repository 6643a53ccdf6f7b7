//! What a worker knows of silos, on a machine with several: where disks and network cards are, and how connections leave.

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
    /// Whether connections move to the silo of the disk that has their film.
    pub connections_move: bool,
    /// Whether connections come from an IPv6 listener.
    pub listener_is_ipv6: bool,
    /// How the worker's connections leave. `None` if the kernel's routes alone decide.
    pub departure: Option<Departure>,
}

/// How connections leave a machine with several network ports: the operator's routes look at a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The mark of their sockets (`SO_MARK`).
    pub mark: u32,
    /// The silo of the network card to which these routes lead, as far as the operator's map says.
    pub card: Option<usize>,
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

    /// The silo of the card by which a connection leaves: that of its mark, or without one that on which it `arrived`.
    pub(crate) fn leaves_by(&self, arrived: Option<usize>) -> Option<usize> {
        self.departure.map_or(arrived, |departure| departure.card)
    }

    /// Where a window came from: the silo of the disk with this device number, or memory.
    pub(crate) fn source(&self, disk: Option<u64>) -> Source {
        let Some(device) = disk else { return Source::Memory };
        Source::Disk(self.disks.iter().find(|(known, _)| *known == device).map(|(_, silo)| *silo))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_leaves_by_the_card_of_its_mark_or_as_it_came() {
        let unmarked = Silos {
            own: 0,
            cards: Vec::new(),
            disks: Vec::new(),
            connections_move: false,
            listener_is_ipv6: false,
            departure: None,
        };
        assert_eq!((unmarked.leaves_by(Some(1)), unmarked.leaves_by(None)), (Some(1), None));
        let of = |card| Silos { departure: Some(Departure { mark: 7, card }), ..unmarked.clone() };
        assert_eq!((of(Some(2)).leaves_by(Some(1)), of(None).leaves_by(Some(1))), (Some(2), None));
    }
}
