//! All viewers of a server at once, without a socket: this code makes the frames that a kernel would have made, and reads the headers of
//! those that the server sends.
//!
//! A viewer takes 28 bytes. Each has its own address (10.0.0.0/8, by its number), a round trip between 10 and 80 ms, and a link behind a
//! queue that never drops. All links have the same rate. Data from the server takes the round trip, then its time on the link, and is
//! acknowledged every two segments (RFC 9293 section 3.8.6.3). Each viewer sends its request, encrypted with its own keys, at a fixed place
//! in the period. If the previous answer is not complete by then, the request counts as late and goes out once it is.
//!
//! The bytes of answers are counted, not checked, because this code never sees them. Other tests of the route check them.

use frames::synthetic::{FarEnd, add_frame, heads};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tls::made_up;

use super::progress::Progress;
use super::server::cpu;

/// The server's address and port.
pub(super) const SERVER: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 255, 255, 1), 443);

/// The same port for all viewers: they differ by address.
const PORT: u16 = 50_000;

/// Payload of a full segment, with timestamps: 1500 less 20, 20 and 12 bytes.
const SEGMENT_BYTES: u32 = 1448;

/// Received segments per acknowledgement.
const SEGMENTS_PER_ACK: u32 = 2;

/// How many viewers begin to connect per millisecond. With round trips of 80 ms, 800 are half open, fewer than the server allows.
const CONNECTS_PER_MS: u32 = 10;

/// How far ahead acknowledgements can be scheduled, in milliseconds: a round trip and four seconds on the link.
const SLOTS: usize = 4096;

/// The longest time that an answer may take on its link.
pub(super) const ON_LINK_MAX: Duration = Duration::from_secs(4);

/// The window that viewers advertise, 1 MiB, with a shift of 7.
const WINDOW: u16 = 8192;

const REQUEST: &[u8] = b"GET /film.mp4 HTTP/1.1\r\nHost: example.org\r\nRange: bytes=0-131071\r\nUser-Agent: \
    a player that has as much to say about itself as they have\r\nAccept: */*\r\nConnection: keep-alive\r\n\r\n";

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const PSH: u8 = 8;
const ACK: u8 = 16;

/// How viewers behave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    pub(super) viewers: u32,
    /// Time between a viewer's requests.
    pub(super) period: Duration,
    /// Bytes of an answer on the wire.
    pub(super) answer_bytes: u32,
    /// The rate of a viewer's link.
    pub(super) link_bytes_per_second: f64,
}

impl Habits {
    /// Bytes of the table of viewers, which is allocated at the start.
    pub(super) fn table_bytes(&self) -> u64 {
        u64::from(self.viewers) * size_of::<Viewer>() as u64
    }
}

/// A viewer. Its sequence numbers and times wrap.
#[derive(Clone, Copy)]
struct Viewer {
    /// Sequence number of the next byte that it sends.
    next: u32,
    /// Sequence number of the next byte expected from the server.
    expected: u32,
    /// Where the answer that it is waiting for ends.
    answer_end: u32,
    /// The value of `expected` when counting began.
    counted_from: u32,
    /// When its link will be idle, in microseconds.
    link_free_us: u32,
    requests: u32,
    stage: Stage,
    is_due: bool,
    round_trip_ms: u8,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    New,
    Connecting,
    Idle,
    Waiting,
    Gone,
}

/// An acknowledgement that is due at a set time.
#[derive(Clone, Copy)]
struct Due {
    viewer: u32,
    below: u32,
    timestamp: u32,
}

/// The peer's counters.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    pub(super) answers: u64,
    /// Requests sent late, because the previous answer was not complete.
    pub(super) late: u64,
    /// Bytes received more than once.
    pub(super) again_bytes: u64,
    pub(super) acknowledgements: u64,
    /// Connections that the server ended, or segments that did not fit the sequence. Must stay 0, or the figures mean nothing.
    pub(super) faults: u64,
}

/// All viewers together.
pub(super) struct Peer {
    habits: Habits,
    far: FarEnd,
    viewers: Vec<Viewer>,
    slots: Vec<Vec<Due>>,
    /// The millisecond to handle next.
    at_ms: u64,
    frames: Vec<u8>,
    connecting: u32,
    connected: u32,
    /// Requests that have fallen due since the first.
    asked: u64,
    asking_since_ms: Option<u64>,
    counted: Counted,
}

