//! A host: an endpoint, its applications, and the disk that payload comes from.

mod supply;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Instant;

use fullbore_tcp::{Arrived, CloseReason, Endpoint, Event, Id, Secret, Transmit};
use middlebox::Random;

use crate::application::{Action, Application};
use crate::referee::{Referee, Side};
use crate::scenario::{Plan, Scenario, Supply};
use crate::stream::Stream;
use crate::wire::{self, Packet};

/// How much a connection may hold in addition to its receive buffer, in bytes: the crate's promise.
const MEMORY_BYTES_MAX: usize = 8 << 10;

/// Client ports count up from here, so that a port identifies its connection.
pub(crate) const CLIENT_PORT: u16 = 10_000;
pub(crate) const SERVER_PORT: u16 = 443;

/// One connection under test: what both ends write and read.
pub(crate) struct Contest {
    pub(crate) plan: Plan,
    pub(crate) streams: [Stream; 2],
    pub(crate) referee: Referee,
    /// A late duplicate of a cookie has revived the connection at the server after its end. That life ends unobserved.
    pub(crate) is_haunted: bool,
}

/// A task that is due at some time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    /// The client opens the connection with this number.
    Open(usize),
    /// The disk has delivered a range, or could not.
    Supply {
        number: usize,
        range: (u64, u64),
        declined: bool,
    },
    Write {
        number: usize,
        bytes: u64,
    },
    Finish {
        number: usize,
    },
    Read {
        number: usize,
    },
    Reset {
        number: usize,
    },
}

/// One end of a connection.
pub(crate) struct Session {
    id: Id,
    application: Application,
    in_hand: Vec<Range<u64>>,
    /// Something has changed, so the bytes in hand are worth offering.
    is_worth_trying: bool,
    acknowledged: u64,
    last_write: Option<Instant>,
    is_ready: bool,
    finished_at: Option<u64>,
    pub(crate) ended: Option<CloseReason>,
}

/// One host.
pub(crate) struct Host {
    side: Side,
    pub(crate) endpoint: Endpoint,
    supply: Supply,
    random: Random,
    tasks: BinaryHeap<Reverse<(Instant, u64, Task)>>,
    task_count: u64,
    pub(crate) sessions: BTreeMap<usize, Session>,
    outgoing: Vec<Packet>,
    addresses: [SocketAddr; 2],
    buffer: Vec<u8>,
    memory_bytes_most: usize,
    start: Instant,
    trace: bool,
    takes_cookies: bool,
    /// Bytes that were requested.
    wanted_bytes: u64,
    /// Bytes that were requested although they were in hand or being read.
    wanted_twice_bytes: u64,
    /// Connections that were revived.
    ghosts: BTreeSet<Id>,
}

impl Host {
    pub(crate) fn new(side: Side, scenario: &Scenario, start: Instant, trace: bool) -> Self {
        let config = scenario.configs[side as usize].clone();
        let secret = Secret((scenario.seed as u128 + side as u128).to_le_bytes());
        let mut host = Self {
            side,
            endpoint: Endpoint::new(config, secret, start),
            supply: scenario.supplies[side as usize],
            random: Random::new(scenario.seed ^ (side as u64 + 77)),
            tasks: BinaryHeap::new(),
            task_count: 0,
            sessions: BTreeMap::new(),
            outgoing: Vec::new(),
            addresses: addresses(scenario.is_ipv6),
            buffer: vec![0; 64 << 10],
            memory_bytes_most: 0,
            start,
            trace,
            takes_cookies: scenario.configs[side as usize].half_open_max == 0,
            wanted_bytes: 0,
            wanted_twice_bytes: 0,
            ghosts: BTreeSet::new(),
        };
        for (number, plan) in scenario.plans.iter().enumerate() {
            if side == Side::Client {
                host.at(start + plan.start, Task::Open(number));
            }
            if let Some((_, after)) = plan.reset.filter(|(who, _)| *who == side) {
                host.at(start + plan.start + after, Task::Reset { number });
            }
        }
        host
    }

    /// The time of the next work here, if nothing arrives.
    pub(crate) fn next_due(&mut self) -> Option<Instant> {
        let task = self.tasks.peek().map(|Reverse((due, ..))| *due);
        [task, self.endpoint.next_timeout()].into_iter().flatten().min()
    }

