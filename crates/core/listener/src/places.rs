//! Decides which connections have a place at a listener, and which are closed when there is no room.
//!
//! A new connection that finds its address, its site or the whole listener full takes the place of a connection that has no request in
//! progress: the oldest one that has not sent a complete request, or else the one that has been idle longest. So connections that only wait
//! cannot keep others out, however many there are. If all are busy, the new connection is refused. A new connection has
//! [`PlaceBounds::fresh_min`] before it can be evicted: if a whole fleet comes back at once, those that came first get through.
//!
//! Peers with a name in their certificate are known: they count by name, not by address, and are never evicted for unknown peers.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::bounds::PlaceBounds;
use crate::descriptors::{Descriptor, Share};
use crate::refused::{ListenerRefusal, RefusedCounts};

/// Evicted connections that are not closed yet. Each is closed by its own task, within moments.
const CLOSING_MAX: usize = 256;

/// Candidates for eviction collected by one scan over all connections.
const CANDIDATES_MAX: usize = 256;

/// After a scan without candidates, new connections are refused for this long without another scan.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// All places of one listener.
#[derive(Debug)]
pub struct Places {
    bounds: PlaceBounds,
    share: Share,
    counts: Arc<RefusedCounts>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    all: HashMap<u64, Arc<Standing>>,
    fresh: usize,
    closing: usize,
    sources: HashMap<Source, Vec<Arc<Standing>>>,
    owners: HashMap<String, Vec<Arc<Standing>>>,
    /// Candidates from the last scan, each with its turn at that time.
    candidates: VecDeque<(u64, Arc<Standing>)>,
    /// When a scan last found no candidates.
    none_at: Option<Instant>,
}

/// The unit of counting: an IPv4 address, a /64 or a /48 of IPv6, with the length of the prefix.
type Source = (IpAddr, u8);

/// The state of a connection.
#[derive(Debug)]
struct Standing {
    number: u64,
    address: IpAddr,
    began: Instant,
    state: AtomicU8,
    /// Increases with each change of state: the lowest has been in its state longest.
    turn: AtomicU64,
    is_fresh: AtomicBool,
    is_over: AtomicBool,
    end: Notify,
}

const FRESH: u8 = 0;
const WAITING: u8 = 1;
const BUSY: u8 = 2;
const KNOWN: u8 = 3;

/// The order of changes of state in this process.
static TURNS: AtomicU64 = AtomicU64::new(0);

impl Standing {
    fn change(&self, state: u8) {
        if self.state.load(Relaxed) != KNOWN {
            self.state.store(state, Relaxed);
            self.turn.store(TURNS.fetch_add(1, Relaxed), Relaxed);
        }
    }

    /// The order of eviction: fresh ones before idle ones, each oldest first. `None` for those that are not evicted.
    fn rank(&self, fresh_min: Duration) -> Option<(u8, u64)> {
        let state = self.state.load(Relaxed);
        let gives_way = match state {
            FRESH => self.began.elapsed() >= fresh_min,
            _ => state == WAITING,
        };
        (gives_way && !self.is_over.load(Relaxed)).then(|| (state, self.turn.load(Relaxed)))
    }

    fn end(&self) {
        self.is_over.store(true, Relaxed);
        self.end.notify_waiters();
        self.end.notify_one();
    }
}

/// Ends a connection from outside, as long as it is open.
#[derive(Clone, Debug)]
pub struct Ender(Arc<Standing>);

impl Ender {
    /// Ends the connection.
    pub fn end(&self) {
        self.0.end();
    }

    /// Whether the connection is closed, or about to be.
    pub fn is_closed(&self) -> bool {
        self.0.is_over.load(Relaxed)
    }
}

/// The place of one connection. Dropping it returns the place.
#[derive(Debug)]
pub struct HeldPlace {
    places: Arc<Places>,
    standing: Arc<Standing>,
    owner: Option<String>,
    _descriptor: Descriptor,
}

impl Places {
    /// Places for a listener that may take `share` of the process's descriptors.
    pub fn new(mut bounds: PlaceBounds, share: Share, counts: Arc<RefusedCounts>) -> Arc<Self> {
        bounds.connections_max = bounds.connections_max.max(1);
        bounds.fresh_max = bounds.fresh_max.clamp(1, bounds.connections_max);
        Arc::new(Self { bounds, share, counts, inner: Mutex::default() })
    }

