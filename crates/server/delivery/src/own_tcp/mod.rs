//! Our own TCP below the sessions. The disk is inside TCP's control loop (as in Atlas: "Disk|Crypt|Net", SIGCOMM 2017).
//!
//! A worker on the bypass route has an [`OwnTcp`]: a TCP endpoint that holds no payload (the `tcp` crate) over one queue of a network device (the
//! `frames` crate), and a task that passes messages between the two (`pump`). A session's connection is a [`OwnTcpSocket`]. The session receives
//! requests from it, and sends by appending to its [`stream::Stream`], a list of places in files instead of bytes.
//!
//! When TCP may send, it asks for a range of the stream. Suppliers (`supply`) read the records that cover it, seal them while they are in the CPU
//! cache, hand them to the device at once and return the buffers, last in, first out. If a range was lost, TCP asks again, and all of this repeats,
//! disk included. A record that comes out different ends the connection.
//!
//! Invariants:
//! - No byte of a film is kept. Once the device has read a buffer, only an offset remains of what is in flight, and a tag of 16 bytes for each
//!   record.
//! - Reads in flight are bounded per worker, by its suppliers. Further requests wait inside TCP.
//! - New bytes of a connection are sent in order, in whatever order the disk delivers them.

pub mod connection;
mod in_hand;
pub mod layout;
#[cfg(test)]
mod memory_tests;
mod pump;
mod socket;
pub mod stream;
mod streamed;
mod supply;

pub use socket::OwnTcpSocket;
pub use streamed::Streamed;
pub use supply::suppliers;

use crate::end::End;
use connection::OwnTcpConnection;
use disk::Budget;
use frames::{Blocked, Driver, DropReason, Interface, Sibling};
use in_hand::InHand;
use reactor::{Woken, sleep};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::task::Waker;
use std::time::{Duration, Instant};
use tcp::{ByteRequest, CloseReason, Endpoint, Event, Id};
use telemetry::{Family, Numbers};

/// Limit on bytes that TCP has held back, for all connections together. A window that opens a few segments at a time makes each record leave in
/// several parts. So every connection in slow start needs some tens of kilobytes, or its records are sealed once for each part. This is enough for
/// more than a thousand of them, which 4 Gb/s in answers of 128 KiB keep in slow start.
const RESTS_BYTES_MAX: u64 = 64 << 20;

/// How many ranges may wait for a supplier. Further ranges wait inside TCP.
const JOBS_MAX: usize = 256;

/// How many connections are counted at each publication. A longer walk would keep viewers waiting: a connection takes two or three cache misses, so
/// these take a few milliseconds. With more connections than that, the sums are those of the last complete walk.
const COUNTED_AT_ONCE: usize = 8192;

/// How often a worker without viewers checks whether other workers have any.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The parts that make an [`OwnTcp`]. They move from the thread that has the privileges to the worker's own thread.
pub struct Parts {
    /// The device's queue.
    pub interface: Interface,
    /// Its place among the device's workers.
    pub sibling: Sibling,
    /// Wakes the worker when another one has sent it something.
    pub told: Woken,
    /// Configuration of TCP.
    pub tcp: tcp::Config,
    /// The secret from which sequence numbers are derived.
    pub secret: tcp::Secret,
    /// Processes each range to completion at once, rather than in stages.
    pub to_completion: bool,
    /// Limit on each connection's rate, in bytes per second.
    pub rate_bytes_per_second: Option<u64>,
}

/// One worker's own TCP.
pub struct OwnTcp {
    driver: RefCell<Driver>,
    /// Indexed by the slot of their [`Id`].
    connections: RefCell<Vec<Option<Rc<OwnTcpConnection>>>>,
    jobs: RefCell<VecDeque<Job>>,
    idle_suppliers: RefCell<Vec<Waker>>,
    /// Set when something was written, read or sent since the pump last looked.
    is_kicked: Cell<bool>,
    pump: Cell<Option<Waker>>,
    to_completion: bool,
    rate_bytes_per_second: Option<u64>,
    /// The budget for the kept parts of partly sent records.
    rests: Budget,
    /// Bytes copied because they cannot be sent yet, or may have to be sent again.
    kept_bytes: Cell<u64>,
    /// Taken when the worker starts to listen to the others.
    told: Cell<Option<Woken>>,
    /// The sums so far of a walk over all connections.
    count: Cell<Count>,
}

