//! One heap for all deadlines of an endpoint: what to wake, and when.
//!
//! Each owner remembers the one entry that counts for it. Its other entries are stale, and are skipped when their time
//! comes; when there are many, the heap is rebuilt. So setting a later deadline, which is by far the most frequent
//! change, touches nothing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Id;
use crate::clock::Time;

/// What is woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    Connection(Id),
    HalfOpen(Id),
}

#[derive(Debug, Default)]
pub(crate) struct Alarms {
    heap: BinaryHeap<Reverse<(Time, Owner)>>,
}

impl Alarms {
    /// Sets a deadline. `armed` is the entry that counted for `owner` so far, and receives the one that counts from now on.
    pub(crate) fn set(&mut self, owner: Owner, deadline: Time, armed: &mut Time) {
        if deadline < *armed {
            *armed = deadline;
            self.heap.push(Reverse((deadline, owner)));
        }
    }

    pub(crate) fn next(&self) -> Time {
        self.heap.peek().map_or(Time::NEVER, |Reverse((time, _))| *time)
    }

    /// The next entry that is due. It may be stale.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<(Time, Owner)> {
        if self.next() > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry)
    }

    /// Drops the stale entries if most are stale: `counts` tells which entries count, `owners` how many there can be.
    pub(crate) fn compact(&mut self, owners: usize, counts: impl Fn(Time, Owner) -> bool) {
        if self.heap.len() > 4 * owners + 64 {
            self.heap.retain(|Reverse((time, owner))| counts(*time, *owner));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_entries_do_not_pile_up() {
        let mut alarms = Alarms::default();
        let owner = Owner::HalfOpen(Id { index: 0, generation: 0 });
        let mut armed = Time::NEVER;
        for time in (0..10_000).rev() {
            alarms.set(owner, Time(time), &mut armed);
            alarms.compact(1, |time, _| time == armed);
            assert!(alarms.heap.len() <= 69);
        }
        assert_eq!(alarms.pop_due(Time(0)), Some((Time(0), owner)));
    }
}