    /// Refusals by reason.
    pub fn counts(&self) -> &Arc<RefusedCounts> {
        &self.counts
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection from `address`. If none is free and no connection can be evicted, the refusal is counted.
    pub fn enter(self: &Arc<Self>, address: IpAddr) -> Option<HeldPlace> {
        let place = self.find(address);
        if place.is_none() {
            self.counts.add(ListenerRefusal::NoPlace);
        }
        place
    }

    fn find(self: &Arc<Self>, address: IpAddr) -> Option<HeldPlace> {
        let fresh_min = self.bounds.fresh_min;
        let mut inner = self.lock();
        for (source, max) in self.sources(address) {
            let of_source = inner.sources.get(&source).map_or(&[][..], Vec::as_slice);
            if of_source.len() >= max {
                let first = of_source.iter().filter_map(|one| Some((one.rank(fresh_min)?, one)));
                let first = first.min_by_key(|(rank, _)| *rank).map(|(_, one)| Arc::clone(one));
                self.give_way(&mut inner, &first?)?;
            }
        }
        if inner.fresh >= self.bounds.fresh_max || inner.all.len() >= self.bounds.connections_max {
            let first = inner.first_to_give_way(fresh_min)?;
            self.give_way(&mut inner, &first)?;
        }
        let descriptor = match self.share.take() {
            Some(descriptor) => descriptor,
            None => {
                let first = inner.first_to_give_way(fresh_min)?;
                self.give_way(&mut inner, &first)?;
                self.share.take_over()
            }
        };
        let standing = inner.add(address, self.sources(address).map(|(source, _)| source));
        drop(inner);
        Some(HeldPlace { places: Arc::clone(self), standing, owner: None, _descriptor: descriptor })
    }

    fn give_way(&self, inner: &mut Inner, standing: &Arc<Standing>) -> Option<()> {
        if inner.closing >= CLOSING_MAX {
            return None;
        }
        inner.closing += 1;
        inner.leave(standing, self.sources(standing.address).map(|(source, _)| source));
        standing.end();
        self.counts.add(ListenerRefusal::GaveWay);
        Some(())
    }

    /// The sources of an address, with the connection limit of each.
    fn sources(&self, address: IpAddr) -> impl Iterator<Item = (Source, usize)> + use<> {
        let PlaceBounds { per_address_max, per_site_max, .. } = self.bounds;
        let (first, second) = match address.to_canonical() {
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                let prefix = |d, bits| (Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into(), bits);
                ((prefix(d, 64), per_address_max), Some((prefix(0, 48), per_site_max)))
            }
            address @ IpAddr::V4(_) => (((address, 32), per_address_max), None),
        };
        std::iter::once(first).chain(second)
    }
}

impl Inner {
    fn add(&mut self, address: IpAddr, sources: impl Iterator<Item = Source>) -> Arc<Standing> {
        let standing = Arc::new(Standing {
            number: self.next,
            address,
            began: Instant::now(),
            state: AtomicU8::new(FRESH),
            turn: AtomicU64::new(TURNS.fetch_add(1, Relaxed)),
            is_fresh: AtomicBool::new(true),
            is_over: AtomicBool::new(false),
            end: Notify::new(),
        });
        self.next += 1;
        self.fresh += 1;
        self.all.insert(standing.number, Arc::clone(&standing));
        for source in sources {
            self.sources.entry(source).or_default().push(Arc::clone(&standing));
        }
        standing
    }

    /// Removes a connection from all counts, if it is in them. Returns whether it was.
    fn leave(&mut self, standing: &Arc<Standing>, sources: impl Iterator<Item = Source>) -> bool {
        if self.all.remove(&standing.number).is_none() {
            return false;
        }
        self.no_longer_fresh(standing);
        self.leave_sources(standing, sources);
        true
    }

    fn no_longer_fresh(&mut self, standing: &Standing) {
        if standing.is_fresh.swap(false, Relaxed) {
            self.fresh -= 1;
        }
    }

