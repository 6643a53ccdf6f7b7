//! One direction of a path, without I/O and without a clock.
//!
//! A packet may be lost. Otherwise it queues for the bottleneck, or is dropped if the queue is full. Then it is under way for the delay and
//! its jitter, in order unless it is held back on purpose, and it may arrive twice. Flows may have different delays: each flow then keeps
//! its own order but may overtake others. With the same seed, the same packets at the same times have the same fate. Each packet draws the
//! same number of random numbers, so the packets that are lost at 1% are also lost at 2%, with jitter or without.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use crate::{Impairment, Random};

/// The fate of a packet on arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is under way.
    Carried,
    /// It is under way twice.
    Duplicated,
    /// It is lost.
    Lost,
    /// The bottleneck's queue is full.
    QueueFull,
    /// The path already holds as many bytes as allowed.
    HeldTooMuch,
}

/// Counts of all packets so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Packets offered.
    pub offered_packets: u64,
    /// Bytes offered.
    pub offered_bytes: u64,
    /// Packets delivered, including copies.
    pub delivered_packets: u64,
    /// Bytes delivered.
    pub delivered_bytes: u64,
    /// Lost by chance.
    pub lost_packets: u64,
    /// Held back by chance.
    pub reordered_packets: u64,
    /// Copied by chance.
    pub duplicated_packets: u64,
    /// Marked by chance.
    pub marked_packets: u64,
    /// Dropped because the bottleneck's queue was full.
    pub queue_full_packets: u64,
    /// Dropped because the path already held as many bytes as allowed.
    pub held_too_much_packets: u64,
    /// The most bytes that ever waited for the bottleneck.
    pub queue_bytes_most: u64,
}

/// One direction of a path. `P` is the caller's packet: its bytes, or anything that stands for them.
#[derive(Debug)]
pub struct SimulatedLink<P> {
    impairment: Impairment,
    random: Random,
    /// When the bottleneck will have sent everything that it accepted; `None` before the first packet.
    busy_until: Option<Instant>,
    /// When the last packet that keeps the order arrives.
    last_due: Option<Instant>,
    under_way: BinaryHeap<UnderWay<P>>,
    offered_count: u64,
    held_bytes: u64,
    counters: Counters,
}

/// A packet from [`SimulatedLink::poll`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered<P> {
    /// The packet.
    pub packet: P,
    /// It met congestion. A caller whose packets can carry a mark sets it (RFC 3168).
    pub marked: bool,
}

/// The random numbers of one packet.
struct Draws {
    lost: bool,
    reordered: bool,
    duplicated: bool,
    marked: bool,
    jitter: Duration,
    held_back: Duration,
}

impl<P: Clone> SimulatedLink<P> {
    /// An empty path with the effects of `impairment`, which draws from `seed`.
    #[must_use]
    pub fn new(impairment: Impairment, seed: u64) -> Self {
        Self {
            impairment,
            random: Random::new(seed),
            busy_until: None,
            last_due: None,
            under_way: BinaryHeap::new(),
            offered_count: 0,
            held_bytes: 0,
            counters: Counters::default(),
        }
    }

    /// Puts a packet of `bytes` that belongs to no flow on the path at `now`. Times must not go backwards.
    pub fn offer(&mut self, now: Instant, packet: P, bytes: usize) -> Fate {
        self.offer_after(Duration::ZERO, now, packet, bytes)
    }

    /// The same for a packet of `flow`. A flow's delay depends only on its number, so it is the same in both directions if both links have
    /// the same range.
    pub fn offer_in_flow(&mut self, now: Instant, flow: u64, packet: P, bytes: usize) -> Fate {
        self.offer_after(self.impairment.flow_delay_of(flow), now, packet, bytes)
    }

    fn offer_after(&mut self, flow_delay: Duration, now: Instant, packet: P, bytes: usize) -> Fate {
        let bytes = bytes as u64;
        let draws = self.draw();
        self.counters.offered_packets += 1;
        self.counters.offered_bytes += bytes;
        if draws.lost {
            self.counters.lost_packets += 1;
            return Fate::Lost;
        }
        if self.held_bytes + bytes > self.impairment.held_bytes_max {
            self.counters.held_too_much_packets += 1;
            return Fate::HeldTooMuch;
        }
        let Some(departure) = self.pass_bottleneck(now, bytes) else {
            self.counters.queue_full_packets += 1;
            return Fate::QueueFull;
        };
        let due = self.due(departure, &draws) + flow_delay;
        self.counters.marked_packets += u64::from(draws.marked);
        if draws.duplicated {
            self.counters.duplicated_packets += 1;
            self.carry(due, packet.clone(), bytes, draws.marked);
        }
        self.carry(due, packet, bytes, draws.marked);
        if draws.duplicated { Fate::Duplicated } else { Fate::Carried }
    }