/// The sums of a walk over connections, and the slot where it continues.
#[derive(Clone, Copy, Default)]
struct Count {
    slot: usize,
    memory_bytes: u64,
    in_flight_bytes: u64,
}

/// A range that TCP wants.
struct Job {
    connection: Rc<OwnTcpConnection>,
    want: ByteRequest,
    /// Its place among the new bytes of its connection; `None` for lost ones.
    number: Option<u64>,
}

impl OwnTcp {
    /// Starts without connections.
    pub fn new(parts: Parts) -> Rc<Self> {
        let Parts { interface, sibling, told, tcp, secret, to_completion, rate_bytes_per_second } =
            parts;
        let endpoint = Endpoint::new(tcp, secret, Instant::now());
        Rc::new(Self {
            driver: RefCell::new(Driver::new(endpoint, interface, sibling)),
            connections: RefCell::default(),
            jobs: RefCell::default(),
            idle_suppliers: RefCell::default(),
            is_kicked: Cell::new(false),
            pump: Cell::new(None),
            to_completion,
            rate_bytes_per_second,
            rests: Budget::new(RESTS_BYTES_MAX),
            kept_bytes: Cell::new(0),
            told: Cell::new(Some(told)),
            count: Cell::default(),
        })
    }

    /// As [`Driver::descriptors`].
    fn descriptors(&self) -> io::Result<(reactor::Fd, Option<reactor::Fd>)> {
        self.driver.borrow().descriptors()
    }

    /// Makes the pump check whether there is something to send.
    fn kick(&self) {
        self.is_kicked.set(true);
        if let Some(waker) = self.pump.take() {
            waker.wake();
        }
    }

    /// Processes the frames that have arrived. Returns whether there may be more.
    fn receive(&self, now: Instant) -> io::Result<bool> {
        self.driver.borrow_mut().receive(now)
    }

    /// Processes what other workers of the device send, for as long as this one runs.
    async fn listen_to_others(self: Rc<Self>) -> io::Result<()> {
        let Some(woken) = self.told.take() else { return Ok(()) };
        woken
            .each(|| {
                self.driver.borrow_mut().hear_others(Instant::now());
                self.kick();
                true
            })
            .await
    }

    /// Stops answering peers that are not connected yet.
    pub fn refuse_new(&self) {
        self.driver.borrow_mut().endpoint.stop_listening();
    }

    /// Waits until no worker of the device has viewers. This one has none.
    pub async fn all_have_ended(&self) {
        self.driver.borrow_mut().sibling().leave();
        while self.driver.borrow_mut().sibling().anybody_stays() {
            sleep(LOOK_AGAIN).await;
        }
    }

    /// Processes changes of the routes to peers.
    fn learn_ways(&self) -> io::Result<()> {
        self.driver.borrow_mut().learn_ways()
    }

    /// Handles the timeouts that are due, and updates the next one.
    fn handle_timeout(&self, now: Instant) {
        self.driver.borrow_mut().endpoint.handle_timeout(now);
    }

    /// When the next timeout is due.
    fn next_timeout(&self) -> Option<Instant> {
        self.driver.borrow_mut().endpoint.next_timeout()
    }

    /// Passes TCP's messages to sessions, suppliers and the device. Returns the new connections.
    fn hand_on(self: &Rc<Self>, now: Instant) -> Vec<OwnTcpSocket> {
        let mut accepted = Vec::new();
        loop {
            let event = self.driver.borrow_mut().endpoint.poll_event();
            let Some((id, event)) = event else { break };
            if event == Event::Accepted {
                accepted.extend(self.accept(id));
            } else if let Some(connection) = self.connection(id) {
                notice(&connection, event);
                self.forget_if_done(&connection);
            }
        }
        self.hand_out_wants(now);
        self.driver.borrow_mut().send_control(now);
        accepted
    }

    fn accept(self: &Rc<Self>, id: Id) -> Option<OwnTcpSocket> {
        let endpoint = &mut self.driver.borrow_mut().endpoint;
        let (peer, _) = endpoint.addresses(id)?;
        endpoint.limit_rate(id, self.rate_bytes_per_second);
        let connection = Rc::new(OwnTcpConnection::new(id, peer));
        let mut connections = self.connections.borrow_mut();
        if connections.len() <= id.index() {
            connections.resize(id.index() + 1, None);
        }
        connections[id.index()] = Some(Rc::clone(&connection));
        Some(OwnTcpSocket::new(Rc::clone(self), connection))
    }

