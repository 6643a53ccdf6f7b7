//! The endpoint: finds the connection that a segment belongs to, and the connections that have something to send or report.
//!
//! Invariants: a pair of addresses is in `pairs` exactly while a connection that has not ended, a half-open one or a
//! TIME-WAIT entry belongs to it. A connection is at most once in each queue. A connection that has ended is forgotten
//! when its last event is reported.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Instant;

use crate::alarms::{Alarms, Owner};
use crate::clock::{Time, micros};
use crate::connection::{Connection, Context};
use crate::half_open::HalfOpen;
use crate::header::Incoming;
use crate::keyed::{Keyed, Pair};
use crate::merging::{Fate, Held, Merging};
use crate::orphans::Orphans;
use crate::receive::Buffers;
use crate::seq::Seq;
use crate::table::Table;
use crate::time_wait::TimeWait;
use crate::{
    Arrived, ByteRequest, CloseReason, Config, CongestionControl, Event, Id, Info, Secret,
    Statistics, Transmit, Withheld,
};

/// How many replies without a connection may wait to be sent: more than one batch of a device, and too few for a flood to gain from it.
const REPLIES_MAX: usize = 1024;

/// The state behind a pair of addresses.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Slot {
    Connection(Id),
    HalfOpen(Id),
    TimeWait(Id),
}

/// Many connections of one host, or of one of its cores.
pub struct Endpoint {
    pub(crate) config: Config,
    pub(crate) keyed: Keyed,
    epoch: Instant,
    pub(crate) statistics: Statistics,
    pub(crate) buffers: Buffers,
    pub(crate) pairs: HashMap<Pair, Slot, Keyed>,
    // Boxed, because a growing table moves its entries.
    pub(crate) connections: Table<Box<Connection>>,
    pub(crate) half_open: Table<HalfOpen>,
    pub(crate) time_wait: TimeWait,
    pub(crate) alarms: Alarms,
    pub(crate) orphans: Orphans,
    merging: Merging,
    replies: VecDeque<Transmit>,
    with_event: VecDeque<Id>,
    with_control: VecDeque<Id>,
    with_want: VecDeque<Id>,
    /// When the last cookie was sent: answers are expected for a while.
    pub(crate) cookie_sent_at: Time,
}

impl Endpoint {
    /// An endpoint without connections. `now` is its start: no later call may have an earlier time.
    #[must_use]
    pub fn new(config: Config, secret: Secret, now: Instant) -> Self {
        // Agreeing to ECN is a promise to slow down for marks (RFC 3168 section 6.1.2), and BBR does not.
        let ecn = config.ecn && config.congestion_control == CongestionControl::Cubic;
        let config = Config { ecn, ..config };
        let keyed = Keyed::new(secret);
        Endpoint {
            epoch: now,
            statistics: Statistics::default(),
            buffers: Buffers::new(config.receive_bytes_max.max(1)),
            pairs: HashMap::with_hasher(keyed.clone()),
            connections: Table::new(config.connections_max),
            half_open: Table::new(config.half_open_max),
            time_wait: TimeWait::new(config.time_wait_max, micros(config.time_wait)),
            alarms: Alarms::default(),
            orphans: Orphans::default(),
            merging: Merging::default(),
            replies: VecDeque::new(),
            with_event: VecDeque::new(),
            with_control: VecDeque::new(),
            with_want: VecDeque::new(),
            cookie_sent_at: Time::NEVER,
            config,
            keyed,
        }
    }

    /// Processes a segment.
    pub fn handle_segment(&mut self, now: Instant, arrived: Arrived<'_>) {
        self.statistics.segments_received += 1;
        self.handle_acks(self.time(now), arrived, 1);
    }

    /// Processes a segment of a batch. Of pure acknowledgements in a row only the last may be processed, if [`Config::merges_acknowledgements`]
    /// allows that. Call [`Endpoint::end_batch`] after the last one of the batch.
    pub fn handle_batched(&mut self, now: Instant, arrived: Arrived<'_>) {
        if !self.config.merges_acknowledgements {
            return self.handle_segment(now, arrived);
        }
        self.statistics.segments_received += 1;
        let now = self.time(now);
        match self.merging.offer(&arrived) {
            Fate::Held { joined } => self.statistics.acknowledgements_merged += u64::from(joined),
            Fate::Displaces(held) => self.handle_held(now, &held),
            Fate::After(held) => {
                if let Some(held) = held {
                    self.handle_held(now, &held);
                }
                self.handle_acks(now, arrived, 1);
            }
        }
    }

