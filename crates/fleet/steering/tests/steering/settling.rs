//! Viewers over time: 10,000 who follow each answer at once, as hls.js does, on nodes near their ceilings. Time is a counter of seconds.

use fastrand::Rng;
use fleet_protocol::{FleetSnapshot, SheddingReason, State};
use fullbore_steering::{Fleet, Playing, Question, decide};

use crate::build::{Builder, TITLE, address, node};

const VIEWERS: usize = 10_000;
const BITS_PER_SECOND: u64 = 5_000_000;
/// Nodes report this often, as heartbeats do.
const REPORT_SECONDS: u64 = 5;
/// Viewers arrive over ten minutes.
const ARRIVAL_SECONDS: u64 = 600;

struct Viewer {
    number: u64,
    node: usize,
    asks_at: u64,
}

/// A fleet with its viewers: four sites of three nodes, with all viewers nearest to the first.
struct World {
    snapshot: FleetSnapshot,
    fleet: Fleet,
    now: u64,
    viewers: Vec<Viewer>,
    /// Whether viewers report where they play. Otherwise each answer is one for a new viewer.
    is_told: bool,
    /// Times of moves.
    moves: Vec<u64>,
    load_max: u16,
    random: Rng,
}

impl World {
    fn new(is_told: bool) -> Self {
        let mut builder = Builder::default();
        for number in 0..12 {
            let mut node = node(&format!("n{number:02}"), ["a", "b", "c", "d"][number / 3]);
            node.load_permille = 0;
            // 52.8 Gb/s for 50 Gb/s of viewers, and unlike nodes.
            node.ceiling_bits_per_second =
                [2_200_000_000, 4_400_000_000, 6_600_000_000][number % 3];
            builder = builder.with(node);
        }
        let snapshot = builder.announced("a", "10.0.0.0/8").snapshot();
        let fleet = Fleet::new(snapshot.clone(), None).expect("a good snapshot");
        let (moves, random) = (Vec::new(), Rng::with_seed(1));
        Self { snapshot, fleet, now: 0, viewers: Vec::new(), is_told, moves, load_max: 0, random }
    }

    fn ask(&self, viewer: u64, node: Option<usize>) -> (usize, u64) {
        let name = node.map(|node| self.fleet.snapshot().nodes[node].name.as_str());
        let playing = name.filter(|_| self.is_told).map(Playing::from);
        let (address, title) = (address("10.1.2.3"), TITLE);
        let question = Question { address, title, viewer, region: None, playing };
        let decision = decide(&self.fleet, &question);
        (decision.ranked[0].node, u64::from(decision.ttl_seconds))
    }

    fn count(&self, node: usize) -> usize {
        self.viewers.iter().filter(|viewer| viewer.node == node).count()
    }

    fn load_permille(&self, node: usize) -> u16 {
        let bits = self.count(node) as u64 * BITS_PER_SECOND * 1000;
        (bits / self.snapshot.nodes[node].ceiling_bits_per_second) as u16
    }

    fn second(&mut self) {
        let arrived = (VIEWERS as u64 * (self.now + 1) / ARRIVAL_SECONDS).min(VIEWERS as u64);
        while (self.viewers.len() as u64) < arrived {
            let number = self.random.u64(..);
            let (node, ttl) = self.ask(number, None);
            self.viewers.push(Viewer { number, node, asks_at: self.now + ttl });
        }
        for index in 0..self.viewers.len() {
            let Viewer { number, node, asks_at } = self.viewers[index];
            if asks_at <= self.now {
                let (next, ttl) = self.ask(number, Some(node));
                self.viewers[index] = Viewer { number, node: next, asks_at: self.now + ttl };
                if next != node {
                    self.moves.push(self.now);
                }
            }
        }
        self.report();
        self.now += 1;
    }

    /// The gateway's snapshot in this second, after reports of some nodes.
    fn report(&mut self) {
        for node in 0..self.snapshot.nodes.len() {
            if (self.now + node as u64) % REPORT_SECONDS == 0 {
                let load = self.load_permille(node);
                let own = &mut self.snapshot.nodes[node];
                own.load_permille = load;
                own.not_me =
                    if load >= 1000 { vec![SheddingReason::AtCeiling] } else { Vec::new() };
                self.load_max = self.load_max.max(load);
            }
        }
        self.snapshot.number += 1;
        self.fleet = Fleet::new(self.snapshot.clone(), Some(&self.fleet)).expect("a good snapshot");
    }

    fn run(&mut self, seconds: u64) {
        (0..seconds).for_each(|_| self.second());
    }

    fn moves_since(&self, from: u64) -> usize {
        self.moves.iter().filter(|at| **at >= from).count()
    }
}

#[test]
fn obedient_viewers_near_the_ceilings_do_not_swing() {
    let mut world = World::new(true);
    world.run(ARRIVAL_SECONDS + 600);
    assert_eq!(world.viewers.len(), VIEWERS);
    assert_eq!(world.moves.len(), 0, "nobody had to move");
    // A node closes when it has reported that it is full, so it can get too many of those who arrive between two reports: at worst all of them, on
    // the smallest node.
    let arrived = VIEWERS as u64 * (REPORT_SECONDS + 1) / ARRIVAL_SECONDS;
    let too_many = arrived * BITS_PER_SECOND * 1000 / 2_200_000_000;
    assert!(u64::from(world.load_max) <= 900 + too_many, "{} permille", world.load_max);
    let loads: Vec<u16> = (0..12).map(|node| world.load_permille(node)).collect();
    assert!(loads.iter().all(|load| *load >= 800), "all nodes carry their share: {loads:?}");
}

#[test]
fn a_drained_node_empties_within_one_ttl_and_moves_nobody_else() {
    let mut world = World::new(true);
    world.run(ARRIVAL_SECONDS + 60);
    let (from, before) = (world.now, world.count(4));
    assert!(before > 500, "{before}");
    world.snapshot.nodes[4].state = State::Draining;
    world.report();
    let ttl = u64::from(world.snapshot.policy.ttl_seconds);
    world.run(ttl + 1);
    assert_eq!(world.count(4), 0);
    assert_eq!(world.moves_since(from), before, "only its own viewers moved");
    // Spread over time: no second has more than a few times the mean.
    let in_second = |second: u64| world.moves.iter().filter(|at| **at == second).count();
    let most = (from..world.now).map(in_second).max().expect("some seconds");
    assert!(most < 4 * before / ttl as usize, "{most} of {before} in one second");
    world.run(600);
    assert_eq!(world.moves_since(from), before, "and then nobody");
}

/// Proof that these tests can fail: viewers who are answered as new ones at each request swing for ever.
#[test]
fn viewers_who_are_chosen_anew_each_time_would_swing() {
    let mut world = World::new(false);
    world.run(ARRIVAL_SECONDS + 300);
    let settled = world.now;
    world.run(300);
    assert!(world.moves_since(settled) > VIEWERS, "{}", world.moves_since(settled));
}
