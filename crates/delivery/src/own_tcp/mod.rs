//! TCP of our own under the sessions: the disk inside the control loop of TCP (as in Atlas: "Disk|Crypt|Net", SIGCOMM 2017).
//!
//! A worker on the bypass route has an [`OwnTcp`]: a TCP endpoint that holds no payload (the `tcp` crate) over one queue of a network
//! device (the `stack` crate), and a task that hands on what both have to say (`pump`). A session's connection is a
//! [`Socket`]: it receives requests from it and says what it wants to send, by appending to its [`stream::Stream`], which
//! is a list of places in files and not of bytes.
//!
//! When TCP may send, it asks for a range of the stream. Suppliers (`supply`) read the records that cover it, seal them while
//! they are in the cache, hand them to the device at once and give the buffers back, last in, first out. When a range was
//! lost, TCP asks again, and all that happens again, disk and all; a record that comes out different ends the connection.
//!
//! Invariants:
//! - Nothing of a film is kept: from the moment that a buffer was handed to the device, a byte in flight is an offset, and 16
//!   bytes of tag for the whole record.
//! - Reads in flight are bounded per worker, by its suppliers; what is asked for beyond them waits inside TCP.
//! - New bytes of a connection leave in order, whatever the order in which the disk brings them.

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

pub use socket::Socket;
pub use streamed::Streamed;
pub use supply::suppliers;

use crate::end::End;
use connection::Connection;
use disk::Budget;
use in_hand::InHand;
use reactor::{Woken, sleep};
use stack::{Blocked, Driver, DropReason, Interface, Sibling};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::task::Waker;
use std::time::{Duration, Instant};
use tcp::{Endpoint, Event, Id, Reason, Want};
use telemetry::{Family, Numbers};

/// Bytes that TCP has held back, for all connections together: half a record for each of 250 viewers, and little beside the
/// buffers.
const RESTS_BYTES_MAX: u64 = 2 << 20;

/// Ranges that wait for a supplier. What TCP wants beyond these waits inside TCP.
const JOBS_MAX: usize = 256;

/// How often a worker that has no viewers left looks whether others have.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// What it is made from: it crosses from the thread that has the privileges to the worker's own.
pub struct Parts {
    /// The device's queue.
    pub interface: Interface,
    /// Its place among the workers of that device.
    pub sibling: Sibling,
    /// Wakes it when another one has told it something.
    pub told: Woken,
    /// How TCP is to behave.
    pub tcp: tcp::Config,
    /// What its sequence numbers hang on.
    pub secret: tcp::Secret,
    /// Whether a read is processed to its end at once; else in stages.
    pub to_completion: bool,
    /// The most that each connection gets, in bytes per second.
    pub rate_bytes_per_second: Option<u64>,
}

/// One worker's own TCP.
pub struct OwnTcp {
    driver: RefCell<Driver>,
    /// By slot of their [`Id`].
    connections: RefCell<Vec<Option<Rc<Connection>>>>,
    jobs: RefCell<VecDeque<Job>>,
    idle_suppliers: RefCell<Vec<Waker>>,
    /// Something was written, read or sent since the pump looked.
    is_kicked: Cell<bool>,
    pump: Cell<Option<Waker>>,
    to_completion: bool,
    rate_bytes_per_second: Option<u64>,
    /// What may be kept of records that have left in part.
    rests: Budget,
    /// Taken when it runs.
    told: Cell<Option<Woken>>,
}

/// A range that TCP wants.
struct Job {
    connection: Rc<Connection>,
    want: Want,
    /// Its place among the new bytes of its connection; none for lost ones.
    number: Option<u64>,
}

