//! The page-cache misses of one response, each recorded in the heat table once.
//!
//! Recording a miss heats its blocks, and one viewer may miss the same part several times: TCP took only a part of a window, a
//! read-ahead was dropped, a stalled viewer's buffer was taken away. If each of these counted, every film of a viewer who
//! pauses now and then would seem worth memory, and would evict what many viewers ask for.
//!
//! The user-space route records every miss. It has fewer buffers than slow viewers and takes them away at once, so it
//! needs many parts again, and then finds them in the page cache. With 200 slow viewers of a library four times as
//! large as memory, it read 190 MB from disk, against 300 MB when each miss was recorded once. Either way, what many
//! viewers asked for stayed in memory.

use crate::file::File;
use crate::read::{Reader, Way};
use std::ops::Range;

/// What one response has missed so far.
#[derive(Debug)]
pub struct Misses {
    /// The part whose misses are recorded.
    range: Range<u64>,
    way: Way,
}

impl Default for Misses {
    fn default() -> Self {
        Self { range: 0..0, way: Way::Cached }
    }
}

impl Misses {
    /// Records what part of `range` was not recorded before, and returns how to read it. If nothing is new, returns the
    /// way chosen last.
    pub fn record(&mut self, reader: &Reader, file: &File, range: &Range<u64>) -> Way {
        let goes_on = self.range.start <= range.start && range.start <= self.range.end;
        if !goes_on || self.range.is_empty() {
            self.range = range.start..range.start;
        }
        let rest = self.range.end..range.end;
        if !rest.is_empty() {
            self.way = reader.record_miss(file, &rest);
            self.range.end = range.end;
        }
        self.way
    }
}
