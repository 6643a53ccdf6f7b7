//! Limits the rate of all connections together, by turns.
//!
//! Time is cut into slots, each as long as its bytes take at the rate, and a connection that wants to send takes the next slot. Connections queue in
//! the order in which they ask, and ask again only after they have sent, so all that want more get equal shares. The queue is one number that all
//! workers share: the time at which it will be empty.
//!
//! Invariants:
//! - Slots do not overlap, and nothing is sent before its slot begins. Unused time counts for at most [`CREDIT`]. So in any interval that starts when
//!   no connection was sending, no more is sent than the rate allows, plus one credit and one turn.
//! - A slot that is not used is lost, unless it is the last one: else two could be used at once.
//!
//! Handshakes, alerts and retransmissions are not counted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How much unused time may be made up for: more than a sleeping thread is late by, and too little to be noticed as a burst.
const CREDIT: Duration = Duration::from_millis(10);

/// About how long a turn takes, which is how long a viewer waits for each other one.
const TURN: Duration = Duration::from_micros(500);

/// Turns are whole records, and at most as long as a usual window.
const RECORD_BYTES: u64 = 16 << 10;
const TURN_BYTES_MAX: u64 = 512 << 10;

/// The rate of all connections together.
#[derive(Debug)]
pub struct TotalRate {
    bytes_per_second: u64,
    turn_bytes: u64,
    began: Instant,
    /// When all taken slots are over, in nanoseconds since it began.
    free_at: AtomicU64,
}

/// A slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// In nanoseconds since the rate began.
    begins: u64,
    ends: u64,
    bytes: u64,
}

impl Slot {
    /// The bytes that it is for.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl TotalRate {
    /// At most this many bytes per second; 0 counts as 1.
    pub fn new(bytes_per_second: u64) -> Self {
        let of_turn = u128::from(bytes_per_second) * TURN.as_nanos() / 1_000_000_000;
        let records = (of_turn as u64 / RECORD_BYTES).max(1);
        let turn_bytes = (records * RECORD_BYTES).min(TURN_BYTES_MAX);
        let (began, free_at) = (Instant::now(), AtomicU64::new(0));
        Self { bytes_per_second: bytes_per_second.max(1), turn_bytes, began, free_at }
    }

    /// The most bytes of one turn.
    pub(crate) fn turn_bytes(&self) -> u64 {
        self.turn_bytes
    }

    /// Takes the next slot, for `bytes` bytes.
    pub(crate) fn take(&self, bytes: u64) -> Slot {
        self.take_at(nanoseconds(self.began.elapsed()), bytes)
    }

    fn take_at(&self, now: u64, bytes: u64) -> Slot {
        let earliest = now.saturating_sub(nanoseconds(CREDIT));
        let cost = self.cost(bytes);
        let slot_after = |free_at: u64| {
            let begins = free_at.max(earliest);
            Slot { begins, ends: begins.saturating_add(cost), bytes }
        };
        let taken = self.free_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free_at| {
            Some(slot_after(free_at).ends)
        });
        match taken {
            Ok(free_at) | Err(free_at) => slot_after(free_at),
        }
    }

    /// The time until a slot begins.
    pub(crate) fn wait_for(&self, slot: &Slot) -> Duration {
        Duration::from_nanos(slot.begins).saturating_sub(self.began.elapsed())
    }

    /// Corrects a slot in which `bytes` bytes were sent in the end.
    pub(crate) fn used(&self, slot: &Slot, bytes: u64) {
        if bytes > slot.bytes {
            self.free_at.fetch_add(self.cost(bytes - slot.bytes), Ordering::Relaxed);
        } else if bytes < slot.bytes {
            let rest = self.cost(slot.bytes - bytes);
            let shorter = slot.ends.saturating_sub(rest);
            // If another connection has taken the next slot, the rest is lost.
            let _ = self.free_at.compare_exchange(
                slot.ends,
                shorter,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    }

    fn cost(&self, bytes: u64) -> u64 {
        let cost = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second);
        u64::try_from(cost).unwrap_or(u64::MAX)
    }
}

/// In 64 bits, which last five centuries.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A megabyte per second.
    fn rate() -> TotalRate {
        TotalRate::new(1_000_000)
    }

    #[test]
    fn slots_follow_each_other_without_a_gap_and_without_overlapping() {
        let rate = rate();
        let slots: Vec<_> = (0..10).map(|_| rate.take_at(5 * SECOND, 100_000)).collect();
        assert_eq!(slots[0].begins, 5 * SECOND - nanoseconds(CREDIT));
        assert!(slots.windows(2).all(|two| two[0].ends == two[1].begins), "{slots:?}");
        assert_eq!(slots[9].ends, 6 * SECOND - nanoseconds(CREDIT));
    }

    #[test]
    fn time_in_which_nobody_sends_is_not_saved_up() {
        let rate = rate();
        rate.take_at(0, 1000);
        let later = rate.take_at(100 * SECOND, 1000);
        assert_eq!(later.begins, 100 * SECOND - nanoseconds(CREDIT));
    }

    #[test]
    fn an_unused_slot_is_given_back_only_if_it_is_the_last() {
        let rate = rate();
        let [first, second] = [0, 0].map(|now| rate.take_at(now, 1000));
        rate.used(&first, 0);
        assert_eq!(rate.take_at(0, 1000).begins, second.ends, "another slot came after it");
        let last = rate.take_at(0, 1000);
        rate.used(&last, 400);
        assert_eq!(rate.take_at(0, 1000).begins, last.begins + rate.cost(400));
        let longer = rate.take_at(0, 1000);
        rate.used(&longer, 1500);
        assert_eq!(rate.take_at(0, 1000).begins, longer.ends + rate.cost(500));
    }

    #[test]
    fn turns_are_records_and_no_longer_than_a_window() {
        let turn = |bits: u64| TotalRate::new(bits / 8).turn_bytes();
        assert_eq!(turn(1_000_000), RECORD_BYTES);
        assert_eq!(turn(1_000_000_000), 3 * RECORD_BYTES);
        assert_eq!(turn(400_000_000_000), TURN_BYTES_MAX);
    }
}
