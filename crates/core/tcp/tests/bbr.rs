//! BBR on a known path, alone and next to other flows, in virtual time: several servers, one client that reads everything, one bottleneck for all
//! (`middlebox::SimulatedLink`).

use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use fullbore_tcp::{
    Arrived, Config, CongestionControl, Ecn, Endpoint, Event, Id, Info, Secret, Transmit, Withheld,
};
use middlebox::{Chance, Impairment, SimulatedLink};

use CongestionControl::{Bbr, Bbr1, Cubic};

const RTT: Duration = Duration::from_millis(20);
const MBIT: u64 = 1_000_000;

fn seconds(count: f64) -> Duration {
    Duration::from_secs_f64(count)
}

#[derive(Clone)]
struct Packet {
    flow: usize,
    from: SocketAddr,
    to: SocketAddr,
    segment: Vec<u8>,
}

/// A server with one connection.
struct Flow {
    server: Endpoint,
    id: Option<Id>,
    in_hand: Vec<Range<u64>>,
    received: u64,
    /// When the client connects.
    start: Instant,
    is_begun: bool,
    /// The bytes that the server's application writes at once, and how often.
    bytes: u64,
    every: Duration,
    write_at: Instant,
}

/// The whole simulation.
struct Field {
    now: Instant,
    start: Instant,
    client: Endpoint,
    flows: Vec<Flow>,
    there: SimulatedLink<Packet>,
    back: SimulatedLink<Packet>,
    buffer: Vec<u8>,
}

fn bottleneck(rate_bits_per_second: u64, queue_bytes: u64, loss: Chance) -> Impairment {
    Impairment {
        delay: RTT / 2,
        loss,
        rate_bits_per_second: Some(rate_bits_per_second),
        queue_bytes,
        ..Impairment::default()
    }
}

fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, host], port))
}

impl Field {
    /// Flows, each with its beginning in seconds.
    fn new(flows: &[(CongestionControl, f64)], back: Impairment) -> Self {
        let now = Instant::now();
        let flow = |(index, (control, start)): (usize, &(CongestionControl, f64))| {
            let config =
                Config { listen: vec![443], congestion_control: *control, ..Config::default() };
            Flow {
                server: Endpoint::new(config, Secret([index as u8 + 1; 16]), now),
                id: None,
                in_hand: Vec::new(),
                received: 0,
                start: now + seconds(*start),
                is_begun: false,
                bytes: 1 << 40,
                every: Duration::from_secs(1 << 30),
                write_at: now,
            }
        };
        let viewer =
            Config { receive_bytes_max: 8 << 20, receive_ranges_max: 4096, ..Config::default() };
        Field {
            now,
            start: now,
            client: Endpoint::new(viewer, Secret([9; 16]), now),
            flows: flows.iter().enumerate().map(flow).collect(),
            there: SimulatedLink::new(Impairment { delay: RTT / 2, ..Impairment::default() }, 1),
            back: SimulatedLink::new(back, 2),
            buffer: vec![0; 256 << 10],
        }
    }

    /// Runs until this many seconds after the start.
    fn run_until(&mut self, at: f64) {
        let end = self.start + seconds(at);
        loop {
            self.exchange();
            let servers = self.flows.iter().filter_map(|flow| flow.server.next_timeout());
            let writes =
                self.flows.iter().filter(|flow| flow.id.is_some()).map(|flow| flow.write_at);
            let starts = self.flows.iter().filter(|flow| !flow.is_begun).map(|flow| flow.start);
            let links = [self.there.next_due(), self.back.next_due(), self.client.next_timeout()];
            let next = servers.chain(writes).chain(starts).chain(links.into_iter().flatten()).min();
            self.now = self.now.max(next.map_or(end, |next| next.min(end)));
            if self.now >= end {
                return;
            }
            self.advance();
        }
    }

