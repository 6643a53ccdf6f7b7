//! What a film has: what was drawn, and where the container changed something, what ffprobe and ffmpeg find in the file.

use std::path::Path;

use serde_json::Value;

use crate::draw::{Cue, Cut, Decoy, Film};
use crate::lines::LINES;
use crate::make::channels;
use crate::measure::{Heard, Input, Seen, measure};
use crate::tool::ffprobe;

/// What its title must have.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) picture: Option<SourcePicture>,
    pub(crate) sounds: Vec<SourceSound>,
    pub(crate) texts: Vec<SourceText>,
    /// Indexes of streams that a title does not carry over, so that it must name them.
    pub(crate) left_out: Vec<u64>,
    /// Whether the clock jumps, so that distances across the jump are a matter of taste.
    pub(crate) is_joined: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct SourcePicture {
    pub(crate) seen: Seen,
    /// Red, green and blue.
    pub(crate) patch: [u8; 3],
    /// The transfer of a high dynamic range.
    pub(crate) wide: Option<&'static str>,
    /// Width over height, as it is shown.
    pub(crate) shape: f64,
    /// Frames per second, if they are constant.
    pub(crate) rate: Option<f64>,
    pub(crate) codec: String,
    /// The longest time from one frame to the next.
    pub(crate) frame_seconds: f64,
}

#[derive(Clone, Debug)]
pub(crate) struct SourceSound {
    pub(crate) heard: Heard,
    pub(crate) codec: String,
    pub(crate) channels: u32,
    pub(crate) language: Option<String>,
    pub(crate) roles: Vec<&'static str>,
}

#[derive(Clone, Debug)]
pub(crate) struct SourceText {
    pub(crate) language: Option<String>,
    pub(crate) roles: Vec<&'static str>,
    pub(crate) cues: Vec<SourceCue>,
}

#[derive(Clone, Debug)]
pub(crate) struct SourceCue {
    /// Seconds on the clock of [`Seen`].
    pub(crate) start: f64,
    pub(crate) text: &'static str,
}

/// ffmpeg's names of the roles that matter to viewers.
const ROLES: [&str; 6] =
    ["comment", "visual_impaired", "hearing_impaired", "forced", "dub", "original"];

/// Examines the file that was made of `film`. An error means that the drawing is wrong, not ingest.
pub(crate) fn examine(film: &Film, file: &Path) -> Result<Source, String> {
    let probed = ffprobe(file, "-show_streams -show_packets -select_streams s")?;
    let packets = probed["packets"].as_array().cloned().unwrap_or_default();
    let probed = ffprobe(file, "-show_streams")?;
    let streams = probed["streams"].as_array().cloned().unwrap_or_default();
    let of_kind = |kind: &str| {
        streams.iter().filter(move |one| one["codec_type"] == *kind).collect::<Vec<_>>()
    };
    let (pictures, sounds, texts) = (of_kind("video"), of_kind("audio"), of_kind("subtitle"));
    let at = usize::from(film.decoy == Decoy::Still);
    let has_picture = film.picture.is_some();
    if pictures.len() != usize::from(has_picture) + usize::from(film.decoy != Decoy::None)
        || sounds.len() != film.sounds.len()
        || texts.len() != film.texts.len()
    {
        return Err(format!("the file lacks streams: {streams:?}"));
    }
    let input = Input {
        // Where the clock jumps, ffmpeg continues it unless it copies timestamps; elsewhere subtitles need the original ones.
        options: if film.container.is_joinable { "" } else { "-copyts" },
        file: file.to_owned(),
        pictures: if has_picture { vec![format!("v:{at}")] } else { Vec::new() },
        sounds: (0..sounds.len()).map(|index| format!("a:{index}")).collect(),
    };
    let (seen, heard) = measure(&[input])?;
    let picture = film.picture.as_ref().map(|_| picture_of(film, pictures[at], seen[0].clone()));
    let source = Source {
        sounds: sounds
            .iter()
            .zip(heard)
            .zip(&film.sounds)
            .map(|((stream, heard), drawn)| SourceSound {
                heard,
                codec: drawn.codec.to_owned(),
                channels: stream["channels"].as_u64().unwrap_or(channels(drawn.layout).into())
                    as u32,
                language: language(stream),
                roles: roles(stream),
            })
            .collect(),
        texts: texts
            .iter()
            .zip(&film.texts)
            .map(|(stream, drawn)| {
                let moved = moved(film, picture.as_ref());
                text_of(stream, &drawn.cues, &packets, moved)
            })
            .collect(),
        picture,
        left_out: pictures
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != at)
            .filter_map(|(_, stream)| stream["index"].as_u64())
            .collect(),
        is_joined: matches!(film.cut, Cut::Joined(..)),
    };
    check(film, &source)?;
    Ok(source)
}

