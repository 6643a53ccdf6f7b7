//! Placement by network: which workers get the connections of which cards.
//!
//! The workers of a silo with cards share the connections of these cards. A silo without cards is not idle: its workers take a share of the
//! connections of the nearest silo that has some. A connection on a card with an unknown silo goes to the silo of the CPU that took its
//! interrupt, and if that CPU has none, the kernel spreads it.

use super::nearest::Nearest;
use super::{Members, NicPlace, SiloMap};
use machine::Topology;
use net::steering::{ListenerGroup, Steering};

/// For each silo, the silo whose connections its workers take: itself, unless it has no cards and another has.
pub(crate) fn hosts(topology: &Topology, silos: &[Members], nics: &[NicPlace]) -> Vec<usize> {
    let has_nics = |silo: &usize| nics.iter().any(|nic| nic.silo == Some(*silo));
    let with_cards: Vec<_> = (0..silos.len()).filter(has_nics).collect();
    let mut nearest = Nearest::new(topology, silos);
    let host = |silo: usize| {
        if with_cards.is_empty() || with_cards.contains(&silo) {
            return silo;
        }
        let near = silos[silo].node.and_then(|node| nearest.to(node, Some(&with_cards)));
        near.unwrap_or_else(|| nearest.in_turn(&with_cards))
    };
    (0..silos.len()).map(host).collect()
}

impl SiloMap {
    /// The workers in the order in which their listeners have to begin to listen.
    pub fn listening_order(&self) -> Vec<usize> {
        let silos = self.silos_in_order();
        silos.iter().flat_map(|silo| self.silos[*silo].workers.iter().copied()).collect()
    }

    /// The assignment of connections to listeners; `None` if the kernel spreads them.
    pub fn steering(&self) -> Option<Steering> {
        if !self.is_by_network() {
            return None;
        }
        let nics = self.nics.iter().filter_map(|nic| Some((nic.index, self.group(nic.silo?))));
        let cpus = self.silos.iter().enumerate().flat_map(|(silo, members)| {
            let runs = members.cpus.chunk_by(|one, next| one + 1 == *next);
            runs.map(move |run| (run[0]..=run[run.len() - 1], self.group(silo)))
        });
        Some(Steering { nics: nics.collect(), cpus: cpus.collect() })
    }

    /// Silos, each followed by those whose workers help it.
    fn silos_in_order(&self) -> Vec<usize> {
        let mut silos: Vec<_> = (0..self.silos.len()).collect();
        silos.sort_by_key(|silo| (self.hosts[*silo], self.hosts[*silo] != *silo));
        silos
    }

    /// The listeners of a silo: its own, and those that help it.
    fn group(&self, silo: usize) -> ListenerGroup {
        let helps = |other: &usize| *other == silo || self.hosts[*other] == silo;
        let count = |silos: &[usize]| {
            let listeners = silos.iter().map(|silo| self.silos[*silo].workers.len()).sum::<usize>();
            u32::try_from(listeners).expect("a configuration has at most 1024 workers")
        };
        let silos = self.silos_in_order();
        let at = silos.iter().position(|other| *other == silo).expect("each silo is in its order");
        let members = silos[at..].iter().take_while(|other| helps(other)).count();
        ListenerGroup { first: count(&silos[..at]), count: count(&silos[at..at + members]) }
    }
}
