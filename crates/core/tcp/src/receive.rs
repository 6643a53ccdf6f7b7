//! The receive side: a small buffer in which data out of order is already in place, and the pending acknowledgements.
//!
//! Offsets count from the first byte after the peer's SYN. The buffer is borrowed from a pool while it has data.
//!
//! Once the caller no longer reads, bytes are counted and discarded, and the window closes over them: no more arrive than it had room for.
//!
//! Invariants: `read <= next <= right`; all out-of-order ranges are within `next..right`; the right edge of the window
//! never goes back (RFC 9293 section 3.8.6).

use std::ops::Range;

use crate::statistics::Statistics;

/// How many unused buffers are kept for the next connections.
const FREE_BUFFERS_MAX: usize = 64;

/// Receive buffers of one size, last in, first out.
#[derive(Debug)]
pub(crate) struct Buffers {
    bytes: usize,
    free: Vec<Box<[u8]>>,
}

impl Buffers {
    pub(crate) fn new(bytes: u32) -> Self {
        Buffers { bytes: bytes as usize, free: Vec::new() }
    }

    fn take(&mut self) -> Box<[u8]> {
        self.free.pop().unwrap_or_else(|| vec![0; self.bytes].into_boxed_slice())
    }

    pub(crate) fn give_back(&mut self, buffer: Box<[u8]>) {
        if self.free.len() < FREE_BUFFERS_MAX {
            self.free.push(buffer);
        }
    }
}

/// The result of taking a segment's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// In order; nothing is missing before it or after it.
    InOrder,
    /// The segment filled a gap, or left one: it must be acknowledged at once (RFC 5681 section 4.2).
    Gap,
    /// Nothing new.
    Duplicate,
}

#[derive(Debug)]
pub(crate) struct Receive {
    capacity: u64,
    buffer: Option<Box<[u8]>>,
    /// Bytes below this were handed to the caller.
    read: u64,
    /// RCV.NXT without the FIN: everything below was received in order.
    next: u64,
    /// The right edge of the announced window.
    right: u64,
    /// Out of order, the newest first (RFC 2018 section 4).
    unordered: Vec<Range<u64>>,
    unordered_max: usize,
    /// The range that arrived twice, to be reported once (RFC 2883).
    duplicate: Option<Range<u64>>,
    /// The end of the peer's stream, once its FIN has been seen.
    end: Option<u64>,
    /// The caller no longer reads: bytes are counted but not stored, and the window is not opened again.
    throws_away: bool,
}

impl Receive {
    pub(crate) fn new(capacity: u32, unordered_max: u16) -> Self {
        Receive {
            capacity: u64::from(capacity),
            buffer: None,
            read: 0,
            next: 0,
            right: u64::from(capacity),
            unordered: Vec::new(),
            unordered_max: usize::from(unordered_max),
            duplicate: None,
            end: None,
            throws_away: false,
        }
    }

    /// Discards the received bytes and all that still arrive, because the caller no longer reads.
    pub(crate) fn throw_away(&mut self, buffers: &mut Buffers) {
        self.throws_away = true;
        self.read = self.next;
        self.release(buffers);
    }

    /// RCV.NXT as an offset; a FIN in order counts for one.
    pub(crate) fn next_with_fin(&self) -> u64 {
        self.next + u64::from(self.is_finished())
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// RCV.WND, as last announced.
    pub(crate) fn window(&self) -> u64 {
        self.right - self.next
    }

    /// Returns true if all of the peer's stream, including its FIN, has arrived.
    pub(crate) fn is_finished(&self) -> bool {
        self.end == Some(self.next)
    }

    pub(crate) fn readable_bytes(&self) -> u64 {
        self.next - self.read
    }

    pub(crate) fn has_gaps(&self) -> bool {
        !self.unordered.is_empty()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let ranges = self.unordered.capacity() * size_of::<Range<u64>>();
        self.buffer.as_ref().map_or(0, |buffer| buffer.len()) + ranges
    }

    /// The SACK blocks to send: a duplicate first (RFC 2883 section 4), then the range that changed last, then the others (RFC 2018 section 4).
    pub(crate) fn take_sack_ranges(&mut self) -> impl Iterator<Item = Range<u64>> + '_ {
        let duplicate = self.duplicate.take();
        duplicate.into_iter().chain(self.unordered.iter().cloned())
    }

    pub(crate) fn has_sack_ranges(&self) -> bool {
        self.duplicate.is_some() || self.has_gaps()
    }

    /// Takes payload at `offset`, which may begin before the expected offset and end after the window.
    pub(crate) fn take(
        &mut self,
        offset: i64,
        payload: &[u8],
        buffers: &mut Buffers,
        statistics: &mut Statistics,
    ) -> Taken {
        let bytes = payload.len() as i64;
        let limit = self.end.map_or(self.right, |end| end.min(self.right)) as i64;
        let before = (self.next as i64 - offset).clamp(0, bytes);
        let after = (offset + bytes - limit).clamp(0, bytes - before);
        statistics.payload_bytes_duplicate += before as u64;
        statistics.payload_bytes_outside += after as u64;
        let (start, stop) = (offset + before, offset + bytes - after);
        if before > 0 && offset >= 0 {
            self.duplicate = Some(offset as u64..start as u64);
        }
        if start == stop {
            return Taken::Duplicate;
        }
        let range = start as u64..stop as u64;
        let payload = &payload[before as usize..(bytes - after) as usize];
        self.take_range(range, payload, buffers, statistics)
    }

