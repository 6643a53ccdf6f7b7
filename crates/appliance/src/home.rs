//! Whether connections come to the silo of their network card.

use crate::config::Config;
use crate::silo_map::SiloMap;
use net::Socket;
use std::sync::Arc;

/// A worker's place among several silos.
pub(crate) struct Home {
    map: Arc<SiloMap>,
    silo: usize,
    is_ipv6: bool,
}

impl Home {
    /// Of this worker. `None` if there is only one silo, or if it has no listener: then nobody asks on which card a connection arrived.
    pub(crate) fn of_worker(
        worker: usize,
        has_listener: bool,
        config: &Config,
        map: &Arc<SiloMap>,
    ) -> Option<Self> {
        let is_asked = has_listener && map.silos().len() > 1;
        is_asked.then(|| Self {
            map: Arc::clone(map),
            silo: map.of_worker(worker),
            is_ipv6: config.listen.is_ipv6(),
        })
    }

    /// The label for the counter of a connection: one system call.
    pub(crate) fn label(&self, socket: &Socket) -> &'static str {
        let card = socket.arrived_on(self.is_ipv6);
        match card.and_then(|card| self.map.of_card(card)) {
            None => "unknown",
            Some(silo) if silo == self.silo => "own",
            Some(_) => "other",
        }
    }
}