    /// Does the work that is due now.
    fn advance(&mut self) {
        let now = self.now;
        while let Some(delivered) = self.back.poll(now) {
            take(&mut self.client, now, &delivered.packet);
        }
        while let Some(delivered) = self.there.poll(now) {
            take(&mut self.flows[delivered.packet.flow].server, now, &delivered.packet);
        }
        self.client.handle_timeout(now);
        for (index, flow) in self.flows.iter_mut().enumerate() {
            flow.server.handle_timeout(now);
            if !flow.is_begun && flow.start <= now {
                flow.is_begun = true;
                let (local, remote) =
                    (address(1, 5000 + index as u16), address(2 + index as u8, 443));
                self.client.connect(now, local, remote).expect("a connection");
            }
            if let Some(id) = flow.id.filter(|_| flow.write_at <= now) {
                flow.server.write(now, id, flow.bytes);
                flow.write_at = now + flow.every;
            }
        }
    }

    /// Sends what may be sent, and reads what has arrived.
    fn exchange(&mut self) {
        let now = self.now;
        for (index, flow) in self.flows.iter_mut().enumerate() {
            flow.take_events(now);
            while let Some((_, want)) = flow.server.poll_byte_request(now) {
                flow.bring(want.range);
            }
            let back = &mut self.back;
            flow.send(now, |transmit| put(back, now, index, transmit));
            while let Some(transmit) = flow.server.poll_transmit(now) {
                put(back, now, index, &transmit);
            }
        }
        while let Some((id, event)) = self.client.poll_event() {
            if let (Event::Readable, Some((remote, _))) = (event, self.client.addresses(id)) {
                loop {
                    let bytes = self.client.read(now, id, &mut self.buffer);
                    self.flows[flow_of(remote)].received += bytes as u64;
                    if bytes < self.buffer.len() {
                        break;
                    }
                }
            }
        }
        while let Some(transmit) = self.client.poll_transmit(now) {
            put(&mut self.there, now, flow_of(transmit.remote), &transmit);
        }
    }

    /// The rate of each flow between two times, in arrived megabits per second.
    fn rates(&mut self, from: f64, until: f64) -> Vec<f64> {
        self.run_until(from);
        let before: Vec<_> = self.flows.iter().map(|flow| flow.received).collect();
        self.run_until(until);
        let rate = |(flow, before): (&Flow, u64)| {
            (flow.received - before) as f64 * 8.0 / (until - from) / MBIT as f64
        };
        self.flows.iter().zip(before).map(rate).collect()
    }

    fn info(&self, flow: usize) -> Info {
        let flow = &self.flows[flow];
        flow.id.and_then(|id| flow.server.info(id)).expect("a connection")
    }

    /// The median of the round trips between two times, in milliseconds.
    fn round_trip_ms(&mut self, from: u32, until: u32) -> f64 {
        let mut all: Vec<_> = (from * 10..until * 10)
            .map(|tenth| {
                self.run_until(f64::from(tenth) / 10.0);
                self.info(0).srtt.as_secs_f64() * 1000.0
            })
            .collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    }
}

/// The flow of the server at this address.
fn flow_of(server: SocketAddr) -> usize {
    match server {
        SocketAddr::V4(server) => usize::from(server.ip().octets()[3]) - 2,
        SocketAddr::V6(_) => unreachable!("all addresses here are IPv4"),
    }
}

impl Flow {
    fn take_events(&mut self, now: Instant) {
        while let Some((id, event)) = self.server.poll_event() {
            if event == Event::Accepted {
                self.id = Some(id);
                self.write_at = now;
            }
            assert!(!matches!(event, Event::Ended(_)), "{event:?}");
        }
    }

    fn bring(&mut self, range: Range<u64>) {
        match self.in_hand.iter_mut().find(|held| held.end == range.start) {
            Some(held) => held.end = range.end,
            None => self.in_hand.push(range),
        }
    }

