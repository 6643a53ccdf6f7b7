//! The bytes in flight that the peer has reported (RFC 2018): one bit for each segment.
//!
//! A receiver has whole segments, so one bit per segment loses nothing, however many holes there are. A queue that
//! overflows drops every other segment of a window, and thousands of holes still take 2 KiB at most. The segments'
//! boundaries are known from sending: a *grid* is a run of segments of one size, of which only the last may be shorter.
//! A *cell* is one segment of a grid; cells are numbered continuously from grid to grid.
//!
//! A report of a part of a segment is ignored. That is always allowed: it is a hint, and the acknowledgement comes in any case.
//!
//! Invariants:
//! * Grids are adjacent, from the first unacknowledged segment to the last one sent; bits are set only for their cells.
//! * There are at most [`GRIDS_MAX`] grids and [`WORDS_MAX`] words.

use std::collections::VecDeque;
use std::ops::Range;

/// 128 grids of 16 bytes are 2 KiB. Beyond that the last grid is extended, although segments no longer begin where its
/// cells do.
const GRIDS_MAX: usize = 128;

/// 256 words are 2 KiB, enough for 16,384 segments: 23 MB on Ethernet.
const WORDS_MAX: usize = 256;

const _: () = assert!(GRIDS_MAX * size_of::<Grid>() + WORDS_MAX * size_of::<u64>() <= 4096);

const WORD_CELLS: u32 = u64::BITS;

#[derive(Debug, Clone, Copy)]
struct Grid {
    /// The offset in the stream at which its first cell begins.
    start: u64,
    /// The number of that cell. Numbers wrap.
    cell: u32,
    cell_bytes: u32,
}

impl Grid {
    /// The cell that `offset` is in.
    fn cell_at(&self, offset: u64) -> u32 {
        self.cell.wrapping_add(((offset - self.start) / u64::from(self.cell_bytes)) as u32)
    }

    /// The first cell that begins at `offset` or later.
    fn cell_from(&self, offset: u64) -> u32 {
        self.cell.wrapping_add((offset - self.start).div_ceil(u64::from(self.cell_bytes)) as u32)
    }

    fn start_of(&self, cell: u32) -> u64 {
        self.start + u64::from(cell.wrapping_sub(self.cell)) * u64::from(self.cell_bytes)
    }
}

/// The set of segments in flight that the peer has.
#[derive(Debug, Default)]
pub(crate) struct Sacked {
    grids: VecDeque<Grid>,
    /// A bit for each cell from `base` on; cells beyond the last word are not set.
    words: VecDeque<u64>,
    /// A multiple of the bits in a word, not beyond the first cell.
    base: u32,
    /// The end of the sent bytes.
    end: u64,
}

impl Sacked {
    pub(crate) fn memory_bytes(&self) -> usize {
        self.grids.capacity() * size_of::<Grid>() + self.words.capacity() * size_of::<u64>()
    }

    /// Records new bytes, sent in segments of `segment_bytes`, of which the last may be shorter.
    pub(crate) fn sent(&mut self, range: Range<u64>, segment_bytes: u64) {
        let goes_on = self.grids.back().is_some_and(|last| {
            let fits = u64::from(last.cell_bytes) == segment_bytes
                && (range.start - last.start) % segment_bytes == 0;
            fits || self.is_full()
        });
        if !goes_on {
            let cell = self.grids.back().map_or(0, |last| last.cell_from(range.start));
            let cell_bytes = segment_bytes as u32;
            self.grids.push_back(Grid { start: range.start, cell, cell_bytes });
        }
        self.end = range.end;
    }

    /// Records that the peer has everything below `below`.
    pub(crate) fn acknowledge(&mut self, below: u64) {
        if below >= self.end {
            self.grids.clear();
            self.forget();
            self.base = 0;
            return;
        }
        while self.grids.get(1).is_some_and(|second| second.start <= below) {
            self.grids.pop_front();
        }
        let Some(first) = self.grids.front_mut() else { return };
        let cell = first.cell_at(below);
        first.start = first.start_of(cell);
        first.cell = cell;
        let gone = (cell.wrapping_sub(self.base) / WORD_CELLS) as usize;
        self.words.drain(..gone.min(self.words.len()));
        self.base = cell - cell % WORD_CELLS;
    }