    fn leave_sources(&mut self, standing: &Arc<Standing>, sources: impl Iterator<Item = Source>) {
        for source in sources {
            let Some(of_source) = self.sources.get_mut(&source) else { continue };
            if let Some(at) = of_source.iter().position(|one| one.number == standing.number) {
                of_source.swap_remove(at);
            }
            if of_source.is_empty() {
                self.sources.remove(&source);
            }
        }
    }

    /// Scans all connections once for many new ones, because a scan's time grows with the number of connections.
    fn first_to_give_way(&mut self, fresh_min: Duration) -> Option<Arc<Standing>> {
        if let Some(first) = self.next_candidate(fresh_min) {
            return Some(first);
        }
        if self.none_at.is_some_and(|at| at.elapsed() < LOOK_AGAIN) {
            return None;
        }
        let ranked = self.all.values().filter_map(|one| Some((one.rank(fresh_min)?, one)));
        let mut ranked: Vec<_> = ranked.collect();
        if ranked.len() > CANDIDATES_MAX {
            ranked.select_nth_unstable_by_key(CANDIDATES_MAX, |(rank, _)| *rank);
            ranked.truncate(CANDIDATES_MAX);
        }
        ranked.sort_unstable_by_key(|(rank, _)| *rank);
        self.none_at = ranked.is_empty().then(Instant::now);
        self.candidates =
            ranked.into_iter().map(|((_, turn), one)| (turn, Arc::clone(one))).collect();
        self.next_candidate(fresh_min)
    }

    /// The next candidate that has neither closed nor changed since the last scan.
    fn next_candidate(&mut self, fresh_min: Duration) -> Option<Arc<Standing>> {
        loop {
            let (turn, first) = self.candidates.pop_front()?;
            let is_same = first.rank(fresh_min).is_some_and(|(_, now)| now == turn);
            if is_same && self.all.contains_key(&first.number) {
                return Some(first);
            }
        }
    }
}

impl HeldPlace {
    /// The peer identified itself as `owner`, which may have `max` connections: one more closes its oldest, because a peer that lost its
    /// connection comes back before its old connections are detected as dead.
    pub fn belongs_to(&mut self, owner: &str, max: usize) {
        let mut inner = self.places.lock();
        let sources = self.places.sources(self.standing.address).map(|(source, _)| source);
        inner.leave_sources(&self.standing, sources);
        inner.no_longer_fresh(&self.standing);
        self.standing.state.store(KNOWN, Relaxed);
        self.owner = Some(owner.to_owned());
        let own = inner.owners.entry(owner.to_owned()).or_default();
        own.push(Arc::clone(&self.standing));
        if own.len() > max {
            own.remove(0).end();
        }
    }

    /// A request is in progress: the connection cannot be evicted.
    pub fn is_busy(&self) {
        if self.standing.is_fresh.load(Relaxed) {
            self.places.lock().no_longer_fresh(&self.standing);
        }
        self.standing.change(BUSY);
    }

    /// No request is in progress.
    pub fn is_waiting(&self) {
        self.standing.change(WAITING);
    }

    /// Whether the peer is known by name.
    pub fn is_known(&self) -> bool {
        self.owner.is_some()
    }

    /// Ends the connection from outside.
    pub fn ender(&self) -> Ender {
        Ender(Arc::clone(&self.standing))
    }

    /// Completes when the connection has to end.
    pub async fn ended(&self) {
        if !self.standing.is_over.load(Relaxed) {
            // `Notify` keeps a permit for a notification between the check and the wait.
            self.standing.end.notified().await;
        }
    }

    /// Whether the connection has to end.
    pub(crate) fn is_over(&self) -> bool {
        self.standing.is_over.load(Relaxed)
    }
}

impl Drop for HeldPlace {
    fn drop(&mut self) {
        let mut inner = self.places.lock();
        let sources = self.places.sources(self.standing.address).map(|(source, _)| source);
        if !inner.leave(&self.standing, sources) {
            inner.closing -= 1;
        }
        self.standing.is_over.store(true, Relaxed);
        let Some(owner) = &self.owner else { return };
        if let Some(own) = inner.owners.get_mut(owner) {
            own.retain(|one| one.number != self.standing.number);
            if own.is_empty() {
                inner.owners.remove(owner);
            }
        }
    }
}

#[cfg(test)]
#[path = "places_tests.rs"]
mod tests;