    pub(crate) fn handle(&mut self, now: Instant, packet: &Packet) {
        let [client, server] = self.addresses.map(|address| address.ip());
        let (remote, local) =
            if self.side == Side::Client { (server, client) } else { (client, server) };
        let segment = &packet.segment[..];
        self.endpoint.handle_batched(now, Arrived { remote, local, ecn: packet.ecn, segment });
    }

    /// Ends a batch: no more arrives at this time.
    pub(crate) fn end_batch(&mut self, now: Instant) {
        self.endpoint.end_batch(now);
    }

    pub(crate) fn packet_too_big(&mut self, now: Instant, segment: &[u8], mtu_bytes: u16) {
        let parsed = wire::Parsed::new(segment);
        let [client, server] = self.addresses;
        let (mut local, mut remote) =
            if self.side == Side::Client { (client, server) } else { (server, client) };
        local.set_port(parsed.from_port);
        remote.set_port(parsed.to_port);
        self.endpoint.handle_packet_too_big(now, local, remote, parsed.sequence, mtu_bytes);
    }

    /// Does everything that is due at `now`. Returns the segments sent.
    pub(crate) fn turn(&mut self, now: Instant, contests: &mut [Contest]) -> Vec<Packet> {
        if self.endpoint.next_timeout().is_some_and(|due| due <= now) {
            self.endpoint.handle_timeout(now);
        }
        while let Some(Reverse((due, ..))) = self.tasks.peek() {
            if *due > now {
                break;
            }
            let Some(Reverse((_, _, task))) = self.tasks.pop() else { break };
            self.do_task(now, task, contests);
        }
        while let Some((id, event)) = self.endpoint.poll_event() {
            self.handle_event(now, id, event, contests);
        }
        while let Some((id, want)) = self.endpoint.poll_byte_request(now) {
            self.say(now, id, || format!("{want:?}"));
            self.ask_disk(now, id, want.range, contests);
        }
        let numbers: Vec<_> = self.sessions.keys().copied().collect();
        for number in numbers {
            self.offer_in_hand(now, number, contests);
            self.check_memory(number);
        }
        while let Some(transmit) = self.endpoint.poll_transmit(now) {
            assert!(transmit.payload.is_empty(), "payload that was never supplied");
            self.emit(&transmit, contests);
        }
        std::mem::take(&mut self.outgoing)
    }

    fn at(&mut self, due: Instant, task: Task) {
        self.task_count += 1;
        self.tasks.push(Reverse((due, self.task_count, task)));
    }

    fn do_task(&mut self, now: Instant, task: Task, contests: &mut [Contest]) {
        match task {
            Task::Open(number) => {
                let [mut local, remote] = self.addresses;
                local.set_port(CLIENT_PORT + number as u16);
                let id = self.endpoint.connect(now, local, remote).expect("few connections");
                self.add_session(number, id, contests);
            }
            Task::Supply { number, range, declined } => {
                let Some(session) = self.live(number) else { return };
                let (id, range) = (session.id, range.0..range.1);
                if declined {
                    self.say(now, id, || format!("declined, since it did not come: {range:?}"));
                    self.endpoint.decline(now, id, range);
                } else {
                    session.in_hand.push(range);
                    session.is_worth_trying = true;
                }
            }
            Task::Write { number, bytes } => {
                let side = self.side;
                let Some(session) = self.live(number) else { return };
                let id = session.id;
                contests[number].referee.write(side, bytes);
                self.endpoint.write(now, id, bytes);
            }
            Task::Finish { number } => {
                let side = self.side;
                let Some(session) = self.live(number) else { return };
                let id = session.id;
                contests[number].referee.finish(side);
                self.endpoint.finish(now, id);
            }
            Task::Read { number } => self.read(now, number, contests),
            Task::Reset { number } => {
                if let Some(session) = self.live(number) {
                    let id = session.id;
                    self.endpoint.reset(now, id);
                }
            }
        }
    }