    fn connection(&self, id: Id) -> Option<Rc<OwnTcpConnection>> {
        let connections = self.connections.borrow();
        let found = connections.get(id.index())?.as_ref().filter(|found| found.id == id)?;
        Some(Rc::clone(found))
    }

    fn hand_out_wants(&self, now: Instant) {
        while self.jobs.borrow().len() < JOBS_MAX {
            let wanted = self.driver.borrow_mut().endpoint.poll_byte_request(now);
            let Some((id, want)) = wanted else { return };
            let Some(connection) = self.connection(id) else { continue };
            let number = (!want.retransmission).then(|| connection.take_number());
            // Never ahead of earlier bytes of the same connection: a supplier would wait for those in vain.
            let is_next = number.is_none_or(|number| connection.is_next(number));
            let is_small = is_next && connection.stream.borrow().is_kept(want.range.start);
            let job = Job { connection, want, number };
            let mut jobs = self.jobs.borrow_mut();
            if is_small {
                // A handshake should not wait behind films.
                jobs.push_front(job);
            } else {
                jobs.push_back(job);
            }
            drop(jobs);
            if let Some(waker) = self.idle_suppliers.borrow_mut().pop() {
                waker.wake();
            }
        }
    }

    /// Makes the device send the queued frames.
    fn flush(&self) -> io::Result<()> {
        self.driver.borrow_mut().flush()
    }

    /// For a supplier: the range that has waited longest. If there is none, the supplier is queued until there is.
    fn next_job(&self, waker: &Waker) -> Option<Job> {
        let job = self.jobs.borrow_mut().pop_front();
        if job.is_none() {
            self.idle_suppliers.borrow_mut().push(waker.clone());
        }
        job
    }

    /// Sends as much of `range`, which is `in_hand`, as TCP allows. Returns what was sent, or why nothing may be sent.
    fn transmit(
        &self,
        now: Instant,
        id: Id,
        range: Range<u64>,
        in_hand: &InHand,
    ) -> Result<Range<u64>, Blocked> {
        let driver = &mut *self.driver.borrow_mut();
        let transmit = driver.permit(now, id, range)?;
        in_hand.with_slices(&transmit.payload, |slices| driver.send(&transmit, slices));
        in_hand.each_buffer(&transmit.payload, |bytes, buffer| driver.keep(bytes, buffer));
        Ok(transmit.payload)
    }

    /// Returns to TCP a range that it wanted and that is not sent.
    fn decline(&self, id: Id, range: Range<u64>) {
        if !range.is_empty() {
            self.driver.borrow_mut().endpoint.decline(Instant::now(), id, range);
        }
    }

    /// Reports to TCP that the stream is `bytes` longer.
    fn write(&self, connection: &OwnTcpConnection, bytes: u64) {
        self.driver.borrow_mut().endpoint.write(Instant::now(), connection.id, bytes);
        self.kick();
    }

    /// Takes bytes that have arrived.
    fn read(&self, connection: &OwnTcpConnection, into: &mut [u8]) -> usize {
        let room = into.len();
        let bytes = self.driver.borrow_mut().endpoint.read(Instant::now(), connection.id, into);
        if bytes < room {
            connection.has_arrived.set(false);
        }
        if bytes > 0 {
            // Announces the room in the receive window to the viewer.
            self.kick();
        }
        bytes
    }

    /// Ends the stream: nothing more will be written.
    fn finish(&self, connection: &OwnTcpConnection) {
        if !connection.finished.replace(true) {
            self.driver.borrow_mut().endpoint.finish(Instant::now(), connection.id);
            self.kick();
        }
    }

    /// Ends a connection at once.
    fn end(&self, connection: &OwnTcpConnection, end: End) {
        connection.end_with(end);
        self.driver.borrow_mut().endpoint.reset(Instant::now(), connection.id);
        self.kick();
    }

    /// Releases a connection whose session is gone; its viewer no longer counts. If everything was finished, TCP completes the connection alone, as
    /// long as no other connection needs its memory. Otherwise it is reset.
    fn let_go(&self, connection: &OwnTcpConnection) {
        if connection.end().is_none() && !connection.finished.get() {
            self.end(connection, End::PeerClosed);
        } else if connection.end().is_none() {
            self.driver.borrow_mut().endpoint.let_go(Instant::now(), connection.id);
            self.kick();
        }
        connection.is_let_go.set(true);
        self.forget_if_done(connection);
    }

