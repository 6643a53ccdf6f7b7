//! What a viewer sees and hears, by decoding with ffmpeg: when it flashes and beeps, at which pitch, the colour of the patch, from when to when.

use std::fs;
use std::path::{Path, PathBuf};

use crate::draw::EVENT_SECONDS;
use crate::tool::{ffmpeg, words};

/// Sound is measured in pieces of this length.
const PIECE_SECONDS: f64 = 0.005;
/// A beep begins where the level is this close to the loudest one.
const BEEP_DECIBELS: f64 = 12.0;
/// Quieter than any beep.
const SILENT_DECIBELS: f64 = -60.0;

/// A decoded stream of pictures.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// When the first frame begins and the last one ends.
    pub(crate) from: f64,
    pub(crate) to: f64,
    /// When flashes begin.
    pub(crate) flashes: Vec<f64>,
    /// The patch between flashes: Y, Cb and Cr, with 8 bits.
    pub(crate) patch: [f64; 3],
}

/// A decoded stream of sound.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heard {
    pub(crate) from: f64,
    pub(crate) to: f64,
    /// When beeps begin.
    pub(crate) beeps: Vec<f64>,
    /// The pitch of the beeps.
    pub(crate) hertz: f64,
}

/// Times of an MP4 before this are hidden; less is rounding.
const HIDDEN_SECONDS: f64 = -0.01;

impl Seen {
    /// Leaves out what is before 0.
    pub(crate) fn drop_hidden(&mut self) {
        self.from = self.from.max(0.0);
        self.flashes.retain(|flash| *flash > HIDDEN_SECONDS);
    }
}

impl Heard {
    /// Leaves out what is before 0.
    pub(crate) fn drop_hidden(&mut self) {
        self.from = self.from.max(0.0);
        self.beeps.retain(|beep| *beep > HIDDEN_SECONDS);
    }
}

/// An input of ffmpeg, and the streams of it to decode.
pub(crate) struct Input {
    pub(crate) options: &'static str,
    pub(crate) file: PathBuf,
    /// As in `-map 0:v:1`, without the number of the input.
    pub(crate) pictures: Vec<String>,
    pub(crate) sounds: Vec<String>,
}

/// The bits of a picture's values, from ffprobe's name for its pixels.
pub(crate) fn bits(pixels: &str) -> u32 {
    if pixels.contains("p10") { 10 } else { 8 }
}

/// Decodes everything in one run, so that all times are on one clock.
pub(crate) fn measure(inputs: &[Input]) -> Result<(Vec<Seen>, Vec<Heard>), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut arguments = Vec::new();
    for input in inputs {
        arguments.extend(words(input.options));
        arguments.push("-i".into());
        let file = std::path::absolute(&input.file).map_err(|error| error.to_string())?;
        arguments.push(file.to_string_lossy().into_owned());
    }
    let (mut pictures, mut sounds) = (Vec::new(), Vec::new());
    for (number, input) in inputs.iter().enumerate() {
        for stream in &input.pictures {
            let file = format!("{number}-{}.txt", pictures.len());
            let filter = format!("crop=iw/4:ih/4,signalstats,metadata=mode=print:file={file}");
            let rest =
                format!("-map {number}:{stream} -vf {filter} -fps_mode passthrough -f null -");
            arguments.extend(words(&rest));
            pictures.push(file);
        }
        for stream in &input.sounds {
            let file = format!("s{number}-{}.txt", sounds.len());
            let filter = format!(
                "aresample=48000,aformat=channel_layouts=mono,asetnsamples=n={}:p=0,\
                 astats=metadata=1:reset=1:measure_perchannel=RMS_level+Zero_crossings_rate:measure_overall=none,\
                 ametadata=mode=print:file={file}",
                (48_000.0 * PIECE_SECONDS) as u32
            );
            arguments.extend(words(&format!("-map {number}:{stream} -af {filter} -f null -")));
            sounds.push(file);
        }
    }
    ffmpeg(folder.path(), &arguments)?;
    let read = |file: &String| fs::read_to_string(folder.path().join(file)).unwrap_or_default();
    let seen = pictures.iter().map(|file| seen(&frames(&read(file), &["YAVG", "UAVG", "VAVG"])));
    let heard = sounds
        .iter()
        .map(|file| heard(&frames(&read(file), &["RMS_level", "Zero_crossings_rate"])));
    Ok((seen.collect(), heard.collect()))
}

/// A file or a playlist with one stream each of the kinds that it has.
pub(crate) fn input(file: &Path, options: &'static str, has_picture: bool) -> Input {
    let one = |has: bool, stream: &str| if has { vec![stream.to_owned()] } else { Vec::new() };
    Input {
        options,
        file: file.to_owned(),
        pictures: one(has_picture, "v:0"),
        sounds: one(!has_picture, "a:0"),
    }
}

/// A frame's time, and the values with these names that a filter wrote.
type Values = (f64, Vec<f64>);

fn frames(text: &str, names: &[&str]) -> Vec<Values> {
    let mut all: Vec<Values> = Vec::new();
    for line in text.lines() {
        if line.starts_with("frame:") {
            let time = line.rsplit_once("pts_time:").and_then(|(_, time)| time.trim().parse().ok());
            all.push((time.unwrap_or(f64::NAN), vec![f64::NEG_INFINITY; names.len()]));
        } else if let (Some((key, value)), Some((_, values))) =
            (line.split_once('='), all.last_mut())
        {
            let name = key.rsplit('.').next();
            if let Some(at) = names.iter().position(|wanted| Some(*wanted) == name) {
                values[at] = value.parse().unwrap_or(f64::NEG_INFINITY);
            }
        }
    }
    all.retain(|(time, _)| time.is_finite());
    all
}