impl Peer {
    /// Allocates all memory for viewers; none is connected yet.
    pub(super) fn new(habits: Habits, far: FarEnd) -> Self {
        let mut random = fastrand::Rng::with_seed(7);
        let viewer = |random: &mut fastrand::Rng| Viewer {
            next: 0,
            expected: 0,
            answer_end: 0,
            counted_from: 0,
            link_free_us: 0,
            requests: 0,
            stage: Stage::New,
            is_due: false,
            round_trip_ms: random.u8(10..=80),
        };
        Self {
            habits,
            far,
            viewers: (0..habits.viewers).map(|_| viewer(&mut random)).collect(),
            slots: vec![Vec::new(); SLOTS],
            at_ms: 0,
            frames: Vec::new(),
            connecting: 0,
            connected: 0,
            asked: 0,
            asking_since_ms: None,
            counted: Counted::default(),
        }
    }

    /// Bytes of memory that the peer takes.
    fn memory_bytes(&self) -> usize {
        let dues: usize = self.slots.iter().map(Vec::capacity).sum();
        self.viewers.capacity() * size_of::<Viewer>()
            + dues * size_of::<Due>()
            + self.frames.capacity()
    }

    /// Follows the clock, a millisecond at a time, until `progress` reports that the run is over.
    pub(super) fn run(mut self, progress: &Arc<Progress>) {
        let started = Instant::now();
        let mut taken = Vec::new();
        while !progress.is_over() {
            let now_us = started.elapsed().as_micros() as u64;
            self.far.take(&mut taken);
            for (head, payload_bytes) in heads(&taken) {
                self.see(now_us, head, payload_bytes as u32);
            }
            let taken_bytes = taken.capacity();
            while self.at_ms <= now_us / 1000 {
                self.acknowledge();
                self.connect();
                self.ask();
                self.at_ms += 1;
            }
            let memory_bytes = self.memory_bytes() + taken_bytes;
            self.far.give(&mut self.frames);
            if progress.is_counting_begun() {
                self.viewers.iter_mut().for_each(|viewer| viewer.counted_from = viewer.expected);
            }
            progress.tell(self.connected, self.counted, memory_bytes, cpu());
            if progress.is_counting_ended() {
                progress.tell_shares(self.shares());
            }
            let next = started + Duration::from_millis(self.at_ms);
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
    }

    /// Bytes that each viewer received since counting began.
    fn shares(&self) -> Vec<u32> {
        let share = |viewer: &Viewer| viewer.expected.wrapping_sub(viewer.counted_from);
        self.viewers.iter().map(share).collect()
    }

    /// Handles a frame that the server has sent.
    fn see(&mut self, now_us: u64, head: &[u8], payload_bytes: u32) {
        let Some((number, segment)) = Sent::read(head) else {
            self.counted.faults += 1;
            return;
        };
        let Some(viewer) = self.viewers.get_mut(number as usize) else {
            self.counted.faults += 1;
            return;
        };
        if segment.flags & (RST | FIN) != 0 {
            self.counted.faults += 1;
            viewer.stage = Stage::Gone;
            return;
        }
        let arrives_us = now_us + u64::from(viewer.round_trip_ms) * 1000;
        let due = |below| Due { viewer: number, below, timestamp: segment.timestamp };
        if segment.flags & SYN != 0 {
            viewer.expected = segment.sequence.wrapping_add(1);
            viewer.answer_end = viewer.expected;
            let due = due(viewer.expected);
            self.schedule(arrives_us, due);
            return;
        }
        if payload_bytes == 0 {
            // A keep-alive probe carries the number before the expected one.
            if segment.sequence != viewer.expected {
                let due = due(viewer.expected);
                self.schedule(arrives_us, due);
            }
            return;
        }
        let ahead = segment.sequence.wrapping_sub(viewer.expected) as i32;
        let new_bytes = payload_bytes as i32 + ahead;
        if ahead > 0 {
            // Nothing is lost here and the server sends in order, so this segment is a fault.
            self.counted.faults += 1;
            return;
        }
        self.counted.again_bytes += u64::from(payload_bytes) - new_bytes.max(0) as u64;
        if new_bytes <= 0 {
            let due = due(viewer.expected);
            self.schedule(arrives_us, due);
            return;
        }
        let free_us =
            now_us.wrapping_add(viewer.link_free_us.wrapping_sub(now_us as u32) as i32 as u64);
        let mut at_us = arrives_us.max(free_us) as f64;
        let (mut below, end) = (viewer.expected, viewer.expected.wrapping_add(new_bytes as u32));
        viewer.expected = end;
        let us_per_byte = 1e6 / self.habits.link_bytes_per_second;
        let duration_us = f64::from(new_bytes) * us_per_byte;
        viewer.link_free_us = (at_us + duration_us) as u64 as u32;
        while below != end {
            let bytes = end.wrapping_sub(below).min(SEGMENTS_PER_ACK * SEGMENT_BYTES);
            below = below.wrapping_add(bytes);
            at_us += f64::from(bytes) * us_per_byte;
            self.schedule(at_us as u64, due(below));
        }
    }

    fn schedule(&mut self, at_us: u64, due: Due) {
        let at_ms = (at_us / 1000).clamp(self.at_ms, self.at_ms + SLOTS as u64 - 1);
        self.slots[at_ms as usize % SLOTS].push(due);
    }

    /// Sends the acknowledgements that are due in this millisecond.
    fn acknowledge(&mut self) {
        let mut dues = std::mem::take(&mut self.slots[self.at_ms as usize % SLOTS]);
        for due in &dues {
            let viewer = &mut self.viewers[due.viewer as usize];
            if viewer.stage == Stage::Gone {
                continue;
            }
            self.counted.acknowledgements += 1;
            let segment = Segment { flags: ACK, ack: due.below, echo: due.timestamp, data: &[] };
            send(&mut self.frames, self.at_ms, due.viewer, viewer, &segment);
            let is_connected = viewer.stage == Stage::Connecting;
            let is_answered = viewer.stage == Stage::Waiting && due.below == viewer.answer_end;
            if is_connected || is_answered {
                viewer.stage = Stage::Idle;
            }
            self.connected += u32::from(is_connected);
            self.counted.answers += u64::from(is_answered);
            if is_answered && std::mem::take(&mut viewer.is_due) {
                request(&mut self.frames, self.at_ms, due.viewer, viewer, self.habits.answer_bytes);
            }
        }
        dues.clear();
        self.slots[self.at_ms as usize % SLOTS] = dues;
    }

    /// Has a few more viewers begin to connect.
    fn connect(&mut self) {
        for _ in 0..CONNECTS_PER_MS.min(self.habits.viewers - self.connecting) {
            let viewer = &mut self.viewers[self.connecting as usize];
            viewer.stage = Stage::Connecting;
            let segment = Segment { flags: SYN, ack: 0, echo: 0, data: &[] };
            send(&mut self.frames, self.at_ms, self.connecting, viewer, &segment);
            viewer.next = 1;
            self.connecting += 1;
        }
    }

    /// Once all are connected, has them send requests in turn, spread over the period.
    fn ask(&mut self) {
        if self.connected < self.habits.viewers {
            return;
        }
        let since = *self.asking_since_ms.get_or_insert(self.at_ms);
        let periods = (self.at_ms - since) as f64 / 1000.0 / self.habits.period.as_secs_f64();
        let due = (periods * f64::from(self.habits.viewers)) as u64;
        for turn in self.asked..due {
            let number = (turn % u64::from(self.habits.viewers)) as u32;
            let viewer = &mut self.viewers[number as usize];
            match viewer.stage {
                Stage::Idle => {
                    request(&mut self.frames, self.at_ms, number, viewer, self.habits.answer_bytes);
                }
                Stage::Waiting => {
                    viewer.is_due = true;
                    self.counted.late += 1;
                }
                Stage::New | Stage::Connecting | Stage::Gone => self.counted.faults += 1,
            }
        }
        self.asked = due.max(self.asked);
    }
}

/// Sends a viewer's request.
fn request(frames: &mut Vec<u8>, at_ms: u64, number: u32, viewer: &mut Viewer, answer_bytes: u32) {
    let mut record = [0; 512];
    let mut sealer = made_up::client_sealer(number.into(), viewer.requests.into());
    let bytes = sealer.seal(REQUEST, &mut record).expect("a request is shorter than 512 bytes");
    let segment =
        Segment { flags: ACK | PSH, ack: viewer.expected, echo: 0, data: &record[..bytes] };
    send(frames, at_ms, number, viewer, &segment);
    viewer.next = viewer.next.wrapping_add(bytes as u32);
    viewer.answer_end = viewer.expected.wrapping_add(answer_bytes);
    viewer.requests += 1;
    viewer.stage = Stage::Waiting;
}

/// A segment that a viewer sends.
struct Segment<'a> {
    flags: u8,
    ack: u32,
    echo: u32,
    data: &'a [u8],
}

