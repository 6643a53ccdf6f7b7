//! The first key frame of a stream, according to ffprobe: a copy of the stream begins with it.
//!
//! Its time may differ from the start of the stream. A recording may begin in the middle of a group of pictures, which cannot be shown. A clip
//! that was cut without encoding may begin with frames that its edit list hides: their times are negative.

use std::fs::File;

use serde::Deserialize;

use crate::confined::Bounds;
use crate::ffprobe::{ProbeError, ask};
use crate::ingest::{Stop, words};
use crate::source::Source;

/// How many frames to look at: no group of pictures that can be cut into segments is longer.
const FRAMES: u32 = 600;

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    packets: Vec<Packet>,
}

#[derive(Deserialize)]
struct Packet {
    pts_time: Option<String>,
    #[serde(default)]
    flags: String,
}

/// The time of the first key frame of stream `index`, from the beginning of the film. `None` if it has none near its start.
pub(crate) fn seconds(
    film: &File,
    source: &Source,
    index: u32,
    bounds: &Bounds,
    stop: &Stop,
) -> Result<Option<f64>, ProbeError> {
    let mut arguments = words(&format!(
        "-select_streams {index} -read_intervals %+#{FRAMES} -show_entries packet=pts_time,flags"
    ));
    arguments.extend(source.input());
    let answer = ask(film, arguments, bounds, stop)?;
    let answer: Answer = serde_json::from_slice(&answer)
        .map_err(|error| ProbeError::Unreadable(format!("ffprobe's answer: {error}")))?;
    Ok(answer.first_key_seconds().map(|seconds| seconds - source.begins_seconds))
}

impl Answer {
    fn first_key_seconds(&self) -> Option<f64> {
        let key = self.packets.iter().find(|packet| packet.flags.starts_with('K'))?;
        key.pts_time.as_ref()?.parse().ok().filter(|seconds: &f64| seconds.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_begins_with_the_first_key_frame() {
        let first = |json: &str| serde_json::from_str::<Answer>(json).unwrap().first_key_seconds();
        let packets = r#"{"packets": [{"pts_time": "1.5", "flags": "__"}, {"pts_time": "2.5", "flags": "K__"}, {"pts_time": "3", "flags": "K__"}]}"#;
        assert_eq!(first(packets), Some(2.5));
        assert_eq!(first(r#"{"packets": [{"pts_time": "-1.5", "flags": "KD_"}]}"#), Some(-1.5));
        assert_eq!(first(r#"{"packets": [{"flags": "K__"}]}"#), None);
        assert_eq!(first("{}"), None);
    }
}
