//! The layout of a connection's send stream: maps stream offsets to TLS records and places in responses.
//!
//! Our TCP knows only offsets. It asks for the bytes of a range whenever it may send them, for the first time or again (the `tcp` crate). This is the
//! other half: a list of regions that says how the bytes at each offset are made, for everything written and not acknowledged yet. No region holds a
//! byte of a film.
//!
//! A response is laid out extent by extent, so that the records of a file begin where the file's part begins. If ranges begin at multiples of 4 KiB,
//! as whole files do, every record is read from disk without an extra block.

use crate::outgoing::Outgoing;
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use tls::PLAINTEXT_MAX;

/// The regions of one send stream, from the first unacknowledged byte to the last written one.
#[derive(Default)]
pub struct Layout {
    regions: VecDeque<Region>,
    end: u64,
    /// Memory that the regions refer to, in bytes: kept bytes, and the parts of responses in memory.
    referred_bytes: usize,
}

struct Region {
    start: u64,
    bytes: u64,
    source: Source,
}

enum Source {
    /// A few bytes that are kept: handshake flights, alerts, key updates. If they are records of a ledger, also the position of the record after
    /// them.
    Kept(Rc<[u8]>, Option<u64>),
    /// One extent of a response, or a part of one.
    Extent(Extent),
}

/// A part of a response that is in one place.
#[derive(Clone)]
struct Extent {
    outgoing: Rc<Outgoing>,
    /// Where the extent begins in the response.
    offset: u64,
    bytes: u64,
    records: Option<Records>,
}

/// How an extent is cut into records: one every [`PLAINTEXT_MAX`] bytes, the last one shorter.
#[derive(Clone, Copy)]
struct Records {
    first_position: u64,
    overhead_bytes: u64,
}

/// The source of some bytes of the stream.
pub struct Part {
    /// The bytes of the stream that it produces.
    pub stream: Range<u64>,
    /// Their source.
    pub made_from: MadeFrom,
}

/// The source of a [`Part`].
pub enum MadeFrom {
    /// The bytes themselves.
    Kept(Rc<[u8]>),
    /// These bytes of a response, unchanged.
    Response(Rc<Outgoing>, Range<u64>),
    /// These bytes of a response, as records from this position on.
    Records(Rc<Outgoing>, Range<u64>, u64),
}

impl Layout {
    /// The end of the stream: the offset of the next byte to be written.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Appends bytes and keeps them. If they are records, `position` is that of the record after them: once they are acknowledged, earlier records
    /// and their keys are no longer needed.
    pub fn keep(&mut self, bytes: &[u8], position: Option<u64>) {
        self.append(bytes.len() as u64, Source::Kept(bytes.into(), position));
    }

    /// Appends `range` of a response unchanged.
    pub fn append_plain(&mut self, outgoing: &Rc<Outgoing>, range: Range<u64>) {
        each_extent(outgoing, range, |offset, bytes| {
            let outgoing = Rc::clone(outgoing);
            let extent = Extent { outgoing, offset, bytes, records: None };
            self.append(bytes, Source::Extent(extent));
        });
    }

    /// Appends `range` of a response as [`records_of`] it. The first has `position`, and each is `overhead_bytes`
    /// longer than its plaintext.
    pub fn append_records(
        &mut self,
        outgoing: &Rc<Outgoing>,
        range: Range<u64>,
        position: u64,
        overhead_bytes: usize,
    ) {
        let mut first_position = position;
        let overhead_bytes = overhead_bytes as u64;
        each_extent(outgoing, range, |offset, bytes| {
            let records = Records { first_position, overhead_bytes };
            let count = bytes.div_ceil(PLAINTEXT_MAX as u64);
            let outgoing = Rc::clone(outgoing);
            let extent = Extent { outgoing, offset, bytes, records: Some(records) };
            self.append(bytes + count * overhead_bytes, Source::Extent(extent));
            first_position += count;
        });
    }

    fn append(&mut self, bytes: u64, source: Source) {
        let region = Region { start: self.end, bytes, source };
        self.referred_bytes += region.referred_bytes(self.regions.back());
        self.regions.push_back(region);
        self.end += bytes;
    }