    fn send(&mut self, now: Instant, mut put: impl FnMut(&Transmit)) {
        let Some(id) = self.id else { return };
        for held in std::mem::take(&mut self.in_hand) {
            loop {
                let bytes = (held.end - held.start) as usize;
                match self.server.transmit(now, id, held.start, bytes) {
                    Ok(transmit) => put(&transmit),
                    Err(Withheld::NotNeeded | Withheld::Gone) => break,
                    Err(_) => {
                        self.in_hand.push(held);
                        break;
                    }
                }
            }
        }
    }
}

fn take(endpoint: &mut Endpoint, now: Instant, packet: &Packet) {
    let (remote, local) = (packet.from.ip(), packet.to.ip());
    let segment = &packet.segment;
    endpoint.handle_segment(now, Arrived { remote, local, ecn: Ecn::NotCapable, segment });
}

/// Puts a segment on the path, cut as a device does.
fn put(link: &mut SimulatedLink<Packet>, now: Instant, flow: usize, transmit: &Transmit) {
    let header = transmit.header.as_bytes();
    let size = usize::from(transmit.segment_bytes).max(1);
    let bytes = transmit.payload_bytes();
    for from in (0..bytes.max(1)).step_by(size) {
        let mut segment = header.to_vec();
        let sequence = u32::from_be_bytes(segment[4..8].try_into().expect("four bytes"));
        segment[4..8].copy_from_slice(&sequence.wrapping_add(from as u32).to_be_bytes());
        segment.resize(header.len() + (bytes - from).min(size), 0);
        let length = segment.len() + 20;
        let packet = Packet { flow, from: transmit.local, to: transmit.remote, segment };
        link.offer(now, packet, length);
    }
}

/// Jain, Chiu and Hawe, "A quantitative measure of fairness", 1984.
fn jain(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    sum * sum / (rates.len() as f64 * squares)
}

/// A flow's rate depends on when losses fall: three of them in one probe lower what BBR believes safe to have in flight. So a single run means
/// little, and the mean of several counts.
#[test]
fn one_per_cent_of_loss_costs_bbr_little_and_cubic_nearly_all() {
    let rate = |control, seed| {
        let path = bottleneck(50 * MBIT, 125_000, Chance::per_million(10_000));
        let mut field = Field::new(&[(control, 0.0)], path);
        field.back = SimulatedLink::new(path, seed);
        field.rates(2.0, 10.0)[0]
    };
    let first = rate(Bbr1, 2);
    eprintln!("1% loss, 20 ms, of 50 Mbit/s: version 1 {first:.1}");
    assert!(first > 40.0, "version 1: {first:.1} of 50 Mbit/s");
    let rates: Vec<_> = (2..8).map(|seed| (rate(Bbr, seed), rate(Cubic, seed))).collect();
    let mean = rates.iter().map(|(bbr, _)| bbr).sum::<f64>() / rates.len() as f64;
    eprintln!("1% loss, 20 ms, of 50 Mbit/s: BBR, CUBIC {rates:.1?}, mean of BBR {mean:.1}");
    assert!(mean > 35.0, "BBR {mean:.1} of 50 Mbit/s");
    assert!(rates.iter().all(|(bbr, cubic)| *bbr > 3.0 * cubic), "BBR, CUBIC {rates:.1?}");
}

#[test]
fn a_clean_path_is_filled_soon() {
    for (mbit, queue_bytes) in [(10, 25_000), (50, 125_000), (50, 30_000)] {
        for control in [Bbr, Bbr1] {
            let path = bottleneck(mbit * MBIT, queue_bytes, Chance::NEVER);
            let rate = Field::new(&[(control, 0.0)], path).rates(1.0, 8.0)[0];
            eprintln!("{control:?}, queue {queue_bytes}, of {mbit} Mbit/s: {rate:.1}");
            assert!(rate > 0.85 * mbit as f64, "{rate:.1} of {mbit} Mbit/s, queue {queue_bytes}");
        }
    }
}

