//! The slots of a window of time that moves on.

use std::collections::VecDeque;
use std::sync::Arc;

use qoe::SessionSums;

use super::slot::{CellKey, KeptSlot, Slot};

/// The time that a list covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExperienceWindow {
    /// The last quarter of an hour.
    Now,
    /// The last 24 hours.
    Day,
    /// The last seven days.
    Week,
}

impl ExperienceWindow {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Now, Self::Day, Self::Week];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Now => "now",
            Self::Day => "day",
            Self::Week => "week",
        }
    }

    /// The window with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|window| window.as_str() == name)
    }

    /// How long a slot is, and how many whole ones the window has.
    fn slots(self) -> (u64, u64) {
        match self {
            Self::Now => (300, 3),
            Self::Day => (3600, 24),
            Self::Week => (86_400, 7),
        }
    }

    /// How far it reaches back: its whole slots, and what has passed of the present one.
    fn since(self, now: u64) -> u64 {
        let (seconds, count) = self.slots();
        (now - now % seconds).saturating_sub(seconds * count)
    }
}

/// More slots than a window needs. Slots outside it are kept until their room is needed: a clock that leaps forwards and back takes no history.
const SPARE: u64 = 2;

/// The slots of a window, the oldest first.
pub(super) struct Ring {
    window: ExperienceWindow,
    /// Each is shared with those who list or save it, and copied if it changes meanwhile.
    slots: VecDeque<Arc<Slot>>,
}

impl Ring {
    pub(super) fn new(window: ExperienceWindow) -> Self {
        Self { window, slots: VecDeque::new() }
    }

    pub(super) fn window(&self) -> ExperienceWindow {
        self.window
    }

    /// Adds sums of the time `at`, if the window still has it. Returns how many groups lost their names.
    pub(super) fn add(&mut self, key: &CellKey, sums: &SessionSums, at: u64, now: u64) -> u64 {
        if at < self.window.since(now) {
            return 0;
        }
        let (seconds, _) = self.window.slots();
        let start = at - at % seconds;
        let slots = &mut self.slots;
        let mut place = slots.partition_point(|slot| slot.start < start);
        if slots.get(place).is_none_or(|slot| slot.start != start) {
            slots.insert(place, Arc::new(Slot::new(start)));
            self.make_room(now);
            place = self.slots.partition_point(|slot| slot.start < start);
        }
        Arc::make_mut(&mut self.slots[place]).add(key, sums)
    }

    /// Drops slots outside the window if there are too many.
    fn make_room(&mut self, now: u64) {
        let (since, (_, count)) = (self.window.since(now), self.window.slots());
        while self.slots.len() as u64 > count + 1 + SPARE {
            let is_outside = |slot: &Arc<Slot>| slot.start < since || slot.start > now;
            // No more than `count + 1` are inside.
            let Some(at) = self.slots.iter().position(is_outside) else { break };
            self.slots.remove(at);
        }
    }

    /// From when the window at `now` counts, and its slots.
    pub(super) fn at(&self, now: u64) -> (u64, Vec<Arc<Slot>>) {
        let since = self.window.since(now);
        let is_inside = |slot: &&Arc<Slot>| slot.start >= since && slot.start <= now;
        (since, self.slots.iter().filter(is_inside).cloned().collect())
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = &Arc<Slot>> {
        self.slots.iter()
    }

    /// The number of groups in all slots.
    pub(super) fn cells(&self) -> usize {
        self.slots.iter().map(|slot| slot.cells.len()).sum()
    }

    /// Continues with saved slots. Returns how many of their groups can't be read.
    pub(super) fn restore(&mut self, slots: Vec<KeptSlot>, now: u64) -> u64 {
        let (seconds, _) = self.window.slots();
        let mut unread = 0;
        for kept in slots {
            let place = self.slots.partition_point(|slot| slot.start < kept.start);
            let is_there = self.slots.get(place).is_some_and(|slot| slot.start == kept.start);
            if kept.start % seconds != 0 || is_there {
                unread += kept.cells.len() as u64;
                continue;
            }
            let (slot, left_out) = Slot::restored(kept);
            unread += left_out;
            self.slots.insert(place, Arc::new(slot));
            self.make_room(now);
        }
        unread
    }
}
