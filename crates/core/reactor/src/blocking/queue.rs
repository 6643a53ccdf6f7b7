//! The calls that wait for a thread: those whose result is awaited before those made ahead of need.

use std::collections::BTreeMap;

/// Calls of high priority that are taken in a row while others wait. So calls made ahead of need get at least a ninth of the turns, however many
/// awaited ones come. A guess: a window that is late at the head of the low queue becomes due, and is then raised.
const HIGH_IN_A_ROW_MAX: u32 = 8;

/// Calls by number, which is the order in which they came.
pub(super) struct Queue<C> {
    high: BTreeMap<u64, C>,
    low: BTreeMap<u64, C>,
    /// Calls of high priority taken since the last one of low priority, while any of those waited.
    high_in_a_row: u32,
    taken: u64,
}

impl<C> Default for Queue<C> {
    fn default() -> Self {
        Self { high: BTreeMap::new(), low: BTreeMap::new(), high_in_a_row: 0, taken: 0 }
    }
}

impl<C> Queue<C> {
    /// Counts the calls that wait.
    pub(super) fn len(&self) -> usize {
        self.high.len() + self.low.len()
    }

    /// Counts the calls that were taken.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    pub(super) fn add(&mut self, number: u64, is_high: bool, call: C) {
        if is_high { &mut self.high } else { &mut self.low }.insert(number, call);
    }

    /// Gives a call that still waits high priority. Among those it has the place of its number.
    pub(super) fn raise(&mut self, number: u64) {
        if let Some(call) = self.low.remove(&number) {
            self.high.insert(number, call);
        }
    }

    /// Takes the call whose turn it is.
    pub(super) fn take(&mut self) -> Option<C> {
        let is_low =
            self.high.is_empty() || self.high_in_a_row >= HIGH_IN_A_ROW_MAX && !self.low.is_empty();
        let calls = if is_low { &mut self.low } else { &mut self.high };
        let (_, call) = calls.pop_first()?;
        self.high_in_a_row = if is_low || self.low.is_empty() { 0 } else { self.high_in_a_row + 1 };
        self.taken += 1;
        Some(call)
    }

    /// Empties the queue. These calls do not count as taken.
    pub(super) fn take_all(&mut self) -> Vec<C> {
        let (high, low) = (std::mem::take(&mut self.high), std::mem::take(&mut self.low));
        high.into_values().chain(low.into_values()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue of calls that are their own numbers.
    fn queue(
        high: impl IntoIterator<Item = u64>,
        low: impl IntoIterator<Item = u64>,
    ) -> Queue<u64> {
        let mut queue = Queue::default();
        high.into_iter().for_each(|number| queue.add(number, true, number));
        low.into_iter().for_each(|number| queue.add(number, false, number));
        queue
    }

    fn rest(mut queue: Queue<u64>) -> Vec<u64> {
        std::iter::from_fn(|| queue.take()).collect()
    }

    #[test]
    fn awaited_calls_come_before_those_made_ahead_and_each_kind_in_order() {
        assert_eq!(rest(queue([3, 5], [1, 2, 4])), [3, 5, 1, 2, 4]);
        assert!(rest(queue([], [])).is_empty());
    }

    #[test]
    fn a_raised_call_is_made_once_and_takes_the_place_of_its_age() {
        let mut queue = queue([3, 5], [1, 4, 6]);
        queue.raise(4);
        // It is of high priority already, and this one never was in the queue.
        queue.raise(4);
        queue.raise(9);
        assert_eq!(queue.len(), 5);
        assert_eq!(rest(queue), [3, 4, 5, 1, 6]);
    }

    #[test]
    fn awaited_calls_without_end_do_not_starve_those_made_ahead() {
        let in_a_row = u64::from(HIGH_IN_A_ROW_MAX);
        let order = rest(queue(100..100 + 3 * in_a_row, [1, 2]));
        assert_eq!(order[in_a_row as usize], 1);
        assert_eq!(order[2 * in_a_row as usize + 1], 2);
        assert_eq!(order.len() as u64, 3 * in_a_row + 2, "each is made");
    }

    #[test]
    fn calls_made_ahead_have_no_claim_from_a_time_when_none_waited() {
        let mut queue = queue(100..150, []);
        for number in 100..120 {
            assert_eq!(queue.take(), Some(number));
        }
        queue.add(1, false, 1);
        assert_eq!(queue.take(), Some(120));
    }

    #[test]
    fn calls_that_are_given_up_do_not_count_as_taken() {
        let mut queue = queue([1, 2], [3]);
        assert_eq!(queue.take(), Some(1));
        assert_eq!(queue.take_all(), [2, 3]);
        assert_eq!((queue.len(), queue.taken()), (0, 1));
    }
}