    fn take_range(
        &mut self,
        range: Range<u64>,
        payload: &[u8],
        buffers: &mut Buffers,
        statistics: &mut Statistics,
    ) -> Taken {
        if range.start == self.next {
            let had_gaps = self.has_gaps();
            self.store(range.start, payload, buffers);
            statistics.payload_bytes_received += range.end - range.start;
            self.next = range.end;
            self.close_gaps();
            if self.throws_away {
                self.read = self.next;
            }
            return if had_gaps { Taken::Gap } else { Taken::InOrder };
        }
        match self.note_unordered(range.clone()) {
            Noted::Known => {
                statistics.payload_bytes_duplicate += payload.len() as u64;
                self.duplicate = Some(range);
            }
            Noted::Full => statistics.payload_bytes_unordered_dropped += payload.len() as u64,
            Noted::New => {
                statistics.payload_bytes_received += payload.len() as u64;
                self.store(range.start, payload, buffers);
            }
        }
        Taken::Gap
    }

    /// Remembers an out-of-order range as the newest, joined with those that it touches.
    fn note_unordered(&mut self, range: Range<u64>) -> Noted {
        let known = &mut self.unordered;
        if known.iter().any(|other| other.start <= range.start && range.end <= other.end) {
            return Noted::Known;
        }
        let touches = |other: &Range<u64>| other.start <= range.end && range.start <= other.end;
        if known.len() >= self.unordered_max && !known.iter().any(touches) {
            return Noted::Full;
        }
        let mut joined = range.clone();
        known.retain(|other| {
            let apart = !touches(other);
            if !apart {
                joined = joined.start.min(other.start)..joined.end.max(other.end);
            }
            apart
        });
        known.insert(0, joined);
        Noted::New
    }

    /// Advances over ranges that are no longer out of order. Remembered ranges never touch, so at most one begins here.
    fn close_gaps(&mut self) {
        let next = &mut self.next;
        self.unordered.retain(|range| {
            let behind = range.start <= *next;
            if behind {
                *next = (*next).max(range.end);
            }
            !behind
        });
        if self.unordered.is_empty() {
            self.unordered = Vec::new();
        }
    }

    fn store(&mut self, offset: u64, payload: &[u8], buffers: &mut Buffers) {
        if self.throws_away {
            return;
        }
        let buffer = self.buffer.get_or_insert_with(|| buffers.take());
        let at = (offset % self.capacity) as usize;
        let straight = payload.len().min(buffer.len() - at);
        buffer[at..at + straight].copy_from_slice(&payload[..straight]);
        buffer[..payload.len() - straight].copy_from_slice(&payload[straight..]);
    }

    /// Handles a FIN at `offset`. False: the stream already ends elsewhere, or data beyond it has arrived.
    pub(crate) fn finish_at(&mut self, offset: u64) -> bool {
        let seen = self.unordered.iter().map(|range| range.end).max();
        match self.end {
            Some(end) => end == offset,
            None if offset < self.next || seen.is_some_and(|seen| seen > offset) => false,
            None => {
                self.end = Some(offset);
                true
            }
        }
    }

    /// Returns true if the stream's end is known, even if there are gaps before it.
    pub(crate) fn end_is_known(&self) -> bool {
        self.end.is_some()
    }

    /// Returns bytes in order, and their number.
    pub(crate) fn read(&mut self, into: &mut [u8], buffers: &mut Buffers) -> usize {
        let Some(buffer) = &self.buffer else { return 0 };
        let count = self.readable_bytes().min(into.len() as u64) as usize;
        let at = (self.read % self.capacity) as usize;
        let straight = count.min(buffer.len() - at);
        into[..straight].copy_from_slice(&buffer[at..at + straight]);
        into[straight..count].copy_from_slice(&buffer[..count - straight]);
        self.read += count as u64;
        if self.readable_bytes() == 0 && !self.has_gaps() {
            self.release(buffers);
        }
        count
    }

    /// Returns the buffer to the pool.
    pub(crate) fn release(&mut self, buffers: &mut Buffers) {
        if let Some(buffer) = self.buffer.take() {
            buffers.give_back(buffer);
        }
    }

    /// How much the window would grow if it were announced now, if that is worth it (RFC 9293 section 3.8.6.2.2: half
    /// the buffer or a segment, so that the peer does not send small pieces).
    pub(crate) fn window_growth(&self, mss: u64) -> u64 {
        if self.throws_away {
            return 0;
        }
        let growth = self.read + self.capacity - self.right;
        if growth >= mss.min(self.capacity / 2) { growth } else { 0 }
    }

    /// The window to announce in a segment that is sent now.
    pub(crate) fn announce(&mut self, mss: u64) -> u64 {
        self.right += self.window_growth(mss);
        self.window()
    }
}

enum Noted {
    New,
    Known,
    Full,
}

#[cfg(test)]
#[path = "receive_tests.rs"]
mod tests;
