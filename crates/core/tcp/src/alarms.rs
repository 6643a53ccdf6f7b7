//! All deadlines of an endpoint, each with its owner to wake.
//!
//! They lie in two wheels of [`SLOTS`] slots, of half a millisecond and of half a second each. Setting a deadline appends it to a slot, which costs
//! the same with a thousand connections and with a million. When its slot comes, it moves to a heap of the next deadlines, so deadlines fire exactly
//! and in order. Deadlines later than both wheels wait in another heap.
//!
//! Each owner remembers which of its entries count. The others are stale and skipped when their time comes; once there are many, they are dropped. So
//! setting a later deadline, by far the most frequent change, touches nothing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::Id;
use crate::clock::Time;

const SLOTS: u64 = 1024;
const SLOTS_LOG2: u32 = SLOTS.ilog2();

/// Half a millisecond: a worker serves all deadlines within that time by one wake-up.
const FINE_LOG2: u32 = 9;

/// The owner of a deadline, which is woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    Connection(Id),
    HalfOpen(Id),
}

type Entry = (Time, Owner);

/// An owner's entries that count: the next one, and the previous next one. A connection that sends has two deadlines: pacing's near one, again and
/// again, and a distant one for losses. So the distant one need not be set again after each near one, leaving a stale entry behind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Armed {
    next: Time,
    later: Time,
}

impl Armed {
    pub(crate) const NOT: Armed = Armed { next: Time::NEVER, later: Time::NEVER };

    /// Takes the entry with this time, which has come. False: it no longer counts.
    pub(crate) fn take(&mut self, time: Time) -> bool {
        let counts = self.next == time;
        if counts {
            *self = Armed { next: self.later, later: Time::NEVER };
        }
        counts
    }

    pub(crate) fn has(&self, time: Time) -> bool {
        self.next == time || self.later == time
    }
}

#[derive(Debug, Default)]
pub(crate) struct Alarms {
    /// Entries of all slots up to `reached`.
    near: BinaryHeap<Reverse<Entry>>,
    /// Entries of later slots in the same coarse slot as `reached`.
    fine: Wheel,
    /// Entries of the following coarse slots.
    coarse: Wheel,
    /// All other entries.
    far: BinaryHeap<Reverse<Entry>>,
    /// The number of a fine slot.
    reached: u64,
    count: usize,
}

/// Slots by their numbers modulo [`SLOTS`].
#[derive(Debug)]
struct Wheel {
    slots: Box<[Slot]>,
    /// A bit for each slot that has entries.
    occupied: [u64; SLOTS as usize / 64],
}

#[derive(Debug, Clone)]
struct Slot {
    earliest: Time,
    entries: Vec<Entry>,
}

impl Default for Wheel {
    fn default() -> Self {
        let empty = Slot { earliest: Time::NEVER, entries: Vec::new() };
        Wheel { slots: vec![empty; SLOTS as usize].into(), occupied: [0; SLOTS as usize / 64] }
    }
}

impl Wheel {
    fn put(&mut self, slot: u64, entry: Entry) {
        let index = (slot % SLOTS) as usize;
        let Slot { earliest, entries } = &mut self.slots[index];
        *earliest = entry.0.min(*earliest);
        entries.push(entry);
        self.occupied[index / 64] |= 1 << (index % 64);
    }

    fn take(&mut self, slot: u64) -> Vec<Entry> {
        let index = (slot % SLOTS) as usize;
        self.occupied[index / 64] &= !(1 << (index % 64));
        self.slots[index].earliest = Time::NEVER;
        std::mem::take(&mut self.slots[index].entries)
    }

    /// The first slot with entries among the [`SLOTS`] from `from` on, and its earliest deadline.
    fn first(&self, from: u64) -> Option<(u64, Time)> {
        let words = self.occupied.len();
        let start = (from % SLOTS) as usize;
        let slot = (0..=words).find_map(|step| {
            let word = (start / 64 + step) % words;
            let mask = match step {
                0 => u64::MAX << (start % 64),
                step if step == words => !(u64::MAX << (start % 64)),
                _ => u64::MAX,
            };
            let bits = self.occupied[word] & mask;
            (bits != 0).then(|| word as u64 * 64 + u64::from(bits.trailing_zeros()))
        })?;
        let slot_number = from + (slot + SLOTS - from % SLOTS) % SLOTS;
        Some((slot_number, self.slots[slot as usize].earliest))
    }

    fn take_all(&mut self) -> Vec<Entry> {
        let mut all = Vec::new();
        while let Some((slot, _)) = self.first(0) {
            all.append(&mut self.take(slot));
        }
        all
    }
}

impl Alarms {
    /// Sets a deadline. `armed` holds the entries that counted for `owner` so far, and receives those that count from now on.
    pub(crate) fn set(&mut self, owner: Owner, deadline: Time, armed: &mut Armed) {
        if deadline < armed.next {
            *armed = Armed { next: deadline, later: armed.next };
            self.count += 1;
            self.put((deadline, owner));
        }
    }

    fn put(&mut self, entry: Entry) {
        let slot = entry.0.0 >> FINE_LOG2;
        let (coarse, reached) = (slot >> SLOTS_LOG2, self.reached >> SLOTS_LOG2);
        if slot <= self.reached {
            self.near.push(Reverse(entry));
        } else if coarse == reached {
            self.fine.put(slot, entry);
        } else if coarse < reached + SLOTS {
            self.coarse.put(coarse, entry);
        } else {
            self.far.push(Reverse(entry));
        }
    }

