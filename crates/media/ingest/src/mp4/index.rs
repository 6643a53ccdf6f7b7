//! The segment index, 'sidx' (ISO/IEC 14496-12 section 8.16.3).

use super::Mp4Error;

/// A part of the file that plays on its own, after the head.
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
const ENTRY_BYTES: usize = 12;
/// The top bit of an entry's size means that it points to another index.
const POINTS_AT_INDEX: u32 = 1 << 31;

/// The timescale and the segments of an index whose box ends at `end`.
pub(super) fn parse(content: &[u8], end: u64) -> Result<(u32, Vec<Segment>), Mp4Error> {
    const SHORT: Mp4Error = Mp4Error::Broken("its segment index is cut short");
    let is_wide = *content.first().ok_or(SHORT)? > 0;
    // Version and flags, track; then the timescale.
    let timescale = number(content, 8).ok_or(SHORT)?;
    let (first_offset, entries_at) = if is_wide {
        let high = u64::from(number(content, 20).ok_or(SHORT)?);
        (high << 32 | u64::from(number(content, 24).ok_or(SHORT)?), 28)
    } else {
        (u64::from(number(content, 16).ok_or(SHORT)?), 20)
    };
    let count = (number(content, entries_at).ok_or(SHORT)? & 0xffff) as usize;
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

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|four| u32::from_be_bytes(*four))
}
