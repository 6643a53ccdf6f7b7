//! Finds metadata that only frames carry: the stream's description doesn't mention it. That of a high dynamic
//! range is read by `hdr_metadata.rs`.

use std::fs::File;

use crate::confined::Bounds;
use crate::ffprobe::{ProbeError, ask};
use crate::ingest::{Stop, words};
use crate::source::Source;

/// Metadata of frames.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FrameData {
    /// Captions of CEA-608 and CEA-708.
    Captions,
}

impl FrameData {
    /// A part of its name in ffprobe's answer: "ATSC A53 Part 4 Closed Captions".
    fn name(self) -> &'static str {
        match self {
            Self::Captions => "A53 Part 4 Closed Captions",
        }
    }

    /// The number of packets to look at. Some encoders of captions skip frames without any.
    fn packets(self) -> u32 {
        match self {
            Self::Captions => 60,
        }
    }
}

/// Looks for `data` in the first frames of stream `index`.
pub(crate) fn have(
    data: FrameData,
    film: &File,
    source: &Source,
    index: u32,
    bounds: &Bounds,
    stop: &Stop,
) -> Result<bool, ProbeError> {
    let mut arguments = words(&format!(
        "-select_streams {index} -read_intervals %+#{} -show_entries frame_side_data=side_data_type",
        data.packets()
    ));
    arguments.extend(source.input());
    match ask(film, arguments, bounds, stop) {
        Ok(frames) => Ok(String::from_utf8_lossy(&frames).contains(data.name())),
        // A damaged first frame is no reason to refuse a film.
        Err(ProbeError::Unreadable(_)) => Ok(false),
        Err(fault) => Err(fault),
    }
}
