//! The open connections of machines, or of guests: how many there may be, and how they are ended.
//!
//! Somebody without a certificate is a stranger. Each source of strangers has a few connections, so one source cannot take all. A
//! node has a few, too; one more ends its oldest, since a node that was cut off comes back before its old connections are
//! noticed to be dead.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fleet::Name;
use tokio::sync::Notify;

use crate::NodeCertificate;
use crate::acceptor::AcceptBounds;

/// All open connections.
#[derive(Debug)]
pub(crate) struct Open {
    bounds: AcceptBounds,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    connections: HashMap<u64, Held>,
    strangers: HashMap<IpAddr, u32>,
    nodes: HashMap<Name, Vec<u64>>,
}

#[derive(Debug)]
struct Held {
    peer: Option<Arc<NodeCertificate>>,
    end: Arc<Notify>,
}

/// The place of one connection. Dropping it gives the place back.
#[derive(Debug)]
pub(crate) struct Place {
    open: Arc<Open>,
    number: u64,
    source: IpAddr,
    is_stranger: bool,
    /// Notified when the connection has to end.
    pub(crate) end: Arc<Notify>,
}

impl Open {
    pub(crate) fn new(bounds: AcceptBounds) -> Arc<Self> {
        Arc::new(Self { bounds, inner: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection from `address`, if there is one.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let source = source_of(address);
        let mut inner = self.lock();
        let of_source = inner.strangers.get(&source).copied().unwrap_or(0);
        if inner.connections.len() >= self.bounds.connections_max
            || of_source >= self.bounds.strangers_per_source_max
        {
            return None;
        }
        inner.strangers.insert(source, of_source + 1);
        let number = inner.next;
        inner.next += 1;
        let end = Arc::new(Notify::new());
        inner.connections.insert(number, Held { peer: None, end: Arc::clone(&end) });
        Some(Place { open: Arc::clone(self), number, source, is_stranger: true, end })
    }

    /// Ends the connections of nodes that `may_stay` does not hold for.
    pub(crate) fn sweep(&self, may_stay: impl Fn(&NodeCertificate) -> bool) {
        // Asking may take a lock of the gateway's, so it does not happen under ours.
        let held: Vec<_> = self
            .lock()
            .connections
            .values()
            .filter_map(|held| Some((held.peer.clone()?, Arc::clone(&held.end))))
            .collect();
        for (peer, end) in held {
            if !may_stay(&peer) {
                end.notify_waiters();
            }
        }
    }
}

impl Inner {
    fn leave_strangers(&mut self, source: IpAddr) {
        if let Some(count) = self.strangers.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                self.strangers.remove(&source);
            }
        }
    }
}

impl Place {
    /// The peer turned out to be a node.
    pub(crate) fn is_node(&mut self, peer: &Arc<NodeCertificate>) {
        let mut inner = self.open.lock();
        inner.leave_strangers(self.source);
        self.is_stranger = false;
        if let Some(held) = inner.connections.get_mut(&self.number) {
            held.peer = Some(Arc::clone(peer));
        }
        let own = inner.nodes.entry(peer.node.clone()).or_default();
        own.push(self.number);
        let too_old =
            (own.len() > self.open.bounds.connections_per_node_max).then(|| own.remove(0));
        if let Some(held) = too_old.and_then(|number| inner.connections.get(&number)) {
            held.end.notify_waiters();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inner = self.open.lock();
        if self.is_stranger {
            inner.leave_strangers(self.source);
        }
        let Some(held) = inner.connections.remove(&self.number) else { return };
        let Some(peer) = held.peer else { return };
        if let Some(own) = inner.nodes.get_mut(&peer.node) {
            own.retain(|number| *number != self.number);
            if own.is_empty() {
                inner.nodes.remove(&peer.node);
            }
        }
    }
}

/// What counts as one source: an IPv4 address, or a /64 of IPv6, which is what one customer gets at least.
fn source_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Serial;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn peer(node: &str) -> Arc<NodeCertificate> {
        Arc::new(NodeCertificate {
            node: node.parse().unwrap(),
            serial: Serial::draw(),
            issued_unix_seconds: 0,
            expires_unix_seconds: 0,
        })
    }

    fn open() -> Arc<Open> {
        let few = AcceptBounds {
            connections_max: 4,
            strangers_per_source_max: 2,
            connections_per_node_max: 2,
            ..AcceptBounds::default()
        };
        Open::new(few)
    }

    #[test]
    fn a_source_of_strangers_cannot_take_all_places() {
        let open = open();
        let one = open.enter(address("192.0.2.1")).unwrap();
        let _two = open.enter(address("::ffff:192.0.2.1")).unwrap();
        assert!(open.enter(address("192.0.2.1")).is_none());
        let _other = open.enter(address("192.0.2.2")).unwrap();
        let _six = open.enter(address("2001:db8::1")).unwrap();
        drop(one);
        let _again = open.enter(address("192.0.2.1")).unwrap();
        assert_eq!(open.lock().connections.len(), 4);
        assert!(open.enter(address("192.0.2.9")).is_none());
    }

    #[test]
    fn a_host_of_ipv6_does_not_become_many_by_its_own_addresses() {
        let open = open();
        let _one = open.enter(address("2001:db8::1")).unwrap();
        let _two = open.enter(address("2001:db8::2")).unwrap();
        assert!(open.enter(address("2001:db8::3")).is_none());
        assert!(open.enter(address("2001:db8:0:1::3")).is_some());
    }

    #[tokio::test]
    async fn one_connection_more_of_a_node_ends_its_oldest() {
        let open = open();
        let peer = peer("node-1");
        let mut places = Vec::new();
        for _ in 0..2 {
            let mut place = open.enter(address("192.0.2.1")).unwrap();
            place.is_node(&peer);
            places.push(place);
        }
        let ended = Arc::clone(&places[0].end).notified_owned();
        let mut third = open.enter(address("192.0.2.1")).unwrap();
        third.is_node(&peer);
        ended.await;
        drop(places);
        drop(third);
        let inner = open.lock();
        assert!(inner.connections.is_empty() && inner.nodes.is_empty());
        assert!(inner.strangers.is_empty());
    }

    #[tokio::test]
    async fn a_sweep_ends_who_may_not_stay() {
        let open = open();
        let (mut good, mut bad) =
            (open.enter(address("::1")).unwrap(), open.enter(address("::2")).unwrap());
        good.is_node(&peer("good"));
        bad.is_node(&peer("bad"));
        let ended = Arc::clone(&bad.end).notified_owned();
        let mut stays = std::pin::pin!(Arc::clone(&good.end).notified_owned());
        open.sweep(|peer| peer.node.as_str() == "good");
        ended.await;
        tokio::select! {
            biased;
            () = &mut stays => panic!("a good node was ended"),
            () = std::future::ready(()) => {}
        }
    }
}
