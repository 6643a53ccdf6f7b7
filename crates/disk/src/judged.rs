//! What heat has said of the part of a file that a viewer goes through: asked of each part once.
//!
//! To ask is to heat, and one viewer may need the same part several times: TCP took only a part of a window, what was read
//! ahead was let go, a stalled viewer's buffer was taken away. Counted as asked for again, every film of a viewer who
//! pauses now and then would seem worth memory, and what many ask for would be thrown out for it.
//!
//! The user-space route does ask each time. It has fewer buffers than slow viewers, takes them away at once, and what it
//! needs again it then finds in the page cache: with 200 slow viewers of a library four times as large as memory, that
//! was 190 MB from the disk where asking once was 300, and what many asked for stayed in memory all the same.

use crate::file::File;
use crate::read::{Reader, Way};
use std::ops::Range;

/// What heat has said for one response.
#[derive(Debug)]
pub struct Judged {
    /// The part that heat was asked about.
    range: Range<u64>,
    way: Way,
}

impl Default for Judged {
    fn default() -> Self {
        Self { range: 0..0, way: Way::Cached }
    }
}

impl Judged {
    /// The way for `range`, by what of it was not asked about before; if all was, the way that was chosen last.
    pub fn way_of_absent(&mut self, reader: &Reader, file: &File, range: &Range<u64>) -> Way {
        let goes_on = self.range.start <= range.start && range.start <= self.range.end;
        if !goes_on || self.range.is_empty() {
            self.range = range.start..range.start;
        }
        let rest = self.range.end..range.end;
        if !rest.is_empty() {
            self.way = reader.way_of_absent(file, &rest);
            self.range.end = range.end;
        }
        self.way
    }
}
