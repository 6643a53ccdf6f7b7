//! The segment index of an MP4 file: the 'sidx' box (ISO/IEC 14496-12 section 8.16.3).

use super::{ManifestError, SEGMENTS_MAX, range_of};
use std::ops::Range;

/// Reads bytes in network order off the front.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], ManifestError> {
        let cut = || ManifestError::Malformed("its segment index is cut short".into());
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or_else(cut)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u16(&mut self) -> Result<u16, ManifestError> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, ManifestError> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, ManifestError> {
        self.take().map(u64::from_be_bytes)
    }
}

/// The segments that the index in `bytes` lists. In the file, the index begins at `start`.
pub(super) fn segments(bytes: &[u8], start: u64) -> Result<Vec<Range<u64>>, ManifestError> {
    let mut reader = Reader(bytes);
    let index_bytes = reader.u32()?;
    if &reader.take::<4>()? != b"sidx" {
        return Err(ManifestError::Malformed("there is no segment index where it says".into()));
    }
    let [version, ..] = reader.take::<4>()?;
    let _reference_id = reader.u32()?;
    let _timescale = reader.u32()?;
    let first_offset = match version {
        0 => {
            let _earliest = reader.u32()?;
            u64::from(reader.u32()?)
        }
        _ => {
            let _earliest = reader.u64()?;
            reader.u64()?
        }
    };
    // Offsets count from the first byte after the index.
    let anchor = start.checked_add(index_bytes.into()).ok_or(ManifestError::Range)?;
    let mut offset = anchor.checked_add(first_offset).ok_or(ManifestError::Range)?;
    let _reserved = reader.u16()?;
    let count = usize::from(reader.u16()?).min(SEGMENTS_MAX);
    let mut segments = Vec::with_capacity(count);
    for _ in 0..count {
        let size = reader.u32()?;
        if size >> 31 == 1 {
            return Err(ManifestError::Unsupported(
                "a segment index that points to further indexes",
            ));
        }
        let range = range_of(offset, size.into())?;
        offset = range.end;
        segments.push(range);
        let _duration = reader.u32()?;
        let _access_points = reader.u32()?;
    }
    Ok(segments)
}
