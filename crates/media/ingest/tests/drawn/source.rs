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
    /// When the container begins, on the clock of [`Seen`].
    pub(crate) begins: f64,
    /// Chapters with a title, on the clock of [`Seen`].
    pub(crate) chapters: Vec<SourceChapter>,
    /// Whether the clock jumps, so that distances across the jump are a matter of taste.
    pub(crate) is_joined: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct SourcePicture {
    pub(crate) seen: Seen,
    /// Red, green and blue.
    pub(crate) patch: [u8; 3],
    /// Of the patch, by ffmpeg's name; empty if the file doesn't say.
    pub(crate) primaries: String,
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
    /// By ISO 639-2, as the header of an MP4 file has it.
    pub(crate) three_letters: String,
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

#[derive(Clone, Debug)]
pub(crate) struct SourceChapter {
    pub(crate) start: f64,
    pub(crate) title: String,
}

/// Scripts and containers round the times of cues.
const CUE_SECONDS: f64 = 0.03;

/// A flash and a beep that are closer than this belong to one event.
pub(crate) const PAIR_SECONDS: f64 = 0.35;

/// ffmpeg's names of the roles that matter to viewers.
const ROLES: [&str; 6] =
    ["comment", "visual_impaired", "hearing_impaired", "forced", "dub", "original"];

/// Examines the file that was made of `film`. An error means that the drawing is wrong, not ingest.
pub(crate) fn examine(film: &Film, file: &Path) -> Result<Source, String> {
    let probed = ffprobe(file, "-show_streams -show_packets -select_streams s")?;
    let packets = probed["packets"].as_array().cloned().unwrap_or_default();
    let probed = ffprobe(file, "-show_streams -show_chapters -show_format")?;
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
    let (mut seen, mut heard) = measure(&[input])?;
    if film.container.has_edit_lists {
        // What an edit list hides is before 0, and some of ffmpeg's decoders return it all the same (AV1).
        seen.iter_mut().for_each(Seen::drop_hidden);
        heard.iter_mut().for_each(Heard::drop_hidden);
    }
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
                three_letters: three_letters(stream),
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
        chapters: chapters(&probed),
        begins: begins(film, &probed),
        picture,
        left_out: pictures
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != at)
            .map(|(_, stream)| *stream)
            .chain(of_kind("attachment"))
            .filter_map(|stream| stream["index"].as_u64())
            .collect(),
        is_joined: matches!(film.cut, Cut::Joined(..)),
    };
    check(film, &source)?;
    Ok(source)
}

fn begins(film: &Film, probed: &Value) -> f64 {
    let stated = probed["format"]["start_time"].as_str().and_then(|start| start.parse().ok());
    // Without -copyts, ffmpeg lets a file begin at 0.
    if film.container.is_joinable { 0.0 } else { stated.unwrap_or(0.0) }
}

fn chapters(probed: &Value) -> Vec<SourceChapter> {
    let all = probed["chapters"].as_array().into_iter().flatten();
    let chapter = |one: &Value| {
        Some(SourceChapter {
            start: one["start_time"].as_str()?.parse().ok()?,
            title: one["tags"]["title"].as_str()?.to_owned(),
        })
    };
    all.filter_map(chapter).collect()
}

/// Subtitles of the file: the drawn cues that it has, at the times of its packets. Containers and copies move subtitles by other times than
/// pictures, so the shift is the one by which most drawn cues have a packet, and among those the nearest to the picture's, `moved`.
fn text_of(stream: &Value, drawn: &[Cue], packets: &[Value], moved: f64) -> SourceText {
    let of_stream = packets.iter().filter(|packet| packet["stream_index"] == stream["index"]);
    let time = |packet: &Value| packet["pts_time"].as_str()?.parse::<f64>().ok();
    // MP4 has an empty sample, of a length alone, where nothing is shown.
    let has_text = |packet: &&Value| packet["size"].as_str() != Some("2");
    let starts: Vec<f64> = of_stream.filter(has_text).filter_map(time).collect();
    let near = |cue: &Cue, shift: f64| {
        starts.iter().copied().find(|start| (start - cue.start - shift).abs() < CUE_SECONDS)
    };
    let count = |shift: f64| drawn.iter().filter(|cue| near(cue, shift).is_some()).count();
    let shifts = drawn.iter().flat_map(|cue| starts.iter().map(move |start| start - cue.start));
    let shift = shifts.max_by(|a, b| {
        let nearness = |shift: f64| -(shift - moved).abs();
        count(*a).cmp(&count(*b)).then(nearness(*a).total_cmp(&nearness(*b)))
    });
    let cues = drawn.iter().filter_map(|cue| {
        let start = near(cue, shift?)?;
        Some(SourceCue { start, text: LINES[cue.line].text })
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
        primaries: stream["color_primaries"].as_str().unwrap_or_default().to_owned(),
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

/// The terminological code, where there are two: only what is drawn.
fn three_letters(stream: &Value) -> String {
    let tag = stream["tags"]["language"].as_str().unwrap_or("und");
    let letters = match tag {
        "ger" => "deu",
        "fre" => "fra",
        "may" => "msa",
        "baq" => "eus",
        "mac" => "mkd",
        "chi" => "zho",
        "slo" => "slk",
        other => other,
    };
    letters.to_owned()
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
    let anchor = match (&source.picture, source.sounds.first()) {
        (Some(picture), _) => &picture.seen.flashes,
        (None, Some(first)) => &first.heard.beeps,
        (None, None) => return Err("it has neither a picture nor a sound".into()),
    };
    for (index, sound) in source.sounds.iter().enumerate() {
        let beeps = &sound.heard.beeps;
        let is_pair = |beep: &f64| anchor.iter().any(|flash| (beep - flash).abs() < PAIR_SECONDS);
        if !beeps.iter().any(is_pair) {
            return Err(format!(
                "its sync cannot be checked: sound {index} beeps at {beeps:.3?}, and it flashes at {anchor:.3?}"
            ));
        }
    }
    Ok(())
}