fn seen(frames: &[Values]) -> Seen {
    let Some((last, before)) = frames.split_last() else { return Seen::default() };
    let first = frames[0].0;
    let step = before.last().map_or(0.04, |previous| last.0 - previous.0).clamp(0.0, 0.5);
    let luma = frames.iter().map(|(_, values)| values[0]);
    let (least, most) = luma.fold((f64::MAX, 0.0_f64), |(a, b), y| (a.min(y), b.max(y)));
    let is_bright = |frame: &Values| most - least > 30.0 && frame.1[0] > (least + most) / 2.0;
    let mut dark: Vec<_> = frames.iter().filter(|frame| !is_bright(frame)).collect();
    let mut median = |value: usize| {
        dark.sort_by(|a, b| a.1[value].total_cmp(&b.1[value]));
        dark.get(dark.len() / 2).map_or(0.0, |frame| frame.1[value])
    };
    Seen {
        from: first,
        to: last.0 + step,
        flashes: flashes(frames, is_bright),
        patch: [median(0), median(1), median(2)],
    }
}

fn heard(pieces: &[Values]) -> Heard {
    let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else {
        return Heard::default();
    };
    let most = pieces.iter().map(|(_, values)| values[0]).fold(f64::NEG_INFINITY, f64::max);
    let is_loud =
        |piece: &Values| piece.1[0] > SILENT_DECIBELS && piece.1[0] > most - BEEP_DECIBELS;
    // Only the middle of beeps: at their ends, encoders add noise.
    const EDGE_PIECES: usize = 4;
    let inner = pieces.windows(2 * EDGE_PIECES + 1).filter(|all| all.iter().all(is_loud));
    let mut crossings: Vec<_> = inner.map(|all| all[EDGE_PIECES].1[1]).collect();
    crossings.sort_by(f64::total_cmp);
    let median = crossings.get(crossings.len() / 2).copied().unwrap_or(0.0);
    Heard {
        from: first.0,
        to: last.0 + PIECE_SECONDS,
        beeps: beeps(pieces, is_loud),
        hertz: median * 48_000.0 / 2.0,
    }
}

/// Where flashes begin: after a frame without one. A flash of the first frame may have begun earlier, in what was cut off, so it has no time.
fn flashes(frames: &[Values], is_bright: impl Fn(&Values) -> bool) -> Vec<f64> {
    let mut was_bright = true;
    let mut all = Vec::new();
    for frame in frames {
        let bright = is_bright(frame);
        if bright && !was_bright {
            all.push(frame.0);
        }
        was_bright = bright;
    }
    all
}

/// Where beeps begin. One that is silent for a moment only does not begin again. If the first is less than half as long as it was made, it is
/// what was left of a beep when the film was cut, and its beginning says nothing.
fn beeps(pieces: &[Values], is_loud: impl Fn(&Values) -> bool) -> Vec<f64> {
    const PAUSE_SECONDS: f64 = 0.15;
    let mut all: Vec<(f64, f64)> = Vec::new();
    for piece in pieces.iter().filter(|piece| is_loud(piece)) {
        match all.last_mut() {
            Some((_, end)) if (piece.0 - *end).abs() <= PAUSE_SECONDS => *end = piece.0,
            _ => all.push((piece.0, piece.0)),
        }
    }
    let is_rest = all.first().is_some_and(|(from, to)| to - from < EVENT_SECONDS / 2.0);
    all.into_iter().skip(usize::from(is_rest)).map(|(from, _)| from).collect()
}

/// Red, green and blue of other primaries as those of BT.709, by ffmpeg's name of the primaries.
pub(crate) fn with_bt709_primaries(rgb: [f64; 3], primaries: &str) -> [f64; 3] {
    // From the chromaticities in ITU-T H.273 table 2, all with the white point D65.
    let rows = match primaries {
        "smpte170m" => [
            [0.939_542, 0.050_181, 0.010_277],
            [0.017_772, 0.965_793, 0.016_435],
            [-0.001_622, -0.004_370, 1.005_991],
        ],
        "bt470bg" => [[1.044_043, -0.044_043, 0.0], [0.0, 1.0, 0.0], [0.0, 0.011_793, 0.988_207]],
        _ => return rgb,
    };
    // The curve of BT.709, which BT.601 shares.
    let linear = rgb.map(|value| match value / 255.0 {
        dark if dark < 0.081 => dark / 4.5,
        value => ((value + 0.099) / 1.099).powf(1.0 / 0.45),
    });
    rows.map(|row| {
        let light: f64 = row.iter().zip(linear).map(|(part, light)| part * light).sum();
        let light = light.clamp(0.0, 1.0);
        255.0 * if light < 0.018 { light * 4.5 } else { 1.099 * light.powf(0.45) - 0.099 }
    })
}

/// `patch` as red, green and blue, with the constants of a matrix.
pub(crate) fn rgb([y, cb, cr]: [f64; 3], matrix: &str, is_full: bool) -> [f64; 3] {
    let (red, blue) = if matrix == "bt709" { (0.2126, 0.0722) } else { (0.299, 0.114) };
    let green = 1.0 - red - blue;
    let (y, cb, cr) = if is_full {
        (y / 255.0, (cb - 128.0) / 255.0, (cr - 128.0) / 255.0)
    } else {
        ((y - 16.0) / 219.0, (cb - 128.0) / 224.0, (cr - 128.0) / 224.0)
    };
    let r = y + 2.0 * (1.0 - red) * cr;
    let b = y + 2.0 * (1.0 - blue) * cb;
    let g = (y - red * r - blue * b) / green;
    [r, g, b].map(|value| (value * 255.0).clamp(0.0, 255.0))
}