    /// When [`SimulatedLink::poll`] will next have a packet.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        self.under_way.peek().map(|next| next.due)
    }

    /// The next packet that has arrived by `now`. Call it until it returns `None`.
    pub fn poll(&mut self, now: Instant) -> Option<Delivered<P>> {
        if self.next_due()? > now {
            return None;
        }
        let arrived = self.under_way.pop()?;
        self.held_bytes -= arrived.bytes;
        self.counters.delivered_packets += 1;
        self.counters.delivered_bytes += arrived.bytes;
        Some(Delivered { packet: arrived.packet, marked: arrived.marked })
    }

    /// Changes the path from now on. Packets that are under way arrive as before.
    pub fn change(&mut self, impairment: Impairment) {
        self.impairment = impairment;
    }

    /// The current settings.
    #[must_use]
    pub fn impairment(&self) -> &Impairment {
        &self.impairment
    }

    /// Counts of all packets so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How many packets are waiting or under way.
    #[must_use]
    pub fn held_packets(&self) -> usize {
        self.under_way.len()
    }

    fn draw(&mut self) -> Draws {
        let settings = &self.impairment;
        let nanoseconds = |longest: Duration| u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX);
        Draws {
            lost: settings.loss.happens(&mut self.random),
            reordered: settings.reorder.happens(&mut self.random),
            duplicated: settings.duplicate.happens(&mut self.random),
            marked: settings.mark.happens(&mut self.random),
            jitter: Duration::from_nanos(self.random.below(nanoseconds(settings.jitter))),
            held_back: Duration::from_nanos(self.random.below(nanoseconds(settings.reorder_by))),
        }
    }

    /// When the bottleneck has sent the packet; `None` if its queue is full.
    fn pass_bottleneck(&mut self, now: Instant, bytes: u64) -> Option<Instant> {
        let Some(rate) = self.impairment.rate_bits_per_second else { return Some(now) };
        let start = self.busy_until.map_or(now, |busy_until| busy_until.max(now));
        let waiting_bytes = bytes_in(start.duration_since(now), rate);
        if waiting_bytes > 0 && waiting_bytes + bytes > self.impairment.queue_bytes {
            return None;
        }
        self.counters.queue_bytes_most = self.counters.queue_bytes_most.max(waiting_bytes);
        let departure = start + time_of(bytes, rate);
        self.busy_until = Some(departure);
        Some(departure)
    }

    /// When a packet that leaves the bottleneck at `departure` arrives, without its flow's delay.
    fn due(&mut self, departure: Instant, draws: &Draws) -> Instant {
        let drawn = departure + self.impairment.delay + draws.jitter;
        let in_order = self.last_due.map_or(drawn, |last_due| last_due.max(drawn));
        if draws.reordered {
            self.counters.reordered_packets += 1;
            return in_order + draws.held_back;
        }
        self.last_due = Some(in_order);
        in_order
    }

    fn carry(&mut self, due: Instant, packet: P, bytes: u64, marked: bool) {
        self.offered_count += 1;
        self.held_bytes += bytes;
        let number = self.offered_count;
        self.under_way.push(UnderWay { due, number, bytes, marked, packet });
    }
}

/// The time that `bytes` take at `rate` bits per second.
fn time_of(bytes: u64, rate: u64) -> Duration {
    let nanoseconds = u128::from(bytes) * 8 * 1_000_000_000 / u128::from(rate);
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
}

/// The bytes that `rate` bits per second carry in `time`.
fn bytes_in(time: Duration, rate: u64) -> u64 {
    u64::try_from(time.as_nanos() * u128::from(rate) / 8_000_000_000).unwrap_or(u64::MAX)
}

#[derive(Debug)]
struct UnderWay<P> {
    due: Instant,
    /// Orders packets that arrive at the same time: first in, first out.
    number: u64,
    bytes: u64,
    marked: bool,
    packet: P,
}

/// Reversed, because [`BinaryHeap`] yields the greatest and the next to arrive must come first.
impl<P> Ord for UnderWay<P> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due, other.number).cmp(&(self.due, self.number))
    }
}

impl<P> PartialOrd for UnderWay<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> PartialEq for UnderWay<P> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<P> Eq for UnderWay<P> {}

#[cfg(test)]
mod tests;
