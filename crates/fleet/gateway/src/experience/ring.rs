//! The slots of a window of time that moves on.

use std::collections::VecDeque;

use qoe::SessionSums;

use super::slot::{CellKey, Slot};

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

/// The slots of a window, the oldest first.
pub(super) struct Ring {
    window: ExperienceWindow,
    slots: VecDeque<Slot>,
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
        self.drop_old(now);
        if at < self.window.since(now) {
            return 0;
        }
        let (seconds, _) = self.window.slots();
        let start = at - at % seconds;
        let place = self.slots.partition_point(|slot| slot.start < start);
        if self.slots.get(place).is_none_or(|slot| slot.start != start) {
            self.slots.insert(place, Slot::new(start));
        }
        self.slots[place].add(key, sums)
    }

    /// Drops slots that have left the window, and any from the future, which a clock that was wrong has left.
    pub(super) fn drop_old(&mut self, now: u64) {
        let since = self.window.since(now);
        self.slots.retain(|slot| slot.start >= since && slot.start <= now);
    }

    /// The slots of the window at `now`, and when the first of them begins.
    pub(super) fn at(&self, now: u64) -> (u64, impl Iterator<Item = &Slot>) {
        let since = self.window.since(now);
        (since, self.slots.iter().filter(move |slot| slot.start >= since && slot.start <= now))
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter()
    }

    /// The number of groups in all slots.
    pub(super) fn cells(&self) -> usize {
        self.slots.iter().map(|slot| slot.cells.len()).sum()
    }

    /// Continues with saved slots.
    pub(super) fn restore(&mut self, slots: Vec<Slot>, now: u64) -> Result<(), String> {
        let (seconds, count) = self.window.slots();
        let fits = |slot: &Slot| slot.start % seconds == 0 && slot.is_sound();
        let is_sorted = slots.is_sorted_by(|one, next| one.start < next.start);
        if slots.len() as u64 > count + 1 || !is_sorted || !slots.iter().all(fits) {
            return Err(format!("the slots of {:?} are not sound", self.window.as_str()));
        }
        self.slots = slots.into();
        self.drop_old(now);
        Ok(())
    }
}
