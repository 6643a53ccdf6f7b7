//! Keeps picture and sound in sync although each rendition is made by a run of ffmpeg of its own.
//!
//! In MPEG streams and in Ogg the clock may start anywhere and may jump, where recordings were joined or a transmitter restarted. ffmpeg
//! then moves all streams of the file so that time goes on, but it looks only at the streams that a run uses. A run that uses only the
//! picture moves it to the picture's own start, and a run that uses only the sound, to the sound's: they end up apart by as much as their
//! starts and ends differ, at the start and again at each jump.
//!
//! So every run uses every picture and every sound of the title: those that it does not make go to a second output, which is discarded.
//! Then all runs see the same packets in the same order, and move them equally. That includes subtitles that are burnt in.
//!
//! Sound is decoded for the second output, pictures are not. ffmpeg 5.1 computes the end of a copied packet from its stream's header, which
//! has no frame size for AC-3, and so a run that copied the sound moved the rest by a frame more at each jump (measured: 64 ms) than a run
//! that decoded it. For pictures there is no such difference, whether H.264, HEVC or MPEG-2 with reordered frames. Decoding sound costs
//! little compared with encoding a picture.
//!
//! The alternative is to copy the source into a file with a single clock first, and to make everything from that. It gave the same times,
//! but it needs the disk space of the source again, and neither Matroska nor NUT takes every DVD: many of its pictures have no timestamps.

use std::ffi::OsString;

use super::jobs::words;
use crate::source::{Clock, Source};

/// The arguments of the second output, if the source needs one.
pub(super) fn followed(source: &Source) -> Vec<OsString> {
    let streams = source.video.iter().map(|one| one.index);
    let streams: Vec<_> = streams.chain(source.audio.iter().map(|one| one.index)).collect();
    if source.clock == Clock::Steady || streams.len() < 2 {
        return Vec::new();
    }
    let burnt = source.burnt.iter().map(|one| one.stream.index);
    let streams: Vec<_> = streams.into_iter().chain(burnt).collect();
    let maps: String = streams.iter().map(|stream| format!("-map 0:{stream} ")).collect();
    // Unlike the null format, framecrc accepts timestamps that go back, as they may at a jump.
    words(&format!("{maps} -c:v copy -c:a pcm_s16le -c:s copy -f framecrc file:/dev/null"))
}

/// Where the clock may jump, the sound before a jump may last some milliseconds longer than the picture before it. Usually only gaps and
/// overlaps of more than 0.1 s are filled or cut, because the timestamps of some containers are inexact; over several jumps that would add
/// up. Timestamps of MPEG streams are exact.
pub(super) fn gaps(clock: Clock) -> &'static str {
    match clock {
        Clock::Steady => "",
        Clock::MayJump => ":min_hard_comp=0.02",
    }
}