    /// Drops the regions below `offset`, which are acknowledged. Returns the position below which no record is needed any more, if known.
    pub fn forget_below(&mut self, offset: u64) -> Option<u64> {
        let mut needed_from = None;
        while self.regions.front().is_some_and(|first| first.start + first.bytes <= offset) {
            let region = self.regions.pop_front()?;
            self.referred_bytes -= region.referred_bytes(self.regions.front());
            needed_from = region.position_behind().or(needed_from);
        }
        // A region is dropped only as a whole, but the records at its front may be acknowledged already: their tags can go now.
        let of_first = self.regions.front().and_then(|first| first.position_at(offset));
        if self.regions.is_empty() {
            // An idle viewer keeps no memory for regions.
            self.regions = VecDeque::new();
        }
        of_first.or(needed_from)
    }

    /// The source of the bytes from `range.start` on. It consists of whole records, so it may begin before `range` and end after it. It ends at the
    /// latest with the region, and takes at most `plaintext_bytes_max` of a response, rounded down to whole records, but at least one.
    ///
    /// `None` if nothing was written there, or all of it is acknowledged.
    pub fn part(&self, range: &Range<u64>, plaintext_bytes_max: usize) -> Option<Part> {
        let region = self.region(range.start)?;
        let within =
            range.start - region.start..range.end.min(region.start + region.bytes) - region.start;
        if within.is_empty() {
            return None;
        }
        let (stream, made_from) = match &region.source {
            // Kept bytes are few, so all of them are returned, and the caller skips what it does not need.
            Source::Kept(bytes, _) => (0..region.bytes, MadeFrom::Kept(bytes.clone())),
            Source::Extent(extent) => extent.part(within, plaintext_bytes_max as u64),
        };
        Some(Part { stream: region.start + stream.start..region.start + stream.end, made_from })
    }

    /// Returns true if the byte at `offset` is a kept one.
    pub fn is_kept(&self, offset: u64) -> bool {
        self.region(offset).is_some_and(|region| matches!(region.source, Source::Kept(..)))
    }

    fn region(&self, offset: u64) -> Option<&Region> {
        let index = self.regions.partition_point(|region| region.start <= offset);
        self.regions.get(index.checked_sub(1)?)
    }

    /// Bytes of memory beyond its own size, responses included.
    pub fn memory_bytes(&self) -> usize {
        self.regions.capacity() * size_of::<Region>() + self.referred_bytes
    }
}

impl Region {
    /// The position of the record after it, if it is made of records.
    fn position_behind(&self) -> Option<u64> {
        match &self.source {
            Source::Kept(_, position) => *position,
            Source::Extent(extent) => {
                let first = extent.records?.first_position;
                Some(first + extent.bytes.div_ceil(PLAINTEXT_MAX as u64))
            }
        }
    }

    /// The memory that it refers to, unless the neighbouring region refers to the same response: a response's extents are neighbours.
    fn referred_bytes(&self, beside: Option<&Self>) -> usize {
        /// The two counts before the bytes.
        const RC_BYTES: usize = 16;
        match &self.source {
            Source::Kept(bytes, _) => RC_BYTES + bytes.len(),
            Source::Extent(extent) if beside.is_some_and(|beside| beside.is_of(extent)) => 0,
            Source::Extent(extent) => RC_BYTES + extent.outgoing.memory_bytes(),
        }
    }

    fn is_of(&self, other: &Extent) -> bool {
        matches!(&self.source, Source::Extent(extent) if Rc::ptr_eq(&extent.outgoing, &other.outgoing))
    }

    /// The position of the record that has the byte at `offset` of the stream.
    fn position_at(&self, offset: u64) -> Option<u64> {
        let Source::Extent(extent) = &self.source else { return None };
        let records = extent.records?;
        let within = offset.saturating_sub(self.start);
        Some(records.first_position + within / records.record_bytes())
    }
}

impl Records {
    /// Length of every record but the last.
    fn record_bytes(self) -> u64 {
        PLAINTEXT_MAX as u64 + self.overhead_bytes
    }
}