/// Subtitles of the file: the drawn cues that it has, at the times of its packets.
fn text_of(stream: &Value, drawn: &[Cue], packets: &[Value], moved: f64) -> SourceText {
    let of_stream = packets.iter().filter(|packet| packet["stream_index"] == stream["index"]);
    let starts: Vec<f64> =
        of_stream.filter_map(|packet| packet["pts_time"].as_str()?.parse().ok()).collect();
    let cues = drawn.iter().filter_map(|cue| {
        let wanted = cue.start + moved;
        let distance = |start: &f64| (start - wanted).abs();
        let near = starts.iter().copied().min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
        let text = LINES[cue.line].text;
        (distance(&near) < 0.1).then_some(SourceCue { start: near, text })
    });
    SourceText { language: language(stream), roles: roles(stream), cues: cues.collect() }
}

/// How much later the last flash is than drawn: what moved the timestamps moved all of them.
fn moved(film: &Film, picture: Option<&SourcePicture>) -> f64 {
    let flash = picture.and_then(|picture| picture.seen.flashes.last().copied());
    let drawn = film.events.last().copied();
    flash.zip(drawn).map_or(0.0, |(flash, drawn)| flash - drawn)
}

fn picture_of(film: &Film, stream: &Value, seen: Seen) -> SourcePicture {
    let drawn = film.picture.as_ref().expect("the caller has one");
    let pixel = drawn.pixel.split_once('/').expect("a fraction");
    let number = |text: &str| text.parse::<f64>().expect("a number");
    let stored =
        f64::from(drawn.width) / f64::from(drawn.height) * number(pixel.0) / number(pixel.1);
    let rate = drawn
        .rate
        .split_once('/')
        .map_or_else(|| number(drawn.rate), |(a, b)| number(a) / number(b));
    let is_turned = drawn.rotation % 180 == 90;
    let is_regular = !drawn.is_variable && film.cut == Cut::Whole;
    SourcePicture {
        seen,
        patch: drawn.patch,
        wide: drawn.wide,
        shape: if is_turned { 1.0 / stored } else { stored },
        rate: is_regular.then_some(rate),
        codec: stream["codec_name"].as_str().unwrap_or_default().to_owned(),
        frame_seconds: if drawn.is_variable { 3.0 } else { 1.0 } / rate,
    }
}

/// As BCP 47, by the tables of ISO 639: only what is drawn.
fn language(stream: &Value) -> Option<String> {
    let tag = stream["tags"]["language"].as_str()?;
    let short = match tag {
        "und" => return None,
        "eng" => "en",
        "ger" | "deu" => "de",
        "fre" | "fra" => "fr",
        "jpn" => "ja",
        "tam" => "ta",
        "may" | "msa" => "ms",
        "baq" | "eus" => "eu",
        "nob" => "nb",
        "ben" => "bn",
        "tel" => "te",
        "mac" | "mkd" => "mk",
        "chi" | "zho" => "zh",
        "slo" | "slk" => "sk",
        other => other,
    };
    Some(short.to_owned())
}

fn roles(stream: &Value) -> Vec<&'static str> {
    ROLES.into_iter().filter(|role| stream["disposition"][*role] == 1).collect()
}

/// The file must be worth judging: it flashes and beeps at the same moments.
fn check(film: &Film, source: &Source) -> Result<(), String> {
    let least = if film.cut == Cut::Whole { film.events.len().saturating_sub(3) } else { 1 };
    if let Some(picture) = &source.picture {
        if picture.seen.flashes.len() < least.max(1) {
            return Err(format!("too few flashes: {:?}", picture.seen));
        }
    }
    for (index, sound) in source.sounds.iter().enumerate() {
        if sound.heard.beeps.is_empty() {
            return Err(format!("sound {index} does not beep"));
        }
    }
    Ok(())
}
