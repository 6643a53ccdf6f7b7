//! A box of hard disks with a few SSDs: which viewers wait for which disks, by `--silo network` and `--silo disk`, with and without the bound on
//! one disk's part of a worker's buffers, and with the most popular titles on hard disks or copied to SSDs (`fullbore promote`).
//!
//! A viewer requests a window twice a second, or when the last one has arrived if that is later. A window takes a buffer of its worker, waits for its
//! disk with it, is encrypted by the worker, and frees the buffer. Disks and workers serve in order of arrival.

use crate::popular::{below, titles};
use fullbore_tests::Random;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// Hard disks and SSDs of each node.
const HARD_DISKS: [usize; 4] = [0, 12, 8, 12];
const SSDS: [usize; 4] = [4, 0, 0, 0];

const WORKERS: usize = 2;

/// Buffers of each worker, 512 KiB each.
const BUFFERS: usize = 64;

/// An eighth is reserved for windows that wait for no disk, and one disk holds at most three times the free ones (crates/core/reactor/src/pool.rs).
const KEPT: usize = BUFFERS / 8;
const SHARE_OF_LEFT: usize = 3;

const VIEWERS: usize = 1_000;
const TITLES: usize = 1_000;

/// All in microseconds. Between two windows of a viewer.
const PERIOD: u64 = 500_000;

/// A window of 512 KiB: 8.5 ms to reach its place and 200 MB/s from there; on an SSD; on a core that seals.
const HARD_DISK_READ: u64 = 8_500 + 2_600;
const SSD_READ: u64 = 350;
const SEAL: u64 = 420;

const PERIODS: u64 = 60;

#[derive(Clone, Copy, PartialEq)]
enum Placement {
    Network,
    Disk,
}

/// What happens to a viewer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Asks,
    IsRead,
    IsSealed,
}

struct Disk {
    node: usize,
    read: u64,
    free_at: u64,
}

struct Viewer {
    disk: usize,
    worker: usize,
    asked_at: u64,
}

/// A worker's buffers. Viewers wait for one by disk, in order of arrival.
#[derive(Default)]
struct Worker {
    taken: usize,
    held: BTreeMap<usize, usize>,
    waiting: BTreeMap<usize, VecDeque<(u64, usize)>>,
    free_at: u64,
}

impl Worker {
    fn has_room(&self, disk: usize, bounded: bool) -> bool {
        let free = BUFFERS - self.taken;
        let held = self.held.get(&disk).copied().unwrap_or(0);
        let share = SHARE_OF_LEFT * free.saturating_sub(KEPT + 1);
        free > KEPT && (!bounded || held == 0 || held < share)
    }

    /// The next viewer to get a buffer. Without the bound, the first to arrive.
    fn next(&mut self, bounded: bool) -> Option<usize> {
        let heads = self.waiting.iter().filter_map(|(disk, queue)| Some((queue.front()?.0, *disk)));
        let (_, disk) = heads.filter(|(_, disk)| self.has_room(*disk, bounded)).min()?;
        let (_, viewer) = self.waiting.get_mut(&disk)?.pop_front()?;
        self.taken += 1;
        *self.held.entry(disk).or_default() += 1;
        Some(viewer)
    }
}

/// Results of viewers of one kind of disk.
#[derive(Clone, Copy)]
struct Kind {
    viewers: usize,
    /// Windows that arrived, as a part of those requested.
    served: f64,
    p99_seconds: f64,
}

struct Outcome {
    /// Hard disks whose viewers request more than they can read.
    overloaded: Kind,
    hard_disks: Kind,
    ssds: Kind,
}

fn disks() -> Vec<Disk> {
    let of = |counts: [usize; 4], read: u64| {
        let nodes = counts.into_iter().enumerate();
        nodes
            .flat_map(move |(node, count)| (0..count).map(move |_| Disk { node, read, free_at: 0 }))
    };
    of(HARD_DISKS, HARD_DISK_READ).chain(of(SSDS, SSD_READ)).collect()
}

/// One run. The `promoted` most popular titles are read from SSDs.
struct Play {
    bounded: bool,
    disks: Vec<Disk>,
    workers: Vec<Worker>,
    viewers: Vec<Viewer>,
    events: BinaryHeap<Reverse<(u64, Event, usize)>>,
    arrivals: u64,
    /// For each window that arrived: its viewer, and how long it took.
    took: Vec<(usize, u64)>,
}

impl Play {
    fn new(placement: Placement, bounded: bool, promoted: usize) -> Self {
        let (disks, mut random) = (disks(), Random::new(1));
        let (hard, ssds) = (HARD_DISKS.iter().sum(), SSDS.iter().sum());
        // A twentieth of the other titles is on the SSDs too, as an operator fills them.
        let mut draw = |bound| below(&mut random, bound);
        let disk_of_title: Vec<usize> = (0..TITLES)
            .map(|title| (draw(hard), hard + draw(ssds), draw(20), title))
            .map(|(on, ssd, one, title)| if title < promoted || one == 0 { ssd } else { on })
            .collect();
        let titles = titles(&mut random, VIEWERS, TITLES);
        let of_title = |(number, title): (usize, usize)| {
            let disk = disk_of_title[title];
            let node = match placement {
                Placement::Network => number % HARD_DISKS.len(),
                Placement::Disk => disks[disk].node,
            };
            let worker = node * WORKERS + number / HARD_DISKS.len() % WORKERS;
            Viewer { disk, worker, asked_at: 0 }
        };
        let viewers: Vec<_> = titles.into_iter().enumerate().map(of_title).collect();
        let mut begin = || below(&mut random, PERIOD as usize) as u64;
        let events = (0..VIEWERS).map(|viewer| Reverse((begin(), Event::Asks, viewer))).collect();
        let workers = (0..HARD_DISKS.len() * WORKERS).map(|_| Worker::default()).collect();
        Self { bounded, disks, workers, viewers, events, arrivals: 0, took: Vec::new() }
    }

