//! An endpoint that serves, and hand-made peers: honest or hostile as a test requires.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::time::{Duration, Instant};

use fullbore_tcp::{Arrived, Config, Ecn, Endpoint, Event, Id, Info, Secret, Transmit, Withheld};

pub(crate) const SYN: u8 = 0x02;
pub(crate) const RST: u8 = 0x04;
pub(crate) const ACK: u8 = 0x10;

/// Peers announce windows in units of 2^SCALE.
const SCALE: u8 = 4;
const PORT: u16 = 443;
/// The address of connected peers; strangers have others.
const PEERS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// A segment that a peer sent, and from where.
pub(crate) struct Packet {
    from: IpAddr,
    pub(crate) segment: Vec<u8>,
}

/// The segments that the endpoint sent, by the port that they are for.
#[derive(Clone, Copy, Debug)]
struct Said {
    sequence: u32,
    flags: u8,
    payload_end: u64,
}

/// The endpoint, an application that writes on request, a disk that has everything, and a clock.
pub(crate) struct World {
    pub(crate) endpoint: Endpoint,
    now: Instant,
    ids: BTreeMap<u16, Id>,
    in_hand: BTreeMap<u16, Vec<Range<u64>>>,
    said: BTreeMap<u16, Said>,
    pub(crate) events: Vec<(Id, Event)>,
}

impl World {
    pub(crate) fn new(config: Config) -> Self {
        let now = Instant::now();
        Self {
            endpoint: Endpoint::new(config, Secret([3; 16]), now),
            now,
            ids: BTreeMap::new(),
            in_hand: BTreeMap::new(),
            said: BTreeMap::new(),
            events: Vec::new(),
        }
    }

    /// Passes a segment to the endpoint, and does nothing else.
    pub(crate) fn take(&mut self, packet: &Packet) {
        let arrived = Arrived {
            remote: packet.from,
            local: IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)),
            ecn: Ecn::NotCapable,
            segment: &packet.segment,
        };
        self.endpoint.handle_segment(self.now, arrived);
    }

    /// Sends everything that may be sent.
    pub(crate) fn poll_segments(&mut self) {
        while let Some((id, event)) = self.endpoint.poll_event() {
            self.events.push((id, event));
            if event == Event::Accepted {
                let (remote, _) = self.endpoint.addresses(id).expect("just accepted");
                self.ids.insert(remote.port(), id);
            }
        }
        while let Some((id, want)) = self.endpoint.poll_byte_request(self.now) {
            let (remote, _) = self.endpoint.addresses(id).expect("it wants something");
            self.in_hand.entry(remote.port()).or_default().push(want.range);
        }
        for (port, ranges) in std::mem::take(&mut self.in_hand) {
            let left: Vec<_> =
                ranges.into_iter().filter_map(|range| self.offer(port, range)).collect();
            if !left.is_empty() {
                self.in_hand.insert(port, left);
            }
        }
        while let Some(transmit) = self.endpoint.poll_transmit(self.now) {
            self.hear(&transmit);
        }
    }

    /// Offers a range. Returns the part that may not be sent yet.
    fn offer(&mut self, port: u16, mut range: Range<u64>) -> Option<Range<u64>> {
        let id = self.ids[&port];
        while !range.is_empty() {
            let bytes = (range.end - range.start) as usize;
            match self.endpoint.transmit(self.now, id, range.start, bytes) {
                Ok(transmit) => {
                    range.start = transmit.payload.end;
                    self.hear(&transmit);
                }
                Err(Withheld::NotNeeded | Withheld::Gone) => return None,
                Err(_) => return Some(range),
            }
        }
        None
    }

    fn hear(&mut self, transmit: &Transmit) {
        if transmit.remote.ip() != PEERS {
            // A stranger, who does not listen.
            return;
        }
        let header = transmit.header.as_bytes();
        let sequence = u32::from_be_bytes(header[4..8].try_into().expect("four bytes"));
        let before = self.said.get(&transmit.remote.port()).map_or(0, |said| said.payload_end);
        let payload_end = before.max(transmit.payload.end);
        let said = Said { sequence, flags: header[13], payload_end };
        self.said.insert(transmit.remote.port(), said);
    }

    /// Advances time, and does the work that becomes due on the way.
    pub(crate) fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        self.poll_segments();
        while let Some(due) = self.endpoint.next_timeout().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.endpoint.handle_timeout(self.now);
            self.poll_segments();
        }
        self.now = until;
    }

    pub(crate) fn write(&mut self, port: u16, bytes: u64) {
        self.endpoint.write(self.now, self.ids[&port], bytes);
        self.poll_segments();
    }

    /// The application releases the connection.
    pub(crate) fn let_go(&mut self, port: u16) {
        self.endpoint.let_go(self.now, self.ids[&port]);
        self.poll_segments();
    }

    pub(crate) fn info(&self, port: u16) -> Option<Info> {
        self.endpoint.info(*self.ids.get(&port)?)
    }
}

