//! Scripted exchanges: one connection, a peer that follows a script, and a clock that advances as the script demands.
//!
//! A line is one of
//!
//! * `< SEGMENT`: the peer sends it; `> SEGMENT`: it is sent here, now, before anything else;
//! * `+20ms LINE`: this much later. Segments sent in the meantime need lines of their own: nothing may go unmentioned;
//! * `write N`, `finish`, `let go`, `reset`, `read N` (N bytes are there), `connect`: the caller does it;
//! * `event accepted|connected|readable|acknowledged N|sendable|finished|ended REASON`: reported to the caller. Events without a line are skipped,
//!   except for `ended`;
//! * `hold`: from here on no wanted bytes are supplied automatically; `serve`: from here on they are again, as at first;
//! * `want A..B`, `want again A..B`, `want nothing`: the requests; `bring A..B`: the caller has the bytes in hand, once;
//!   `withheld REASON`: the result of the last `bring`; `decline A..B`;
//! * `count NAME N`: a counter's value; `cwnd N`, `flight N`, `srtt 20ms`: values of `info`;
//! * `too big MTU at SEQ`: a router's message;
//! * `open RTT [OPTIONS]`: a whole handshake that takes this long, after which `cwnd` is ten segments.
//!
//! Payload of super-segments is one line: `> . 1:14601(14600) ack 1`.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use fullbore_tcp::{Arrived, Config, Ecn, Endpoint, Event, Id, Secret, Transmit, Withheld};

use crate::segment::{Base, Segment, from_header, parse, to_bytes};

/// Close to the wrap of 32 bits, so that every script crosses it.
const PEER_ISN: u32 = 0xffff_ff00;

const PEER: &str = "192.0.2.7:50000";
const US: &str = "198.51.100.1:443";

/// Scripts are easier to read without pacing and with few options; scripts about these switch them on.
pub(crate) fn plain() -> Config {
    Config {
        pacing: false,
        timestamps: false,
        ecn: false,
        keep_alive: None,
        want_bytes_min: 0,
        ..Config::default()
    }
}

struct Stage {
    endpoint: Endpoint,
    began: Instant,
    now: Instant,
    base: Base,
    numbers_known: bool,
    peer: SocketAddr,
    us: SocketAddr,
    id: Option<Id>,
    sent: VecDeque<(Instant, Segment)>,
    events: VecDeque<Event>,
    hold: bool,
    hand: Vec<Range<u64>>,
    wants: VecDeque<fullbore_tcp::ByteRequest>,
    withheld: Option<Withheld>,
}

/// Plays a script; panics at the first line that does not hold.
pub(crate) fn play(config: Config, script: &str) {
    let now = Instant::now();
    let config = Config { listen: vec![443], ..config };
    let mut stage = Stage {
        endpoint: Endpoint::new(config, Secret(*b"scripted secrets"), now),
        began: now,
        now,
        base: Base { peers: PEER_ISN, ..Base::default() },
        numbers_known: false,
        peer: PEER.parse().unwrap(),
        us: US.parse().unwrap(),
        id: None,
        sent: VecDeque::new(),
        events: VecDeque::new(),
        hold: false,
        hand: Vec::new(),
        wants: VecDeque::new(),
        withheld: None,
    };
    for (number, line) in script.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if !line.is_empty() {
            stage.play(line, &format!("line {number}: {line}"));
        }
    }
    stage.nothing_unmentioned("the end");
    if let Some(Event::Ended(reason)) =
        stage.events.iter().find(|event| matches!(event, Event::Ended(_)))
    {
        panic!("it ended, and no line says so: {reason:?}");
    }
}

fn duration(text: &str) -> Duration {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).expect("a unit");
    let number: f64 = text[..split].parse().expect("a number");
    let seconds = match &text[split..] {
        "us" => number / 1e6,
        "ms" => number / 1e3,
        "s" => number,
        "min" => number * 60.0,
        unit => panic!("what unit is {unit}?"),
    };
    Duration::from_nanos((seconds * 1e9).round() as u64)
}

fn range(text: &str) -> Range<u64> {
    let (start, end) = text.split_once("..").expect("start..end");
    start.parse().expect("a number")..end.parse().expect("a number")
}