    /// Processes the segments that [`Endpoint::handle_batched`] still holds.
    pub fn end_batch(&mut self, now: Instant) {
        let now = self.time(now);
        while let Some(held) = self.merging.next() {
            self.handle_held(now, &held);
        }
    }

    fn handle_held(&mut self, now: Time, held: &Held) {
        self.handle_acks(now, held.arrived(), held.acks);
    }

    /// Processes a segment that stands for `acks` acknowledgements.
    fn handle_acks(&mut self, now: Time, arrived: Arrived<'_>, acks: u32) {
        let Some(segment) = Incoming::parse(arrived.segment) else {
            self.statistics.header_malformed += 1;
            return;
        };
        let segment = Incoming { acks, ..segment };
        if segment.options_malformed {
            self.statistics.option_malformed += 1;
        }
        let pair = Pair {
            remote: SocketAddr::new(arrived.remote, segment.source),
            local: SocketAddr::new(arrived.local, segment.destination),
        };
        match self.pairs.get(&pair).copied() {
            Some(Slot::Connection(id)) => {
                self.with(now, id, |connection, cx| connection.arrive(arrived.ecn, &segment, cx));
            }
            Some(Slot::HalfOpen(id)) => self.arrive_half_open(now, id, arrived.ecn, &segment),
            Some(Slot::TimeWait(id)) => self.arrive_in_time_wait(now, id, &pair, &segment),
            None => self.arrive_unknown(now, &pair, arrived.ecn, &segment),
        }
    }

    /// Handles a router's report that packets to `remote` of more than `mtu_bytes` do not get through (ICMP "fragmentation needed", ICMPv6 "packet
    /// too big"). Accepted only if `sequence`, from the quoted TCP header, is in flight (RFC 5927 section 7), and once per round trip.
    pub fn handle_packet_too_big(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        sequence: u32,
        mtu_bytes: u16,
    ) {
        let now = self.time(now);
        match self.pairs.get(&Pair { remote, local }).copied() {
            Some(Slot::Connection(id)) => {
                self.with(now, id, |connection, cx| {
                    connection.packet_too_big(Seq(sequence), mtu_bytes, cx);
                });
            }
            _ => self.statistics.path_mtu_refused += 1,
        }
    }

    /// Does the work that is due. Harmless if called early.
    pub fn handle_timeout(&mut self, now: Instant) {
        let now = self.time(now);
        while let Some((time, owner)) = self.alarms.pop_due(now) {
            self.statistics.alarms += 1;
            match owner {
                Owner::Connection(id) => self.wake_connection(now, time, id),
                Owner::HalfOpen(id) => self.wake_half_open(now, time, id),
            }
        }
        while let Some(pair) = self.time_wait.expire(now) {
            self.pairs.remove(&pair);
        }
    }

    fn wake_connection(&mut self, now: Time, time: Time, id: Id) {
        if self.connections.get_mut(id).is_some_and(|connection| connection.armed.take(time)) {
            self.with(now, id, |connection, cx| connection.expire(cx));
        }
    }

    /// When to call [`Endpoint::handle_timeout`], at the latest.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        self.alarms.next().min(self.time_wait.next_timeout()).instant(self.epoch)
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<(Id, Event)> {
        // Before other events: the connection that took its place may have the same slot.
        if let Some(id) = self.orphans.take_evicted() {
            return Some((id, Event::Ended(CloseReason::Evicted)));
        }
        while let Some(id) = self.with_event.front().copied() {
            let event = self.connections.get_mut(id).and_then(|connection| connection.take_event());
            if let Some(event) = event {
                if let Event::Ended(_) = event {
                    self.connections.remove(id);
                    self.with_event.pop_front();
                }
                return Some((id, event));
            }
            self.with_event.pop_front();
            if let Some(connection) = self.connections.get_mut(id) {
                connection.queued.event = false;
            }
        }
        None
    }

