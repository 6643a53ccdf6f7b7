//! The real memory of a thousand connections with full windows in flight: resident memory, not the crate's own figures. A process of its own, because
//! other tests in the process would be counted too.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use fullbore_tcp::{Arrived, Config, Ecn, Endpoint, Event, Id, Secret};

const CONNECTIONS: u16 = 1000;
const WINDOW_BYTES: u64 = 4 << 20;

/// The promise, per connection.
const HELD_BYTES_MAX: usize = 8192;

fn resident_bytes() -> Option<usize> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: usize = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * 4096)
}

/// A peer's segment: its port, sequence number 0 for the SYN, flags, acknowledgement number, and options.
fn segment(port: u16, flags: u8, ack: u32, options: &[u8]) -> Vec<u8> {
    let seq: u32 = if flags & 2 != 0 { 0 } else { 1 };
    let mut bytes = Vec::new();
    bytes.extend(port.to_be_bytes());
    bytes.extend(443_u16.to_be_bytes());
    bytes.extend(seq.to_be_bytes());
    bytes.extend(ack.to_be_bytes());
    bytes.extend([((20 + options.len()) / 4 * 16) as u8, flags, 0xff, 0xff, 0, 0, 0, 0]);
    bytes.extend(options);
    bytes
}

struct Host {
    endpoint: Endpoint,
    now: Instant,
    /// Each connection with its peer's port and our initial sequence number.
    connections: Vec<(Id, u16, u32)>,
    /// The segments sent on the first connection: the start and end of each.
    segments: Vec<(u64, u64)>,
}

impl Host {
    fn receive(&mut self, segment: &[u8]) {
        let (remote, local) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        self.endpoint
            .handle_segment(self.now, Arrived { remote, local, ecn: Ecn::NotCapable, segment });
    }

    fn open(&mut self, port: u16) {
        // MSS 1460, SACK permitted, window scale 7: 8 MiB of window.
        self.receive(&segment(port, 0x02, 0, &[2, 4, 5, 180, 1, 1, 4, 2, 1, 3, 3, 7]));
        let answer = self.endpoint.poll_transmit(self.now).expect("a SYN-ACK");
        let isn = u32::from_be_bytes(answer.header.as_bytes()[4..8].try_into().unwrap());
        self.now += Duration::from_micros(100);
        self.receive(&segment(port, 0x10, isn.wrapping_add(1), &[]));
        match self.endpoint.poll_event() {
            Some((id, Event::Accepted)) => self.connections.push((id, port, isn)),
            other => panic!("{other:?} instead of a connection"),
        }
    }

    /// Sends a window on each connection, a little at a time, so that it is many ranges.
    fn fill(&mut self) {
        for (id, ..) in &self.connections {
            self.endpoint.write(self.now, *id, 2 * WINDOW_BYTES);
        }
        for step in 0..WINDOW_BYTES / (64 << 10) {
            self.now += Duration::from_millis(1);
            for (index, (id, ..)) in self.connections.iter().enumerate() {
                let bytes = 64 << 10;
                let mut offset = step * bytes;
                while offset < (step + 1) * bytes {
                    let left = ((step + 1) * bytes - offset) as usize;
                    let sent =
                        self.endpoint.transmit(self.now, *id, offset, left).expect("a window");
                    offset = sent.payload.end;
                    if index == 0 {
                        let starts = sent.payload.step_by(sent.segment_bytes.into());
                        let ends = starts.clone().skip(1).chain([offset]);
                        self.segments.extend(starts.zip(ends));
                    }
                }
            }
        }
    }

    /// Each peer reports that every fourth segment is missing.
    fn report_holes(&mut self) {
        let segments = self.segments.clone();
        let blocks: Vec<_> = segments.chunks(4).filter(|four| four.len() == 4).collect();
        for (_, port, isn) in self.connections.clone() {
            let wire = |offset: u64| isn.wrapping_add(1 + offset as u32).to_be_bytes();
            for four_blocks in blocks.chunks(4).filter(|blocks| blocks.len() == 4) {
                let mut options = vec![1, 1, 5, 34];
                for block in four_blocks {
                    options.extend(wire(block[1].0));
                    options.extend(wire(block[3].1));
                }
                self.receive(&segment(port, 0x10, isn.wrapping_add(1), &options));
            }
            while self.endpoint.poll_transmit(self.now).is_some() {}
        }
    }
}

#[test]
fn a_thousand_full_windows_hold_less_than_8_kib_each() {
    let Some(before) = resident_bytes() else {
        fullbore_tests::tool::skip("there is no /proc/self/statm to read resident memory from");
        return;
    };
    let now = Instant::now();
    let config = Config {
        listen: vec![443],
        pacing: false,
        short_segments: true,
        initial_window_segments: (WINDOW_BYTES / 1460 + 1) as u32,
        ..Config::default()
    };
    let mut host = Host {
        endpoint: Endpoint::new(config, Secret([7; 16]), now),
        now,
        connections: Vec::new(),
        segments: Vec::new(),
    };
    for port in 1..=CONNECTIONS {
        host.open(port);
    }
    host.fill();
    let held = |what: &str| {
        let each = (resident_bytes().unwrap_or(0) - before) / usize::from(CONNECTIONS);
        println!("{what}: {each} bytes of resident memory for each connection");
        assert!(each <= HELD_BYTES_MAX, "{what}: {each} bytes");
    };
    let in_flight = |host: &Host| {
        let info = |(id, ..): &(Id, u16, u32)| host.endpoint.info(*id).expect("a connection");
        host.connections.iter().map(|connection| info(connection).in_flight_bytes).max()
    };
    assert_eq!(in_flight(&host), Some(WINDOW_BYTES));
    held("a full window in flight");
    host.report_holes();
    assert!(in_flight(&host) < Some(WINDOW_BYTES / 10), "the peers' holes were not noted");
    held("every fourth segment missing");
}
