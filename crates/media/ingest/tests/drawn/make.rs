//! Makes a drawn film with ffmpeg, as people make theirs: encoded, then perhaps cut, joined, turned or remuxed.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use crate::containers::{picture_encoder, sound_encoder};
use crate::draw::{Cut, Decoy, EVENT_SECONDS, Film, Picture, Sound, Text, hertz};
use crate::lines::LINES;
use crate::tool::{ffmpeg, ffprobe, words};

/// The length of a packet of MPEG-TS.
const PACKET_BYTES: usize = 188;

/// The part of the film's clock that a file has.
#[derive(Clone, Copy)]
struct Part {
    from: f64,
    to: f64,
    offset_seconds: f64,
}

/// Makes the film in `folder`.
pub(crate) fn make(film: &Film, folder: &Path) -> Result<PathBuf, String> {
    let whole = Part { from: 0.0, to: film.seconds, offset_seconds: film.start_seconds };
    let mut file = match film.cut {
        Cut::Joined(at, jump_seconds) => {
            let later = whole.offset_seconds + jump_seconds;
            let first = encode(film, Part { to: at, ..whole }, "first", folder)?;
            let second = Part { from: at, offset_seconds: later, ..whole };
            let second = encode(film, second, "second", folder)?;
            let read = |file: &PathBuf| fs::read(file).map_err(|error| error.to_string());
            let both = [read(&first)?, read(&second)?].concat();
            fs::write(&first, both).map_err(|error| error.to_string())?;
            first
        }
        _ => encode(film, whole, "film", folder)?,
    };
    if let Cut::Headless(part) = film.cut {
        let bytes = fs::read(&file).map_err(|error| error.to_string())?;
        let from = (bytes.len() as f64 * part) as usize / PACKET_BYTES * PACKET_BYTES;
        fs::write(&file, &bytes[from..]).map_err(|error| error.to_string())?;
    }
    if let Cut::Trimmed(at) = film.cut {
        let copy = format!("-map 0 -c copy -f {}", film.container.muxer);
        file = remux(film, "trimmed", &format!("-ss {at} -i {}", name(&file)), &copy, folder)?;
    }
    if film.decoy == Decoy::Still {
        file = with_still(film, &file, folder)?;
    }
    match film.picture.as_ref().map_or(0, |picture| picture.rotation) {
        0 => Ok(file),
        degrees => turned(film, degrees, &file, folder),
    }
}

fn name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn remux(
    film: &Film,
    stem: &str,
    input: &str,
    output: &str,
    folder: &Path,
) -> Result<PathBuf, String> {
    let file = folder.join(format!("{stem}.{}", film.container.extension));
    let mut arguments = words(&format!("{input} {output} -strict -2"));
    arguments.push(name(&file));
    ffmpeg(folder, &arguments)?;
    Ok(file)
}

fn with_still(film: &Film, file: &Path, folder: &Path) -> Result<PathBuf, String> {
    ffmpeg(folder, &words("-f lavfi -i color=red:size=128x128 -frames:v 1 still.jpg"))?;
    let output = format!(
        "-map 0 -map 1 -c copy -disposition:v:0 0 -disposition:v:1 default -f {}",
        film.container.muxer
    );
    remux(film, "still", &format!("-i still.jpg -i {}", name(file)), &output, folder)
}

fn turned(film: &Film, degrees: u32, file: &Path, folder: &Path) -> Result<PathBuf, String> {
    let copy = format!("-map 0 -c copy -f {}", film.container.muxer);
    let input = format!("-i {}", name(file));
    let made =
        remux(film, "turned", &input, &format!("{copy} -metadata:s:v rotate={degrees}"), folder)?;
    let probed = ffprobe(&made, "-show_streams")?;
    if probed.to_string().contains("\"rotation\"") {
        return Ok(made);
    }
    // Newer versions of ffmpeg take no such tag, but have an option that means the same.
    remux(film, "turned", &format!("-display_rotation:v:0 {degrees} {input}"), &copy, folder)
}