/// A queue of two seconds: a flow that waits for loss fills it.
#[test]
fn a_bloated_queue_stays_short() {
    let round_trip_ms = |control| {
        let path = bottleneck(20 * MBIT, 5_000_000, Chance::NEVER);
        Field::new(&[(control, 0.0)], path).round_trip_ms(8, 16)
    };
    let (bbr, cubic) = (round_trip_ms(Bbr), round_trip_ms(Cubic));
    eprintln!("round trip over a queue of 2 s, of 20 ms: BBR {bbr:.1} ms, CUBIC {cubic:.1} ms");
    assert!(bbr < 40.0 && cubic > 3.0 * bbr, "BBR {bbr:.1} ms, CUBIC {cubic:.1} ms");
}

#[test]
fn two_of_bbr_share_fairly_after_a_while() {
    for queue_bytes in [50_000, 200_000] {
        let path = bottleneck(20 * MBIT, queue_bytes, Chance::NEVER);
        let rates = Field::new(&[(Bbr, 0.0), (Bbr, 3.0)], path).rates(20.0, 50.0);
        let index = jain(&rates);
        eprintln!("queue {queue_bytes}: {rates:.1?}, Jain {index:.3}");
        assert!(index >= 0.9 && rates.iter().sum::<f64>() > 17.0, "{rates:.1?}, Jain {index:.3}");
    }
}

/// Flows on 50 Mbit/s, half of them with each of these, and Jain's index.
fn halves(each: usize, controls: [CongestionControl; 2], queue_bytes: u64) -> (f64, Vec<f64>) {
    let flows = controls.map(|control| vec![(control, 0.0); each]).concat();
    let path = bottleneck(50 * MBIT, queue_bytes, Chance::NEVER);
    let mut field = Field::new(&flows, path);
    let rates = field.rates(5.0, 25.0);
    let index = jain(&rates);
    let again = |flow| {
        let info = field.info(flow);
        100 * info.retransmitted_bytes / info.sent_below
    };
    let again: Vec<_> = (0..flows.len()).map(again).collect();
    let told = format!("{rates:.1?}, Jain {index:.3}, sent again {again:?}%");
    eprintln!("queue {queue_bytes}, {controls:?}, {each} of each: {told}");
    assert!(rates.iter().sum::<f64>() > 45.0, "{rates:.1?}");
    (index, rates)
}

#[test]
fn each_version_of_bbr_shares_with_itself() {
    for queue_bytes in [62_500, 125_000, 250_000] {
        for (each, control) in [(1, Bbr), (1, Bbr1), (4, Bbr), (4, Bbr1)] {
            let (index, rates) = halves(each, [control; 2], queue_bytes);
            assert!(index >= 0.9, "{control:?}: {rates:.1?}, Jain {index:.3}");
        }
    }
}

/// The share that version 3 gets next to version 1, which is Linux's, follows from the draft: a probe that loses 2% bounds the bytes in flight, and
/// in front of a queue that is too short for both, version 1 causes more loss than that. Where the queue holds what both have in flight, they share.
#[test]
fn version_3_yields_to_version_1_where_the_queue_is_short() {
    let (_, rates) = halves(1, [Bbr, Bbr1], 125_000);
    assert!(rates[0] * 3.0 < rates[1] && rates[0] > 2.5, "{rates:.1?}");
    let (index, rates) = halves(1, [Bbr, Bbr1], 500_000);
    assert!(index >= 0.9, "{rates:.1?}, Jain {index:.3}");
    let (_, rates) = halves(1, [Cubic, Bbr1], 125_000);
    assert!(rates[0] < rates[1], "CUBIC yields to it as well: {rates:.1?}");
}

#[test]
fn neither_bbr_nor_cubic_starves_beside_the_other() {
    for queue_bytes in [50_000, 100_000] {
        for starts in [[0.0, 3.0], [3.0, 0.0]] {
            let path = bottleneck(20 * MBIT, queue_bytes, Chance::NEVER);
            let flows = [(Bbr, starts[0]), (Cubic, starts[1])];
            let rates = Field::new(&flows, path).rates(10.0, 40.0);
            let index = jain(&rates);
            eprintln!("queue {queue_bytes}, {starts:?}: BBR, CUBIC {rates:.1?}, Jain {index:.3}");
            assert!(rates.iter().all(|rate| *rate > 2.5), "BBR and CUBIC {rates:.1?}");
        }
    }
}

