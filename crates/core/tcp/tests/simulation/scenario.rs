//! The events of a simulation: drawn from a seed, or fixed for a measurement.

use std::time::Duration;

use fullbore_tcp::{Config, CongestionControl};
use middlebox::{Chance, Impairment, Random};

use crate::referee::Side;

/// How an application reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// At once, whenever there is something.
    Eager,
    /// This many bytes, then a pause.
    Slow { bytes: usize, every: Duration },
    /// Like eager, but with one long pause.
    Resting { at: u64, rest: Duration },
}

/// The side that finishes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closer {
    /// The client, when it has everything.
    Client,
    /// The server, as soon as it has written everything; the client follows.
    Server,
    /// Either, without waiting: the client after its last request, the server after its last answer.
    Both,
}

/// One connection's life.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) start: Duration,
    /// Requests and answers in bytes.
    pub(crate) rounds: Vec<(u64, u64)>,
    /// All requests at once.
    pub(crate) pipelined: bool,
    /// The answer is written in this many pieces, with pauses.
    pub(crate) pieces: u64,
    pub(crate) pause: Duration,
    pub(crate) closer: Closer,
    pub(crate) readers: [Reader; 2],
    /// One side loses patience.
    pub(crate) reset: Option<(Side, Duration)>,
}

/// How payload gets from the disk to the wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Supply {
    pub(crate) latency: Duration,
    /// A range arrives in two pieces, the second one perhaps first.
    pub(crate) split: Chance,
    /// A range does not arrive at all, and is declined.
    pub(crate) declined: Chance,
    /// Bytes that cannot be sent at once are dropped.
    pub(crate) impatient: Chance,
    /// Bytes in hand are offered only after [`fullbore_tcp::Event::Sendable`], as the contract says, and not in every turn.
    pub(crate) only_when_told: bool,
}

/// A network, two hosts, and their actions.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    pub(crate) is_ipv6: bool,
    /// The configurations of the client and of the server.
    pub(crate) configs: [Config; 2],
    /// From the client and from the server.
    pub(crate) impairments: [Impairment; 2],
    /// The largest packet that gets through; with true, a router reports larger ones.
    pub(crate) path_mtu: Option<(u16, bool)>,
    /// Before that, the path takes everything that its ends allow.
    pub(crate) narrow_from: Duration,
    /// From then on, for this long, nothing gets through.
    pub(crate) blackout: Option<(Duration, Duration)>,
    pub(crate) supplies: [Supply; 2],
    pub(crate) plans: Vec<Plan>,
    /// How long packets wait so that several are delivered together.
    pub(crate) moderation: Duration,
    pub(crate) coalescing: bool,
}

const MS: Duration = Duration::from_millis(1);

impl Scenario {
    /// Bulk transfers over a bottleneck of 100 Mbit/s with a queue of one round trip (at least 64 KiB): the table's cells.
    pub(crate) fn bulk(loss: Chance, rtt: Duration, flows: usize, bytes: u64) -> Self {
        let queue_bytes = (rtt.as_micros() as u64 * 100 / 8).max(64 << 10);
        let back = Impairment {
            delay: rtt / 2,
            loss,
            rate_bits_per_second: Some(100_000_000),
            queue_bytes,
            ..Impairment::default()
        };
        let there = Impairment { delay: rtt / 2, ..Impairment::default() };
        let client =
            Config { receive_bytes_max: 8 << 20, receive_ranges_max: 4096, ..Config::default() };
        let server = Config { listen: vec![443], ..Config::default() };
        let plan = |number: usize| Plan {
            start: MS * 7 * number as u32,
            rounds: vec![(200, bytes)],
            pipelined: false,
            pieces: 1,
            pause: Duration::ZERO,
            closer: Closer::Server,
            readers: [Reader::Eager; 2],
            reset: None,
        };
        Self {
            seed: 1,
            is_ipv6: false,
            configs: [client, server],
            impairments: [there, back],
            path_mtu: None,
            narrow_from: Duration::ZERO,
            blackout: None,
            supplies: [Supply::instant(); 2],
            plans: (0..flows).map(plan).collect(),
            moderation: Duration::ZERO,
            coalescing: false,
        }
    }

