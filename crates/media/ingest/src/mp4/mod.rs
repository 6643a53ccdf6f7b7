//! Reads the few boxes of a CMAF track file (ISO/IEC 14496-12, 23000-19) that manifests need: the position of its head and its segment
//! index, the start and the duration of each segment, and its codec in the form of RFC 6381.
//!
//! Reading also checks the file: its boxes must fill it to the last byte, and its index must list exactly the fragments in it; the last entry
//! may span two (`join.rs`). So files that an encoder left unfinished are refused. Media is not decoded.
//!
//! Bounded: a head has at most [`HEAD_BYTES_MAX`], and everything else is skipped.

mod boxes;
mod codec;
mod colour;
mod edits;
mod fragment;
mod index;
mod join;
mod rates;
mod static_metadata;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;

pub(crate) use boxes::child;
use boxes::{Fragment, TopLevel, top_level};
pub(crate) use colour::{Cicp, VideoRange};
pub(crate) use index::{ENTRIES_MAX, Segment};
pub(crate) use join::join_short_end;
pub(crate) use static_metadata::set_static_metadata;

/// No 'moov' or 'sidx' of a file with one track is larger: an index of 16 hours with a segment a second has 700 KB.
const HEAD_BYTES_MAX: u64 = 16 << 20;

/// A CMAF track file as manifests see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Track {
    /// The bytes that a player needs before any segment: 'ftyp' and 'moov', from the first byte on, up to the index.
    pub(crate) head_bytes: u64,
    /// The position of the segment index.
    pub(crate) index: Range<u64>,
    /// Ticks per second of the segments' durations.
    pub(crate) timescale: u32,
    /// When its first frame or sample is played, in ticks: later than 0 only in a copy of a stream that begins late.
    pub(crate) begins_ticks: u64,
    /// In playing order and without gaps, to the end of the file.
    pub(crate) segments: Vec<Segment>,
    /// The bytes of each segment, from its start, that a player needs to show its first frame, if each begins with a key frame.
    pub(crate) key_frames: Option<Vec<u64>>,
    /// Whether each segment can be shown without any other.
    pub(crate) is_independent: bool,
    /// For CODECS and `codecs` (RFC 6381 section 3.3).
    pub(crate) codec: String,
    /// The number of AAC's arrangement of channels, if there are more than two.
    pub(crate) channel_configuration: Option<u32>,
    /// The colours of a picture, if its file states them.
    pub(crate) colours: Option<Cicp>,
    /// Bytes of the whole file.
    pub(crate) bytes: u64,
}

/// Why a file is not a track file that can be played by its index.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) enum Mp4Error {
    Io(#[from] io::Error),
    /// The problem.
    Broken(&'static str),
}

impl Track {
    /// Reads and checks the file at `path`.
    pub(crate) fn read(path: &Path) -> Result<Self, Mp4Error> {
        let mut file = File::open(path)?;
        let bytes = file.metadata()?.len();
        let TopLevel { head, index, fragments } = top_level(&mut file, bytes)?;
        let (timescale, segments) = index::parse(&index.content, index.range.end)?;
        const UNMATCHED: Mp4Error = Mp4Error::Broken("its index does not match its fragments");
        let begins = first_fragments(&segments, &fragments).ok_or(UNMATCHED)?;
        if index.range.start < head.range.end {
            return Err(Mp4Error::Broken("its segment index is in front of its head"));
        }
        if segments.last().map(|last| last.offset + last.bytes) != Some(bytes) {
            return Err(Mp4Error::Broken("its index does not end where the file ends"));
        }
        let codec = codec::of(&head.content)?;
        let channel_configuration = codec::channel_configuration(&head.content);
        let colours = colour::of(&head.content);
        let key_frame = |(one, segment): (&Fragment, &Segment)| {
            let end = one.start.map(|start| start.key_frame_end);
            end.filter(|bytes| *bytes <= segment.bytes)
        };
        let key_frames = begins.iter().zip(&segments).map(key_frame).collect();
        let is_alone = |one: &Fragment| one.start.is_some_and(|start| !start.has_leading_frames);
        let is_independent = begins.iter().all(is_alone);
        let first = begins.first().and_then(|one| one.played_from).unwrap_or(0);
        Ok(Self {
            head_bytes: index.range.start,
            index: index.range,
            timescale,
            begins_ticks: edits::played_at(&head.content, first),
            segments,
            key_frames,
            is_independent,
            codec,
            channel_configuration,
            colours,
            bytes,
        })
    }

    /// Its dynamic range. One that isn't stated is the standard one.
    pub(crate) fn range(&self) -> VideoRange {
        self.colours.map_or(VideoRange::Sdr, Cicp::range)
    }

    /// When its last frame or sample ends.
    pub(crate) fn ends_seconds(&self) -> f64 {
        self.begins_ticks as f64 / f64::from(self.timescale) + self.seconds()
    }

    /// Its playing time.
    pub(crate) fn seconds(&self) -> f64 {
        self.segments.iter().map(|segment| self.seconds_of(segment)).sum()
    }

    /// The playing time of one of its segments.
    pub(crate) fn seconds_of(&self, segment: &Segment) -> f64 {
        f64::from(segment.ticks) / f64::from(self.timescale)
    }

    /// The longest segment.
    pub(crate) fn longest_seconds(&self) -> f64 {
        self.segments.iter().map(|segment| self.seconds_of(segment)).fold(0.0, f64::max)
    }
}

/// The fragments with which segments begin. `None` unless each segment is one fragment; only the last one may be two.
fn first_fragments<'f>(segments: &[Segment], fragments: &'f [Fragment]) -> Option<&'f [Fragment]> {
    let (begins, joined) = fragments.split_at_checked(segments.len())?;
    let last = segments.last()?;
    let is_matched = segments.iter().zip(begins).all(|(one, other)| one.offset == other.offset);
    let is_within = |one: &Fragment| one.offset < last.offset.saturating_add(last.bytes);
    (is_matched && joined.len() <= 1 && joined.iter().all(is_within)).then_some(begins)
}