    /// Forgets a connection that no session uses and that owes its viewer nothing.
    fn forget_if_done(&self, connection: &OwnTcpConnection) {
        let is_done = connection.end().is_some() || connection.is_acknowledged();
        if connection.is_let_go.get() && is_done {
            self.connections.borrow_mut()[connection.id.index()] = None;
        }
    }

    /// The device is gone: ends every connection.
    fn end_all(&self) {
        let all: Vec<_> = self.connections.borrow().iter().flatten().cloned().collect();
        all.iter().for_each(|connection| connection.end_with(End::PeerReset));
    }

    /// Publishes the counters.
    pub fn publish(&self, numbers: &Numbers) {
        let driver = self.driver.borrow();
        for (name, count) in driver.endpoint.statistics().iter() {
            // Bytes and events must not be added up, so they are two metrics.
            let payload = name.strip_prefix("payload_bytes_");
            match payload.or_else(|| name.strip_suffix("_bytes")) {
                Some(kind) => numbers.set(Family::TcpPayload, kind, count),
                None => numbers.set(Family::Tcp, name, count),
            }
        }
        let frames = driver.frames();
        let plain = [
            ("received", frames.frames_received),
            ("received_coalesced", frames.coalesced_received),
            ("sent", frames.frames_sent),
            ("sent_super_segments", frames.super_segments_sent),
            ("send_errors", frames.send_errors),
            ("pings_answered", frames.pings_answered),
            ("unrouted", driver.unrouted()),
        ];
        for (name, count) in plain.into_iter().chain(driver.kernel_counts()) {
            numbers.set(Family::Frames, name, count);
        }
        let copied = [("frame", frames.payload_bytes_copied), ("kept", self.kept_bytes.get())];
        for (to, bytes) in copied {
            numbers.set(Family::Copied, to, bytes);
        }
        for reason in DropReason::ALL {
            numbers.set(Family::FramesRefused, reason.name(), frames.refused(reason));
        }
        self.count_on(&driver, numbers);
    }

    /// Continues the walk over all connections, and publishes its sums when it is complete.
    fn count_on(&self, driver: &Driver, numbers: &Numbers) {
        let mut count = self.count.get();
        let connections = self.connections.borrow();
        let slots = driver.endpoint.slots().max(connections.len());
        let part = count.slot..(count.slot + COUNTED_AT_ONCE).min(slots);
        let of_tcp = driver.endpoint.held_in(part.clone());
        let ours = connections.iter().take(part.end).skip(part.start).flatten();
        let own_bytes: usize = ours.map(|connection| connection.memory_bytes()).sum();
        count.memory_bytes += of_tcp.0 + own_bytes as u64;
        count.in_flight_bytes += of_tcp.1;
        count.slot = part.end;
        if part.end >= slots {
            let waiting_bytes = driver.endpoint.waiting_memory_bytes() as u64;
            numbers.bypass_in_flight_bytes.set(count.in_flight_bytes);
            numbers.bypass_connection_bytes.set(count.memory_bytes + waiting_bytes);
            count = Count::default();
        }
        self.count.set(count);
    }
}

fn notice(connection: &OwnTcpConnection, event: Event) {
    match event {
        // Handled elsewhere, or unused here: nothing here opens connections or keeps what TCP has held back.
        Event::Accepted | Event::Connected | Event::Sendable => {}
        Event::Readable => {
            connection.has_arrived.set(true);
            connection.wake_session();
        }
        Event::Acknowledged { below } => connection.acknowledged_below(below),
        Event::Finished => {
            connection.peer_finished.set(true);
            connection.wake_session();
        }
        Event::Ended(reason) => connection.end_with(match reason {
            CloseReason::Closed
            | CloseReason::ResetByUs
            | CloseReason::NeverFinished
            | CloseReason::Evicted => End::PeerClosed,
            CloseReason::Stalled => End::SendTimeout,
            CloseReason::ResetByPeer
            | CloseReason::Silent
            | CloseReason::Unreachable
            | CloseReason::Refused => End::PeerReset,
        }),
    }
}