fn encode(film: &Film, part: Part, stem: &str, folder: &Path) -> Result<PathBuf, String> {
    let file = folder.join(format!("{stem}.{}", film.container.extension));
    let mut arguments = Vec::new();
    for (late, graph) in graphs(film, part) {
        // ffmpeg lets every input begin at 0, so what begins late is moved there.
        arguments.extend(words(&format!("-itsoffset {late:.3} -f lavfi -i")));
        arguments.push(graph);
    }
    for (index, text) in film.texts.iter().enumerate() {
        let script = format!("text-{index}.{}", extension(text.codec));
        write(folder, &script, &subtitles(text))?;
        arguments.extend(["-i".into(), script]);
    }
    let chapters = film.has_chapters && film.container.has_roles && part.from == 0.0;
    if chapters {
        let middle = (film.seconds * 500.0) as u64;
        let text = format!(
            ";FFMETADATA1\n[CHAPTER]\nTIMEBASE=1/1000\nSTART=0\nEND={middle}\ntitle=One \\; <1>\n\
             [CHAPTER]\nTIMEBASE=1/1000\nSTART={middle}\nEND={}\ntitle=Two & more\n",
            (film.seconds * 1000.0) as u64
        );
        write(folder, "chapters.txt", &text)?;
        arguments.extend(words("-f ffmetadata -i chapters.txt"));
    }
    let inputs = graphs(film, part).len() + film.texts.len();
    arguments.extend((0..inputs).flat_map(|input| ["-map".into(), input.to_string()]));
    arguments
        .extend(words(&format!("-map_chapters {}", if chapters { inputs as i32 } else { -1 })));
    arguments.extend(codecs(film));
    arguments.extend(labels(film, folder)?);
    arguments.extend(words(&format!(
        "-fps_mode passthrough -max_interleave_delta 0 -output_ts_offset {:.3} -strict -2 -f {}",
        part.offset_seconds, film.container.muxer
    )));
    arguments.push(name(&file));
    ffmpeg(folder, &arguments)?;
    Ok(file)
}

fn write(folder: &Path, file: &str, text: &str) -> Result<(), String> {
    fs::write(folder.join(file), text).map_err(|error| error.to_string())
}

/// ffmpeg's sources, each with the time at which it begins in this part: the picture, the decoy behind it, the sounds.
fn graphs(film: &Film, part: Part) -> Vec<(f64, String)> {
    let late = |seconds: f64| if part.from == 0.0 { seconds } else { 0.0 };
    let picture = film.picture.iter();
    let picture = picture.map(|one| (late(one.late_seconds), picture_graph(film, one, part)));
    let angle = (film.decoy == Decoy::Angle).then(|| {
        let seconds = film.seconds;
        let graph = format!("color=red:size=160x90:rate=25:duration={seconds:.3},format=yuv420p");
        (0.0, graph)
    });
    let sounds = film.sounds.iter().enumerate();
    let sounds = sounds
        .map(|(index, sound)| (late(sound.late_seconds), sound_graph(film, index, sound, part)));
    picture.chain(angle).chain(sounds).collect()
}

/// An expression that is 1 during events and 0 otherwise.
fn during_events(film: &Film) -> String {
    let between =
        |event: &f64| format!("between(t,{event:.3},{:.3})", event + EVENT_SECONDS - 0.0001);
    film.events.iter().map(between).collect::<Vec<_>>().join("+")
}

fn picture_graph(film: &Film, picture: &Picture, part: Part) -> String {
    let Picture { width, height, rate, patch: [red, green, blue], .. } = picture;
    let from = part.from.max(if part.from == 0.0 { picture.late_seconds } else { 0.0 });
    let to = part.to.min(film.seconds - picture.early_seconds);
    let mut graph = format!(
        "testsrc2=size={width}x{height}:rate={rate}:duration={:.3},format=gbrp,\
         drawbox=x=iw*0.2:y=ih*0.2:w=iw*0.6:h=ih*0.6:c=0x{red:02x}{green:02x}{blue:02x}:t=fill,\
         drawbox=c=white:t=fill:enable='{}'",
        film.seconds,
        during_events(film)
    );
    if picture.is_variable {
        graph.push_str(",select='lt(mod(n\\,7)\\,5)*gt(mod(n*n\\,11)\\,1)+eq(n\\,0)'");
    }
    let _ = write!(graph, ",trim=start={from:.3}:end={to:.3}");
    let form = match picture.codec {
        "h264rgb" => "format=rgb24".into(),
        "hevc" if picture.wide.is_some() => {
            "scale=out_color_matrix=bt2020:out_range=tv,format=yuv420p10le".into()
        }
        "mjpeg" => "scale=out_color_matrix=bt601:out_range=pc,format=yuvj420p".into(),
        "prores" => {
            format!("scale=out_color_matrix={}:out_range=tv,format=yuv422p10le", picture.matrix())
        }
        _ => format!("scale=out_color_matrix={}:out_range=tv,format=yuv420p", picture.matrix()),
    };
    let field = if picture.is_interlaced { ",setfield=tff" } else { "" };
    let _ = write!(graph, ",{form}{field},setsar={}", picture.pixel);
    graph
}

