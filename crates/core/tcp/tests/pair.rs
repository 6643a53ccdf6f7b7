//! A client endpoint and a server endpoint on a link. At first it is ideal: everything arrives, in order, after a
//! while. Then it gets worse.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use fullbore_tcp::{
    Arrived, CloseReason, Config, Ecn, Endpoint, Event, Id, Info, Secret, Transmit, Withheld,
};

/// The byte at an offset of the server's stream.
fn byte_at(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

#[derive(Clone)]
struct Packet {
    to_server: bool,
    from: SocketAddr,
    to: SocketAddr,
    segment: Vec<u8>,
}

/// Random events on the link.
#[derive(Clone, Copy, Default)]
struct Weather {
    loss: f64,
    duplicate: f64,
    /// The fraction of packets that take half as long again.
    late: f64,
    bytes_per_second: Option<u64>,
    /// How many bytes may queue towards the client.
    queue_bytes: u64,
}

struct Pair {
    now: Instant,
    delay: Duration,
    server: Endpoint,
    client: Endpoint,
    /// Ordered by time of arrival.
    link: BTreeMap<(Instant, u64), Packet>,
    carried: u64,
    weather: Weather,
    random: fastrand::Rng,
    /// When the link to the client is free again, if it has a rate.
    busy_until: Instant,
    /// The ranges that server (true) and client have requested and not sent.
    hand: Vec<(bool, Id, Range<u64>)>,
    wanted_again: bool,
    /// Set if the server cuts its super-segments into packets, as a device does.
    cut: bool,
}

impl Pair {
    fn new(delay: Duration, server: Config, client: Config) -> Self {
        let now = Instant::now();
        Pair {
            now,
            delay,
            server: Endpoint::new(Config { listen: vec![443], ..server }, Secret([1; 16]), now),
            client: Endpoint::new(client, Secret([2; 16]), now),
            link: BTreeMap::new(),
            carried: 0,
            weather: Weather::default(),
            random: fastrand::Rng::with_seed(0),
            busy_until: now,
            hand: Vec::new(),
            wanted_again: false,
            cut: true,
        }
    }

    fn carry(&mut self, transmit: &Transmit, to_server: bool) {
        let payload: Vec<u8> = transmit.payload.clone().map(byte_at).collect();
        let header = transmit.header.as_bytes();
        let size = usize::from(transmit.segment_bytes).max(1);
        let cut = self.cut && payload.len() > size;
        let pieces: Vec<&[u8]> = if cut { payload.chunks(size).collect() } else { vec![&payload] };
        for (index, piece) in pieces.iter().enumerate() {
            let mut segment = header.to_vec();
            let seq = u32::from_be_bytes(segment[4..8].try_into().unwrap());
            segment[4..8].copy_from_slice(&seq.wrapping_add((index * size) as u32).to_be_bytes());
            if index + 1 < pieces.len() {
                segment[13] &= !0x09;
            }
            segment.extend_from_slice(piece);
            self.offer(&Packet { to_server, from: transmit.local, to: transmit.remote, segment });
        }
    }

    fn offer(&mut self, packet: &Packet) {
        let weather = self.weather;
        let leaves = match weather.bytes_per_second.filter(|_| !packet.to_server) {
            None => self.now,
            Some(rate) => {
                let starts = self.busy_until.max(self.now);
                if (starts - self.now).as_secs_f64() * rate as f64 > weather.queue_bytes as f64 {
                    return;
                }
                self.busy_until = starts
                    + Duration::from_secs_f64((packet.segment.len() + 40) as f64 / rate as f64);
                self.busy_until
            }
        };
        if self.random.f64() < weather.loss {
            return;
        }
        let copies = if self.random.f64() < weather.duplicate { 2 } else { 1 };
        for _ in 0..copies {
            let late =
                if self.random.f64() < weather.late { self.delay / 2 } else { Duration::ZERO };
            self.carried += 1;
            self.link.insert((leaves + self.delay + late, self.carried), packet.clone());
        }
    }

    /// Supplies both sides, sends what may be sent, and carries the other segments.
    fn exchange(&mut self) {
        while let Some((id, want)) = self.server.poll_byte_request(self.now) {
            self.wanted_again |= want.retransmission;
            self.bring(true, id, want.range);
        }
        while let Some((id, want)) = self.client.poll_byte_request(self.now) {
            self.bring(false, id, want.range);
        }
        for (at_server, id, held) in std::mem::take(&mut self.hand) {
            if let Some(held) = self.let_out(at_server, id, held) {
                self.hand.push((at_server, id, held));
            }
        }
        while let Some(transmit) = self.server.poll_transmit(self.now) {
            self.carry(&transmit, false);
        }
        while let Some(transmit) = self.client.poll_transmit(self.now) {
            self.carry(&transmit, true);
        }
    }

    /// Keeps the range, joined with the one that it follows.
    fn bring(&mut self, at_server: bool, id: Id, range: Range<u64>) {
        let follows = |held: &&mut (bool, Id, Range<u64>)| {
            (held.0, held.1, held.2.end) == (at_server, id, range.start)
        };
        match self.hand.iter_mut().find(follows) {
            Some((_, _, held)) => held.end = range.end,
            None => self.hand.push((at_server, id, range)),
        }
    }

    /// Returns the part of it that is left to keep.
    fn let_out(&mut self, at_server: bool, id: Id, held: Range<u64>) -> Option<Range<u64>> {
        loop {
            let endpoint = if at_server { &mut self.server } else { &mut self.client };
            match endpoint.transmit(self.now, id, held.start, (held.end - held.start) as usize) {
                Ok(transmit) => {
                    assert!(
                        held.start <= transmit.payload.start && transmit.payload.end <= held.end
                    );
                    self.carry(&transmit, !at_server);
                }
                Err(Withheld::NotNeeded | Withheld::Gone) => return None,
                Err(_) => return Some(held),
            }
        }
    }

    fn events(&mut self) -> Vec<(bool, Id, Event)> {
        let mut events = Vec::new();
        while let Some((id, event)) = self.server.poll_event() {
            events.push((true, id, event));
        }
        while let Some((id, event)) = self.client.poll_event() {
            events.push((false, id, event));
        }
        events
    }

    /// Advances to the next moment at which something happens. False: nothing ever will.
    fn step(&mut self) -> bool {
        let moments = [
            self.link.keys().next().map(|(due, _)| *due),
            self.server.next_timeout(),
            self.client.next_timeout(),
        ];
        let Some(next) = moments.into_iter().flatten().min() else { return false };
        self.now = self.now.max(next);
        while let Some(first) = self.link.first_entry().filter(|first| first.key().0 <= self.now) {
            let packet = first.remove();
            let endpoint = if packet.to_server { &mut self.server } else { &mut self.client };
            endpoint.handle_segment(
                self.now,
                Arrived {
                    remote: packet.from.ip(),
                    local: packet.to.ip(),
                    ecn: Ecn::NotCapable,
                    segment: &packet.segment,
                },
            );
        }
        self.server.handle_timeout(self.now);
        self.client.handle_timeout(self.now);
        true
    }
}

/// The result of a fetch.
struct Fetched {
    seconds: f64,
    pair: Pair,
    memory_bytes_max: usize,
    ranges_max: usize,
}

/// One client sends a request of one byte and reads `bytes` until the server finishes.
fn fetch(mut pair: Pair, bytes: u64, v6: bool) -> Fetched {
    let (local, remote): (SocketAddr, SocketAddr) = if v6 {
        ("[2001:db8::1]:50000".parse().unwrap(), "[2001:db8::2]:443".parse().unwrap())
    } else {
        ("192.0.2.1:50000".parse().unwrap(), "192.0.2.2:443".parse().unwrap())
    };
    let began = pair.now;
    let client = pair.client.connect(pair.now, local, remote).unwrap();
    pair.client.write(pair.now, client, 1);
    let (mut received, mut memory_bytes_max, mut ranges_max) = (0, 0, 0);
    let mut ended = Vec::new();
    let mut done_at = began;
    let mut buffer = vec![0; 1 << 20];
    while ended.len() < 2 {
        for (at_server, id, event) in pair.events() {
            match event {
                Event::Readable if at_server => {
                    assert_eq!(pair.server.read(pair.now, id, &mut buffer), 1);
                    pair.server.write(pair.now, id, bytes);
                    pair.server.finish(pair.now, id);
                }
                Event::Readable => {
                    let count = pair.client.read(pair.now, id, &mut buffer);
                    for byte in &buffer[..count] {
                        assert_eq!(*byte, byte_at(received), "at {received}");
                        received += 1;
                    }
                }
                Event::Finished if !at_server => {
                    done_at = pair.now;
                    pair.client.finish(pair.now, id);
                }
                Event::Ended(reason) => ended.push(reason),
                _ => {}
            }
            // With a window in flight; the request has been read by then.
            let full = |info: &Info| at_server && info.in_flight_bytes > 1 << 20;
            if let Some(info) = pair.server.info(id).filter(full) {
                memory_bytes_max = memory_bytes_max.max(info.memory_bytes);
                ranges_max = ranges_max.max(info.ranges);
            }
        }
        pair.exchange();
        assert!(pair.step(), "stuck after {received} bytes");
        assert!(pair.now - began < Duration::from_secs(3600), "slow: {received} bytes in an hour");
    }
    assert_eq!((received, &ended[..]), (bytes, &[CloseReason::Closed; 2][..]));
    Fetched { seconds: (done_at - began).as_secs_f64(), pair, memory_bytes_max, ranges_max }
}

fn viewer() -> Config {
    Config { receive_bytes_max: 4 << 20, receive_ranges_max: 4096, ..Config::default() }
}

#[test]
fn ten_megabytes_arrive_whole_and_nothing_is_sent_twice() {
    let pair = Pair::new(Duration::from_millis(10), Config::default(), viewer());
    let fetched = fetch(pair, 10 << 20, false);
    let statistics = fetched.pair.server.statistics();
    assert_eq!((statistics.retransmitted_bytes, statistics.timeouts), (0, 0), "{statistics:?}");
    assert!(!fetched.pair.wanted_again);
    // Slow start from 14,480 bytes doubles each 20 ms: ten round trips, and the rest at 4 MiB per round trip.
    assert!(fetched.seconds < 0.5, "{} s", fetched.seconds);
}

#[test]
fn a_connection_with_a_full_window_holds_less_than_8_kib() {
    let pair = Pair::new(Duration::from_millis(50), Config::default(), viewer());
    let fetched = fetch(pair, 50 << 20, true);
    println!("{} bytes in {} ranges", fetched.memory_bytes_max, fetched.ranges_max);
    assert!(fetched.memory_bytes_max <= 8192, "{} bytes", fetched.memory_bytes_max);
    assert!(fetched.ranges_max > 10, "the window was not filled");
}

#[test]
fn every_switch_may_be_off() {
    let plain = Config {
        tso_bytes_max: 0,
        pacing: false,
        ecn: false,
        sack: false,
        timestamps: false,
        window_scaling: false,
        ..Config::default()
    };
    let fetched = fetch(Pair::new(Duration::from_millis(5), plain, viewer()), 1 << 20, false);
    assert_eq!(fetched.pair.server.statistics().retransmitted_bytes, 0);
}

#[test]
fn a_small_window_is_filled_and_never_exceeded() {
    let small = Config { receive_bytes_max: 3000, ..Config::default() };
    let fetched =
        fetch(Pair::new(Duration::from_millis(1), Config::default(), small), 1 << 18, false);
    assert_eq!(fetched.pair.client.statistics().payload_bytes_outside, 0);
}

#[test]
fn super_segments_may_arrive_whole() {
    let mut pair = Pair::new(Duration::from_millis(5), Config::default(), viewer());
    pair.cut = false;
    fetch(pair, 5 << 20, false);
}

#[test]
fn nothing_is_missing_after_loss_reordering_and_duplicates() {
    for seed in 0..60 {
        println!("seed {seed}");
        let mut pair = Pair::new(Duration::from_millis(1 + seed % 40), Config::default(), viewer());
        pair.random.seed(seed);
        pair.weather = Weather {
            loss: [0.0, 0.01, 0.05, 0.2][seed as usize % 4],
            duplicate: 0.02,
            late: [0.0, 0.1, 0.5][seed as usize % 3],
            ..Weather::default()
        };
        let fetched = fetch(pair, 300_000, seed % 2 == 0);
        assert!(fetched.memory_bytes_max <= 8192, "{} bytes", fetched.memory_bytes_max);
    }
}

/// Goodput as a fraction of the bottleneck's rate, for this many megabytes.
fn goodput(rtt_ms: u64, loss: f64, queue_bytes: u64, megabytes: u64, seed: u64) -> f64 {
    let rate = 12_500_000;
    let mut pair = Pair::new(Duration::from_micros(rtt_ms * 500), Config::default(), viewer());
    pair.random.seed(seed);
    pair.weather =
        Weather { loss, bytes_per_second: Some(rate), queue_bytes, ..Weather::default() };
    let bytes = megabytes << 20;
    bytes as f64 / fetch(pair, bytes, false).seconds / rate as f64
}

#[test]
fn a_bottleneck_is_filled() {
    // 100 Mbit/s, with a queue as long as a window, and then a third of it.
    for (rtt_ms, least) in [(2, 0.9), (20, 0.85), (100, 0.7)] {
        let window = (rtt_ms * 12_500).max(64 << 10);
        for queue_bytes in [window, window / 3] {
            let part = goodput(rtt_ms, 0.0, queue_bytes, 40, 1);
            println!("{rtt_ms} ms, queue of {queue_bytes}: {part:.3} of the rate");
            assert!(
                part > least,
                "{part} of the rate at {rtt_ms} ms with a queue of {queue_bytes}"
            );
        }
    }
}

#[test]
fn one_per_cent_of_loss_leaves_what_the_window_formula_gives() {
    // RFC 9438 section 4.3 with RFC 5681: sqrt(1.5 / loss) segments per round trip, whatever the link could carry.
    let formula = 1448.0 * (1.5_f64 / 0.01).sqrt() / 0.020 / 12_500_000.0;
    let part = goodput(20, 0.01, 250_000, 20, 1);
    println!("{:.3} of the formula", part / formula);
    assert!(part > 0.8 * formula, "{part} of the rate instead of {formula}");
}
