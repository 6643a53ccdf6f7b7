//! A model of where work queues up on a machine whose nodes have unequal numbers of disks: `--silo network` and `--silo disk`.
//!
//! Nothing is measured here. Viewers pull a window at a fixed rate. The window is read from the disk that has the title, first come first
//! served, and is then encrypted by a worker of one node: that of the viewer's network card, or that of the disk. The time that windows stay at a
//! station, divided by the total time, is their average number there (Little's law). docs/notes/placements.md has the table that this prints.

use crate::popular::{below, titles};
use fullbore_tests::Random;
use std::fmt::Write;

/// Disks of each node.
const DISKS: [usize; 4] = [2, 6, 4, 6];

/// Workers of each node.
const WORKERS: usize = 2;

const VIEWERS: usize = 5_000;

const TITLES: usize = 1_000;

/// Between two windows of 512 KiB of one viewer: 8.4 Mb/s.
const PERIOD_SECONDS: f64 = 0.5;

/// A window on an NVMe disk of 1.5 GB/s.
const READ_SECONDS: f64 = 350e-6;

/// A window on a core that seals and sends 10 Gb/s.
const SEAL_SECONDS: f64 = 420e-6;

const PERIODS: usize = 20;

#[derive(Clone, Copy, PartialEq)]
enum Placement {
    Network,
    Disk,
}

/// One node's load.
#[derive(Clone, Copy, Default)]
struct Load {
    /// Windows at its disks, on average.
    reading: f64,
    /// Windows at its workers, on average.
    sealing: f64,
    /// The part of the time in which a worker works.
    busy: f64,
}

struct Outcome {
    nodes: [Load; DISKS.len()],
    /// The part of the windows that were read on a node other than the one that encrypted them.
    crossed: f64,
    /// From the request to the last byte sealed; 99 of 100 windows take less.
    p99_seconds: f64,
}

/// Stations that serve in order of arrival: when each of a node's disks or workers is free.
fn serve(free_at: &mut [f64], arrival: f64, seconds: f64) -> f64 {
    let first = free_at.iter_mut().min_by(|a, b| a.total_cmp(b)).expect("every node has some");
    *first = first.max(arrival) + seconds;
    *first
}

/// The node of each disk.
fn node_of_disk() -> Vec<usize> {
    let nodes = DISKS.iter().enumerate();
    nodes.flat_map(|(node, count)| std::iter::repeat_n(node, *count)).collect()
}

/// Viewers in the order in which they begin: when, which disk has their title, and whether memory has it too: the hot sets of all nodes hold the
/// most popular `in_memory` titles.
fn viewers(random: &mut Random, in_memory: usize) -> Vec<(f64, usize, bool)> {
    let disks = node_of_disk().len();
    let disk_of_title: Vec<_> = (0..TITLES).map(|_| below(random, disks)).collect();
    let titles = titles(random, VIEWERS, TITLES);
    let mut viewers: Vec<_> = titles
        .into_iter()
        .map(|title| (random.share() * PERIOD_SECONDS, title))
        .map(|(at, title)| (at, disk_of_title[title], title < in_memory))
        .collect();
    viewers.sort_by(|(a, ..), (b, ..)| a.total_cmp(b));
    viewers
}

fn play(placement: Placement, in_memory: usize) -> Outcome {
    let (node_of_disk, mut random) = (node_of_disk(), Random::new(1));
    let viewers = viewers(&mut random, in_memory);
    let mut nodes = [Load::default(); DISKS.len()];
    let (mut disks, mut read) = (vec![0.0; node_of_disk.len()], Vec::new());
    let mut crossed = 0;
    for period in 0..PERIODS {
        for (viewer, (at, disk, is_in_memory)) in viewers.iter().enumerate() {
            let arrival = at + period as f64 * PERIOD_SECONDS;
            let home = node_of_disk[*disk];
            let node = if placement == Placement::Network { viewer % DISKS.len() } else { home };
            let mut done = arrival;
            if !is_in_memory {
                done = serve(&mut disks[*disk..=*disk], arrival, READ_SECONDS);
                crossed += usize::from(node != home);
            }
            nodes[home].reading += done - arrival;
            read.push((done, arrival, node));
        }
    }
    read.sort_by(|(a, ..), (b, ..)| a.total_cmp(b));
    let mut workers = [[0.0; WORKERS]; DISKS.len()];
    let mut took: Vec<f64> = Vec::new();
    for (ready, arrival, node) in read {
        let done = serve(&mut workers[node], ready, SEAL_SECONDS);
        nodes[node].sealing += done - ready;
        nodes[node].busy += SEAL_SECONDS / WORKERS as f64;
        took.push(done - arrival);
    }
    took.sort_by(f64::total_cmp);
    let seconds = PERIODS as f64 * PERIOD_SECONDS;
    for node in &mut nodes {
        *node = Load {
            reading: node.reading / seconds,
            sealing: node.sealing / seconds,
            busy: node.busy / seconds,
        };
    }
    let count = took.len();
    Outcome { nodes, crossed: crossed as f64 / count as f64, p99_seconds: took[count * 99 / 100] }
}

fn table(outcomes: &[(&str, Outcome)]) -> String {
    let mut text = String::from(
        "| placement | node, disks | reads at its disks | windows at its workers | workers busy | crossed | p99, ms |\n",
    );
    text.push_str("|---|---|---|---|---|---|---|\n");
    for (name, outcome) in outcomes {
        for (node, load) in outcome.nodes.iter().enumerate() {
            let whole = match node {
                0 => format!("{:.0}% | {:.1}", outcome.crossed * 100.0, outcome.p99_seconds * 1e3),
                _ => " | ".into(),
            };
            let name = if node == 0 { name } else { "" };
            let Load { reading, sealing, busy } = load;
            let (disks, busy) = (DISKS[node], busy * 100.0);
            let _ = writeln!(
                text,
                "| {name} | {node}, {disks} | {reading:.2} | {sealing:.2} | {busy:.0}% | {whole} |"
            );
        }
    }
    text
}

fn spread(outcome: &Outcome, of: fn(&Load) -> f64) -> f64 {
    let loads = outcome.nodes.iter().map(of);
    let mean = loads.clone().sum::<f64>() / DISKS.len() as f64;
    loads.fold(0.0, f64::max) / mean
}

#[test]
fn work_follows_viewers_by_network_and_films_by_disk() {
    let (network, disk) = (play(Placement::Network, 0), play(Placement::Disk, 0));
    let hot = play(Placement::Disk, TITLES / 50);
    let by_network_hot = play(Placement::Network, TITLES / 50);
    assert!(network.crossed > 0.7 && disk.crossed == 0.0);
    assert!(spread(&network, |load| load.busy) < 1.05, "viewers spread evenly over cards");
    assert!(spread(&disk, |load| load.busy) > 1.25, "films do not spread evenly over nodes");
    // The disks have the same work, whichever node encrypts.
    for (one, other) in network.nodes.iter().zip(disk.nodes) {
        assert!((one.reading - other.reading).abs() < 1e-9);
    }
    // Memory takes reads off the disks, but a connection still moves to the disk of its film.
    assert!(hot.nodes.iter().zip(disk.nodes).all(|(hot, cold)| hot.reading <= cold.reading));
    assert!(spread(&hot, |load| load.busy) > 1.25);
    println!(
        "{}",
        table(&[
            ("network", network),
            ("disk", disk),
            ("network, 2% of the titles in memory", by_network_hot),
            ("disk, 2% of the titles in memory", hot),
        ])
    );
}
