//! The packets of a stream of subtitles in their own form, from ffprobe. ffmpeg's decoders would change the text: they take `&` and `<` for
//! markup, drop positions, and lose the settings of WebVTT.

use std::ffi::OsString;

use serde::Deserialize;

use super::super::error::IngestError;
use super::super::ffmpeg::told;
use super::super::{Ingest, RunLimits, words};
use crate::confined::{Bound, Confined, Limits};

/// ffprobe prints bytes as hexadecimal numbers and text, some five letters for each. So this is some 20 MB of subtitles.
const ANSWER_BYTES_MAX: usize = 128 << 20;

/// A stream of subtitles.
#[derive(Debug, Default)]
pub(super) struct Packets {
    /// The stream's header: of ASS and WebVTT text, of 3GPP text a description.
    pub(super) header: Vec<u8>,
    pub(super) packets: Vec<Packet>,
}

/// One packet, which is a cue.
#[derive(Debug, Default)]
pub(super) struct Packet {
    pub(super) start_seconds: f64,
    pub(super) seconds: f64,
    pub(super) data: Vec<u8>,
    /// Where its data is in the file.
    pub(super) position: Option<u64>,
    /// The identifier and the settings of a WebVTT cue; empty for other kinds.
    pub(super) id: Vec<u8>,
    pub(super) settings: Vec<u8>,
}

/// Reads all packets of the stream with the index `stream`.
pub(super) fn read(
    ingest: &Ingest<'_>,
    stream: u32,
    limits: &RunLimits<'_>,
) -> Result<Packets, IngestError> {
    let making = "subtitles";
    let mut arguments: Vec<OsString> = words(&format!(
        "-hide_banner -v error -of json -show_streams -show_packets -show_data -select_streams {stream}"
    ));
    arguments.extend(ingest.source.input());
    let ffprobe = Confined {
        program: "ffprobe",
        arguments: &arguments,
        film: Some(&ingest.film),
        folder: None,
        limits: Limits {
            time: Bound::RunSeconds(limits.bounds.run_seconds_max),
            memory_bytes_max: limits.bounds.memory_bytes_max,
            output: None,
        },
    };
    let mut answer = Vec::new();
    let hear = |bytes: &[u8]| {
        if answer.len() <= ANSWER_BYTES_MAX {
            answer.extend_from_slice(bytes);
        }
    };
    let ended = ffprobe.run(limits.stop, hear).map_err(|fault| told(fault, making))?;
    let failed = |said: String| IngestError::FfmpegFailed { making: making.into(), said };
    if answer.len() > ANSWER_BYTES_MAX {
        return Err(failed("they are too long".into()));
    }
    if !ended.status.success() {
        let said = String::from_utf8_lossy(&ended.said);
        return Err(failed(said.lines().next().unwrap_or("no reason").to_owned()));
    }
    let probed: Probed = serde_json::from_slice(&answer)
        .map_err(|error| failed(format!("ffprobe's answer: {error}")))?;
    Ok(probed.into_packets())
}

#[derive(Deserialize)]
struct Probed {
    #[serde(default)]
    streams: Vec<Stream>,
    #[serde(default)]
    packets: Vec<Probe>,
}

#[derive(Deserialize)]
struct Stream {
    extradata: Option<String>,
}

#[derive(Deserialize)]
struct Probe {
    pts_time: Option<String>,
    duration_time: Option<String>,
    pos: Option<String>,
    #[serde(default)]
    data: String,
    #[serde(default)]
    side_data_list: Vec<SideData>,
}

#[derive(Deserialize)]
struct SideData {
    #[serde(default)]
    side_data_type: String,
    #[serde(default)]
    data: String,
}

impl Probed {
    fn into_packets(self) -> Packets {
        let header = self.streams.first().and_then(|stream| stream.extradata.as_deref());
        Packets {
            header: header.map(bytes_of_dump).unwrap_or_default(),
            packets: self.packets.into_iter().filter_map(Probe::into_packet).collect(),
        }
    }
}

impl Probe {
    fn into_packet(self) -> Option<Packet> {
        let side = |name: &str| {
            let found = self.side_data_list.iter().find(|one| one.side_data_type == name);
            found.map(|one| bytes_of_dump(&one.data)).unwrap_or_default()
        };
        Some(Packet {
            start_seconds: self.pts_time.as_deref().and_then(seconds)?,
            seconds: self.duration_time.as_deref().and_then(seconds).unwrap_or(0.0),
            data: bytes_of_dump(&self.data),
            position: self.pos.as_deref().and_then(|position| position.parse().ok()),
            id: side("WebVTT ID"),
            settings: side("WebVTT Settings"),
        })
    }
}

fn seconds(text: &str) -> Option<f64> {
    text.parse().ok().filter(|seconds: &f64| seconds.is_finite())
}

/// The bytes of ffprobe's dump. A line has an offset, sixteen bytes at most, and the same bytes as text: `00000010: 6c69 6e  lin`.
fn bytes_of_dump(dump: &str) -> Vec<u8> {
    let line_bytes = |line: &str| -> Vec<u8> {
        let Some((_, rest)) = line.split_once(": ") else { return Vec::new() };
        let numbers = rest.split_once("  ").map_or(rest, |(numbers, _)| numbers);
        let digits: Vec<u8> = numbers.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte = |pair: &[u8]| {
            let digit = |one: u8| char::from(one).to_digit(16).unwrap_or(0) as u8;
            digit(pair[0]) << 4 | digit(pair[1])
        };
        digits.chunks_exact(2).map(byte).collect()
    };
    dump.lines().flat_map(line_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ffprobes_dump_becomes_bytes() {
        let dump = "\n00000000: 6c69 6e65 3a31 3025 2061 6c69 676e 3a73  line:10% align:s\n00000010: 7461 7274 33                             tart3\n";
        assert_eq!(bytes_of_dump(dump), b"line:10% align:start3");
        assert_eq!(bytes_of_dump("\n"), b"");
        assert_eq!(bytes_of_dump("garbage: ää\n0: 6\n0"), b"");
    }

    #[test]
    fn an_answer_of_ffprobe_becomes_packets() {
        let answer = r#"{"packets": [
            {"pts_time": "1.500000", "duration_time": "1.000000", "data": "\n00000000: 61       a\n",
             "side_data_list": [{"side_data_type": "WebVTT ID", "data": "\n00000000: 6964    id\n"}, {"side_data_type": "other"}]},
            {"data": "\n00000000: 61       a\n"}],
            "streams": [{"extradata": "\n00000000: 6865 6164                  head\n"}]}"#;
        let packets = serde_json::from_str::<Probed>(answer).unwrap().into_packets();
        assert_eq!(packets.header, b"head");
        let [packet] = &packets.packets[..] else { panic!("one has a time: {packets:?}") };
        assert_eq!((packet.start_seconds, packet.seconds), (1.5, 1.0));
        assert_eq!((&packet.data[..], &packet.id[..]), (&b"a"[..], &b"id"[..]));
    }
}
