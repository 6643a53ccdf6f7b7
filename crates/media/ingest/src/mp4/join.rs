//! Joins a last segment that is shorter than a player can use to the one before it.
//!
//! Films rarely end at a multiple of the segment length, so the last fragment may be a single frame: a request of its own for 40 ms, which
//! some players stall on. The fragments stay as they are; one entry of the index then spans both, as ISO/IEC 14496-12 section 8.16.3
//! allows, and playlists follow the index.

use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use super::boxes::{Content, TopLevel, top_level};
use super::{Mp4Error, index};

/// A last segment shorter than this is joined.
const SHORT_SECONDS: f64 = 0.1;

/// Joins the last two segments of the track file at `path` if the last one is too short. Only the index is written. It becomes one entry
/// shorter, and a 'free' box in front of it fills the gap, so that nothing else moves.
pub(crate) fn join_short_end(path: &Path) -> Result<(), Mp4Error> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let bytes = file.metadata()?.len();
    let TopLevel { index, .. } = top_level(&mut file, bytes)?;
    let (timescale, segments) = index::parse(&index.content, index.range.end)?;
    let Some(last) = segments.last() else { return Ok(()) };
    if f64::from(last.ticks) >= SHORT_SECONDS * f64::from(timescale) {
        return Ok(());
    }
    if let Some(written) = joined(&index) {
        file.seek(SeekFrom::Start(index.range.start))?;
        file.write_all(&written)?;
    }
    Ok(())
}

/// The bytes that take the place of the index: 'free', then the index without its last entry.
fn joined(index: &Content) -> Option<Vec<u8>> {
    const GAP: usize = index::ENTRY_BYTES;
    let content = index::joined(&index.content)?;
    let index_bytes = u32::try_from(index.range.end - index.range.start).ok()?;
    let header = |bytes: u32, kind: &[u8; 4]| [&bytes.to_be_bytes()[..], kind].concat();
    let mut free = header(GAP as u32, b"free");
    free.resize(GAP, 0);
    let written = [free, header(index_bytes - GAP as u32, b"sidx"), content].concat();
    // An index with a 64-bit size has a longer header.
    (written.len() == index_bytes as usize).then_some(written)
}
