//! The segment index of an MP4 file: the 'sidx' box (ISO/IEC 14496-12 section 8.16.3).

use super::listing::{Budget, Listing};
use super::{ManifestError, range_of};
use crate::presentation::{Index, Reference, Segments};
use std::time::Duration;

/// Reads big-endian numbers from the front of its bytes.
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

/// The segments that the index in `bytes` lists.
pub(super) fn segments(index: &Index, bytes: &[u8]) -> Result<Segments, ManifestError> {
    let mut reader = Reader(bytes);
    let index_bytes = reader.u32()?;
    if &reader.take::<4>()? != b"sidx" {
        return Err(ManifestError::Malformed("there is no segment index where it says".into()));
    }
    let [version, ..] = reader.take::<4>()?;
    let _reference_id = reader.u32()?;
    let timescale = reader.u32()?;
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
    let start = index.reference.range.as_ref().map_or(0, |range| range.start);
    let anchor = start.checked_add(index_bytes.into()).ok_or(ManifestError::Range)?;
    let offset = anchor.checked_add(first_offset).ok_or(ManifestError::Range)?;
    let _reserved = reader.u16()?;
    entries(index, reader, timescale, offset)
}

/// The index's entries; the first one begins at `offset` in the file.
fn entries(
    index: &Index,
    mut reader: Reader<'_>,
    timescale: u32,
    mut offset: u64,
) -> Result<Segments, ManifestError> {
    let mut budget = Budget::new();
    let mut listing = Listing::new(&mut budget);
    listing.start_with(index.start.clone());
    let mut elapsed = 0;
    for _ in 0..reader.u16()? {
        let size = reader.u32()?;
        if size >> 31 == 1 {
            return Err(ManifestError::Unsupported(
                "a segment index that points to further indexes",
            ));
        }
        let range = range_of(offset, size.into())?;
        offset = range.end;
        let duration = reader.u32()?;
        let _access_points = reader.u32()?;
        let begin = time(elapsed, timescale)?;
        // 65,535 entries of 32 bits cannot overflow 64.
        elapsed += u64::from(duration);
        // The next one begins where this one ends, exact to the nanosecond.
        let duration = time(elapsed, timescale)? - begin;
        let reference = Reference { url: index.reference.url.clone(), range: Some(range) };
        listing.push(index.begin + begin, duration, reference)?;
    }
    listing.finish(None)
}

fn time(units: u64, timescale: u32) -> Result<Duration, ManifestError> {
    let scale = u64::from(timescale);
    let seconds = units.checked_div(scale).ok_or_else(|| {
        ManifestError::Malformed("its segment index has a timescale of zero".into())
    })?;
    // Less than a second: the quotient is below 10^9.
    let nanoseconds = (units % scale) * 1_000_000_000 / scale;
    Ok(Duration::new(seconds, nanoseconds as u32))
}