    fn add_session(&mut self, number: usize, id: Id, contests: &[Contest]) {
        let application = Application::new(self.side, contests[number].plan.clone());
        let session = Session {
            id,
            application,
            in_hand: Vec::new(),
            is_worth_trying: false,
            acknowledged: 0,
            last_write: None,
            is_ready: false,
            finished_at: None,
            ended: None,
        };
        let before = self.sessions.insert(number, session);
        assert!(before.is_none(), "connection {number} is made twice");
    }

    /// The session, unless it has ended.
    fn live(&mut self, number: usize) -> Option<&mut Session> {
        self.sessions.get_mut(&number).filter(|session| session.ended.is_none())
    }

    fn number(&self, id: Id) -> usize {
        let mut sessions = self.sessions.iter();
        let found = sessions.find(|(_, session)| session.id == id).map(|(number, _)| *number);
        found.expect("an event of a connection that was never announced")
    }

    fn handle_event(&mut self, now: Instant, id: Id, event: Event, contests: &mut [Contest]) {
        self.say(now, id, || format!("{event:?}"));
        if event == Event::Accepted {
            let (remote, _) = self.endpoint.addresses(id).expect("it is just accepted");
            let number = usize::from(remote.port() - CLIENT_PORT);
            if self.sessions.get(&number).is_some_and(|session| session.ended.is_some()) {
                assert!(self.takes_cookies, "only cookies can be answered twice");
                contests[number].is_haunted = true;
                self.ghosts.insert(id);
                self.endpoint.reset(now, id);
            } else {
                self.add_session(number, id, contests);
            }
        }
        if self.ghosts.contains(&id) {
            return;
        }
        let number = self.number(id);
        let side = self.side;
        let session = self.sessions.get_mut(&number).expect("found there");
        assert!(session.ended.is_none(), "{event:?} after the end");
        match event {
            Event::Accepted | Event::Connected => {
                session.is_ready = true;
                self.act(now, number);
            }
            Event::Readable => self.read_when_told(now, number, contests),
            Event::Acknowledged { below } => {
                assert!(below >= session.acknowledged, "{below} after {}", session.acknowledged);
                session.acknowledged = below;
                let arrived = contests[number].referee.arrived(side);
                assert!(below <= arrived, "{below} acknowledged, {arrived} came");
            }
            Event::Sendable => session.is_worth_trying = true,
            Event::Finished => {
                let (length, is_finished) = contests[number].referee.length(side.other());
                assert!(is_finished, "the peer has not finished");
                session.finished_at = Some(length);
                session.application.peer_has_finished();
                self.read_when_told(now, number, contests);
                self.act(now, number);
            }
            Event::Ended(reason) => {
                session.ended = Some(reason);
                session.in_hand.clear();
                check_end(session, reason, &mut contests[number], side);
            }
        }
    }

    fn read_when_told(&mut self, now: Instant, number: usize, contests: &mut [Contest]) {
        // Otherwise it gets there by itself.
        let next_read = self.sessions[&number].application.next_read;
        if next_read.is_none_or(|next| next <= now) {
            self.read(now, number, contests);
        }
    }

    fn read(&mut self, now: Instant, number: usize, contests: &mut [Contest]) {
        let (endpoint, buffer) = (&mut self.endpoint, &mut self.buffer);
        let Some(session) =
            self.sessions.get_mut(&number).filter(|session| session.ended.is_none())
        else {
            return;
        };
        let stream = contests[number].streams[self.side.other() as usize];
        let application = &mut session.application;
        while let Some(most) = application.may_read(now) {
            let room = buffer.len().min(most);
            let bytes = endpoint.read(now, session.id, &mut buffer[..room]);
            let at = application.received;
            assert_eq!(stream.difference(at, &buffer[..bytes]), None, "read at {at}");
            application.received += bytes as u64;
            if bytes == 0 {
                application.is_waiting();
            }
            if bytes < room || application.next_read.is_some_and(|next| next > now) {
                break;
            }
        }
        let received = application.received;
        assert!(received <= application.receives(), "{received} read: more than was written");
        let again = application.next_read.filter(|next| *next > now);
        let has_all = session.finished_at == Some(received);
        if let (Some(again), false) = (again, has_all) {
            self.at(again, Task::Read { number });
        }
        self.act(now, number);
    }

