//! Connections that their caller has released. They are completed here, and make room for new ones.
//!
//! A connection that has sent everything still waits for the peer's FIN (FIN-WAIT-2), or for the acknowledgement of its own (FIN-WAIT-1, LAST-ACK). A
//! peer can delay that for as long as [`Config::fin_wait`](crate::Config::fin_wait) and [`Config::stall`](crate::Config::stall) allow, on as many
//! connections as it likes, because the caller no longer counts them. So a released connection holds its place only while no other connection needs
//! it, and no receive buffer. Evicting one loses only an acknowledgement of a FIN: the peer's next segment is answered by a RST.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Instant;

use crate::Id;
use crate::endpoint::{Endpoint, Slot};

/// How many more entries than connections the queue may have before ended ones are removed.
const STALE_MAX: usize = 64;

/// Released connections, and evicted ones.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    /// In the order of their release; some may have ended since.
    waiting: VecDeque<Id>,
    /// Evicted connections whose end was not reported yet.
    evicted: VecDeque<Id>,
}

impl Orphans {
    /// An evicted connection whose end must be reported.
    pub(crate) fn take_evicted(&mut self) -> Option<Id> {
        self.evicted.pop_front()
    }
}

impl Endpoint {
    /// Releases a connection: it is finished, if it was not, and what still arrives is discarded. Written bytes are still requested until they are
    /// acknowledged. The connection keeps its place only until another one needs it, the oldest first; then it ends with
    /// [`CloseReason::Evicted`](crate::CloseReason::Evicted).
    pub fn let_go(&mut self, now: Instant, id: Id) {
        let now = self.time(now);
        let is_orphan = self.with(now, id, |connection, cx| connection.let_go(cx));
        if is_orphan != Some(true) {
            return;
        }
        self.orphans.waiting.push_back(id);
        if self.orphans.waiting.len() > self.connections.len() + STALE_MAX {
            let connections = &self.connections;
            self.orphans.waiting.retain(|id| connections.get(*id).is_some());
        }
    }

    /// Returns true if there is a place for one more connection, if necessary by evicting an orphan.
    pub(crate) fn has_place(&mut self) -> bool {
        !self.connections.is_full() || self.evict_orphan()
    }

    fn evict_orphan(&mut self) -> bool {
        while let Some(id) = self.orphans.waiting.pop_front() {
            // One that has ended is removed as soon as its end is reported.
            let Some(pair) = self
                .connections
                .get(id)
                .filter(|connection| !connection.has_ended())
                .map(|connection| connection.pair)
            else {
                continue;
            };
            if matches!(self.pairs.get(&pair), Some(Slot::Connection(slot)) if *slot == id) {
                self.pairs.remove(&pair);
            }
            self.connections.remove(id);
            self.orphans.evicted.push_back(id);
            self.statistics.orphans_evicted += 1;
            self.statistics.ended += 1;
            return true;
        }
        false
    }

    /// Bytes of memory that half-open connections and those in TIME-WAIT hold.
    #[must_use]
    pub fn waiting_memory_bytes(&self) -> usize {
        self.half_open.memory_bytes() + self.time_wait.memory_bytes()
    }

    /// How many slots ([`Id::index`]) connections have had at once.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.connections.slots()
    }

    /// Bytes of memory and bytes in flight of the connections in these slots, including those that were released. A sum
    /// over all slots takes a cache miss or two for each connection.
    #[must_use]
    pub fn held_in(&self, slots: Range<usize>) -> (u64, u64) {
        let connections = self.connections.within(slots);
        connections.fold((0, 0), |(memory, in_flight), connection| {
            (memory + connection.memory_bytes() as u64, in_flight + connection.in_flight())
        })
    }
}
