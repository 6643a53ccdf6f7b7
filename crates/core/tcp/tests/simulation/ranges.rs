//! A set of offsets, as sorted ranges that do not touch.

use std::ops::Range;

/// The set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    sorted: Vec<Range<u64>>,
}

impl Ranges {
    pub(crate) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let from = self.sorted.partition_point(|other| other.end < range.start);
        let until = self.sorted.partition_point(|other| other.start <= range.end);
        let touched = &self.sorted[from..until];
        let start = touched.first().map_or(range.start, |first| first.start.min(range.start));
        let end = touched.last().map_or(range.end, |last| last.end.max(range.end));
        self.sorted.splice(from..until, std::iter::once(start..end));
    }

    pub(crate) fn holds(&self, range: &Range<u64>) -> bool {
        let at = self.sorted.partition_point(|other| other.end < range.end);
        self.sorted.get(at).is_some_and(|other| other.start <= range.start)
    }

    /// The end of the offsets that are present from 0 on without a gap.
    pub(crate) fn unbroken(&self) -> u64 {
        self.sorted.first().filter(|first| first.start == 0).map_or(0, |first| first.end)
    }
}