    fn run(mut self) -> Outcome {
        while let Some(Reverse((now, event, number))) = self.events.pop() {
            if now > PERIODS * PERIOD {
                break;
            }
            let Viewer { disk, worker, asked_at } = self.viewers[number];
            match event {
                Event::Asks => {
                    self.viewers[number].asked_at = now;
                    self.arrivals += 1;
                    let queue = self.workers[worker].waiting.entry(disk).or_default();
                    queue.push_back((self.arrivals, number));
                    self.begin_reads(worker, now);
                }
                Event::IsRead => {
                    let free_at = &mut self.workers[worker].free_at;
                    *free_at = now.max(*free_at) + SEAL;
                    self.events.push(Reverse((*free_at, Event::IsSealed, number)));
                }
                Event::IsSealed => {
                    self.took.push((number, now - asked_at));
                    self.workers[worker].taken -= 1;
                    *self.workers[worker].held.entry(disk).or_default() -= 1;
                    let next = now.max(asked_at + PERIOD);
                    self.events.push(Reverse((next, Event::Asks, number)));
                    self.begin_reads(worker, now);
                }
            }
        }
        self.outcome()
    }

    fn begin_reads(&mut self, worker: usize, now: u64) {
        while let Some(number) = self.workers[worker].next(self.bounded) {
            let disk = &mut self.disks[self.viewers[number].disk];
            disk.free_at = now.max(disk.free_at) + disk.read;
            self.events.push(Reverse((disk.free_at, Event::IsRead, number)));
        }
    }

    fn outcome(&self) -> Outcome {
        let wanted_of = |disk: usize| self.viewers.iter().filter(|of| of.disk == disk).count();
        let is_ssd: Vec<_> = self.disks.iter().map(|disk| disk.read == SSD_READ).collect();
        let is_overloaded: Vec<_> = (0..self.disks.len())
            .map(|disk| wanted_of(disk) as u64 * self.disks[disk].read > PERIOD)
            .collect();
        let kind = |is_of: &dyn Fn(usize) -> bool| {
            let viewers = self.viewers.iter().filter(|viewer| is_of(viewer.disk)).count();
            let took = self.took.iter().filter(|(number, _)| is_of(self.viewers[*number].disk));
            let mut took: Vec<u64> = took.map(|(_, took)| *took).collect();
            took.sort_unstable();
            let p99 = took.get(took.len() * 99 / 100).copied().unwrap_or(0);
            let wanted = viewers.max(1) as f64 * PERIODS as f64;
            // A viewer who starts at once has one window more than there are periods.
            let served = (took.len() as f64 / wanted).min(1.0);
            Kind { viewers, served, p99_seconds: p99 as f64 / 1e6 }
        };
        Outcome {
            overloaded: kind(&|disk| is_overloaded[disk]),
            hard_disks: kind(&|disk| !is_overloaded[disk] && !is_ssd[disk]),
            ssds: kind(&|disk| is_ssd[disk]),
        }
    }
}

fn play(placement: Placement, bounded: bool, promoted: usize) -> Outcome {
    Play::new(placement, bounded, promoted).run()
}

fn row(name: &str, outcome: &Outcome) -> String {
    let mut text = format!("| {name} |");
    for kind in [outcome.overloaded, outcome.hard_disks, outcome.ssds] {
        let Kind { viewers, served, p99_seconds } = kind;
        let (served, p99) = (served * 100.0, p99_seconds * 1e3);
        let cells = match viewers {
            0 => " 0 |  |  |".into(),
            _ => format!(" {viewers} | {served:.0}% | {p99:.0} |"),
        };
        text.push_str(&cells);
    }
    text.push('\n');
    text
}

#[test]
fn viewers_of_other_disks_do_not_wait_for_a_hard_disk_that_has_too_much_to_do() {
    let mut rows = String::from(
        "| titles on SSDs | placement | overloaded hard disks: viewers | served | p99, ms | other hard disks: viewers | served | p99, ms | SSDs: viewers | served | p99, ms |\n|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let mut pairs = Vec::new();
    for promoted in [0, 50] {
        for (name, placement) in [("network", Placement::Network), ("disk", Placement::Disk)] {
            let without = play(placement, false, promoted);
            let with = play(placement, true, promoted);
            rows += &row(&format!("{promoted} | {name}, no bound"), &without);
            rows += &row(&format!("{promoted} | {name}, the bound"), &with);
            pairs.push((name, promoted, without, with));
        }
    }
    println!("{rows}");
    for (name, promoted, without, with) in pairs {
        if promoted > 0 {
            assert_eq!(with.overloaded.viewers, 0, "the popular titles were the load");
            continue;
        }
        // The overloaded disks read as much: their viewers only wait in another place.
        assert!(with.overloaded.served > 0.95 * without.overloaded.served, "{name}");
        assert!(with.hard_disks.served > 0.999 && with.ssds.p99_seconds < 0.01, "{name}");
        // By network, workers serve all disks; by disk, only those of their node.
        let others = |of: &Outcome| match name {
            "network" => of.ssds.p99_seconds,
            _ => of.hard_disks.p99_seconds,
        };
        assert!(others(&with) < others(&without) / 4.0, "{name}");
    }
}