    /// Forgets all reports.
    pub(crate) fn forget(&mut self) {
        self.words.clear();
    }

    /// The whole segments in `range`, as far as there is room to remember them.
    pub(crate) fn whole_segments(&self, range: Range<u64>) -> Range<u64> {
        let (Some(first), Some(last)) =
            (self.grid_index(range.start), self.grid_index(range.end.min(self.end)))
        else {
            return range.start..range.start;
        };
        let grid = &self.grids[first];
        let start = grid.start_of(grid.cell_from(range.start)).min(self.grid_end(first));
        let grid = &self.grids[last];
        // While no grid can be added, the last segment's cell may grow: its end is not known.
        let end = if range.end >= self.end && !self.is_full() {
            self.end
        } else {
            grid.start_of(grid.cell_at(range.end.min(self.end)))
        };
        let room_ends = self.start_of(self.base.wrapping_add(WORDS_MAX as u32 * WORD_CELLS));
        start..end.min(room_ends).max(start)
    }

    /// Records that the peer has `range`, which is whole segments.
    pub(crate) fn set(&mut self, range: Range<u64>) {
        let cells = self.cells(&range);
        let words = cells.end.div_ceil(WORD_CELLS) as usize;
        debug_assert!(words <= WORDS_MAX);
        if words > self.words.len() {
            self.words.resize(words, 0);
        }
        for (index, mask) in masks(cells) {
            self.words[index] |= mask;
        }
    }

    /// How many bytes of `range` the peer has.
    pub(crate) fn bytes_in(&self, range: Range<u64>) -> u64 {
        if self.words.is_empty() || range.is_empty() {
            return 0;
        }
        let first = self.grid_index(range.start).unwrap_or(0);
        let last = self.grid_index(range.end - 1).unwrap_or(0);
        (first..=last).map(|index| self.bytes_in_grid(index, &range)).sum()
    }

    fn bytes_in_grid(&self, index: usize, range: &Range<u64>) -> u64 {
        let grid = &self.grids[index];
        let (from, to) = (range.start.max(grid.start), range.end.min(self.grid_end(index)));
        if from >= to {
            return 0;
        }
        let (first, below) = (grid.cell_at(from), grid.cell_from(to));
        let cells = first.wrapping_sub(self.base)..below.wrapping_sub(self.base);
        let count: u32 =
            masks(cells.clone()).map(|(index, mask)| (self.word(index) & mask).count_ones()).sum();
        let mut bytes = u64::from(count) * u64::from(grid.cell_bytes);
        // The cells at the ends may be partly outside of `range`, or of the grid.
        if self.has(cells.start) {
            bytes -= from - grid.start_of(first);
        }
        if self.has(cells.end - 1) {
            bytes -= grid.start_of(below) - to;
        }
        bytes
    }

    /// The first bytes of `range` that the peer is not known to have.
    pub(crate) fn first_hole(&self, range: Range<u64>) -> Option<Range<u64>> {
        if range.is_empty() {
            return None;
        }
        if self.words.is_empty() {
            return Some(range);
        }
        let start = self.first(range.clone(), false)?;
        let end = self.first(start..range.end, true).unwrap_or(range.end);
        Some(start..end)
    }

    /// All of `range` that the peer is not known to have.
    pub(crate) fn holes(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut rest = range;
        std::iter::from_fn(move || {
            let hole = self.first_hole(rest.clone())?;
            rest.start = hole.end;
            Some(hole)
        })
    }

