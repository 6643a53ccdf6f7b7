//! Who is to be woken when: one heap for all deadlines of an endpoint.
//!
//! Each owner remembers the one entry that counts for it. Others are stale, and are passed over when their time comes; when they become many, the
//! heap is made anew. So setting a later deadline, which is by far the most frequent change, touches nothing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Id;
use crate::clock::Time;

/// Who is woken.
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
    /// `armed` is what counted for `owner` so far, and what counts from now on.
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

    /// Drops what is stale if that is most of it: `counts` says which entries count, `owners` how many that can be.
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
