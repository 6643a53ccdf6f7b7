//! A worker's view of silos, on a machine with several: the silos of disks and NICs, and how connections leave.

use crate::carrier::Carrier;
use telemetry::{Family, Numbers, ReadSource};

/// A worker's silo, and those of disks and NICs.
#[derive(Clone, Debug)]
pub struct Silos {
    /// The silo of the worker.
    pub own: usize,
    /// Network interfaces by the kernel's number, each with its silo.
    pub nics: Vec<(u32, usize)>,
    /// Disks by the device number of their files (`st_dev`), each with its silo.
    pub disks: Vec<(u64, usize)>,
    /// Set if connections move to the silo of the disk that has their film.
    pub connections_move: bool,
    /// Set if connections come from an IPv6 listener.
    pub listener_is_ipv6: bool,
    /// How the worker's connections leave. `None` if only the kernel's routes decide.
    pub departure: Option<Departure>,
}

/// How connections leave a machine with several network ports: the operator's routes look at a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// The mark of their sockets (`SO_MARK`).
    pub mark: u32,
    /// The silo of the NIC to which these routes lead, according to the operator's map.
    pub nic: Option<usize>,
}

impl Silos {
    /// The silo of the NIC on which a connection arrived: one system call.
    pub(crate) fn of_connection(&self, socket: &impl Carrier) -> Option<usize> {
        let nic = socket.arrived_on(self.listener_is_ipv6)?;
        self.nics.iter().find(|(index, _)| *index == nic).map(|(_, silo)| *silo)
    }

    /// Counts a new connection that arrived on a NIC of this silo.
    pub(crate) fn count(&self, numbers: &Numbers, nic: Option<usize>) {
        let home = match nic {
            None => "unknown",
            Some(silo) if silo == self.own => "own",
            Some(_) => "other",
        };
        numbers.count(Family::Homes, home);
    }

    /// The silo of the NIC by which a connection leaves: that of its mark, or without a mark, that on which it `arrived`.
    pub(crate) fn leaves_by(&self, arrived: Option<usize>) -> Option<usize> {
        self.departure.map_or(arrived, |departure| departure.nic)
    }

    /// The source of a window: the silo of the disk with this device number, or memory.
    pub(crate) fn source(&self, disk: Option<u64>) -> ReadSource {
        let Some(device) = disk else { return ReadSource::Memory };
        ReadSource::Disk(
            self.disks.iter().find(|(known, _)| *known == device).map(|(_, silo)| *silo),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_leaves_by_the_card_of_its_mark_or_as_it_came() {
        let unmarked = Silos {
            own: 0,
            nics: Vec::new(),
            disks: Vec::new(),
            connections_move: false,
            listener_is_ipv6: false,
            departure: None,
        };
        assert_eq!((unmarked.leaves_by(Some(1)), unmarked.leaves_by(None)), (Some(1), None));
        let of = |nic| Silos { departure: Some(Departure { mark: 7, nic }), ..unmarked.clone() };
        assert_eq!((of(Some(2)).leaves_by(Some(1)), of(None).leaves_by(Some(1))), (Some(2), None));
    }
}
