//! The page-cache misses of one response, each recorded in the heat table once.
//!
//! Recording a miss heats its blocks, and a response may read the same part several times: TCP took only part of a window and the rest was dropped, a
//! stalled viewer's buffer was taken away, a packet was lost. If each of these counted, a film watched once would look popular: it would be read
//! through the page cache and would evict what many viewers request.
//!
//! Such a part comes from the disk each time. If every miss counted, the page cache would stand in for buffers: with 200 slow viewers of a library
//! four times as large as memory, the user-space route then read 190 MB from disk instead of 300 MB. But all of a film that one viewer watched stayed
//! in the page cache. So the server keeps what was read ahead while buffers are plentiful, and reads again when they are not.

use crate::file::File;
use crate::read::{ReadMode, Reader};
use std::ops::Range;

/// The largest read-ahead of the kernel (`read_ahead_kb`) that we allow for: the default is 128 KiB, and some clouds set 8 MiB. `fullbore doctor`
/// warns about larger ones.
pub const KERNEL_READ_AHEAD_BYTES_MAX: u64 = 8 << 20;

/// How far beyond that to look, so that one check covers several windows.
const LOOK_AHEAD_BYTES: u64 = 1 << 20;

/// How far a read may begin from what was read before and still belong to the same pass through the file. Our own TCP has several reads of a
/// response in flight, and returns what it doesn't send, so reads skip parts and come back to them. A guess: more than a connection usually has
/// in flight.
const APART_BYTES_MAX: u64 = 8 << 20;

/// The misses of one response so far.
#[derive(Debug, Default)]
pub struct Misses {
    /// The part whose misses are recorded.
    range: Range<u64>,
    /// How the last of them is read.
    mode: Option<ReadMode>,
    /// In this range, what is in the page cache is far from a hole.
    far: Range<u64>,
}

impl Misses {
    /// Records the part of `range` that was not recorded before, and returns how to read it. If nothing is new, returns the way chosen last. What
    /// lies between `range` and the parts recorded before is recorded as well: the response will read it, or is reading it.
    pub fn record(&mut self, reader: &Reader, file: &File, range: &Range<u64>) -> ReadMode {
        self.begin_unless_near(range);
        let skipped = [range.end..self.range.start, self.range.end..range.start];
        for skipped in skipped.iter().filter(|skipped| !skipped.is_empty()) {
            reader.record_miss(file, skipped);
        }
        let new = [
            range.start..self.range.start.min(range.end),
            self.range.end.max(range.start)..range.end,
        ];
        for new in new.iter().filter(|new| !new.is_empty()) {
            self.mode = Some(reader.record_miss(file, new));
        }
        self.extend(range);
        // If nothing was missed so far, this was in the page cache, or lies between parts that are.
        *self.mode.get_or_insert_with(|| reader.record_miss(file, range))
    }

    /// Skips `range`, which is no miss, so that what follows it is recorded as a continuation. Nor is what lies between it and the parts recorded
    /// before, which may be in memory as well.
    pub(crate) fn pass(&mut self, range: &Range<u64>) {
        self.begin_unless_near(range);
        self.extend(range);
    }

    /// Begins a new part at a `range` that is far from the one before.
    fn begin_unless_near(&mut self, range: &Range<u64>) {
        let is_near = range.start <= self.range.end.saturating_add(APART_BYTES_MAX)
            && self.range.start <= range.end.saturating_add(APART_BYTES_MAX);
        if !is_near || self.range.is_empty() {
            self.range = range.start..range.start;
        }
    }

    fn extend(&mut self, range: &Range<u64>) {
        self.range = self.range.start.min(range.start)..self.range.end.max(range.end);
    }

    /// Returns true if `range`, which is in the page cache, can be read from there without making the kernel read ahead.
    ///
    /// When a program has read the beginning of a film, the kernel leaves a mark near the end of what it read ahead. A read of the marked page, with
    /// whatever advice, makes the kernel read further ahead and leave the next mark there. One pass would follow these marks through the whole film,
    /// and all of it would stay in the page cache. A mark has no effect if the file is cached for as far as the kernel would read ahead. So this
    /// checks one page that far away: if it is missing, the caller decides by heat, as for anything else that is not cached.
    pub(crate) fn is_far_from_a_hole(&mut self, file: &File, range: &Range<u64>) -> bool {
        // Blocks that arrive are written and not read, so there are no marks among them, and the blocks that follow may not have arrived.
        let is_known = self.far.start <= range.start && range.end <= self.far.end;
        if is_known || file.is_arriving() {
            return true;
        }
        let reach = range.end + KERNEL_READ_AHEAD_BYTES_MAX;
        let looked_at = (reach + LOOK_AHEAD_BYTES).min(file.size());
        let is_far = file.is_there(&(looked_at - 1..looked_at));
        if is_far {
            let is_last = looked_at == file.size();
            let far_to = if is_last { looked_at } else { looked_at - KERNEL_READ_AHEAD_BYTES_MAX };
            self.far = range.start..far_to;
        }
        is_far
    }
}
