//! Rate limits: one token bucket per peer.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fleet_protocol::Name;

/// Most peers to remember. Beyond that, peers with a full bucket are forgotten, since they would start with a full one anyway; if there are none,
/// new peers are refused.
const PEERS_MAX: usize = 50_000;

/// Counts the requests of each peer.
#[derive(Debug)]
pub(super) struct Floods<K> {
    burst: f64,
    per_second: f64,
    peers: Mutex<HashMap<K, Bucket>>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

/// Certificates that a node may get in a row, in case of problems with the first ones ...
const CERTIFICATES_AT_ONCE: f64 = 20.0;

/// ... and per lifetime of one: a healthy node renews its certificate after two thirds.
const CERTIFICATES_PER_LIFE: f64 = 30.0;

impl Floods<Name> {
    /// A node sends a heartbeat every 5 s, and after a restart fetches a few documents every second.
    pub(super) fn of_nodes() -> Self {
        Self::new(40.0, 4.0)
    }

    /// A node's certificate requests. Each writes a record and a line of the audit log, and makes all gateways read the store again.
    pub(super) fn of_certificates(lifetime: Duration) -> Self {
        Self::new(CERTIFICATES_AT_ONCE, CERTIFICATES_PER_LIFE / lifetime.as_secs_f64().max(1.0))
    }
}

impl<K: Hash + Eq + Clone> Floods<K> {
    /// Joining takes one request. Operators may start a full rack of machines at once, behind one address.
    pub(super) fn of_strangers() -> Self {
        Self::new(50.0, 1.0)
    }

    fn new(burst: f64, per_second: f64) -> Self {
        Self { burst, per_second, peers: Mutex::default() }
    }

    /// Whether `peer` may send one more request.
    pub(super) fn may(&self, peer: &K, now: Instant) -> bool {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if peers.len() >= PEERS_MAX && !peers.contains_key(peer) {
            peers.retain(|_, bucket| self.filled(*bucket, now) < self.burst);
            if peers.len() >= PEERS_MAX {
                return false;
            }
        }
        let full = Bucket { tokens: self.burst, at: now };
        let bucket = peers.entry(peer.clone()).or_insert(full);
        *bucket = Bucket { tokens: self.filled(*bucket, now), at: now };
        let may = bucket.tokens >= 1.0;
        if may {
            bucket.tokens -= 1.0;
        }
        may
    }

    fn filled(&self, bucket: Bucket, now: Instant) -> f64 {
        let seconds = now.saturating_duration_since(bucket.at).as_secs_f64();
        (bucket.tokens + seconds * self.per_second).min(self.burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_gets_some_certificates_at_once_and_then_one_a_day() {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        let certificates = Floods::of_certificates(30 * DAY);
        let (node, now) = ("n1".parse().expect("a name"), Instant::now());
        let count = |at: Instant| (0..100).filter(|_| certificates.may(&node, at)).count();
        assert_eq!((count(now), count(now + DAY / 2), count(now + DAY + DAY / 100)), (20, 0, 1));
    }

    #[test]
    fn a_flood_of_one_is_not_anothers() {
        let floods = Floods::new(3.0, 1.0);
        let now = Instant::now();
        let taken = (0..10).filter(|_| floods.may(&1, now)).count();
        assert_eq!(taken, 3);
        assert!(floods.may(&2, now));
        let later = now + Duration::from_secs(2);
        assert_eq!((0..10).filter(|_| floods.may(&1, later)).count(), 2);
    }

    #[test]
    fn peers_without_end_take_bounded_memory() {
        let floods = Floods::new(2.0, 1.0);
        let now = Instant::now();
        for peer in 0..PEERS_MAX {
            assert!(floods.may(&peer, now));
        }
        assert!(!floods.may(&PEERS_MAX, now));
        // They have been idle, and are forgotten.
        assert!(floods.may(&PEERS_MAX, now + Duration::from_secs(2)));
        assert_eq!(floods.peers.lock().unwrap().len(), 1);
    }
}
