//! Ranges that the caller has declined since it could last be sent.

use std::ops::Range;

/// How many ranges are kept apart. Beyond that, the two closest are joined, and the bytes between them are requested again.
const HOLES_MAX: usize = 8;

/// The declined ranges.
#[derive(Debug, Default)]
pub(super) struct Declined {
    /// Some of it was lost.
    pub(super) again: bool,
    /// Some of it was new.
    pub(super) new: bool,
    /// New bytes that the caller declined while it still holds or reads later ones. In order, with a gap between any two.
    holes: Vec<Range<u64>>,
}

impl Declined {
    /// Adds new bytes that the caller will not supply, although it will supply later ones.
    pub(super) fn add_hole(&mut self, hole: Range<u64>) {
        if self.holes.capacity() == 0 {
            self.holes.reserve_exact(HOLES_MAX + 1);
        }
        let at = self.holes.partition_point(|known| known.start < hole.start);
        self.holes.insert(at, hole);
        self.join(0);
        if self.holes.len() > HOLES_MAX {
            let gaps = self.holes.windows(2).map(|two| two[1].start - two[0].end);
            self.join(gaps.min().unwrap_or(0));
        }
    }

    /// Joins holes that are no further apart than `gap_bytes`.
    fn join(&mut self, gap_bytes: u64) {
        self.holes.dedup_by(|next, hole| {
            let is_close = next.start <= hole.end + gap_bytes;
            if is_close {
                hole.end = hole.end.max(next.end);
            }
            is_close
        });
    }

    /// The first bytes of `within` to request again, at most `bytes_max`, if they begin below `below`.
    pub(super) fn take_hole(
        &mut self,
        within: &Range<u64>,
        below: u64,
        bytes_max: u64,
    ) -> Option<Range<u64>> {
        self.clip(within);
        let first = self.holes.first_mut().filter(|first| first.start < below)?;
        let taken = first.start..first.end.min(first.start + bytes_max);
        first.start = taken.end;
        self.clip(within);
        Some(taken)
    }

    /// Forgets ranges outside `within`: they were sent, or will be requested anyway.
    fn clip(&mut self, within: &Range<u64>) {
        for hole in &mut self.holes {
            *hole = hole.start.max(within.start)..hole.end.min(within.end);
        }
        self.holes.retain(|hole| !hole.is_empty());
    }

    pub(super) fn has_holes(&self) -> bool {
        !self.holes.is_empty()
    }

    /// Memory outside of this struct.
    pub(super) fn memory_bytes(&self) -> usize {
        self.holes.capacity() * size_of::<Range<u64>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(declined: &mut Declined) -> Vec<Range<u64>> {
        std::iter::from_fn(|| declined.take_hole(&(0..10_000), 10_000, 10_000)).collect()
    }

    #[test]
    fn only_what_was_declined_comes_again() {
        let mut declined = Declined::default();
        for hole in [300..400, 100..200, 500..600, 400..450] {
            declined.add_hole(hole);
        }
        assert_eq!(taken(&mut declined), [100..200, 300..450, 500..600]);
        assert!(!declined.has_holes());
    }

    #[test]
    fn what_was_sent_or_lies_beyond_what_was_asked_for_is_forgotten() {
        let mut declined = Declined::default();
        for hole in [100..200, 300..400, 500..600] {
            declined.add_hole(hole);
        }
        assert_eq!(declined.take_hole(&(150..550), 500, 20), Some(150..170));
        assert_eq!(declined.take_hole(&(150..550), 300, 100), Some(170..200));
        assert_eq!(declined.take_hole(&(150..550), 300, 100), None, "that begins later");
        assert_eq!(taken(&mut declined), [300..400, 500..550]);
    }

    #[test]
    fn of_too_many_the_closest_are_one() {
        let mut declined = Declined::default();
        for at in 0..20 {
            declined.add_hole(at * 100..at * 100 + 50 + at);
        }
        assert_eq!(declined.holes.len(), HOLES_MAX);
        assert_eq!(declined.holes.last(), Some(&(700..1969)));
        assert!(declined.holes.capacity() <= HOLES_MAX + 1);
    }
}
