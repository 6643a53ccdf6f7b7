//! The volume of a window: the bytes that a box fetches in one window, or in one day (UTC) if it has no windows.
//!
//! Titles that are wanted at once, and repairs, are fetched outside windows as well: they count, but do not wait.
//!
//! The count survives a restart of the agent; a killed agent loses the last second. A clock that jumps into another window and back starts
//! a new count.

use serde::{Deserialize, Serialize};

/// The bytes fetched in the window, or on the day, that began at this time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Volume {
    since_unix_seconds: u64,
    bytes: u64,
    /// The agent's total at the last count: it starts at 0.
    #[serde(skip)]
    counted_bytes: u64,
    /// It has changed since it was last saved.
    #[serde(skip)]
    is_news: bool,
}

impl Volume {
    /// Updates the count: `all_bytes` is the total since the agent's start, `since` the start of the current window or day.
    pub(super) fn count(&mut self, since: u64, all_bytes: u64) {
        self.is_news |= self.since_unix_seconds != since || self.counted_bytes != all_bytes;
        if self.since_unix_seconds != since {
            (self.since_unix_seconds, self.bytes) = (since, 0);
        }
        self.bytes = self.bytes.saturating_add(all_bytes.saturating_sub(self.counted_bytes));
        self.counted_bytes = all_bytes;
    }

    /// The state to save, if it has changed since the last call.
    pub(super) fn take_news(&mut self) -> Option<Self> {
        std::mem::take(&mut self.is_news).then_some(*self)
    }

    /// The bytes left.
    pub(super) fn left(&self, bytes_max: u64) -> u64 {
        bytes_max.saturating_sub(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::Volume;

    #[test]
    fn each_window_has_its_own_volume_also_for_an_agent_that_starts_anew() {
        let mut volume = Volume::default();
        volume.count(100, 0);
        assert!(volume.take_news().is_some() && volume.take_news().is_none());
        assert_eq!(volume.left(10), 10);
        volume.count(100, 7);
        volume.count(100, 7);
        assert!(volume.take_news().is_some() && volume.take_news().is_none());
        assert_eq!(volume.left(10), 3);
        volume.count(100, 12);
        assert_eq!(volume.left(10), 0);
        let kept = serde_json::to_string(&volume).unwrap();
        let mut again: Volume = serde_json::from_str(&kept).unwrap();
        again.count(100, 0);
        assert_eq!(again.left(20), 8);
        again.count(100, 3);
        assert_eq!(again.left(20), 5);
        again.count(200, 3);
        assert_eq!(again.left(20), 20);
    }
}
