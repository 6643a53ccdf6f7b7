//! The segment index, 'sidx' (ISO/IEC 14496-12 section 8.16.3).

use super::Mp4Error;

/// A part of the file that plays on its own, after the head: one fragment, or at the end two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Its offset from the start of the file.
    pub(crate) offset: u64,
    /// Its length.
    pub(crate) bytes: u64,
    /// Its playing time, in the track's timescale.
    pub(crate) ticks: u32,
}

/// Bytes of one entry: type and size, duration, kind of access point.
pub(super) const ENTRY_BYTES: usize = 12;
/// The top bit of an entry's size means that it points to another index.
const POINTS_AT_INDEX: u32 = 1 << 31;

/// An index has at most this many entries: their number has 16 bits.
pub(crate) const ENTRIES_MAX: u32 = 0xffff;
/// Where the number of entries is in an index of version 0, and in one of version 1.
const COUNT_AT: usize = 20;
const WIDE_COUNT_AT: usize = 28;

/// The timescale and the segments of an index whose box ends at `end`.
pub(super) fn parse(content: &[u8], end: u64) -> Result<(u32, Vec<Segment>), Mp4Error> {
    const SHORT: Mp4Error = Mp4Error::Broken("its segment index is cut short");
    // Version and flags, track; then the timescale.
    let timescale = number(content, 8).ok_or(SHORT)?;
    let entries_at = count_at(content).ok_or(SHORT)?;
    let low = u64::from(number(content, entries_at - 4).ok_or(SHORT)?);
    let first_offset = if entries_at == WIDE_COUNT_AT {
        u64::from(number(content, entries_at - 8).ok_or(SHORT)?) << 32 | low
    } else {
        low
    };
    let count = (number(content, entries_at).ok_or(SHORT)? & ENTRIES_MAX) as usize;
    let entries = content
        .get(entries_at + 4..)
        .filter(|entries| entries.len() == count * ENTRY_BYTES)
        .ok_or(SHORT)?;
    if timescale == 0 || count == 0 {
        return Err(Mp4Error::Broken("its segment index is empty"));
    }
    Ok((timescale, segments(entries, end.saturating_add(first_offset))?))
}

fn segments(entries: &[u8], mut offset: u64) -> Result<Vec<Segment>, Mp4Error> {
    let mut segments = Vec::with_capacity(entries.len() / ENTRY_BYTES);
    for entry in entries.chunks_exact(ENTRY_BYTES) {
        let (size, ticks) = (number(entry, 0).unwrap_or(0), number(entry, 4).unwrap_or(0));
        if size & POINTS_AT_INDEX != 0 || size == 0 || ticks == 0 {
            return Err(Mp4Error::Broken("its segment index has an entry that plays nothing"));
        }
        segments.push(Segment { offset, bytes: u64::from(size), ticks });
        offset = offset.saturating_add(u64::from(size));
    }
    Ok(segments)
}

/// Where the number of entries is, after times and offsets of 32 bits or of 64.
fn count_at(content: &[u8]) -> Option<usize> {
    Some(if *content.first()? > 0 { WIDE_COUNT_AT } else { COUNT_AT })
}

/// The content with the last two entries as one. `None` if there are fewer, or one entry cannot hold both.
pub(super) fn joined(content: &[u8]) -> Option<Vec<u8>> {
    let count_at = count_at(content)?;
    let count = number(content, count_at)?;
    let last_two_at = content.len().checked_sub(2 * ENTRY_BYTES)?;
    if count & ENTRIES_MAX < 2 || last_two_at < count_at + 4 {
        return None;
    }
    let sum = |at: usize| number(content, at)?.checked_add(number(content, at + ENTRY_BYTES)?);
    let (size, ticks) = (sum(last_two_at)?, sum(last_two_at + 4)?);
    if size & POINTS_AT_INDEX != 0 {
        return None;
    }
    let mut joined = content[..last_two_at + ENTRY_BYTES].to_vec();
    joined[count_at..count_at + 4].copy_from_slice(&(count - 1).to_be_bytes());
    joined[last_two_at..last_two_at + 4].copy_from_slice(&size.to_be_bytes());
    joined[last_two_at + 4..last_two_at + 8].copy_from_slice(&ticks.to_be_bytes());
    Some(joined)
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|four| u32::from_be_bytes(*four))
}
