//! Runs ffprobe, confined, and takes its answer.

use std::ffi::OsString;
use std::fs::File;

use crate::confined::{Bound, Bounds, Confined, Fault, Limits};
use crate::formats;
use crate::ingest::{Stop, words};

/// Why a file could not be examined.
#[derive(Debug)]
pub(crate) enum ProbeError {
    /// It is not a media file, or it is broken; with ffprobe's message.
    Unreadable(String),
    Fault(Fault),
}

/// The answer for a film of a hundred streams has some hundred kilobytes.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// The answer of ffprobe, as JSON, to `arguments` about a film.
pub(crate) fn ask(
    film: &File,
    rest: Vec<OsString>,
    bounds: &Bounds,
    stop: &Stop,
) -> Result<Vec<u8>, ProbeError> {
    let mut arguments = words("-hide_banner -v error -of json");
    arguments.extend(rest);
    let ffprobe = Confined {
        program: "ffprobe",
        arguments: &arguments,
        film: Some(film),
        folder: None,
        limits: Limits {
            time: Bound::ProbeSeconds(bounds.probe_seconds_max),
            memory_bytes_max: bounds.memory_bytes_max,
            output: None,
        },
    };
    let mut answer = Vec::new();
    let hear = |bytes: &[u8]| {
        if answer.len() <= ANSWER_BYTES_MAX {
            answer.extend_from_slice(bytes);
        }
    };
    let ended = ffprobe.run(stop, hear).map_err(ProbeError::Fault)?;
    if !ended.status.success() {
        return Err(ProbeError::Unreadable(reason(&ended.said)));
    }
    if answer.len() > ANSWER_BYTES_MAX {
        let most = ANSWER_BYTES_MAX >> 20;
        return Err(ProbeError::Unreadable(format!(
            "the list of its contents is longer than {most} MiB"
        )));
    }
    Ok(answer)
}

fn reason(said: &[u8]) -> String {
    formats::refusal(&String::from_utf8_lossy(said)).unwrap_or_else(|| first_line(said))
}

/// ffmpeg's messages begin with the component ("[mov @ 0x55]") or with the file's name; the cause comes after.
fn first_line(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no reason");
    let cause = line.rsplit_once("] ").map_or(line, |(_, cause)| cause);
    cause.rsplit_once(": ").map_or(cause, |(_, cause)| cause).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_taken_out_of_what_ffprobe_says() {
        assert_eq!(
            first_line(b"[mov,mp4 @ 0x5]  moov atom not found\nx.mp4: Invalid data"),
            "moov atom not found"
        );
        assert_eq!(first_line(b"file:/a: b.mp4: Invalid data found"), "Invalid data found");
        assert_eq!(first_line(b""), "no reason");
    }
}
