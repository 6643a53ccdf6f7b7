//! The smallest TCP that can talk to a real one over a device, to test frames. It is not a model for anything else.

use fullbore_frames::{
    Between, FrameHead, Hop, Interface, Packet, ReceivedSegment, Resolved, TooBig,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const FIN: u8 = 1;
const SYN: u8 = 2;
const PSH: u8 = 8;
const ACK: u8 = 16;
/// How many bytes a Linux receiver takes at first, before its window opens.
const IN_FLIGHT_BYTES_MAX: usize = 60_000;
/// Long, because an emulated machine may stand still for seconds.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often to retry within that time.
const ATTEMPTS: u32 = 120;

/// Bytes that differ enough everywhere.
pub(crate) fn film(bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

/// One connection over a device, accepted.
pub(crate) struct Stream {
    pub(crate) interface: Interface,
    local: SocketAddr,
    remote: SocketAddr,
    segment_bytes: u16,
    next: u32,
    acknowledged: u32,
    expected: u32,
    pub(crate) received: Vec<u8>,
    pub(crate) coalesced: usize,
    pub(crate) finished: bool,
    /// The latest message from a router.
    pub(crate) too_big: Option<TooBig>,
}

impl Stream {
    /// Waits for a client to connect to `local`.
    pub(crate) fn accept(interface: Interface, local: SocketAddr, segment_bytes: u16) -> Self {
        let accepted = Self::accept_within(PATIENCE, interface, local, segment_bytes);
        accepted.unwrap_or_else(|_| panic!("no client has connected"))
    }

    /// The same, but returns the device if no client connects within `patience`.
    pub(crate) fn accept_within(
        patience: Duration,
        mut interface: Interface,
        local: SocketAddr,
        segment_bytes: u16,
    ) -> Result<Self, Box<Interface>> {
        let mut greeting = None;
        wait(&mut interface, patience, |packet| {
            let Packet::Tcp(segment) = packet else { return false };
            assert_eq!(segment.local, local.ip());
            // Left over from an earlier connection.
            if segment.bytes[13] & (SYN | ACK) != SYN {
                return false;
            }
            assert_eq!(segment.bytes[2..4], local.port().to_be_bytes());
            let port = u16::from_be_bytes([segment.bytes[0], segment.bytes[1]]);
            let remote = SocketAddr::new(segment.remote, port);
            greeting = Some((remote, number(&segment, 4), segment.station));
            true
        });
        let Some((remote, sequence, station)) = greeting else { return Err(Box::new(interface)) };
        interface.neighbours.sighted(remote.ip(), station);
        let mut stream = Self {
            interface,
            local,
            remote,
            segment_bytes,
            next: 0xffff_8000,
            acknowledged: 0xffff_8000,
            expected: sequence.wrapping_add(1),
            received: Vec::new(),
            coalesced: 0,
            finished: false,
            too_big: None,
        };
        stream.insist(SYN | ACK);
        Ok(stream)
    }

    /// Sends all of it, in super-segments of up to `at_once` bytes, and waits for the acknowledgement.
    pub(crate) fn send(&mut self, film: &[u8], at_once: usize) {
        let first = self.next;
        let mut done = 0;
        let mut deadline = Instant::now() + PATIENCE;
        while done < film.len() {
            let mut end = done;
            while end < film.len() && end - done < IN_FLIGHT_BYTES_MAX {
                let bytes = at_once.min(film.len() - end).min(IN_FLIGHT_BYTES_MAX - (end - done));
                let sequence = first.wrapping_add(end as u32);
                self.transmit(ACK | PSH, sequence, &film[end..end + bytes]);
                end += bytes;
            }
            self.next = first.wrapping_add(end as u32);
            // Lost bytes are sent again from the acknowledged offset on.
            self.pump_for(Duration::from_millis(300), |stream| stream.acknowledged == stream.next);
            let acknowledged = self.acknowledged.wrapping_sub(first) as usize;
            if acknowledged > done {
                deadline = Instant::now() + PATIENCE;
            }
            assert!(Instant::now() < deadline, "nothing is acknowledged any more");
            done = acknowledged;
        }
    }

    /// Ends the sending direction.
    pub(crate) fn finish(&mut self) {
        self.insist(ACK | FIN);
    }

    /// Repeats a segment that counts as one byte until it is acknowledged.
    fn insist(&mut self, flags: u8) {
        let sequence = self.next;
        self.next = self.next.wrapping_add(1);
        let is_acknowledged = (0..ATTEMPTS).any(|_| {
            self.transmit(flags, sequence, &[]);
            self.pump_for(PATIENCE / ATTEMPTS, |stream| stream.acknowledged == stream.next)
        });
        assert!(is_acknowledged, "nothing more has come");
    }

    /// Sends segments of `segment_bytes` that a router does not forward until the router reports that, then continues with smaller ones.
    pub(crate) fn shrink(&mut self, segment_bytes: u16, fits_bytes: u16) {
        self.segment_bytes = segment_bytes;
        let payload = vec![0; segment_bytes.into()];
        let is_told = (0..ATTEMPTS).any(|_| {
            self.transmit(ACK, self.next, &payload);
            self.pump_for(PATIENCE / ATTEMPTS, |stream| stream.too_big.is_some())
        });
        assert!(is_told, "no router has reported that it is too big");
        let told = self.too_big.unwrap();
        assert_eq!((told.local, told.remote, told.sequence), (self.local, self.remote, self.next));
        self.segment_bytes = fits_bytes;
    }

    pub(crate) fn pump(&mut self, until: impl Fn(&Self) -> bool) {
        assert!(self.pump_for(PATIENCE, until), "nothing more has come");
    }

    fn pump_for(&mut self, patience: Duration, until: impl Fn(&Self) -> bool) -> bool {
        let deadline = Instant::now() + patience;
        while !until(self) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            await_readable(&self.interface, left);
            self.interface.neighbours.update().unwrap();
            let mut arrived: Vec<(u8, u32, u32, Vec<u8>, bool)> = Vec::new();
            self.interface
                .device
                .receive(64, |packet| {
                    let segment = match packet {
                        Packet::Tcp(segment) => segment,
                        Packet::TooBig(told) => return self.too_big = Some(told),
                        Packet::Ping(_) => panic!("pings are answered or the kernel's"),
                    };
                    if segment.bytes[..2] != self.remote.port().to_be_bytes() {
                        return;
                    }
                    let header = usize::from(segment.bytes[12] >> 4) * 4;
                    let payload = segment.bytes[header..].to_vec();
                    let (sequence, number) = (number(&segment, 4), number(&segment, 8));
                    let coalesced = segment.coalesced_bytes.is_some();
                    arrived.push((segment.bytes[13], sequence, number, payload, coalesced));
                })
                .unwrap();
            for (flags, sequence, acknowledged, payload, coalesced) in arrived {
                self.take(flags, sequence, acknowledged, &payload, coalesced);
            }
        }
        true
    }

    fn take(
        &mut self,
        flags: u8,
        sequence: u32,
        acknowledged: u32,
        payload: &[u8],
        coalesced: bool,
    ) {
        if flags & ACK != 0 && acknowledged.wrapping_sub(self.acknowledged) < 1 << 31 {
            self.acknowledged = acknowledged;
        }
        self.coalesced += usize::from(coalesced);
        let is_next = sequence == self.expected;
        if is_next {
            self.received.extend_from_slice(payload);
            self.expected = self.expected.wrapping_add(payload.len() as u32);
            if flags & FIN != 0 {
                self.expected = self.expected.wrapping_add(1);
                self.finished = true;
            }
        }
        if !payload.is_empty() || flags & (SYN | FIN) != 0 {
            self.transmit(ACK, self.next, &[]);
        }
    }

    /// The next hop to the peer. Without one, the segment is lost.
    fn hop(&mut self) -> Option<Hop> {
        for _ in 0..10 {
            if let Resolved::Known(hop) = self.interface.neighbours.resolve(self.remote.ip()) {
                return Some(hop);
            }
            std::thread::sleep(Duration::from_millis(2));
            self.interface.neighbours.update().unwrap();
        }
        None
    }

    fn transmit(&mut self, flags: u8, sequence: u32, payload: &[u8]) {
        let mut header = [0; 28];
        let mut header_bytes = 20;
        header[..2].copy_from_slice(&self.local.port().to_be_bytes());
        header[2..4].copy_from_slice(&self.remote.port().to_be_bytes());
        header[4..8].copy_from_slice(&sequence.to_be_bytes());
        header[8..12].copy_from_slice(&self.expected.to_be_bytes());
        header[13] = flags;
        header[14..16].copy_from_slice(&u16::MAX.to_be_bytes());
        if flags & SYN != 0 {
            // Maximum segment size; window scale 0, after a no-op: a peer then sends less than a device's queue holds.
            header[20..24].copy_from_slice(&[2, 4, 0, 0]);
            header[22..24].copy_from_slice(&self.segment_bytes.to_be_bytes());
            header[24..28].copy_from_slice(&[1, 3, 3, 0]);
            header_bytes = 28;
        }
        header[12] = (header_bytes as u8 / 4) << 4;
        let Some(hop) = self.hop() else { return };
        let between = Between { local: self.local.ip(), remote: self.remote.ip(), ecn: 0 };
        let head = FrameHead::tcp(&hop, between, &header[..header_bytes], payload.len());
        // In three pieces of odd lengths, like records and their tags.
        let (first, rest) = payload.split_at(payload.len().min(13));
        let (second, third) = rest.split_at(rest.len() / 3);
        let slices = [first, second, third];
        let device = &mut self.interface.device;
        let deadline = Instant::now() + PATIENCE;
        while !device.can_send(payload.len(), self.segment_bytes) {
            assert!(Instant::now() < deadline, "the device never gets room");
            device.flush().unwrap();
        }
        device.send(head, &slices, self.segment_bytes).unwrap();
        device.flush().unwrap();
    }
}

fn number(segment: &ReceivedSegment<'_>, at: usize) -> u32 {
    u32::from_be_bytes(*segment.bytes[at..].first_chunk().unwrap())
}

fn await_readable(interface: &Interface, patience: Duration) {
    let fd = interface.device.fd();
    let mut polled = vec![PollFd::new(&fd, PollFlags::IN)];
    let news = interface.neighbours.fd();
    if let Some(news) = &news {
        polled.push(PollFd::new(news, PollFlags::IN));
    }
    let _ = poll(&mut polled, Some(&Timespec::try_from(patience).unwrap()));
}

/// Waits until `each` returns true, at most for `patience`.
fn wait(interface: &mut Interface, patience: Duration, mut each: impl FnMut(Packet<'_>) -> bool) {
    let deadline = Instant::now() + patience;
    let mut seen = false;
    while !seen && Instant::now() < deadline {
        await_readable(interface, deadline.saturating_duration_since(Instant::now()));
        interface.device.receive(64, |packet| seen |= each(packet)).unwrap();
    }
}

/// The kernel's end: fetches a film of this length, sends one back, and waits for the end.
pub(crate) fn fetch_and_send(server: SocketAddr, fetch_bytes: usize, send_bytes: usize) -> Vec<u8> {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)
        .unwrap_or_else(|error| panic!("{server}: {error}"));
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut fetched = vec![0; fetch_bytes];
    stream.read_exact(&mut fetched).expect("all of the film comes");
    stream.write_all(&film(send_bytes)).unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("the server finishes");
    assert!(rest.is_empty());
    fetched
}

/// The whole exchange: a film in one direction, in pieces of all sizes, and one back.
pub(crate) fn exchange(stream: &mut Stream, fetch_bytes: usize, send_bytes: usize) {
    let film_there = film(fetch_bytes);
    let mut sent = 0;
    for at_once in [1, 100, 1447, 1448, 1449, 3000, 20_001, 60_000, usize::MAX] {
        let end = (sent + 4 * at_once.min(60_000)).min(fetch_bytes);
        let end = if at_once == usize::MAX { fetch_bytes } else { end };
        stream.send(&film_there[sent..end], at_once.min(60_000));
        sent = end;
    }
    stream.pump(|stream| stream.received.len() >= send_bytes);
    assert!(stream.received == film(send_bytes), "the film back is another one");
    stream.finish();
    stream.pump(|stream| stream.finished);
}