fn sound_graph(film: &Film, index: usize, sound: &Sound, part: Part) -> String {
    let from = part.from.max(if part.from == 0.0 { sound.late_seconds } else { 0.0 });
    let to = part.to.min(film.seconds - sound.early_seconds);
    let channels = channels(sound.layout);
    let same: String = (0..channels).map(|channel| format!("|c{channel}=c0")).collect();
    format!(
        "sine=frequency={}:sample_rate={}:samples_per_frame={}:duration={:.3},volume='4*({})':eval=frame,\
         pan={}{same},atrim=start={from:.3}:end={to:.3}",
        hertz(index),
        sound.sample_rate,
        sound.sample_rate / 200,
        film.seconds,
        during_events(film),
        sound.layout,
    )
}

/// The number of channels of a layout, by ffmpeg's name.
pub(crate) fn channels(layout: &str) -> u32 {
    match layout {
        "mono" => 1,
        "stereo" => 2,
        "quad" | "quad(side)" => 4,
        numbered => {
            let digits = numbered.split('(').next().unwrap_or_default().split('.');
            digits.map(|digit| digit.parse::<u32>().expect("a layout of ffmpeg")).sum()
        }
    }
}

impl Picture {
    /// The matrix of its pixels: as its tags say, else as players assume by its size.
    pub(crate) fn matrix(&self) -> &'static str {
        match self.colour {
            Some("bt709") => "bt709",
            Some(_) => "bt601",
            // JPEG, Theora and VP8 know no other one.
            None if ["mjpeg", "theora", "vp8"].contains(&self.codec) => "bt601",
            None if self.height >= 720 => "bt709",
            None => "bt601",
        }
    }
}

fn codecs(film: &Film) -> Vec<String> {
    let mut all = Vec::new();
    if let Some(picture) = &film.picture {
        all.extend(words(picture_encoder(picture.codec)));
        all.extend(words(&format!("-g {}", picture.group_frames)));
        if picture.b_frames > 0 || ["h264", "hevc"].contains(&picture.codec) {
            all.extend(words(&format!("-bf {}", picture.b_frames)));
        }
        let open = u32::from(picture.is_open);
        match picture.codec {
            "h264" => all.extend(words(&format!("-x264-params open-gop={open}"))),
            "hevc" => all.extend(words(&format!("-x265-params log-level=error:open-gop={open}"))),
            "mpeg2video" if open == 0 => {
                all.extend(words("-flags:v +cgop -sc_threshold 1000000000"))
            }
            _ => {}
        }
        if picture.is_interlaced {
            all.extend(words("-flags:v +ilme+ildct"));
        }
        if let Some(transfer) = picture.wide {
            // Some encoders tag nothing else.
            all.extend(words(&format!("-color_trc:v:0 {transfer}")));
            if picture.colour.is_some() {
                all.extend(words("-color_primaries:v:0 bt2020 -colorspace:v:0 bt2020nc"));
            }
        } else if let Some(tag) = picture.colour {
            let primaries = if tag == "bt470bg" { "bt470bg" } else { tag };
            let transfer = if tag == "bt470bg" { "gamma28" } else { tag };
            all.extend(words(&format!(
                "-colorspace:v:0 {tag} -color_primaries:v:0 {primaries} -color_trc:v:0 {transfer}"
            )));
        }
        if film.decoy == Decoy::Angle {
            all.extend(words("-c:v:1 libx264 -disposition:v:0 default -disposition:v:1 0"));
        }
    }
    for (index, sound) in film.sounds.iter().enumerate() {
        all.extend(words(&format!("-c:a:{index} {}", sound_encoder(sound.codec).0)));
    }
    for (index, text) in film.texts.iter().enumerate() {
        let codec = if text.codec == "mov_text" { "mov_text" } else { "copy" };
        all.extend(words(&format!("-c:s:{index} {codec}")));
    }
    all
}