    /// The next segment without payload: SYN-ACK, ACK, RST, FIN, probes.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        let now = self.time(now);
        let transmit = self.replies.pop_front().or_else(|| self.next_control(now))?;
        self.statistics.segments_sent += 1;
        Some(transmit)
    }

    fn next_control(&mut self, now: Time) -> Option<Transmit> {
        while let Some(id) = self.with_control.pop_front() {
            if let Some(connection) = self.connections.get_mut(id) {
                connection.queued.transmit = false;
            }
            let transmit =
                self.with(now, id, |connection, cx| connection.next_control(cx)).flatten();
            if transmit.is_some() {
                return transmit;
            }
        }
        None
    }

    /// The next range to supply.
    pub fn poll_byte_request(&mut self, now: Instant) -> Option<(Id, ByteRequest)> {
        let now = self.time(now);
        while let Some(id) = self.with_want.pop_front() {
            if let Some(connection) = self.connections.get_mut(id) {
                connection.queued.want = false;
            }
            let Some((connection, mut cx)) = self.borrow(now, id) else { continue };
            if let Some(want) = connection.want(&mut cx) {
                self.settle(now, id);
                return Some((id, want));
            }
            // Pacing may have set a time to ask again. Settling would ask at once.
            self.arm(now, id);
        }
        None
    }

    /// The caller has `bytes` bytes of the send stream in hand, from `offset` on. Returns how many of them are sent
    /// now, and with which header; these count as sent. Call it again with the same bytes until it returns an error.
    ///
    /// # Errors
    /// Why nothing may be sent, which is not a failure; see [`Withheld`].
    pub fn transmit(
        &mut self,
        now: Instant,
        id: Id,
        offset: u64,
        bytes: usize,
    ) -> Result<Transmit, Withheld> {
        let now = self.time(now);
        let in_hand = offset..offset + bytes as u64;
        let transmit = self
            .with(now, id, |connection, cx| connection.transmit(in_hand, cx))
            .unwrap_or(Err(Withheld::Gone))?;
        self.statistics.segments_sent += 1;
        Ok(transmit)
    }

    /// Returns a wanted range that the caller no longer has and has not sent. It may be requested again.
    pub fn decline(&mut self, now: Instant, id: Id, range: Range<u64>) {
        let now = self.time(now);
        self.with(now, id, |connection, cx| connection.decline(range, cx));
    }

    /// Extends the send stream by `bytes`. Nothing is copied: the bytes are requested when they can be sent. Not allowed after [`Endpoint::finish`].
    pub fn write(&mut self, now: Instant, id: Id, bytes: u64) {
        let now = self.time(now);
        self.with(now, id, |connection, _| connection.write(bytes));
    }

    /// Ends the stream: a FIN follows the last byte.
    pub fn finish(&mut self, now: Instant, id: Id) {
        let now = self.time(now);
        self.with(now, id, |connection, _| connection.finish());
    }

    /// Ends the connection at once with a RST.
    pub fn reset(&mut self, now: Instant, id: Id) {
        let now = self.time(now);
        if let Some(reset) = self.with(now, id, |connection, cx| connection.reset(cx)).flatten() {
            self.statistics.resets_sent += 1;
            self.reply(reset);
        }
    }

    /// Takes received bytes, in order. Returns how many.
    pub fn read(&mut self, now: Instant, id: Id, into: &mut [u8]) -> usize {
        let now = self.time(now);
        self.with(now, id, |connection, cx| connection.read(into, cx)).unwrap_or(0)
    }

    /// Opens a connection from `local` to `remote`. None: there are too many, or this pair already has one.
    pub fn connect(&mut self, now: Instant, local: SocketAddr, remote: SocketAddr) -> Option<Id> {
        let now = self.time(now);
        let pair = Pair { remote, local };
        if self.pairs.contains_key(&pair) || !self.has_place() {
            return None;
        }
        let (isn, offset) = (self.keyed.isn(now, &pair), self.keyed.timestamp_offset(&pair));
        let connection = Connection::opening(pair, isn, offset, &mut self.context(now));
        self.admit(now, connection)
    }

    /// Adds a connection to the tables. None: they are full.
    pub(crate) fn admit(&mut self, now: Time, connection: Connection) -> Option<Id> {
        let pair = connection.pair;
        let id = self.connections.insert(Box::new(connection))?;
        self.pairs.insert(pair, Slot::Connection(id));
        self.settle(now, id);
        Some(id)
    }

    /// Limits the rate of a connection, in bytes per second. None: no limit. Has no effect if pacing is off.
    pub fn limit_rate(&mut self, id: Id, bytes_per_second: Option<u64>) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.limit_rate(bytes_per_second);
        }
    }

    /// The addresses of a connection: (remote, local).
    #[must_use]
    pub fn addresses(&self, id: Id) -> Option<(SocketAddr, SocketAddr)> {
        self.connections.get(id).map(|connection| (connection.pair.remote, connection.pair.local))
    }

    /// Returns true if there is a connection between these addresses.
    #[must_use]
    pub fn has_connection(&self, remote: SocketAddr, local: SocketAddr) -> bool {
        matches!(self.pairs.get(&Pair { remote, local }), Some(Slot::Connection(_)))
    }

    /// Refuses new connections from now on, as on any port without a listener.
    pub fn stop_listening(&mut self) {
        self.config.listen.clear();
    }

    /// Current payload of one segment. None: the connection no longer exists.
    #[must_use]
    pub fn segment_bytes(&self, id: Id) -> Option<u16> {
        self.connections.get(id).map(|connection| connection.segment_bytes())
    }

    /// A connection's figures. None: the connection no longer exists.
    #[must_use]
    pub fn info(&self, id: Id) -> Option<Info> {
        self.connections.get(id).map(|connection| connection.info())
    }

    /// Current connections, including those that were released or whose end was not reported yet.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Current half-open connections.
    #[must_use]
    pub fn half_open(&self) -> usize {
        self.half_open.len()
    }

    /// All counters.
    #[must_use]
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    pub(crate) fn time(&self, now: Instant) -> Time {
        Time::of(now, self.epoch)
    }

    /// The context that connections work in.
    pub(crate) fn context(&mut self, now: Time) -> Context<'_> {
        Context {
            now,
            config: &self.config,
            statistics: &mut self.statistics,
            buffers: &mut self.buffers,
        }
    }

    fn borrow(&mut self, now: Time, id: Id) -> Option<(&mut Connection, Context<'_>)> {
        let connection = self.connections.get_mut(id)?;
        let cx = Context {
            now,
            config: &self.config,
            statistics: &mut self.statistics,
            buffers: &mut self.buffers,
        };
        Some((connection, cx))
    }

    /// Calls `work` on a connection, and handles the consequences. None: no such connection.
    pub(crate) fn with<T>(
        &mut self,
        now: Time,
        id: Id,
        work: impl FnOnce(&mut Connection, &mut Context<'_>) -> T,
    ) -> Option<T> {
        let (connection, mut cx) = self.borrow(now, id)?;
        let done = work(connection, &mut cx);
        self.settle(now, id);
        Some(done)
    }

    /// Puts a connection into its queues, and sets its deadline.
    fn settle(&mut self, now: Time, id: Id) {
        let Some((connection, cx)) = self.borrow(now, id) else { return };
        connection.settle(&cx);
        let event = connection.has_event() && !connection.queued.event;
        let control = connection.has_control() && !connection.queued.transmit;
        let want = connection.may_want() && !connection.queued.want;
        connection.queued.event |= event;
        connection.queued.transmit |= control;
        connection.queued.want |= want;
        let ended = connection.has_ended();
        if event {
            self.with_event.push_back(id);
        }
        if control {
            self.with_control.push_back(id);
        }
        if want {
            self.with_want.push_back(id);
        }
        if ended { self.leave(now, id) } else { self.arm(now, id) }
    }

    fn arm(&mut self, now: Time, id: Id) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let deadline = connection.deadline(&self.config);
        if deadline.is_set() {
            // Never for the current moment: work that is due now was just done, or is done by the next call.
            let deadline = deadline.max(now.after_us(1));
            self.alarms.set(Owner::Connection(id), deadline, &mut connection.armed);
        }
        let (connections, half_open) = (&self.connections, &self.half_open);
        self.alarms.compact(connections.len() + half_open.len(), |time, owner| match owner {
            Owner::Connection(id) => connections.get(id).is_some_and(|entry| entry.armed.has(time)),
            Owner::HalfOpen(id) => half_open.get(id).is_some_and(|entry| entry.armed.has(time)),
        });
    }

    /// Frees the addresses of a connection that has ended, or remembers them in TIME-WAIT.
    fn leave(&mut self, now: Time, id: Id) {
        let Some((connection, mut cx)) = self.borrow(now, id) else { return };
        let pair = connection.pair;
        if let Some(farewell) = connection.farewell(&mut cx) {
            self.reply(farewell);
        }
        let Some(connection) = self.connections.get(id) else { return };
        match self.pairs.get(&pair) {
            Some(Slot::Connection(other)) if *other == id => self.pairs.remove(&pair),
            _ => return,
        };
        if !connection.leaves_time_wait() {
            return;
        }
        let (evicted, entry) = self.time_wait.insert(now, connection.remembrance(&self.config));
        if let Some(evicted) = evicted {
            self.pairs.remove(&evicted);
        }
        self.statistics.time_wait_evicted += u64::from(evicted.is_some() || entry.is_none());
        if let Some(entry) = entry {
            self.pairs.insert(pair, Slot::TimeWait(entry));
        }
    }

    /// Queues a reply that belongs to no connection; drops it if too many wait.
    pub(crate) fn reply(&mut self, transmit: Transmit) {
        if self.replies.len() >= REPLIES_MAX {
            self.statistics.replies_dropped += 1;
        } else {
            self.replies.push_back(transmit);
        }
    }
}