    pub(crate) fn next(&self) -> Time {
        if let Some(Reverse((time, _))) = self.near.peek() {
            return *time;
        }
        self.next_slot().map_or(Time::NEVER, |(_, _, earliest)| earliest)
    }

    /// The next slot that has entries: whether it is a coarse one, its number, its earliest deadline.
    fn next_slot(&self) -> Option<(bool, u64, Time)> {
        let fine = self.fine.first(self.reached + 1).map(|(slot, time)| (false, slot, time));
        let coarse = || {
            let from = (self.reached >> SLOTS_LOG2) + 1;
            self.coarse.first(from).map(|(slot, time)| (true, slot, time))
        };
        let far = || {
            let Reverse((time, _)) = self.far.peek()?;
            Some((true, time.0 >> FINE_LOG2 >> SLOTS_LOG2, *time))
        };
        fine.or_else(coarse).or_else(far)
    }

    /// The next entry that is due. It may be stale.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<Entry> {
        while self.near.is_empty() {
            let (is_coarse, slot, earliest) = self.next_slot()?;
            if earliest > now {
                return None;
            }
            self.reach(is_coarse, slot);
        }
        if self.next() > now {
            return None;
        }
        self.count -= 1;
        self.near.pop().map(|Reverse(entry)| entry)
    }

    /// Moves to this slot, which comes next. No earlier entries are left.
    fn reach(&mut self, is_coarse: bool, slot: u64) {
        let entries = if is_coarse {
            self.reached = slot << SLOTS_LOG2;
            self.coarse.take(slot)
        } else {
            self.reached = slot;
            self.fine.take(slot)
        };
        entries.into_iter().for_each(|entry| self.put(entry));
        let end = ((self.reached >> SLOTS_LOG2) + SLOTS) << SLOTS_LOG2 << FINE_LOG2;
        while self.far.peek().is_some_and(|Reverse((time, _))| time.0 < end) {
            let Some(Reverse(entry)) = self.far.pop() else { break };
            self.put(entry);
        }
    }

    /// Drops the stale entries if most are stale: `counts` returns whether an entry counts, `owners` is how many owners there can be.
    pub(crate) fn compact(&mut self, owners: usize, counts: impl Fn(Time, Owner) -> bool) {
        if self.count > 4 * owners + 64 {
            let heaps = [std::mem::take(&mut self.near), std::mem::take(&mut self.far)];
            let ordered = heaps.into_iter().flatten().map(|Reverse(entry)| entry);
            let slotted = [self.fine.take_all(), self.coarse.take_all()].into_iter().flatten();
            let is_kept = |entry: &Entry| counts(entry.0, entry.1);
            let kept: Vec<_> = ordered.chain(slotted).filter(is_kept).collect();
            self.count = kept.len();
            kept.into_iter().for_each(|entry| self.put(entry));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn owner(index: u32) -> Owner {
        Owner::HalfOpen(Id { index, generation: 0 })
    }

    #[test]
    fn stale_entries_do_not_pile_up() {
        let mut alarms = Alarms::default();
        let owner = owner(0);
        let mut armed = Armed::NOT;
        for time in (0..10_000).rev() {
            alarms.set(owner, Time(time), &mut armed);
            alarms.compact(1, |time, _| armed.has(time));
            assert!(alarms.count <= 69);
        }
        assert_eq!(alarms.pop_due(Time(0)), Some((Time(0), owner)));
    }

    #[test]
    fn a_near_deadline_does_not_make_the_distant_one_stale() {
        let mut alarms = Alarms::default();
        let (owner, mut armed) = (owner(0), Armed::NOT);
        alarms.set(owner, Time(200_000), &mut armed);
        for near in (1000..=100_000).step_by(1000) {
            alarms.set(owner, Time(near), &mut armed);
            assert_eq!(alarms.pop_due(Time(near)), Some((Time(near), owner)));
            assert!(armed.take(Time(near)));
            // As a connection does then: its next deadline is the distant one, a little later than before.
            alarms.set(owner, Time(200_000 + near), &mut armed);
            assert_eq!(alarms.count, 1);
        }
        assert_eq!(alarms.pop_due(Time(200_000)), Some((Time(200_000), owner)));
        assert!(armed.take(Time(200_000)) && !armed.has(Time(200_000)));
    }

    /// Near, within the fine wheel, within the coarse one, beyond both.
    fn distance() -> impl Strategy<Value = u64> {
        prop_oneof![0..2_000_u64, 0..600_000_u64, 0..600_000_000_u64, 0..1_u64 << 40]
    }

    proptest! {
        /// Compares with a list that is searched for the earliest entry each time.
        #[test]
        fn deadlines_come_in_order_and_in_time(
            steps in proptest::collection::vec((distance(), distance(), any::<bool>()), 1..200)
        ) {
            let (mut alarms, mut model, mut now) = (Alarms::default(), Vec::new(), 0);
            for (index, (distance, later, waits)) in steps.into_iter().enumerate() {
                let entry = (Time(now + distance), owner(index as u32));
                alarms.set(entry.1, entry.0, &mut { Armed::NOT });
                model.push(entry);
                model.sort();
                prop_assert_eq!(alarms.next(), model[0].0);
                now += if waits { later } else { 0 };
                while model.first().is_some_and(|entry| entry.0.0 <= now) {
                    prop_assert_eq!(alarms.pop_due(Time(now)), Some(model.remove(0)));
                }
                prop_assert_eq!(alarms.pop_due(Time(now)), None);
                prop_assert_eq!(alarms.count, model.len());
            }
        }
    }
}