/// Languages, roles, names and other tags.
fn labels(film: &Film, folder: &Path) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    let sounds = film.sounds.iter().map(|one| ("a", one.language, one.role, one.title));
    let texts = film.texts.iter().map(|one| ("s", one.language, one.role, one.title));
    let mut numbers = [0, 0];
    for (kind, language, role, title) in sounds.chain(texts) {
        let number = &mut numbers[usize::from(kind == "s")];
        let stream = format!("{kind}:{number}");
        *number += 1;
        for (key, value) in [("language", language), ("title", title)] {
            let Some(value) = value else { continue };
            all.extend([format!("-metadata:s:{stream}"), format!("{key}={value}")]);
        }
        if let Some(role) = role {
            all.extend([format!("-disposition:{stream}"), role.to_owned()]);
        }
    }
    if film.has_odd_tags {
        for tag in
            ["title=<b>\"A\" & 'B'</b>\nsecond line", "comment=--> %s \u{202e}abc", "x;y=\u{1f3ac}"]
        {
            all.extend(["-metadata".to_owned(), tag.to_owned()]);
        }
        if film.container.extension == "mkv" {
            write(folder, "font.ttf", "this is no font")?;
            all.extend(words(
                "-attach font.ttf -metadata:s:t mimetype=application/x-truetype-font",
            ));
        }
    }
    Ok(all)
}

fn extension(codec: &str) -> &'static str {
    match codec {
        // ffmpeg reads `< b && c >` in SubRip as a tag, and would write no such text into MP4.
        "ass" | "mov_text" => "ass",
        "webvtt" => "vtt",
        _ => "srt",
    }
}

/// The file of subtitles.
fn subtitles(text: &Text) -> String {
    let clock = |seconds: f64, separator: char, digits: usize| {
        let milliseconds = (seconds * 1000.0).round() as u64;
        let (whole, rest) = (milliseconds / 1000, milliseconds % 1000);
        let rest = if digits == 2 { rest / 10 } else { rest };
        format!(
            "{:02}:{:02}:{:02}{separator}{rest:0digits$}",
            whole / 3600,
            whole / 60 % 60,
            whole % 60
        )
    };
    let mut all = match extension(text.codec) {
        "ass" => "[Script Info]\nScriptType: v4.00+\n\n[V4+ Styles]\nFormat: Name, Fontname, Fontsize, Alignment\n\
            Style: Default,Arial,16,2\n\n[Events]\n\
            Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n"
            .to_owned(),
        "vtt" => "WEBVTT\n\n".to_owned(),
        _ => String::new(),
    };
    for (index, cue) in text.cues.iter().enumerate() {
        let (from, to, line) = (cue.start, cue.start + cue.seconds, &LINES[cue.line]);
        let _ = match extension(text.codec) {
            "ass" => writeln!(
                all,
                "Dialogue: 0,{},{},Default,,0,0,0,,{}",
                &clock(from, '.', 2)[1..],
                &clock(to, '.', 2)[1..],
                line.ass
            ),
            "vtt" => writeln!(
                all,
                "{} --> {} line:10%\n{}\n",
                clock(from, '.', 3),
                clock(to, '.', 3),
                line.webvtt
            ),
            _ => writeln!(
                all,
                "{}\n{} --> {}\n{}\n",
                index + 1,
                clock(from, ',', 3),
                clock(to, ',', 3),
                line.subrip
            ),
        };
    }
    if text.codec == "ass" {
        // A drawing is no text, and a line of no length is never shown.
        all.push_str(
            "Dialogue: 0,0:00:02.00,0:00:03.00,Default,,0,0,0,,{\\p1}m 0 0 l 100 0 100 100{\\p0}\n",
        );
        all.push_str("Dialogue: 0,0:00:03.50,0:00:03.50,Default,,0,0,0,,no length\n");
    }
    all
}
