//! The order of BBR's states on a known path, and after arbitrary reports.

use super::model::UNBOUNDED;
use super::*;
use crate::congestion::reports_tests::{MSS, START, after, calls, report};
use crate::congestion::{Congestion, CongestionControl};
use proptest::prelude::*;

/// A path of 1 MB/s and 20 ms, segment by segment: 20 kB fill it. Sends as window and pace allow.
struct Path {
    bbr: Bbr,
    now_us: u64,
    /// The time that a segment takes.
    segment_us: u64,
    /// Reported as lost with the next acknowledgement.
    lost_bytes: u64,
    /// When each segment was sent, and when its acknowledgement comes.
    under_way: std::collections::VecDeque<(u64, u64)>,
    free_at_us: u64,
    send_at_us: u64,
    acknowledged: u64,
    sent: u64,
    states: Vec<State>,
}

impl Path {
    fn new() -> Self {
        Path {
            bbr: Bbr::new(&START),
            now_us: 0,
            segment_us: MSS,
            lost_bytes: 0,
            under_way: Default::default(),
            free_at_us: 0,
            send_at_us: 0,
            acknowledged: 0,
            sent: 0,
            states: vec![State::Startup],
        }
    }

    fn in_flight(&self) -> u64 {
        self.under_way.len() as u64 * MSS
    }

    /// A tenth of a millisecond.
    fn step(&mut self) {
        self.now_us += 100;
        while self.under_way.front().is_some_and(|(_, due)| *due <= self.now_us) {
            self.acknowledge();
        }
        while self.send_at_us <= self.now_us && self.in_flight() + MSS <= self.bbr.cwnd() {
            self.send();
        }
        if self.states.last() != Some(&self.bbr.state) {
            self.states.push(self.bbr.state);
        }
    }

    fn send(&mut self) {
        if self.under_way.is_empty() {
            self.bbr.idle(Time(self.now_us));
        }
        self.free_at_us = self.free_at_us.max(self.now_us) + self.segment_us;
        self.under_way.push_back((self.now_us, self.free_at_us + 19_000));
        self.sent += MSS;
        let (now, in_flight) = (Time(self.now_us), self.in_flight());
        self.bbr.sent(&Sent { now, bytes: MSS, in_flight, srtt_us: 20_000 });
        if let Pace::Rate(bytes_per_second) = self.bbr.pace() {
            let takes_us = MSS * 1_000_000 / bytes_per_second.max(1);
            self.send_at_us = self.send_at_us.max(self.now_us - 100) + takes_us;
        }
    }

    fn acknowledge(&mut self) {
        let in_flight_before = self.in_flight();
        let (sent_at_us, _) = self.under_way.pop_front().expect("there is one");
        self.acknowledged += MSS;
        let acked = Acked {
            acknowledged: self.acknowledged,
            sent_below: self.sent,
            advanced_bytes: MSS,
            delivered_bytes: MSS,
            arrived_bytes: MSS,
            newest_sent_at: Some(Time(sent_at_us)),
            lost_bytes: std::mem::take(&mut self.lost_bytes),
            in_flight_before,
            in_flight: self.in_flight(),
            rtt_us: Some(self.now_us - sent_at_us),
            ..report(Time(self.now_us))
        };
        self.bbr.acked(&acked);
    }

    fn run_until(&mut self, at_us: u64) {
        while self.now_us < at_us {
            self.step();
        }
    }

    /// Slows the path, for bytes in flight too.
    fn slow_down(&mut self, times: u64) {
        let later = |due: u64| self.now_us + due.saturating_sub(self.now_us) * times;
        self.under_way.iter_mut().for_each(|(_, due)| *due = later(*due));
        self.free_at_us = later(self.free_at_us);
        self.segment_us *= times;
    }

    fn run_to(&mut self, state: State) {
        let end_us = self.now_us + 20_000_000;
        while self.bbr.state != state {
            self.step();
            assert!(self.now_us < end_us, "{state:?} does not come: {:?}", self.states);
        }
    }
}

#[test]
fn it_starts_drains_cruises_and_probes() {
    let mut path = Path::new();
    path.run_until(4_500_000);
    // Drain leaves nothing for Down to do, so Down ends with the acknowledgement with which it begins.
    let expected = [
        State::Startup,
        State::Drain,
        State::Cruise,
        State::Refill,
        State::Up,
        State::Down,
        State::Cruise,
        State::Refill,
    ];
    assert_eq!(path.states[..expected.len()], expected, "{:?}", path.states);
    let rate = path.bbr.model.max_rate.value();
    assert!((950_000..=1_100_000).contains(&rate), "{rate} of 1,000,000 bytes per second");
    let least_us = path.bbr.model.least_rtt.us().expect("measured");
    assert!((19_900..=22_000).contains(&least_us), "{least_us} us");
}