/// A viewer's behaviour for half a minute after a film's beginning has filled a path of 20 Mbit/s.
struct Habit {
    what: &'static str,
    bytes: u64,
    every: f64,
    /// Bytes per second.
    cap: Option<u64>,
}

const HABITS: [Habit; 4] = [
    Habit { what: "a segment of film now and then", bytes: 500_000, every: 2.0, cap: None },
    Habit { what: "a little all the time", bytes: 500, every: 0.001, cap: None },
    Habit { what: "next to nothing", bytes: 100, every: 6.0, cap: None },
    Habit { what: "held back by a rate", bytes: 2_000_000, every: 4.0, cap: Some(500_000) },
];

/// Half a minute is long compared with the two cycles of probing, at most six seconds, for which BBR remembers a rate. Within half a second of a
/// request for everything again, the path is full.
#[test]
fn a_slow_application_never_lowers_the_estimate() {
    for (control, Habit { what, bytes, every, cap }) in
        HABITS.iter().flat_map(|habit| [(Bbr, habit), (Bbr1, habit)])
    {
        let (bytes, every, cap) = (*bytes, *every, *cap);
        let mut field = Field::new(&[(control, 0.0)], bottleneck(20 * MBIT, 50_000, Chance::NEVER));
        // Six seconds' worth at once.
        field.flows[0].bytes = 15_000_000;
        field.flows[0].every = seconds(8.0);
        field.run_until(5.0);
        let full = field.info(0).pacing_rate_bytes_per_second;
        (field.flows[0].bytes, field.flows[0].every) = (bytes, seconds(every));
        field.run_until(7.9);
        assert_eq!(field.info(0).in_flight_bytes, 0, "all is sent, and nothing new was written");
        let id = field.flows[0].id.expect("a connection");
        field.flows[0].server.limit_rate(id, cap);
        let slow = field.rates(10.0, 38.0)[0];
        field.flows[0].server.limit_rate(id, None);
        field.flows[0].bytes = 1 << 40;
        (field.flows[0].every, field.flows[0].write_at) = (seconds(1e6), field.now);
        let again = field.rates(38.5, 40.0)[0];
        eprintln!(
            "{control:?}, {what}: {slow:.2} Mbit/s, and then {again:.1} (it was paced at {full})"
        );
        assert!(slow < 6.0, "{what}: that was not slow: {slow:.2} Mbit/s");
        assert!(again > 17.0, "{control:?}, {what}: {again:.1} of 20 Mbit/s");
    }
}

#[test]
fn a_rate_that_doubles_or_halves_is_found_within_seconds() {
    let run = |control, before, after| {
        let path = |mbit| bottleneck(mbit * MBIT, 100_000, Chance::NEVER);
        let mut field = Field::new(&[(control, 0.0)], path(before));
        field.run_until(6.0);
        field.back.change(path(after));
        let rate = field.rates(12.0, 18.0)[0];
        (rate, field.info(0).srtt.as_secs_f64() * 1000.0)
    };
    for control in [Bbr, Bbr1] {
        let ((doubled, _), (halved, round_trip_ms)) = (run(control, 10, 20), run(control, 20, 10));
        let told = format!("{halved:.1}, round trip {round_trip_ms:.1} ms");
        eprintln!("{control:?}: 10 to 20 Mbit/s: {doubled:.1}; 20 to 10: {told}");
        assert!(doubled > 16.0, "{control:?}: {doubled:.1} of 20 Mbit/s");
        assert!(
            halved > 8.5 && round_trip_ms < 70.0,
            "{control:?}: {halved:.1}, {round_trip_ms:.1} ms"
        );
    }
}
