//! Builds a list of segments with bounds on count, time and memory.

use super::{ManifestError, SEGMENTS_MAX};
use crate::presentation::{Reference, Segment, Segments};
use std::time::Duration;

/// Limit on memory for the segments of one document. Three pathways with 20 renditions of a three-hour film in segments of two seconds take
/// 120 MB.
const LISTED_BYTES_MAX: usize = 256 << 20;

/// Later than any segment plays: 136 years, because live manifests may count from 1970. Sums of a few such times do not overflow.
pub(super) const TIME_MAX: Duration = Duration::from_secs(1 << 32);

/// The cost of a period of a rendition, with or without segments: roughly the time to find its location.
const PART_BYTES: usize = 1000;

/// The memory left for segments.
pub(super) struct Budget(usize);

impl Budget {
    pub(super) fn new() -> Self {
        Self(LISTED_BYTES_MAX)
    }

    /// The budget that remains after lists of this many bytes.
    pub(super) fn beside(bytes: usize) -> Self {
        Self(LISTED_BYTES_MAX.saturating_sub(bytes))
    }

    pub(super) fn take(&mut self, segment: &Segment) -> Result<(), ManifestError> {
        self.take_bytes(bytes_of(segment))
    }

    fn take_bytes(&mut self, bytes: usize) -> Result<(), ManifestError> {
        let left = self.0.checked_sub(bytes);
        self.0 = left.ok_or(ManifestError::Bound("bytes in its list of segments"))?;
        Ok(())
    }
}

fn bytes_of(segment: &Segment) -> usize {
    let text = |reference: &Reference| reference.url.text_bytes();
    size_of::<Segment>() + text(&segment.reference) + segment.start.as_ref().map_or(0, text)
}

impl Segments {
    /// Memory that the list takes.
    pub fn listed_bytes(&self) -> usize {
        self.list.iter().map(bytes_of).sum()
    }
}

/// A list of segments under construction.
pub(super) struct Listing<'a> {
    budget: &'a mut Budget,
    segments: Segments,
    /// The initialisation section that the next segment needs.
    start: Option<Reference>,
    /// The initialisation section that the last segment needed.
    last_start: Option<Reference>,
}

impl<'a> Listing<'a> {
    pub(super) fn new(budget: &'a mut Budget) -> Self {
        Self { budget, segments: Segments::default(), start: None, last_start: None }
    }

    pub(super) fn take_part(&mut self) -> Result<(), ManifestError> {
        self.budget.take_bytes(PART_BYTES)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.segments.list.is_empty()
    }

    pub(super) fn number_from(&mut self, first_number: u64) {
        self.segments.first_number = first_number;
    }

    /// Leaves out the first segment.
    pub(super) fn skip_first(&mut self) {
        self.segments.first_number = self.segments.first_number.saturating_add(1);
    }

    /// Sets the initialisation section for the segments that follow.
    pub(super) fn start_with(&mut self, start: Option<Reference>) {
        self.start = start;
    }

    pub(super) fn push(
        &mut self,
        begin: Duration,
        duration: Duration,
        reference: Reference,
    ) -> Result<(), ManifestError> {
        if self.segments.list.len() >= SEGMENTS_MAX {
            return Err(ManifestError::TooMany);
        }
        if begin > TIME_MAX || duration > TIME_MAX {
            return Err(ManifestError::Bound("hours"));
        }
        let mut start = None;
        if self.is_empty() {
            self.segments.start = self.start.clone();
            self.last_start = self.start.clone();
        } else if self.start != self.last_start {
            start = self.start.clone();
            self.last_start = self.start.clone();
        }
        let segment = Segment { begin, duration, reference, start };
        self.budget.take(&segment)?;
        self.segments.list.push(segment);
        Ok(())
    }

    /// Returns the list. It may be empty only if more will follow.
    pub(super) fn finish(self, reload_after: Option<Duration>) -> Result<Segments, ManifestError> {
        if self.is_empty() && reload_after.is_none() {
            return Err(ManifestError::Empty);
        }
        Ok(Segments { reload_after, ..self.segments })
    }
}