    /// Everything that can go wrong, most of it not at the same time.
    pub(crate) fn drawn(seed: u64) -> Self {
        let mut draw = Random::new(seed);
        let is_ipv6 = one_in(&mut draw, 2);
        let is_calm = one_in(&mut draw, 3);
        let delay = duration(&mut draw, &[0, 1, 5, 20, 100, 300]);
        let mut impairment = || drawn_impairment(&mut draw, delay, is_calm);
        let impairments = [impairment(), impairment()];
        let mut configs = [drawn_config(&mut draw), drawn_config(&mut draw)];
        configs[1].listen = vec![443];
        if one_in(&mut draw, 6) {
            configs[1].half_open_max = 0;
        }
        if seed % 3 == 2 {
            for config in &mut configs {
                let is_first = seed % 2 == 1;
                config.congestion_control =
                    if is_first { CongestionControl::Bbr1 } else { CongestionControl::Bbr };
            }
        }
        for (side, config) in configs.iter_mut().enumerate() {
            config.merges_acknowledgements = seed >> side & 1 == 0;
        }
        let mtu_bytes = configs[0].mtu_bytes.min(configs[1].mtu_bytes);
        let path_mtu = (one_in(&mut draw, 4) && mtu_bytes > 1280)
            .then(|| (*draw.one_of(&[1280, 1400]), one_in(&mut draw, 2)));
        let narrow_from = duration(&mut draw, &[0, 100, 2000]);
        let blackout = one_in(&mut draw, 10).then(|| {
            (duration(&mut draw, &[1, 50, 300]), duration(&mut draw, &[100, 2000, 20_000]))
        });
        let count = *draw.one_of(&[1, 1, 1, 2, 5]);
        let supplies = [drawn_supply(&mut draw), drawn_supply(&mut draw)];
        Self {
            seed,
            is_ipv6,
            impairments,
            path_mtu,
            narrow_from,
            blackout,
            supplies,
            plans: (0..count).map(|_| drawn_plan(&mut draw, &configs)).collect(),
            configs,
            moderation: Duration::from_micros(*draw.one_of(&[0, 0, 20, 200])),
            coalescing: one_in(&mut draw, 2),
        }
    }

    /// All bytes that the applications send each other.
    pub(crate) fn payload_bytes(&self) -> u64 {
        let rounds = self.plans.iter().flat_map(|plan| &plan.rounds);
        rounds.map(|(request, answer)| request + answer).sum()
    }

    /// Returns true if bad luck alone may prevent a connection from opening or from closing in an orderly way.
    pub(crate) fn is_harsh(&self) -> bool {
        let lossy = |impairment: &Impairment| impairment.loss > Chance::per_million(10_000);
        self.blackout.is_some() || self.impairments.iter().any(lossy)
    }
}

impl Supply {
    /// Memory: no delay.
    pub(crate) fn instant() -> Self {
        Self {
            latency: Duration::ZERO,
            split: Chance::NEVER,
            declined: Chance::NEVER,
            impatient: Chance::NEVER,
            only_when_told: true,
        }
    }
}

fn one_in(draw: &mut Random, count: u64) -> bool {
    draw.below(count) == 0
}

/// Up to one of `most` in milliseconds.
fn duration(draw: &mut Random, most: &[u64]) -> Duration {
    let most = *draw.one_of(most);
    Duration::from_micros(draw.below(most * 1000 + 1))
}

fn drawn_impairment(draw: &mut Random, delay: Duration, is_calm: bool) -> Impairment {
    let chance = |draw: &mut Random, most: &[u64]| {
        let most = *draw.one_of(most);
        Chance::per_million(draw.below(most + 1))
    };
    let rate = *draw.one_of(&[None, None, Some(1_000_000), Some(20_000_000), Some(1_000_000_000)]);
    let bottleneck = Impairment {
        delay,
        rate_bits_per_second: rate,
        queue_bytes: *draw.one_of(&[4000, 20_000, 200_000, 2_000_000]),
        ..Impairment::default()
    };
    if is_calm {
        return bottleneck;
    }
    Impairment {
        jitter: duration(draw, &[0, 1, 20, 100]),
        loss: chance(draw, &[0, 1000, 20_000, 100_000]),
        reorder: chance(draw, &[0, 0, 20_000, 300_000]),
        reorder_by: duration(draw, &[1, 20, 200]),
        duplicate: chance(draw, &[0, 0, 20_000, 300_000]),
        mark: chance(draw, &[0, 0, 20_000]),
        ..bottleneck
    }
}

