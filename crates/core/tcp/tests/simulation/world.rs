//! Two hosts, the path between them, and the clock, which advances from one event to the next.

use std::time::{Duration, Instant};

use fullbore_tcp::CloseReason;
use middlebox::{Fate, SimulatedLink};

use crate::host::{CLIENT_PORT, Contest, Host, SERVER_PORT};
use crate::referee::{Referee, Side};
use crate::scenario::Scenario;
use crate::stream::Stream;
use crate::wire::{Packet, coalesce};

/// No scenario takes longer: slow readers, the longest pause, a blackout and every timeout fit several times.
const VIRTUAL_TIME_MAX: Duration = Duration::from_secs(7200);
/// Limit on the clock's steps, in addition to one for every hundred bytes: packets in both directions, and the work for
/// each.
const STEPS_MAX: u64 = 300_000;
/// This many steps without progress of the clock are an endless loop.
const STEPS_AT_ONCE_MAX: u64 = 10_000;

/// The result of a simulation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    /// When the last byte was read, since the start.
    pub(crate) last_byte: Duration,
    /// Payload that servers sent for the first time.
    pub(crate) first_sent_bytes: u64,
    /// Payload that servers sent again.
    pub(crate) sent_again_bytes: u64,
    /// Packets from servers that the path dropped.
    pub(crate) dropped_packets: u64,
    /// How often the clock advanced.
    pub(crate) steps: u64,
    /// Acknowledgements that both sides did not process, because a later one stood for them.
    pub(crate) merged: u64,
}

/// A simulation.
pub(crate) struct World {
    scenario: Scenario,
    start: Instant,
    now: Instant,
    hosts: [Host; 2],
    contests: Vec<Contest>,
    /// From the client, from the server.
    links: [SimulatedLink<Packet>; 2],
    /// Routers' messages: the time, the side, and the packet that each is about.
    too_big: Vec<(Instant, Side, Packet)>,
    ip_bytes: usize,
    trace: bool,
    /// How much each client has read, each time it changed: for rates.
    pub(crate) progress: Vec<Vec<(Duration, u64)>>,
}

impl World {
    pub(crate) fn new(scenario: Scenario, trace: bool) -> Self {
        let start = Instant::now();
        let ip_bytes = if scenario.is_ipv6 { 40 } else { 20 };
        let segment_bytes_max =
            [0, 1].map(|at| usize::from(scenario.configs[at].mtu_bytes) - ip_bytes);
        let receive_bytes_max = [0, 1].map(|at| u64::from(scenario.configs[at].receive_bytes_max));
        let contest = |(number, plan): (usize, &crate::scenario::Plan)| {
            let streams =
                [0, 1].map(|side| Stream::new(scenario.seed ^ (number * 2 + side) as u64));
            let referee = Referee::new(streams, segment_bytes_max, receive_bytes_max);
            Contest { plan: plan.clone(), streams, referee, is_haunted: false }
        };
        let contests: Vec<_> = scenario.plans.iter().enumerate().map(contest).collect();
        let link = |side: Side| {
            SimulatedLink::new(scenario.impairments[side as usize], scenario.seed ^ side as u64)
        };
        Self {
            start,
            now: start,
            hosts: Side::BOTH.map(|side| Host::new(side, &scenario, start, trace)),
            progress: vec![Vec::new(); contests.len()],
            contests,
            links: Side::BOTH.map(link),
            too_big: Vec::new(),
            ip_bytes,
            trace,
            scenario,
        }
    }

    /// Runs until nothing is left to do.
    pub(crate) fn run(&mut self) -> Outcome {
        let (mut steps, mut steps_at_once) = (0, 0);
        let steps_max = STEPS_MAX + self.scenario.payload_bytes() / 100;
        while let Some(next) = self.next_due() {
            steps_at_once = if next <= self.now { steps_at_once + 1 } else { 0 };
            self.now = self.now.max(next);
            steps += 1;
            let elapsed = self.now - self.start;
            let is_bounded = elapsed < VIRTUAL_TIME_MAX
                && steps < steps_max
                && steps_at_once < STEPS_AT_ONCE_MAX;
            assert!(is_bounded, "stuck at {elapsed:?} after {steps} steps\n{}", self.state());
            self.step();
        }
        self.check_ends();
        self.outcome(steps)
    }

    fn next_due(&mut self) -> Option<Instant> {
        let moderation = self.scenario.moderation;
        let links = self.links.iter().filter_map(|link| link.next_due()).min();
        let messages = self.too_big.iter().map(|(due, ..)| *due).min();
        let hosts = self.hosts.iter_mut().filter_map(Host::next_due).min();
        // Beginning and end of a blackout need no event, because nothing happens then.
        [links.map(|due| due + moderation), messages, hosts].into_iter().flatten().min()
    }

    fn step(&mut self) {
        for side in Side::BOTH {
            self.deliver(side);
        }
        for side in Side::BOTH {
            let leaving = self.hosts[side as usize].turn(self.now, &mut self.contests);
            for packet in leaving {
                self.put_on_path(side, packet);
            }
        }
        self.note_progress();
    }