/// The address of a viewer.
fn address(number: u32) -> [u8; 4] {
    (0x0a00_0000 + 1 + number).to_be_bytes()
}

/// Adds a segment's frame, without a TCP checksum, as if a NIC had verified it.
fn send(frames: &mut Vec<u8>, at_ms: u64, number: u32, viewer: &Viewer, segment: &Segment<'_>) {
    const ETHERNET: [u8; 14] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    let is_syn = segment.flags & SYN != 0;
    let mut frame = [0; 14 + 20 + 40 + 512];
    let tcp_bytes = if is_syn { 40 } else { 32 };
    let bytes = 34 + tcp_bytes + segment.data.len();
    frame[..14].copy_from_slice(&ETHERNET);
    let ip = &mut frame[14..34];
    ip[..2].copy_from_slice(&[0x45, 0]);
    ip[2..4].copy_from_slice(&((bytes - 14) as u16).to_be_bytes());
    ip[6..10].copy_from_slice(&[0x40, 0, 64, 6]);
    ip[12..16].copy_from_slice(&address(number));
    ip[16..20].copy_from_slice(&SERVER.0.octets());
    let words = ip.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    let tcp = &mut frame[34..];
    tcp[..2].copy_from_slice(&PORT.to_be_bytes());
    tcp[2..4].copy_from_slice(&SERVER.1.to_be_bytes());
    tcp[4..8].copy_from_slice(&viewer.next.to_be_bytes());
    tcp[8..12].copy_from_slice(&segment.ack.to_be_bytes());
    tcp[12..14].copy_from_slice(&[(tcp_bytes / 4 * 16) as u8, segment.flags]);
    tcp[14..16].copy_from_slice(&WINDOW.to_be_bytes());
    let options = &mut tcp[20..];
    let stamps = if is_syn {
        // MSS 1460, SACK permitted, timestamps, then a window shift of 7.
        options[..8].copy_from_slice(&[2, 4, 5, 180, 4, 2, 8, 10]);
        options[16..20].copy_from_slice(&[1, 3, 3, 7]);
        8
    } else {
        options[..4].copy_from_slice(&[1, 1, 8, 10]);
        4
    };
    options[stamps..stamps + 4].copy_from_slice(&(at_ms as u32).to_be_bytes());
    options[stamps + 4..stamps + 8].copy_from_slice(&segment.echo.to_be_bytes());
    tcp[tcp_bytes..tcp_bytes + segment.data.len()].copy_from_slice(segment.data);
    add_frame(frames, &frame[..bytes]);
}