/// One peer, with a port of its own.
pub(crate) struct Peer {
    address: IpAddr,
    port: u16,
    /// The first sequence number of its stream, and of the endpoint's.
    first: u32,
    their_first: u32,
    window: u16,
    acknowledged: u64,
    heard_below: u64,
}

impl Peer {
    /// A peer that has sent nothing yet.
    pub(crate) fn stranger(number: u32) -> Self {
        let [_, a, b, c] = number.to_be_bytes();
        Self {
            address: IpAddr::V4(Ipv4Addr::new(10, a, b, c)),
            port: 1024 + (number % 60_000) as u16,
            first: number.wrapping_mul(2_654_435_761),
            their_first: 0,
            window: 1000,
            acknowledged: 0,
            heard_below: 0,
        }
    }

    /// Does an honest handshake, with SACK and a window of `window` times 2^SCALE; `None` if there is no answer.
    pub(crate) fn connect(world: &mut World, number: u16, window: u16) -> Option<Self> {
        world.poll_segments();
        let mut peer = Self { address: PEERS, port: 2000 + number, window, ..Self::stranger(7) };
        world.said.remove(&peer.port);
        world.take(&peer.syn());
        world.poll_segments();
        let said = world.said.get(&peer.port).filter(|said| said.flags == SYN | ACK)?;
        peer.their_first = said.sequence.wrapping_add(1);
        peer.acknowledge_all(world);
        world.ids.contains_key(&peer.port).then_some(peer)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// How far the endpoint has sent.
    pub(crate) fn heard_below(&self) -> u64 {
        self.heard_below
    }

    /// How far this peer has acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    fn syn(&self) -> Packet {
        self.build(SYN, self.first.wrapping_sub(1), 0, &[2, 4, 5, 180, 4, 2, 1, 1, 3, 3, SCALE, 1])
    }

    /// A segment without payload at `shift` from its stream's position.
    pub(crate) fn segment(&self, flags: u8, shift: u32, ack: u32) -> Packet {
        self.build(flags, self.first.wrapping_add(shift), ack, &[])
    }

    /// The same with an honest acknowledgement.
    pub(crate) fn shifted(&self, flags: u8, shift: u32) -> Packet {
        self.segment(flags, shift, self.their_first.wrapping_add(self.acknowledged as u32))
    }

    fn build(&self, flags: u8, sequence: u32, ack: u32, options: &[u8]) -> Packet {
        let words = 5 + options.len() / 4;
        let mut segment = Vec::with_capacity(words * 4);
        segment.extend(self.port.to_be_bytes());
        segment.extend(PORT.to_be_bytes());
        segment.extend(sequence.to_be_bytes());
        segment.extend(ack.to_be_bytes());
        segment.extend([(words as u8) << 4, flags]);
        segment.extend(self.window.to_be_bytes());
        segment.extend([0; 4]);
        segment.extend(options);
        Packet { from: self.address, segment }
    }

    fn acknowledge(&self, world: &mut World, below: u64, options: &[u8]) {
        let ack = self.their_first.wrapping_add(below as u32);
        world.take(&self.build(ACK, self.first, ack, options));
        world.poll_segments();
    }

    /// Acknowledges all that the endpoint has sent.
    pub(crate) fn acknowledge_all(&mut self, world: &mut World) {
        self.heard_below = world.said.get(&self.port).map_or(0, |said| said.payload_end);
        self.acknowledged = self.heard_below;
        self.acknowledge(world, self.acknowledged, &[]);
    }

    /// Acknowledges `bytes` more than the endpoint has sent.
    pub(crate) fn acknowledge_beyond(&mut self, world: &mut World, bytes: u64) {
        let sent = world.said.get(&self.port).map_or(0, |said| said.payload_end);
        self.acknowledge(world, sent + bytes, &[]);
    }

    /// Acknowledges nothing new, and reports these offsets by SACK.
    pub(crate) fn acknowledge_with_sack(&mut self, world: &mut World, blocks: &[(u64, u64)]) {
        let mut options = vec![1, 1, 5, 2 + 8 * blocks.len() as u8];
        for (start, end) in blocks {
            for offset in [start, end] {
                options.extend(self.their_first.wrapping_add(*offset as u32).to_be_bytes());
            }
        }
        self.acknowledge(world, self.acknowledged, &options);
    }

    /// Makes the application write `bytes` more, and takes them.
    pub(crate) fn fetch(&mut self, world: &mut World, bytes: u64) {
        let below = self.acknowledged + bytes;
        world.write(self.port, bytes);
        self.fetch_rest(world, below);
    }

    /// Takes the stream until `below`.
    pub(crate) fn fetch_rest(&mut self, world: &mut World, below: u64) {
        for _ in 0..100_000 {
            if self.acknowledged >= below {
                return;
            }
            world.pass(Duration::from_millis(5));
            self.acknowledge_all(world);
        }
        panic!("{} of {below} bytes after a long time", self.acknowledged);
    }
}