    /// Delivers to a side the packets that have arrived for it.
    fn deliver(&mut self, to: Side) {
        let now = self.now;
        let from = &mut self.links[to.other() as usize];
        let mut packets = Vec::new();
        while let Some(delivered) = from.poll(now) {
            let mut packet = delivered.packet;
            if delivered.marked && packet.ecn != fullbore_tcp::Ecn::NotCapable {
                packet.ecn = fullbore_tcp::Ecn::Congestion;
            }
            packets.push(packet);
        }
        if self.scenario.coalescing {
            packets = coalesce(packets);
        }
        for packet in packets {
            self.say(to.other(), "->", &packet.segment);
            let contest = &mut self.contests[number(&packet.segment)];
            if !contest.is_haunted {
                contest.referee.delivered(to, &packet.segment);
            }
            self.hosts[to as usize].handle(now, &packet);
        }
        self.hosts[to as usize].end_batch(now);
        let (due, waiting) = std::mem::take(&mut self.too_big)
            .into_iter()
            .partition(|(due, side, _)| *due <= now && *side == to);
        self.too_big = waiting;
        let messages: Vec<(Instant, Side, Packet)> = due;
        for (_, _, packet) in messages {
            let (mtu_bytes, _) = self.scenario.path_mtu.expect("it said so");
            self.hosts[to as usize].packet_too_big(now, &packet.segment, mtu_bytes);
        }
    }

    fn put_on_path(&mut self, from: Side, packet: Packet) {
        self.say(from, "--", &packet.segment);
        let contest = &mut self.contests[number(&packet.segment)];
        if !contest.is_haunted {
            contest.referee.sent(from, &packet.segment);
        }
        let bytes = packet.segment.len() + self.ip_bytes;
        if self.is_dark() {
            self.say(from, "-x dark", &packet.segment);
            return;
        }
        let is_narrow = self.now - self.start >= self.scenario.narrow_from;
        if let Some((mtu_bytes, is_said)) = self.scenario.path_mtu.filter(|_| is_narrow) {
            if bytes > usize::from(mtu_bytes) {
                self.say(from, "-x too big", &packet.segment);
                if is_said {
                    self.too_big.push((self.now + Duration::from_millis(1), from, packet));
                }
                return;
            }
        }
        let trace = self.trace.then(|| packet.segment.clone());
        let fate = self.links[from as usize].offer(self.now, packet, bytes);
        if let (Some(segment), true) = (trace, fate != Fate::Carried) {
            self.say(from, &format!("-x {fate:?}"), &segment);
        }
    }

    fn is_dark(&self) -> bool {
        let elapsed = self.now - self.start;
        let dark = self.scenario.blackout;
        dark.is_some_and(|(from, length)| (from..from + length).contains(&elapsed))
    }

    fn note_progress(&mut self) {
        let elapsed = self.now - self.start;
        for (number, progress) in self.progress.iter_mut().enumerate() {
            let received = self.hosts[0].received(number);
            if progress.last().map_or(0, |(_, before)| *before) != received {
                progress.push((elapsed, received));
            }
        }
    }

    /// Checks that every connection has ended as it should.
    fn check_ends(&mut self) {
        let is_harsh = self.scenario.is_harsh();
        for (number, contest) in self.contests.iter_mut().enumerate() {
            for side in Side::BOTH {
                let host = &self.hosts[side as usize];
                let ended = host.sessions.get(&number).map(|session| session.ended);
                let expected = contest.plan.reset.is_some() || is_harsh;
                match ended {
                    Some(Some(CloseReason::Closed)) => {}
                    None if expected && side == Side::Server => {}
                    Some(Some(_)) if expected => {}
                    other => panic!("connection {number}, {side:?}: {other:?}"),
                }
            }
        }
        for (host, config) in self.hosts.iter().zip(&self.scenario.configs) {
            assert_eq!(host.endpoint.connections(), 0, "connections without a session");
            host.check_bounds(config.receive_bytes_max);
        }
    }

    fn outcome(&self, steps: u64) -> Outcome {
        let last = self.progress.iter().filter_map(|progress| progress.last());
        let sum = |of: fn(&Referee) -> [u64; 2]| {
            self.contests.iter().map(|contest| of(&contest.referee)[1]).sum()
        };
        let dropped = self.links[Side::Server as usize].counters();
        Outcome {
            last_byte: last.map(|(at, _)| *at).max().unwrap_or_default(),
            first_sent_bytes: sum(|referee| referee.first_sent_bytes),
            sent_again_bytes: sum(|referee| referee.sent_again_bytes),
            dropped_packets: dropped.lost_packets + dropped.queue_full_packets,
            steps,
            merged: self
                .hosts
                .iter()
                .map(|host| host.endpoint.statistics().acknowledgements_merged)
                .sum(),
        }
    }

    fn say(&self, from: Side, what: &str, segment: &[u8]) {
        if self.trace {
            let line = crate::wire::line(segment);
            eprintln!("{:>14.6} {from:?} {what} {line}", (self.now - self.start).as_secs_f64());
        }
    }

    fn state(&self) -> String {
        let side = |side: Side| format!("{side:?}:\n{}", self.hosts[side as usize].state());
        side(Side::Client) + &side(Side::Server)
    }
}

/// The connection of a segment: one of its ports shows it.
fn number(segment: &[u8]) -> usize {
    let [from, to] = [0, 2].map(|at| u16::from_be_bytes([segment[at], segment[at + 1]]));
    usize::from(if from == SERVER_PORT { to } else { from } - CLIENT_PORT)
}