fn drawn_config(draw: &mut Random) -> Config {
    Config {
        mtu_bytes: *draw.one_of(&[1280, 1500, 1500, 9000]),
        tso_bytes_max: *draw.one_of(&[0, 10_000, 61_440]),
        want_bytes_min: *draw.one_of(&[1, 4096, 32 << 10]),
        want_bytes_max: *draw.one_of(&[1000, 64 << 10, 256 << 10]),
        pacing: one_in(draw, 2),
        pace_bytes_min: *draw.one_of(&[0, 32 << 10]),
        short_segments: one_in(draw, 2),
        ecn: one_in(draw, 2),
        sack: !one_in(draw, 4),
        timestamps: !one_in(draw, 4),
        window_scaling: !one_in(draw, 4),
        receive_bytes_max: *draw.one_of(&[1000, 4096, 16 << 10, 64 << 10, 100_000, 1 << 20]),
        initial_window_segments: *draw.one_of(&[1, 3, 10]),
        window_bytes_max: *draw.one_of(&[20_000, 1 << 20, 16 << 20]),
        larger_segments_after: *draw.one_of(&[MS * 100, Duration::from_secs(600)]),
        // A half-closed end waits for the slowest transfer, and a finished one for the slowest reader.
        fin_wait: Duration::from_secs(3600),
        ..Config::default()
    }
}

fn drawn_supply(draw: &mut Random) -> Supply {
    if one_in(draw, 3) {
        return Supply::instant();
    }
    let chance = |draw: &mut Random| Chance::per_million(*draw.one_of(&[0, 10_000, 300_000]));
    Supply {
        latency: duration(draw, &[0, 1, 20, 200]),
        split: chance(draw),
        declined: chance(draw),
        impatient: chance(draw),
        only_when_told: one_in(draw, 2),
    }
}

fn drawn_plan(draw: &mut Random, configs: &[Config; 2]) -> Plan {
    let mut size = |classes: &[u64]| {
        let most = *draw.one_of(classes);
        draw.below(most + 1)
    };
    let rounds: Vec<_> = (0..=size(&[0, 0, 1, 4]))
        .map(|_| (1 + size(&[1, 100, 2000, 20_000]), size(&[0, 100, 10_000, 100_000, 500_000])))
        .collect();
    let requests: u64 = rounds.iter().map(|(request, _)| request).sum();
    let answers: u64 = rounds.iter().map(|(_, answer)| answer).sum();
    let reset =
        one_in(draw, 12).then(|| (*draw.one_of(&Side::BOTH), duration(draw, &[1, 100, 2000])));
    Plan {
        start: duration(draw, &[0, 10, 1000]),
        rounds,
        pipelined: one_in(draw, 4),
        pieces: *draw.one_of(&[1, 1, 2, 7]),
        pause: duration(draw, &[0, 1, 100, 1000]),
        closer: *draw.one_of(&[Closer::Client, Closer::Server, Closer::Both]),
        readers: [
            drawn_reader(draw, answers, configs[0].receive_bytes_max),
            drawn_reader(draw, requests, configs[1].receive_bytes_max),
        ],
        reset,
    }
}

/// Slow readers take `bytes` in a few hundred turns at most, and before the peer times out.
fn drawn_reader(draw: &mut Random, bytes: u64, receive_bytes_max: u32) -> Reader {
    match draw.below(6) {
        0 => {
            let least = (bytes / 300).max(1);
            let most = u64::from(receive_bytes_max).max(least);
            let step = least + draw.below(most - least + 1);
            Reader::Slow { bytes: step as usize, every: duration(draw, &[1, 50, 400]) + MS }
        }
        1 => Reader::Resting {
            at: draw.below(bytes + 1),
            rest: duration(draw, &[10, 1000, 100_000]) + MS,
        },
        _ => Reader::Eager,
    }
}
