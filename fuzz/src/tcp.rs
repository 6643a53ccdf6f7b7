//! A TCP endpoint with an application that the fuzzer steers, and segments of a peer that may send anything.
//!
//! After every step, [`Host::settle`] checks everything that must hold for any behaviour of the peer.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::time::{Duration, Instant};

use tcp::{Arrived, Config, Ecn, Endpoint, Event, Id, Secret, Statistics, Transmit, Withheld};

/// Where the endpoint listens.
pub const PORT: u16 = 443;
/// The endpoint's limits. They are small, so that the fuzzer can reach them.
pub const CONNECTIONS_MAX: usize = 6;
const RECEIVE_BYTES_MAX: usize = 4096;
/// Memory that a connection may use in addition to its receive buffer.
const MEMORY_BYTES_MAX: usize = 8 << 10;
/// The application writes at most this many bytes on a connection.
pub const WRITTEN_BYTES_MAX: u32 = 200_000;
/// Segments that may leave in one step: everything that can be written, in the smallest segments, on every connection.
const SEGMENTS_MAX: usize = 20_000;
/// Time-outs that may be due one after another at the same instant.
const TIMEOUTS_AT_ONCE_MAX: usize = 100;

pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const ACK: u8 = 0x10;

/// A segment from the peer.
#[derive(Clone, Debug, Default)]
pub struct Segment {
    pub from_port: u16,
    pub to_port: u16,
    pub sequence: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    /// Padded to whole words. Only the first 40 bytes are used.
    pub options: Vec<u8>,
    pub payload_bytes: usize,
}

impl Segment {
    /// The segment as bytes on the wire (RFC 9293 section 3.1).
    pub fn bytes(&self) -> Vec<u8> {
        let options = &self.options[..self.options.len().min(40)];
        let words = 5 + options.len().div_ceil(4);
        let mut bytes = Vec::with_capacity(words * 4 + self.payload_bytes);
        bytes.extend(self.from_port.to_be_bytes());
        bytes.extend(self.to_port.to_be_bytes());
        bytes.extend(self.sequence.to_be_bytes());
        bytes.extend(self.ack.to_be_bytes());
        bytes.extend([(words as u8) << 4, self.flags]);
        bytes.extend(self.window.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(options);
        bytes.resize(words * 4, 0);
        bytes.resize(words * 4 + self.payload_bytes, b'x');
        bytes
    }
}

/// The parts that a peer needs of a segment that the endpoint sent.
#[derive(Clone, Copy, Debug)]
pub struct Heard {
    pub to_port: u16,
    pub sequence: u32,
    pub ack: u32,
    pub flags: u8,
}

/// A connection as the application sees it.
#[derive(Debug)]
struct Session {
    id: Id,
    written: u64,
    finished: bool,
    acknowledged: u64,
    in_hand: Vec<Range<u64>>,
}

/// The endpoint and its application.
pub struct Host {
    endpoint: Endpoint,
    start: Instant,
    pub now: Instant,
    sessions: BTreeMap<usize, Session>,
    /// The last segment that the endpoint sent.
    pub heard: Option<Heard>,
    /// Where the payload of each segment that left in the last step ends.
    pub payload_ends: Vec<u64>,
}

impl Host {
    /// Creates an endpoint that listens on [`PORT`].
    pub fn new() -> Self {
        let start = Instant::now();
        let config = Config {
            listen: vec![PORT],
            connections_max: CONNECTIONS_MAX,
            half_open_max: 3,
            time_wait_max: 3,
            receive_bytes_max: RECEIVE_BYTES_MAX as u32,
            window_bytes_max: 100_000,
            ..Config::default()
        };
        Self {
            endpoint: Endpoint::new(config, Secret([7; 16]), start),
            start,
            now: start,
            sessions: BTreeMap::new(),
            heard: None,
            payload_ends: Vec::new(),
        }
    }

    /// One of the four addresses that peers have.
    pub fn remote(number: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(192, 0, 2, number % 4))
    }

