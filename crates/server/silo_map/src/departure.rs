//! The network port by which connections leave, on a machine that has one address on several ports.
//!
//! The kernel's routes choose the port, and may match a mark of the connection's socket (ip-rule(8)). The operator's map gives each silo
//! a mark. Listening sockets have it, and so do the connections that they accept; a connection that moves gets the mark of its new silo. The
//! routes are the operator's: docs/ports.md.

use super::SiloMap;
use delivery::Departure;

impl SiloMap {
    /// How the connections of a worker leave; `None` if they have no mark.
    pub fn departure(&self, worker: usize) -> Option<Departure> {
        let silo = self.departs_from(worker);
        let mark = *self.marks.get(silo)?;
        let same_mark = (0..self.silos.len()).filter(|other| self.marks[*other] == mark);
        let has_nics = |silo: &usize| self.nics_of(*silo).next().is_some();
        let nic = std::iter::once(silo).chain(same_mark).find(has_nics);
        Some(Departure { mark, nic })
    }

    /// Leaves connections without marks, because the kernel refuses to set them.
    pub fn give_up_marks(&mut self, why: String) {
        self.marks.clear();
        self.unmarked = Some(why);
    }

    /// The start line about marks that could not be set.
    pub(crate) fn describe_unmarked(&self) -> Option<String> {
        let why = self.unmarked.as_ref()?;
        Some(format!(
            "silos     connections have no marks ({why}), so the kernel's routes choose their ports. To fix it: give the server CAP_NET_RAW (docs/ports.md)"
        ))
    }

    /// The silo from whose cards a worker's connections should leave: its own. By network, a silo without cards serves another's connections.
    fn departs_from(&self, worker: usize) -> usize {
        let own = self.of_worker[worker];
        if self.is_by_network() { self.hosts[own] } else { own }
    }
}