/// The fields that a viewer reads from the headers of the server's frame.
struct Sent {
    sequence: u32,
    flags: u8,
    timestamp: u32,
}

impl Sent {
    /// Parses it, with the viewer's number.
    fn read(head: &[u8]) -> Option<(u32, Self)> {
        let number = |at: usize| head.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
        let viewer = number(30)?.checked_sub(0x0a00_0001)?;
        let options = head.get(54..)?;
        let timestamp = timestamp(options).unwrap_or(0);
        Some((viewer, Self { sequence: number(38)?, flags: *head.get(47)?, timestamp }))
    }
}

/// The timestamp in a segment's options (RFC 7323 section 3).
fn timestamp(mut options: &[u8]) -> Option<u32> {
    loop {
        match options {
            [1, rest @ ..] => options = rest,
            [8, 10, a, b, c, d, ..] => return Some(u32::from_be_bytes([*a, *b, *c, *d])),
            [0, ..] | [] | [_] => return None,
            [_, bytes, ..] => options = options.get(usize::from(*bytes).max(2)..)?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_viewer_is_small() {
        assert!(size_of::<Viewer>() <= 28, "{}", size_of::<Viewer>());
        assert_eq!(size_of::<Due>(), 12);
    }

    #[test]
    fn the_time_stamp_is_found_behind_other_options() {
        let found = timestamp(&[2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 1, 2, 0, 0, 0, 0, 1, 3, 3, 7]);
        assert_eq!(found, Some(258));
        assert_eq!(timestamp(&[1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0]), Some(9));
        for none in [&[][..], &[0], &[1, 1], &[3, 0], &[8, 10, 1], &[3]] {
            assert_eq!(timestamp(none), None);
        }
    }
}