#[test]
fn it_becomes_small_every_five_seconds_and_then_is_as_large_as_before() {
    let mut path = Path::new();
    path.run_until(4_900_000);
    let cwnd = path.bbr.cwnd();
    path.run_until(12_000_000);
    assert!(path.states.contains(&State::ProbeRtt), "{:?}", path.states);
    path.run_until(12_500_000);
    while path.bbr.state != State::Cruise {
        path.step();
    }
    let (later, rate) = (path.bbr.cwnd(), path.bbr.model.rate());
    assert!(later * 10 >= cwnd * 8, "{later} bytes, {cwnd} before");
    assert!(rate >= 950_000, "the small window was not the path's: {rate}");
}

#[test]
fn a_timeout_leaves_one_segment_and_what_is_known_brings_the_rest_back() {
    let mut path = Path::new();
    path.run_until(1_000_000);
    let cwnd = path.bbr.cwnd();
    path.bbr.timed_out(5 * MSS, path.sent);
    assert_eq!((path.bbr.cwnd(), path.bbr.is_recovering()), (MSS, true));
    path.run_until(1_200_000);
    assert!(!path.bbr.is_recovering());
    assert!(path.bbr.cwnd() * 10 >= cwnd * 6, "{} bytes, {cwnd} before", path.bbr.cwnd());
}

#[test]
fn a_timeout_for_nothing_is_undone() {
    let mut path = Path::new();
    path.run_until(1_000_000);
    let cwnd = path.bbr.cwnd();
    path.bbr.timed_out(5 * MSS, path.sent);
    assert!(path.bbr.undo() && !path.bbr.undo());
    assert_eq!((path.bbr.cwnd(), path.bbr.is_recovering()), (cwnd, false));
}

/// The draft's example: the path becomes slower while the queue should empty, so it does not empty.
#[test]
fn a_drain_that_drains_nothing_ends_after_three_round_trips() {
    let mut path = Path::new();
    path.run_to(State::Drain);
    path.slow_down(4);
    let began = path.bbr.rounds.count;
    path.run_to(State::Down);
    let rounds = path.bbr.rounds.count - began;
    assert_eq!(rounds, DRAIN_ROUNDS_MAX + 1);
    assert!(path.in_flight() > path.bbr.full_bytes(path.bbr.model.rate()));
}

#[test]
fn a_lossy_probe_ends_and_is_begun_again_if_nothing_was_lost() {
    let mut path = Path::new();
    path.run_to(State::Up);
    path.run_until(path.now_us + 25_000);
    assert_eq!(path.bbr.state, State::Up);
    // Four of at most 40 segments.
    path.lost_bytes = 4 * MSS;
    path.run_to(State::Down);
    let lowered = path.bbr.inflight_hi();
    assert!(lowered < 50 * MSS && path.bbr.is_recovering(), "{lowered} bytes");
    assert!(path.bbr.undo());
    assert_eq!((path.bbr.state, path.bbr.inflight_hi()), (State::Refill, UNBOUNDED));
    path.run_to(State::Up);
}

#[test]
fn a_start_that_lost_much_ends_and_goes_on_if_nothing_was_lost() {
    let mut path = Path::new();
    path.run_until(30_000);
    while path.bbr.state == State::Startup {
        path.lost_bytes = MSS;
        path.step();
    }
    let bound = path.bbr.inflight_hi();
    assert!(bound != UNBOUNDED && bound >= path.bbr.full_bytes(path.bbr.model.rate()), "{bound}");
    assert!(path.bbr.undo());
    assert_eq!((path.bbr.state, path.bbr.inflight_hi()), (State::Startup, UNBOUNDED));
    path.run_to(State::Cruise);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Whatever happened before, a path that recovers gets at least a segment in each of its round trips: one segment alone shows such a rate.
    #[test]
    fn nothing_stops_it_for_good(calls in calls()) {
        let (congestion, now, end) = after(CongestionControl::Bbr, calls)?;
        let Congestion::Bbr(mut bbr) = congestion else { unreachable!("it is BBR") };
        bbr.set_mss(MSS);
        let mut path = Path { bbr: *bbr, now_us: now.0, acknowledged: end, sent: end, ..Path::new() };
        path.run_until(now.0 + 3_000_000);
        let before = path.acknowledged;
        path.run_until(now.0 + 5_000_000);
        let segments = (path.acknowledged - before) / MSS;
        // Round trips take 20 ms, and both ends of the two seconds may cut one.
        prop_assert!(segments >= 98, "{segments} segments in two seconds");
    }
}
