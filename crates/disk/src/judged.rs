//! What heat has said of the part of a file that a viewer goes through: asked of each part once.
//!
//! To ask is to heat, and one viewer may need the same part several times: TCP took only a part of a window, what was read
//! ahead was let go, a stalled viewer's buffer was taken away. Counted as asked for again, every film of a viewer who
//! pauses now and then would seem worth memory, and what many ask for would be thrown out for it.

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

    /// As [`Self::way_of_absent`], for a window that may be in the page cache: then, if the policy leaves it to that, it
    /// comes from there, and heat is not asked.
    pub fn way(&mut self, reader: &Reader, file: &File, range: &Range<u64>) -> Way {
        if reader.finds_resident(file, range) {
            return Way::Cached;
        }
        self.way_of_absent(reader, file, range)
    }
}
