//! Reads the first frames of a stream, for metadata that the stream's description doesn't mention.

use std::fs::File;

use crate::confined::Bounds;
use crate::ffprobe::{ProbeError, ask};
use crate::ingest::{Stop, words};
use crate::source::Source;

/// ffprobe's answer about the frames in the first `packets` of stream `index`, as JSON. Empty if they are damaged: that is no reason to refuse a
/// film.
pub(crate) fn show(
    film: &File,
    source: &Source,
    (index, packets): (u32, u32),
    bounds: &Bounds,
    stop: &Stop,
) -> Result<Vec<u8>, ProbeError> {
    let mut arguments =
        words(&format!("-select_streams {index} -read_intervals %+#{packets} -show_frames"));
    arguments.extend(source.input());
    match ask(film, arguments, bounds, stop) {
        Err(ProbeError::Unreadable(_)) => Ok(Vec::new()),
        answer => answer,
    }
}