impl Extent {
    fn part(&self, within: Range<u64>, plaintext_bytes_max: u64) -> (Range<u64>, MadeFrom) {
        let Some(records) = self.records else {
            let range = within.start..within.end.min(within.start + plaintext_bytes_max);
            let of_response = self.offset + range.start..self.offset + range.end;
            return (range, MadeFrom::Response(Rc::clone(&self.outgoing), of_response));
        };
        // A record can only be sealed whole, so the wanted bytes are widened to the records around them, and cut to what a buffer holds.
        let record_bytes = records.record_bytes();
        let first = within.start / record_bytes;
        let end = within.end.div_ceil(record_bytes);
        let end = end.min(first + (plaintext_bytes_max / PLAINTEXT_MAX as u64).max(1));
        // The last record may be shorter, so its plaintext ends with the extent.
        let plain = |record: u64| (record * PLAINTEXT_MAX as u64).min(self.bytes);
        let stream_end =
            (plain(end) + end * records.overhead_bytes).min(self.stream_bytes(records));
        let of_response = self.offset + plain(first)..self.offset + plain(end);
        let outgoing = Rc::clone(&self.outgoing);
        let position = records.first_position + first;
        (first * record_bytes..stream_end, MadeFrom::Records(outgoing, of_response, position))
    }

    fn stream_bytes(&self, records: Records) -> u64 {
        self.bytes + self.bytes.div_ceil(PLAINTEXT_MAX as u64) * records.overhead_bytes
    }
}

/// Counts the records that `range` of a response is cut into.
pub fn records_of(outgoing: &Outgoing, range: Range<u64>) -> u64 {
    let mut count = 0;
    each_extent(outgoing, range, |_, bytes| count += bytes.div_ceil(PLAINTEXT_MAX as u64));
    count
}

/// The end of the longest part of a response that begins at `start` and takes at most `records_max` records.
pub fn end_of_records(outgoing: &Outgoing, start: u64, records_max: u64) -> u64 {
    let (mut end, mut left) = (start, records_max);
    each_extent(outgoing, start..outgoing.bytes(), |offset, bytes| {
        if left > 0 {
            let taken = bytes.min(left.saturating_mul(PLAINTEXT_MAX as u64));
            left -= taken.div_ceil(PLAINTEXT_MAX as u64);
            end = offset + taken;
        }
    });
    end
}