    /// The first offset of `range` whose bit equals `set`.
    fn first(&self, range: Range<u64>, set: bool) -> Option<u64> {
        let cells = self.cells(&range);
        let found = masks(cells).find_map(|(index, mask)| {
            let word = self.word(index);
            let bits = mask & if set { word } else { !word };
            (bits != 0).then(|| index as u32 * WORD_CELLS + bits.trailing_zeros())
        })?;
        Some(self.start_of(self.base.wrapping_add(found)).max(range.start))
    }

    fn is_full(&self) -> bool {
        self.grids.len() == GRIDS_MAX
    }

    fn word(&self, index: usize) -> u64 {
        self.words.get(index).copied().unwrap_or(0)
    }

    fn has(&self, cell: u32) -> bool {
        self.word((cell / WORD_CELLS) as usize) >> (cell % WORD_CELLS) & 1 == 1
    }

    fn grid_index(&self, offset: u64) -> Option<usize> {
        self.grids.partition_point(|grid| grid.start <= offset).checked_sub(1)
    }

    fn grid_end(&self, index: usize) -> u64 {
        self.grids.get(index + 1).map_or(self.end, |next| next.start)
    }

    /// The cells that `range` touches, counted from `base`.
    fn cells(&self, range: &Range<u64>) -> Range<u32> {
        let at = |offset: u64| self.grid_index(offset).map(|index| &self.grids[index]);
        let (Some(first), Some(last)) = (at(range.start), at(range.end.saturating_sub(1))) else {
            return 0..0;
        };
        let (first, below) = (first.cell_at(range.start), last.cell_from(range.end));
        first.wrapping_sub(self.base)..below.wrapping_sub(self.base)
    }

    /// The start of a cell; a cell after the last one begins at the end.
    fn start_of(&self, cell: u32) -> u64 {
        let number = |cell: u32| cell.wrapping_sub(self.base);
        let index = self.grids.partition_point(|grid| number(grid.cell) <= number(cell));
        let Some(index) = index.checked_sub(1) else { return self.end };
        self.grids[index].start_of(cell).min(self.grid_end(index))
    }
}

/// The words that contain the cells, each with the bits of these cells.
fn masks(cells: Range<u32>) -> impl Iterator<Item = (usize, u64)> {
    let words = cells.start / WORD_CELLS..cells.end.div_ceil(WORD_CELLS);
    words.map(move |word| {
        let first = word * WORD_CELLS;
        let from = cells.start.saturating_sub(first);
        let to = (cells.end - first).min(WORD_CELLS);
        (word as usize, (u64::MAX >> (WORD_CELLS - (to - from))) << from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_segments_than_there_is_room_for_wait_until_others_are_acknowledged() {
        let mut sacked = Sacked::default();
        sacked.sent(0..20_000_000, 1000);
        assert_eq!(sacked.whole_segments(15_000_000..17_000_000), 15_000_000..16_384_000);
        assert!(sacked.whole_segments(17_000_000..18_000_000).is_empty());
        sacked.set(15_000_000..16_384_000);
        sacked.acknowledge(10_000_000);
        assert_eq!(sacked.whole_segments(17_000_000..18_000_000), 17_000_000..18_000_000);
        assert_eq!(sacked.bytes_in(10_000_000..20_000_000), 1_384_000);
    }

    #[test]
    fn the_numbers_of_cells_wrap() {
        let cell = u32::MAX - 100;
        let mut sacked = Sacked { base: cell - cell % WORD_CELLS, ..Sacked::default() };
        sacked.grids.push_back(Grid { start: 0, cell, cell_bytes: 10 });
        sacked.sent(0..1005, 10);
        sacked.sent(1005..5000, 10);
        sacked.set(900..3005);
        assert_eq!(sacked.bytes_in(0..5000), 2105);
        assert_eq!(sacked.first_hole(1000..5000), Some(3005..5000));
        assert_eq!(sacked.first(0..5000, true), Some(900));
        sacked.acknowledge(2000);
        assert_eq!(sacked.bytes_in(2000..5000), 1005);
        assert_eq!(sacked.whole_segments(2001..4999), 2005..4995);
    }
}