impl Stage {
    fn play(&mut self, line: &str, place: &str) {
        if let Some(rest) = line.strip_prefix('+') {
            let (time, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            self.advance(duration(time));
            if rest.trim().is_empty() {
                return;
            }
            return self.play(rest.trim(), place);
        }
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        match verb {
            ">" => return self.expect(&parse(rest), place),
            "event" => return self.expect_event(rest, place),
            "count" => return self.expect_count(rest, place),
            "want" => return self.expect_want(rest, place),
            "withheld" => {
                let withheld = format!("{:?}", self.withheld.expect(place));
                return assert_eq!(withheld, rest, "{place}");
            }
            "cwnd" | "flight" | "srtt" => return self.expect_info(verb, rest, place),
            _ => {}
        }
        self.nothing_unmentioned(place);
        self.act(verb, rest, place);
        self.run();
    }

    /// An action of the peer or the caller.
    fn act(&mut self, verb: &str, rest: &str, place: &str) {
        let number = || rest.parse::<u64>().expect("a number");
        match verb {
            "<" => return self.receive(&parse(rest)),
            "hold" => return self.hold = true,
            "serve" => return self.hold = false,
            "open" => return self.open(rest, place),
            "too" => return self.too_big(rest),
            "connect" => {
                self.id = self.endpoint.connect(self.now, self.us, self.peer);
                return assert!(self.id.is_some(), "{place}");
            }
            _ => {}
        }
        let id = self.id.expect(place);
        match verb {
            "write" => self.endpoint.write(self.now, id, number()),
            "finish" => self.endpoint.finish(self.now, id),
            "let" => self.endpoint.let_go(self.now, id),
            "reset" => self.endpoint.reset(self.now, id),
            "decline" => self.endpoint.decline(self.now, id, range(rest)),
            "bring" => self.withheld = self.let_out(id, range(rest)).err(),
            "read" => {
                let mut into = vec![0; number() as usize + 1];
                let count = self.endpoint.read(self.now, id, &mut into);
                assert_eq!(count as u64, number(), "{place}");
            }
            verb => panic!("what is {verb:?}?"),
        }
    }

    fn open(&mut self, rest: &str, place: &str) {
        let (rtt, options) = rest.split_once(' ').unwrap_or((rest, "mss 1460,sackOK,wscale 7"));
        self.receive(&parse(&format!("S 0:0(0) win 65535 <{options}>")));
        self.run();
        self.sent.pop_front().expect("a SYN-ACK");
        self.advance(duration(rtt));
        let stamps = if options.contains("TS") { "<TS val 1 ecr 0>" } else { "" };
        self.receive(&parse(&format!(". 1:1(0) ack 1 win 65535 {stamps}")));
        self.run();
        self.expect_event("accepted", place);
    }

    fn too_big(&mut self, rest: &str) {
        let words: Vec<&str> = rest.split_whitespace().collect();
        let (mtu, seq): (u16, u32) = (words[1].parse().unwrap(), words[3].parse().unwrap());
        let sequence = self.base.ours.wrapping_add(seq);
        self.endpoint.handle_packet_too_big(self.now, self.us, self.peer, sequence, mtu);
    }

    fn receive(&mut self, segment: &Segment) {
        let payload = vec![0x5a; segment.bytes as usize];
        let bytes = to_bytes(segment, &self.base, self.peer.port(), self.us.port(), &payload);
        let ecn = Ecn::from_bits(segment.ecn.unwrap_or(0));
        let (remote, local) = (self.peer.ip(), self.us.ip());
        self.endpoint.handle_segment(self.now, Arrived { remote, local, ecn, segment: &bytes });
    }

    /// Advances from one timer to the next.
    fn advance(&mut self, by: Duration) {
        let target = self.now + by;
        while let Some(next) = self.endpoint.next_timeout().filter(|next| *next <= target) {
            self.now = self.now.max(next);
            self.endpoint.handle_timeout(self.now);
            self.run();
        }
        self.now = target;
    }

    /// Sends everything that may be sent.
    fn run(&mut self) {
        loop {
            while let Some((id, event)) = self.endpoint.poll_event() {
                if matches!(event, Event::Accepted) {
                    self.id = Some(id);
                }
                self.events.push_back(event);
            }
            let mut moved = false;
            while let Some((id, want)) = self.endpoint.poll_byte_request(self.now) {
                self.id = Some(id);
                moved = true;
                if !self.hold {
                    self.hand.push(want.range.clone());
                }
                self.wants.push_back(want);
            }
            for held in std::mem::take(&mut self.hand) {
                let id = self.id.expect("a want is some connection's");
                match self.let_out(id, held.clone()) {
                    Err(Withheld::NotNeeded | Withheld::Gone) => {}
                    _ => self.hand.push(held),
                }
            }
            while let Some(transmit) = self.endpoint.poll_transmit(self.now) {
                moved = true;
                self.note(&transmit);
            }
            if !moved {
                return;
            }
        }
    }

    /// Until there is an error, which is returned.
    fn let_out(&mut self, id: Id, held: Range<u64>) -> Result<(), Withheld> {
        loop {
            let bytes = (held.end - held.start) as usize;
            let transmit = self.endpoint.transmit(self.now, id, held.start, bytes)?;
            self.note(&transmit);
        }
    }

    fn note(&mut self, transmit: &Transmit) {
        let header = transmit.header.as_bytes();
        if !self.numbers_known && header[13] & 2 != 0 {
            self.numbers_known = true;
            self.base.ours = u32::from_be_bytes(header[4..8].try_into().unwrap());
            let raw = from_header(header, 0, 0, &Base::default());
            self.base.our_stamp = raw.stamps.map_or(0, |(value, _)| value);
        }
        let bytes = transmit.payload_bytes() as u32;
        let segment = from_header(header, bytes, transmit.ecn.bits(), &self.base);
        self.sent.push_back((self.now, segment));
    }

    fn expect(&mut self, wanted: &Segment, place: &str) {
        let Some((at, sent)) = self.sent.pop_front() else {
            panic!("nothing left, at {:?}; {place}", self.now - self.began);
        };
        assert!(wanted.describes(&sent), "left: {sent}; {place}");
        // Timers may be served in steps, so a millisecond of difference is allowed.
        let early = self.now - at;
        assert!(early < Duration::from_millis(1), "left {early:?} earlier: {sent}; {place}");
    }

    fn nothing_unmentioned(&self, place: &str) {
        if let Some((at, sent)) = self.sent.front() {
            panic!("left at {:?}, and no line says so: {sent}; before {place}", *at - self.began);
        }
    }

    fn expect_event(&mut self, wanted: &str, place: &str) {
        let named = |event: &Event| match event {
            Event::Ended(reason) => format!("ended {reason:?}"),
            Event::Acknowledged { below } => format!("acknowledged {below}"),
            event => format!("{event:?}").to_lowercase(),
        };
        let at = self.events.iter().position(|event| named(event) == wanted);
        match at {
            Some(at) => drop(self.events.drain(..=at)),
            None => panic!("told: {:?}; {place}", self.events),
        }
    }

    fn expect_want(&mut self, wanted: &str, place: &str) {
        let want = self.wants.pop_front().map(|want| {
            let again = if want.retransmission { "again " } else { "" };
            format!("{again}{}..{}", want.range.start, want.range.end)
        });
        assert_eq!(want.as_deref().unwrap_or("nothing"), wanted, "{place}");
    }

    fn expect_info(&self, what: &str, value: &str, place: &str) {
        let info = self.id.and_then(|id| self.endpoint.info(id)).expect(place);
        match what {
            "cwnd" => assert_eq!(info.cwnd_bytes.to_string(), value, "{place}"),
            "flight" => assert_eq!(info.in_flight_bytes.to_string(), value, "{place}"),
            _ => assert_eq!(info.srtt, duration(value), "{place}"),
        }
    }

    fn expect_count(&self, rest: &str, place: &str) {
        let (name, value) = rest.split_once(' ').expect("a name and a number");
        let statistics = self.endpoint.statistics();
        let counter = statistics.iter().find(|(known, _)| *known == name);
        assert_eq!(counter.expect(place).1.to_string(), value, "{place}");
    }
}
