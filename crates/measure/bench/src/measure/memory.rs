//! Measures how fast all cores of one node copy memory of the same node or of another (as STREAM's "Copy" does).
//!
//! Bytes read and bytes written both count. A processor that reads a line before it writes it moves half as much again.

use crate::limit::parts::pin;
use machine::{Machine, MemoryPressure, Topology};
use std::hint::black_box;
use std::io;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// All arrays together are this many times as large as the last-level caches of the copying CPUs (a node may have several), and at least
/// that large.
const CACHES: u64 = 4;
const BYTES_MIN: u64 = 256 << 20;

/// The part of the available memory that may be taken.
const AVAILABLE_PART: u64 = 4;

/// Arrays are copied in pieces of this size, small enough to check the clock often.
const PIECE_BYTES: usize = 1 << 20;

/// The CPUs of one node, and the memory of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodePair {
    pub(crate) from: u32,
    pub(crate) to: u32,
    cpus: Vec<u32>,
    /// Set if there are other nodes, so that memory must be requested from a particular one.
    is_choice: bool,
}

impl NodePair {
    pub(crate) fn name(&self) -> String {
        format!("node {} from node {}", self.to, self.from)
    }
}

/// All pairs of a node whose CPUs this process may use and a node that has memory.
pub(crate) fn ways() -> Vec<NodePair> {
    let topology = Topology::open();
    let nodes = Machine::probe().nodes;
    let mut with_memory: Vec<_> = topology
        .nodes()
        .into_iter()
        .map(|(number, _)| number)
        .filter(|number| topology.memory_near(*number) == Some(*number))
        .collect();
    if with_memory.is_empty() {
        with_memory.push(nodes[0].number);
    }
    let is_choice = with_memory.len() > 1;
    let pair = |(from, cpus): (u32, &Vec<u32>), to: u32| NodePair {
        from,
        to,
        cpus: cpus.clone(),
        is_choice,
    };
    let from = nodes.iter().map(|node| (node.number, &node.cpus));
    from.flat_map(|from| with_memory.iter().map(move |to| pair(from, *to))).collect()
}

/// GB/s that a pair copies, measured over `seconds`.
///
/// # Errors
/// If a thread cannot be started or pinned, or the kernel refuses a node's memory.
///
/// # Panics
/// If a thread panics.
pub(crate) fn copied(pair: &NodePair, seconds: f64) -> io::Result<f64> {
    let bytes = array_bytes(pair.cpus.len());
    let (ready, length) = (Barrier::new(pair.cpus.len()), Duration::from_secs_f64(seconds));
    let copier = |cpu: u32| {
        let arrays = prepare(pair, cpu, bytes);
        // Every thread must get here, even if it failed, or the others would wait forever.
        ready.wait();
        let (from, mut to) = arrays?;
        Ok::<_, io::Error>(copy_for(length, &from, &mut to))
    };
    thread::scope(|scope| {
        let copier = &copier;
        let threads: Vec<_> =
            pair.cpus.iter().map(|cpu| scope.spawn(move || copier(*cpu))).collect();
        let rates = threads.into_iter().map(|thread| thread.join().expect("a copy does not panic"));
        rates.sum::<io::Result<f64>>()
    })
}

/// Bytes of one array. Each thread has two.
fn array_bytes(threads: usize) -> usize {
    let nodes = Machine::probe().nodes;
    let share = nodes.iter().filter_map(machine::Node::last_level_bytes_per_cpu).max().unwrap_or(0);
    let cache = share * threads as u64;
    let available = MemoryPressure::open().available_bytes().unwrap_or(BYTES_MIN);
    let all = (CACHES * cache).max(BYTES_MIN).min(available / AVAILABLE_PART);
    let each = usize::try_from(all).unwrap_or(usize::MAX) / threads.max(1) / 2;
    each.max(PIECE_BYTES)
}

fn prepare(pair: &NodePair, cpu: u32, bytes: usize) -> io::Result<(Vec<u8>, Vec<u8>)> {
    pin(cpu)?;
    if pair.is_choice {
        reactor::prefer_node(pair.to)?;
    }
    // Not zeros, which the kernel would map without memory behind them.
    Ok((vec![1; bytes], vec![2; bytes]))
}

/// Copies for a while and returns GB/s read and written.
fn copy_for(length: Duration, from: &[u8], to: &mut [u8]) -> f64 {
    let began = Instant::now();
    let mut bytes = 0;
    'time: loop {
        for (from, to) in from.chunks(PIECE_BYTES).zip(to.chunks_mut(PIECE_BYTES)) {
            black_box(&mut *to).copy_from_slice(black_box(from));
            bytes += 2 * from.len();
            if began.elapsed() >= length {
                break 'time;
            }
        }
    }
    bytes as f64 / 1e9 / began.elapsed().as_secs_f64()
}