impl OwnTcp {
    /// Without connections yet.
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
            told: Cell::new(Some(told)),
        })
    }

    /// As [`Driver::descriptors`].
    fn descriptors(&self) -> io::Result<(reactor::Fd, Option<reactor::Fd>)> {
        self.driver.borrow().descriptors()
    }

    /// Has the pump look at what there is to send.
    fn kick(&self) {
        self.is_kicked.set(true);
        if let Some(waker) = self.pump.take() {
            waker.wake();
        }
    }

    /// Takes in what has arrived; says whether there may be more.
    fn receive(&self, now: Instant) -> io::Result<bool> {
        self.driver.borrow_mut().receive(now)
    }

    /// Takes in what other workers of the device were told, for as long as it runs.
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

    /// Answers nobody any more who is not connected yet.
    pub fn refuse_new(&self) {
        self.driver.borrow_mut().endpoint.stop_listening();
    }

    /// Waits until no worker of the device has viewers; this one has none.
    pub async fn all_have_ended(&self) {
        self.driver.borrow_mut().sibling().leave();
        while self.driver.borrow_mut().sibling().anybody_stays() {
            sleep(LOOK_AGAIN).await;
        }
    }

    /// Takes in news of ways to peers.
    fn learn_ways(&self) -> io::Result<()> {
        self.driver.borrow_mut().learn_ways()
    }

    /// Does what is due, and tells when more will be.
    fn handle_timeout(&self, now: Instant) {
        self.driver.borrow_mut().endpoint.handle_timeout(now);
    }

    /// When something is due.
    fn next_timeout(&self) -> Option<Instant> {
        self.driver.borrow_mut().endpoint.next_timeout()
    }

    /// Hands on what TCP has to say: to sessions, to suppliers, to the device. Returns the connections that are new.
    fn hand_on(self: &Rc<Self>, now: Instant) -> Vec<Socket> {
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

    fn accept(self: &Rc<Self>, id: Id) -> Option<Socket> {
        let endpoint = &mut self.driver.borrow_mut().endpoint;
        let (peer, _) = endpoint.addresses(id)?;
        endpoint.limit_rate(id, self.rate_bytes_per_second);
        let connection = Rc::new(Connection::new(id, peer));
        let mut connections = self.connections.borrow_mut();
        if connections.len() <= id.index() {
            connections.resize(id.index() + 1, None);
        }
        connections[id.index()] = Some(Rc::clone(&connection));
        Some(Socket::new(Rc::clone(self), connection))
    }

    fn connection(&self, id: Id) -> Option<Rc<Connection>> {
        let connections = self.connections.borrow();
        let found = connections.get(id.index())?.as_ref().filter(|found| found.id == id)?;
        Some(Rc::clone(found))
    }

    fn hand_out_wants(&self, now: Instant) {
        while self.jobs.borrow().len() < JOBS_MAX {
            let wanted = self.driver.borrow_mut().endpoint.poll_want(now);
            let Some((id, want)) = wanted else { return };
            let Some(connection) = self.connection(id) else { continue };
            let number = (!want.retransmission).then(|| connection.take_number());
            // Never before other bytes of its own connection: a supplier would wait for those in vain.
            let is_next = number.is_none_or(|number| connection.is_next(number));
            let is_small = is_next && connection.stream.borrow().is_kept(want.range.start);
            let job = Job { connection, want, number };
            let mut jobs = self.jobs.borrow_mut();
            if is_small {
                // A handshake does not wait for films.
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

    /// Sees that what was sent leaves.
    fn flush(&self) -> io::Result<()> {
        self.driver.borrow_mut().flush()
    }

    /// For a supplier: the range that has waited longest, or a place in the queue of those who have nothing to do.
    fn next_job(&self, waker: &Waker) -> Option<Job> {
        let job = self.jobs.borrow_mut().pop_front();
        if job.is_none() {
            self.idle_suppliers.borrow_mut().push(waker.clone());
        }
        job
    }

    /// Sends what TCP lets go of `range`, which is `in_hand`. Returns what of it has left, or why nothing may.
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
        Ok(transmit.payload)
    }

    /// Gives a range back that was wanted and is not sent.
    fn decline(&self, id: Id, range: Range<u64>) {
        if !range.is_empty() {
            self.driver.borrow_mut().endpoint.decline(Instant::now(), id, range);
        }
    }

    /// The stream is so much longer.
    fn write(&self, connection: &Connection, bytes: u64) {
        self.driver.borrow_mut().endpoint.write(Instant::now(), connection.id, bytes);
        self.kick();
    }

    /// Takes bytes that have arrived.
    fn read(&self, connection: &Connection, into: &mut [u8]) -> usize {
        let room = into.len();
        let bytes = self.driver.borrow_mut().endpoint.read(Instant::now(), connection.id, into);
        if bytes < room {
            connection.has_arrived.set(false);
        }
        if bytes > 0 {
            // The viewer is to be told of the room.
            self.kick();
        }
        bytes
    }

    /// Nothing more will be written.
    fn finish(&self, connection: &Connection) {
        if !connection.finished.replace(true) {
            self.driver.borrow_mut().endpoint.finish(Instant::now(), connection.id);
            self.kick();
        }
    }

    /// Ends a connection at once.
    fn end(&self, connection: &Connection, end: End) {
        connection.end_with(end);
        self.driver.borrow_mut().endpoint.reset(Instant::now(), connection.id);
        self.kick();
    }

    /// The session is gone, and with it its viewer's place among those that are counted. What it has finished, TCP brings to its end alone,
    /// for as long as nobody else needs the room; anything else is reset.
    fn let_go(&self, connection: &Connection) {
        if connection.end().is_none() && !connection.finished.get() {
            self.end(connection, End::PeerClosed);
        } else if connection.end().is_none() {
            self.driver.borrow_mut().endpoint.let_go(Instant::now(), connection.id);
            self.kick();
        }
        connection.is_let_go.set(true);
        self.forget_if_done(connection);
    }

    /// Forgets a connection that no session has and that owes its viewer nothing.
    fn forget_if_done(&self, connection: &Connection) {
        let is_done = connection.end().is_some() || connection.is_acknowledged();
        if connection.is_let_go.get() && is_done {
            self.connections.borrow_mut()[connection.id.index()] = None;
        }
    }

    /// The device is gone, and every connection with it.
    fn end_all(&self) {
        let all: Vec<_> = self.connections.borrow().iter().flatten().cloned().collect();
        all.iter().for_each(|connection| connection.end_with(End::PeerReset));
    }

    /// Hands counters over.
    pub fn publish(&self, numbers: &Numbers) {
        let driver = self.driver.borrow();
        for (name, count) in driver.endpoint.statistics().iter() {
            // Bytes and events are no sum of anything: two metrics.
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
        for (name, count) in plain {
            numbers.set(Family::Frames, name, count);
        }
        for reason in DropReason::ALL {
            numbers.set(Family::FramesRefused, reason.name(), frames.refused(reason));
        }
        let connections = self.connections.borrow();
        let live = || connections.iter().flatten();
        let infos = live().filter_map(|connection| driver.endpoint.info(connection.id));
        numbers.bypass_in_flight_bytes.set(infos.map(|info| info.in_flight_bytes).sum());
        let own_bytes = live().map(|connection| connection.memory_bytes()).sum::<usize>();
        numbers.bypass_connection_bytes.set((driver.endpoint.memory_bytes() + own_bytes) as u64);
    }
}

fn notice(connection: &Connection, event: Event) {
    match event {
        // Handled by who knows more; nobody here opens connections, or holds what TCP has held back.
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
            Reason::Closed | Reason::ResetByUs | Reason::NeverFinished | Reason::Evicted => {
                End::PeerClosed
            }
            Reason::Stalled => End::SendTimeout,
            Reason::ResetByPeer | Reason::Silent | Reason::Unreachable | Reason::Refused => {
                End::PeerReset
            }
        }),
    }
}