    /// The endpoint's own address.
    pub fn local() -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1))
    }

    /// Lets `time` pass, at most a day in all. Time-outs happen when they are due.
    pub fn pass(&mut self, time: Duration) {
        let until = (self.now + time).min(self.start + Duration::from_secs(86_400));
        let mut at_once = 0;
        while let Some(due) = self.endpoint.next_timeout().filter(|due| *due <= until) {
            at_once = if due <= self.now { at_once + 1 } else { 0 };
            assert!(at_once < TIMEOUTS_AT_ONCE_MAX, "time-outs without end");
            self.now = self.now.max(due);
            self.endpoint.handle_timeout(self.now);
            self.settle();
        }
        self.now = self.now.max(until);
    }

    /// Gives `segment` to the endpoint.
    pub fn take(&mut self, remote: IpAddr, ecn: u8, segment: &[u8]) {
        let ecn = Ecn::from_bits(ecn);
        let arrived = Arrived { remote, local: Self::local(), ecn, segment };
        self.endpoint.handle_segment(self.now, arrived);
        self.settle();
    }

    /// Reports to the endpoint, as a router does, that a packet to `remote` was too big.
    pub fn packet_too_big(&mut self, remote: SocketAddr, sequence: u32, mtu_bytes: u16) {
        let local = SocketAddr::new(Self::local(), PORT);
        self.endpoint.handle_packet_too_big(self.now, local, remote, sequence, mtu_bytes);
        self.settle();
    }

    /// Makes the application act on each connection.
    pub fn act(&mut self, what: u8, count: usize) {
        for session in self.sessions.values_mut() {
            let (id, now) = (session.id, self.now);
            match what % 6 {
                0 if !session.finished => {
                    let bytes = (count as u64).min(u64::from(WRITTEN_BYTES_MAX) - session.written);
                    session.written += bytes;
                    self.endpoint.write(now, id, bytes);
                }
                1 => {
                    session.finished = true;
                    self.endpoint.finish(now, id);
                }
                2 => self.endpoint.reset(now, id),
                3 => {
                    let mut buffer = vec![0; count % 5000];
                    let bytes = self.endpoint.read(now, id, &mut buffer);
                    assert!(
                        buffer[..bytes].iter().all(|byte| *byte == b'x'),
                        "this was never sent"
                    );
                }
                4 => {
                    for range in session.in_hand.drain(..) {
                        self.endpoint.decline(now, id, range);
                    }
                }
                _ => {}
            }
        }
        self.settle();
    }

    /// All counters.
    pub fn statistics(&self) -> &Statistics {
        self.endpoint.statistics()
    }

    /// How many connections the application has.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Lets the endpoint send everything that it may send, and checks every limit.
    fn settle(&mut self) {
        let mut budget = SEGMENTS_MAX;
        self.payload_ends.clear();
        while let Some((id, event)) = self.endpoint.poll_event() {
            spend(&mut budget);
            self.handle_event(id, event);
        }
        while let Some((id, want)) = self.endpoint.poll_byte_request(self.now) {
            spend(&mut budget);
            let session = self.session(id);
            let range = want.range;
            assert!(!range.is_empty() && range.end <= session.written, "{range:?} wanted");
            session.in_hand.push(range);
        }
        let indexes: Vec<_> = self.sessions.keys().copied().collect();
        for index in indexes {
            self.offer(index, &mut budget);
        }
        while let Some(transmit) = self.endpoint.poll_transmit(self.now) {
            spend(&mut budget);
            assert!(transmit.payload.is_empty());
            self.hear(&transmit);
        }
        self.check_bounds();
    }

    fn session(&mut self, id: Id) -> &mut Session {
        let session = self.sessions.get_mut(&id.index()).expect("it was announced");
        assert_eq!(session.id, id, "of another life");
        session
    }

    fn handle_event(&mut self, id: Id, event: Event) {
        match event {
            Event::Accepted => {
                let in_hand = Vec::new();
                let session = Session { id, written: 0, finished: false, acknowledged: 0, in_hand };
                let before = self.sessions.insert(id.index(), session);
                assert!(before.is_none(), "two connections in one place");
            }
            Event::Acknowledged { below } => {
                let session = self.session(id);
                assert!(session.acknowledged < below && below <= session.written, "{below}");
                session.acknowledged = below;
            }
            Event::Ended(_) => {
                self.session(id);
                self.sessions.remove(&id.index());
            }
            _ => _ = self.session(id),
        }
    }

    fn offer(&mut self, index: usize, budget: &mut usize) {
        let Some(session) = self.sessions.get_mut(&index) else { return };
        let (id, written) = (session.id, session.written);
        session.in_hand.sort_by_key(|range| range.start);
        let mut kept = Vec::new();
        for mut range in std::mem::take(&mut session.in_hand) {
            while !range.is_empty() {
                spend(budget);
                let bytes = (range.end - range.start) as usize;
                match self.endpoint.transmit(self.now, id, range.start, bytes) {
                    Ok(transmit) => {
                        assert!(!transmit.payload.is_empty() && transmit.payload.end <= written);
                        assert!(transmit.payload.end <= range.end);
                        range.start = transmit.payload.end;
                        self.hear(&transmit);
                    }
                    Err(Withheld::NotNeeded | Withheld::Gone) => break,
                    Err(_) => {
                        kept.push(range);
                        break;
                    }
                }
            }
        }
        if let Some(session) = self.sessions.get_mut(&index) {
            session.in_hand = kept;
        }
    }

    fn hear(&mut self, transmit: &Transmit) {
        let header = transmit.header.as_bytes();
        assert!(header.len() >= 20 && usize::from(header[12] >> 4) * 4 == header.len());
        let word = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().expect("four"));
        let to_port = u16::from_be_bytes([header[2], header[3]]);
        assert_eq!(to_port, transmit.remote.port());
        let (sequence, ack, flags) = (word(4), word(8), header[13]);
        self.heard = Some(Heard { to_port, sequence, ack, flags });
        if !transmit.payload.is_empty() {
            self.payload_ends.push(transmit.payload.end);
        }
    }

    fn check_bounds(&mut self) {
        assert!(self.endpoint.connections() <= CONNECTIONS_MAX, "too many connections");
        assert!(self.sessions.len() <= CONNECTIONS_MAX, "too many sessions");
        for session in self.sessions.values() {
            let Some(info) = self.endpoint.info(session.id) else { continue };
            let most = MEMORY_BYTES_MAX + RECEIVE_BYTES_MAX;
            assert!(info.memory_bytes <= most, "{} bytes held", info.memory_bytes);
            assert!(info.acknowledged_below <= info.sent_below);
            assert!(info.sent_below <= session.written, "sent what was not written");
        }
    }
}

impl Default for Host {
    fn default() -> Self {
        Self::new()
    }
}

fn spend(budget: &mut usize) {
    assert!(*budget > 0, "it goes on without end");
    *budget -= 1;
}