    /// Makes the application do its next actions. Writes keep their order, even with pauses.
    fn act(&mut self, now: Instant, number: usize) {
        let Some(session) = self.live(number).filter(|session| session.is_ready) else { return };
        let mut last = session.last_write.unwrap_or(now).max(now);
        let mut tasks = Vec::new();
        for action in session.application.actions() {
            match action {
                Action::Write { bytes, after } => {
                    last = last.max(now + after);
                    tasks.push((last, Task::Write { number, bytes }));
                }
                Action::Finish => tasks.push((last, Task::Finish { number })),
            }
        }
        session.last_write = Some(last);
        for (due, task) in tasks {
            self.at(due, task);
        }
    }

    fn emit(&mut self, transmit: &Transmit, contests: &[Contest]) {
        let [client, server] = self.addresses;
        let (local, remote) =
            if self.side == Side::Client { (client, server) } else { (server, client) };
        assert_eq!((transmit.local.ip(), transmit.remote.ip()), (local.ip(), remote.ip()));
        let port = if self.side == Side::Client { transmit.local } else { transmit.remote }.port();
        let stream = contests[usize::from(port - CLIENT_PORT)].streams[self.side as usize];
        self.outgoing.extend(wire::cut(transmit, stream));
    }

    /// How much of connection `number` has been read here.
    pub(crate) fn received(&self, number: usize) -> u64 {
        self.sessions.get(&number).map_or(0, |session| session.application.received)
    }

    fn say(&self, now: Instant, id: Id, what: impl FnOnce() -> String) {
        if self.trace {
            let seconds = (now - self.start).as_secs_f64();
            eprintln!("{seconds:>14.6} {:?} .. {} {}", self.side, id.index(), what());
        }
    }

    /// Everything that may explain why the simulation has stopped.
    pub(crate) fn state(&self) -> String {
        let mut text = String::new();
        for (number, session) in &self.sessions {
            text += &format!(
                "connection {number}: read {} of {}, acknowledged {} of {}, in hand {:?}, ended {:?}, {:?}\n",
                session.application.received,
                session.application.receives(),
                session.acknowledged,
                session.application.sends(),
                session.in_hand,
                session.ended,
                self.endpoint.info(session.id)
            );
        }
        let counted = self.endpoint.statistics().iter().filter(|(_, count)| *count > 0);
        text + &format!("{:?}\n", counted.collect::<Vec<_>>())
    }

    fn check_memory(&mut self, number: usize) {
        let Some(session) = self.live(number) else { return };
        let id = session.id;
        let Some(info) = self.endpoint.info(id) else { return };
        self.memory_bytes_most = self.memory_bytes_most.max(info.memory_bytes);
    }

    /// Checks that a connection's memory stays within its limit, and that its disk is not asked for the same bytes again and again: that happens only
    /// if more reads fail at once than can be kept apart.
    pub(crate) fn check_bounds(&self, receive_bytes_max: u32) {
        let (wanted, twice) = (self.wanted_bytes, self.wanted_twice_bytes);
        assert!(2 * twice <= wanted + 100_000, "of {wanted} bytes {twice} were wanted twice");
        let most = MEMORY_BYTES_MAX + receive_bytes_max as usize;
        let held = self.memory_bytes_most;
        assert!(held <= most, "{held} bytes held by a connection, {most} allowed");
    }
}

/// Client's and server's address.
pub(crate) fn addresses(is_ipv6: bool) -> [SocketAddr; 2] {
    let hosts = if is_ipv6 { ["[fd77::1]", "[fd77::2]"] } else { ["10.77.0.1", "10.77.0.2"] };
    let ports = [CLIENT_PORT, SERVER_PORT];
    [0, 1].map(|at| format!("{}:{}", hosts[at], ports[at]).parse().expect("an address"))
}

/// An orderly end is allowed only if everything has arrived and is acknowledged.
fn check_end(session: &Session, reason: CloseReason, contest: &mut Contest, side: Side) {
    if reason != CloseReason::Closed {
        return;
    }
    let (sends, receives) = (session.application.sends(), session.application.receives());
    assert_eq!(contest.referee.length(side), (sends, true), "closed before all was written");
    assert_eq!(session.acknowledged, sends, "closed before all was acknowledged");
    assert_eq!(session.finished_at, Some(receives), "closed before the peer finished");
    assert_eq!(session.application.received, receives, "closed before all was read");
}
