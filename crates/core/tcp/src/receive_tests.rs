//! Data in and out of order, twice, and beyond the window.

use super::*;
use proptest::prelude::*;

struct Side {
    receive: Receive,
    buffers: Buffers,
    statistics: Statistics,
}

impl Side {
    fn new(capacity: u32) -> Self {
        Side {
            receive: Receive::new(capacity, 4),
            buffers: Buffers::new(capacity),
            statistics: Statistics::default(),
        }
    }

    /// Takes payload whose bytes show their offset.
    fn take(&mut self, offset: i64, bytes: i64) -> Taken {
        let payload: Vec<u8> = (offset..offset + bytes).map(|at| at as u8).collect();
        self.receive.take(offset, &payload, &mut self.buffers, &mut self.statistics)
    }

    fn read(&mut self, bytes: usize) -> Vec<u8> {
        let mut into = vec![0; bytes];
        let count = self.receive.read(&mut into, &mut self.buffers);
        into.truncate(count);
        into
    }

    fn sacks(&mut self) -> Vec<(u64, u64)> {
        self.receive.take_sack_ranges().map(|range| (range.start, range.end)).collect()
    }
}

#[test]
fn the_newest_range_is_reported_first() {
    let mut side = Side::new(1000);
    assert_eq!(side.take(100, 50), Taken::Gap);
    side.take(300, 50);
    side.take(150, 10);
    assert_eq!(side.sacks(), [(100, 160), (300, 350)]);
    assert_eq!(side.take(0, 100), Taken::Gap);
    assert_eq!((side.receive.next(), side.sacks()), (160, vec![(300, 350)]));
    assert_eq!(side.read(1000), (0..160).map(|at| at as u8).collect::<Vec<_>>());
}

#[test]
fn duplicates_are_reported_once() {
    let mut side = Side::new(1000);
    side.take(0, 100);
    assert_eq!(side.take(40, 20), Taken::Duplicate);
    assert_eq!(side.sacks(), [(40, 60)]);
    assert_eq!(side.sacks(), []);
}

#[test]
fn a_fifth_range_out_of_order_is_dropped_and_counted() {
    let mut side = Side::new(1000);
    for start in 1..=5 {
        side.take(start * 100, 10);
    }
    assert_eq!(side.sacks().len(), 4);
    assert_eq!(side.statistics.payload_bytes_unordered_dropped, 10);
}

#[test]
fn what_lies_beyond_the_window_is_cut_off() {
    let mut side = Side::new(100);
    assert_eq!(side.take(0, 150), Taken::InOrder);
    assert_eq!((side.receive.window(), side.statistics.payload_bytes_outside), (0, 50));
    assert_eq!(side.take(100, 1), Taken::Duplicate);
}

#[test]
fn the_window_opens_in_steps_that_are_worth_it() {
    let mut side = Side::new(1000);
    side.take(0, 1000);
    side.read(400);
    assert_eq!((side.receive.window_growth(800), side.receive.announce(800)), (0, 0));
    side.read(100);
    assert_eq!(side.receive.announce(800), 500);
}

#[test]
fn a_buffer_is_held_only_while_it_holds_something() {
    let mut side = Side::new(1000);
    side.take(0, 10);
    assert_eq!(side.receive.memory_bytes(), 1000);
    side.read(10);
    assert_eq!(side.receive.memory_bytes(), 0);
}

#[test]
fn a_stream_ends_once() {
    let mut side = Side::new(1000);
    assert!(side.receive.finish_at(10));
    assert!(!side.receive.is_finished());
    side.take(0, 20);
    assert_eq!(
        (side.receive.next(), side.receive.is_finished()),
        (10, true),
        "nothing follows a FIN"
    );
    assert!(!side.receive.finish_at(20));
    let mut other = Side::new(1000);
    other.take(50, 50);
    assert!(!other.receive.finish_at(60), "data beyond it has been seen");
}

proptest! {
    #[test]
    fn any_order_of_pieces_gives_the_stream(
        pieces in prop::collection::vec((0..3000i64, 1..700i64), 0..80),
        reads in prop::collection::vec(0..600usize, 0..40),
    ) {
        let mut side = Side::new(1024);
        let mut got = Vec::new();
        let mut reads = reads.into_iter();
        for (offset, bytes) in pieces {
            side.take(offset, bytes);
            got.extend(side.read(reads.next().unwrap_or(0)));
            side.receive.announce(200);
            prop_assert!(side.receive.window() <= 1024);
        }
        got.extend(side.read(4096));
        prop_assert_eq!(got.len() as u64, side.receive.next());
        prop_assert!(got.iter().enumerate().all(|(at, byte)| *byte == at as u8));
    }
}