/// Calls `see` with the offset and the length of each part of `range` that is in one place.
fn each_extent(outgoing: &Outgoing, range: Range<u64>, mut see: impl FnMut(u64, u64)) {
    let mut offset = range.start;
    while offset < range.end {
        let bytes = outgoing.extent_left(offset).min(range.end - offset);
        if bytes == 0 {
            return;
        }
        see(offset, bytes);
        offset += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: u64 = PLAINTEXT_MAX as u64 + 22;

    fn response(file_bytes: u64) -> Rc<Outgoing> {
        let file = tempfile::tempfile().unwrap();
        file.set_len(file_bytes).unwrap();
        let file = Rc::new(disk::File::new(file.into()).unwrap());
        let body = vec![fullbore_http::Part::Range(0..file_bytes)];
        Rc::new(Outgoing::new(vec![b'h'; 100], body, Some(file)))
    }

    /// A flight of 50 bytes, a head in one record (122 bytes), and a file in three records and a bit, from 172 on.
    fn layout() -> Layout {
        let outgoing = response(3 * PLAINTEXT_MAX as u64 + 10);
        let mut layout = Layout::default();
        layout.keep(&[9; 50], None);
        layout.append_records(&outgoing, 0..outgoing.bytes(), 1000, 22);
        layout
    }

    fn records(layout: &Layout, range: Range<u64>, max: usize) -> (Range<u64>, Range<u64>, u64) {
        let part = layout.part(&range, max).unwrap();
        let MadeFrom::Records(_, of_response, position) = part.made_from else { panic!() };
        (part.stream, of_response, position)
    }

    #[test]
    fn a_response_is_cut_where_its_file_begins() {
        let layout = layout();
        assert_eq!(layout.end(), 50 + 122 + 3 * RECORD + 32);
        assert_eq!(records(&layout, 60..70, 1 << 20), (50..172, 0..100, 1000));
        let all = records(&layout, 172..layout.end(), 1 << 20);
        assert_eq!(all, (172..layout.end(), 100..100 + 3 * 16_384 + 10, 1001));
    }

    #[test]
    fn a_part_is_whole_records() {
        let layout = layout();
        let lost = records(&layout, 172 + RECORD + 5..172 + RECORD + 6, 1 << 20);
        assert_eq!(lost, (172 + RECORD..172 + 2 * RECORD, 100 + 16_384..100 + 2 * 16_384, 1002));
        let across = records(&layout, 172 + RECORD - 1..172 + RECORD + 1, 1 << 20);
        assert_eq!(across, (172..172 + 2 * RECORD, 100..100 + 2 * 16_384, 1001));
        let last = records(&layout, layout.end() - 1..layout.end(), 1 << 20);
        assert_eq!(
            last,
            (172 + 3 * RECORD..layout.end(), 100 + 3 * 16_384..100 + 3 * 16_384 + 10, 1004)
        );
    }

    #[test]
    fn a_part_fits_its_buffer_but_is_at_least_a_record() {
        let layout = layout();
        assert_eq!(records(&layout, 172..layout.end(), 40_000).0, 172..172 + 2 * RECORD);
        assert_eq!(records(&layout, 172..layout.end(), 1).0, 172..172 + RECORD);
    }

    #[test]
    fn what_is_acknowledged_is_forgotten_and_the_rest_is_not() {
        let mut layout = layout();
        assert_eq!(layout.forget_below(49), None);
        assert_eq!(layout.forget_below(50), Some(1000));
        assert_eq!(layout.forget_below(172 + RECORD), Some(1002));
        assert_eq!(layout.forget_below(172 + 2 * RECORD - 1), Some(1002));
        assert!(layout.part(&(60..70), 1 << 20).is_none());
        assert!(layout.part(&(172..173), 1 << 20).is_some(), "its region is still there");
        assert_eq!(layout.forget_below(layout.end()), Some(1005));
        assert_eq!(layout.memory_bytes(), 0);
    }

    #[test]
    fn a_response_counts_once_until_the_last_of_it_is_acknowledged() {
        let outgoing = response(70_000);
        let mut layout = Layout::default();
        layout.append_plain(&outgoing, 0..50_000);
        layout.append_plain(&outgoing, 50_000..outgoing.bytes());
        let once = layout.referred_bytes;
        assert_eq!(once, 16 + outgoing.memory_bytes());
        layout.keep(&[1; 10], None);
        layout.append_plain(&response(1), 0..101);
        assert!(layout.referred_bytes > 2 * once);
        layout.forget_below(outgoing.bytes() - 1);
        assert!(layout.referred_bytes > 2 * once);
        layout.forget_below(outgoing.bytes() + 10);
        assert_eq!(layout.referred_bytes, once);
        layout.forget_below(layout.end());
        assert_eq!(layout.memory_bytes(), 0);
    }

    #[test]
    fn records_that_are_kept_tell_their_position_too() {
        let mut layout = layout();
        layout.keep(&[5; 27], Some(1006));
        assert_eq!(layout.forget_below(layout.end() - 1), Some(1005));
        assert_eq!(layout.forget_below(layout.end()), Some(1006));
    }

    #[test]
    fn every_offset_is_made_from_its_own_bytes() {
        let outgoing = response(70_000);
        let mut layout = Layout::default();
        layout.append_plain(&outgoing, 0..outgoing.bytes());
        for (offset, bytes) in [(0, 10), (99, 10), (100, 10), (70_000, 200)] {
            let part = layout.part(&(offset..offset + bytes), 1 << 20).unwrap();
            let MadeFrom::Response(_, of_response) = part.made_from else { panic!() };
            assert_eq!(part.stream, of_response);
            assert_eq!(part.stream.start, offset);
        }
    }

    #[test]
    fn keys_that_may_seal_little_get_a_part_of_a_response() {
        let outgoing = response(10 * PLAINTEXT_MAX as u64);
        assert_eq!(end_of_records(&outgoing, 0, 1), 100);
        assert_eq!(end_of_records(&outgoing, 0, 3), 100 + 2 * 16_384);
        assert_eq!(end_of_records(&outgoing, 100 + 2 * 16_384, 3), 100 + 5 * 16_384);
        assert_eq!(end_of_records(&outgoing, 0, u64::MAX), outgoing.bytes());
        assert_eq!(records_of(&outgoing, 0..outgoing.bytes()), 11);
    }
}
