//! Detects the dynamic metadata of HDR10+ (SMPTE ST 2094-40). Frames carry it; the stream's description doesn't mention it.

use std::fs::File;

use crate::confined::Bounds;
use crate::ffprobe::{ProbeError, ask};
use crate::ingest::{Stop, words};
use crate::source::Source;

/// The metadata's name in ffprobe's answer: "HDR Dynamic Metadata SMPTE2094-40 (HDR10+)".
const NAME: &str = "SMPTE2094-40";

/// Looks at the first frame of stream `index`.
pub(crate) fn is_in_first_frame(
    film: &File,
    source: &Source,
    index: u32,
    bounds: &Bounds,
    stop: &Stop,
) -> Result<bool, ProbeError> {
    let mut arguments =
        words(&format!("-select_streams {index} -read_intervals %+#1 -show_frames"));
    arguments.extend(source.input());
    match ask(film, arguments, bounds, stop) {
        Ok(frame) => Ok(String::from_utf8_lossy(&frame).contains(NAME)),
        // A damaged first frame is no reason to refuse a film.
        Err(ProbeError::Unreadable(_)) => Ok(false),
        Err(fault) => Err(fault),
    }
}
