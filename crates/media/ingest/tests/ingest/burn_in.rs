//! Subtitles that are pictures (PGS, VobSub, DVB): burnt into every size on request, at their place and time; named in a note otherwise.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::judge::{frames, judge};
use crate::library::{Library, options};
use crate::source::{ffmpeg_is_here, make};
use fullbore_ingest::ingest::{BurnIn, Ingested, Options};
use tempfile::TempDir;

/// A green bar on the canvas of a Blu-ray disc.
struct Bar {
    from_seconds: f64,
    to_seconds: f64,
    x: u16,
    y: u16,
    is_forced: bool,
}

const CANVAS: (u16, u16) = (640, 360);
const BAR: (u16, u16) = (160, 40);
/// In the middle, 20 lines above the lower edge.
const PLAIN: Bar = Bar { from_seconds: 0.5, to_seconds: 1.0, x: 240, y: 300, is_forced: false };
const FORCED: Bar = Bar { from_seconds: 1.5, to_seconds: 2.0, is_forced: true, ..PLAIN };

/// A segment of PGS: header, times in ticks of 90 kHz, kind, length.
fn segment(seconds: f64, kind: u8, content: &[u8]) -> Vec<u8> {
    let ticks = ((seconds * 90_000.0) as u32).to_be_bytes();
    let length = (content.len() as u16).to_be_bytes();
    [&b"PG"[..], &ticks, &[0; 4], &[kind], &length, content].concat()
}

/// A file of PGS, in the form that discs have (US patent 7620297 B2, and ffmpeg's decoder).
fn pgs(bars: &[Bar]) -> Vec<u8> {
    let two = u16::to_be_bytes;
    let size = [two(CANVAS.0), two(CANVAS.1)].concat();
    let head = |number: usize, objects: &[u8]| {
        [&size[..], &[0x10], &two(number as u16), &[0x80, 0, 0], objects].concat()
    };
    // ffmpeg moves the file to its first packet, so it begins with an empty one.
    let mut file = [segment(0.0, 0x16, &head(0, &[0])), segment(0.0, 0x80, &[])].concat();
    for (nth, bar) in bars.iter().enumerate() {
        let (x, y) = (two(bar.x), two(bar.y));
        let place = [&x[..], &y].concat();
        let flags = if bar.is_forced { 0x40 } else { 0 };
        let bar_size = [two(BAR.0), two(BAR.1)].concat();
        let window = [&[1, 0][..], &place, &bar_size].concat();
        // Each line: a run of colour 1, and the end of the line.
        let line = [0, 0xc0 | (BAR.0 >> 8) as u8, BAR.0 as u8, 1, 0, 0];
        let bitmap = [&bar_size[..], &line.repeat(BAR.1.into())].concat();
        let length = (bitmap.len() as u32).to_be_bytes();
        let object = [&[0, 0, 0, 0xc0][..], &length[1..], &bitmap].concat();
        let shown = [&[1, 0, 0, 0, flags][..], &place].concat();
        let begin = bar.from_seconds;
        file.extend(segment(begin, 0x16, &head(2 * nth + 1, &shown)));
        file.extend(segment(begin, 0x17, &window));
        // Green by BT.601, which this size of canvas has: Y, Cr, Cb, opacity.
        file.extend(segment(begin, 0x14, &[0, 0, 1, 145, 34, 54, 255]));
        file.extend(segment(begin, 0x15, &object));
        file.extend(segment(begin, 0x80, &[]));
        file.extend(segment(bar.to_seconds, 0x16, &head(2 * nth + 2, &[0])));
        file.extend(segment(bar.to_seconds, 0x17, &window));
        file.extend(segment(bar.to_seconds, 0x80, &[]));
    }
    file
}

/// A blue film of three seconds and this size, with an English and a German track of these bars, muxed by `words` into `name`.
fn film(size: &str, words: &str, name: &str, bars: &[Bar]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (subtitles, path) = (folder.path().join("bars.sup"), folder.path().join(name));
    fs::write(&subtitles, pgs(bars)).expect("room");
    make(
        &format!(
            "-f lavfi -i color=0x000080:size={size}:rate=10:duration=3 -f lavfi -i sine=440:duration=3 -fix_sub_duration -i {} \
             -map 0:v -map 1:a -map 2:s -map 2:s -c:v libx264 -preset ultrafast -pix_fmt yuv420p -c:a aac \
             -metadata:s:s:0 language=eng -metadata:s:s:1 language=ger {words}",
            subtitles.display()
        ),
        &path,
    );
    (folder, path)
}

fn ingested(film: &Path, burn_in: &str) -> (Library, Ingested) {
    let library = Library::new();
    let burn_in = Some(BurnIn::parse(burn_in).expect("a track"));
    let made = library.ingest(film, "film", &Options { burn_in, ..options() }).expect("a title");
    judge(&made.folder, &made.record);
    assert!(library.faults("film").is_empty());
    (library, made)
}

/// The colour at this time and place, in parts of the picture's sides.
fn colour(file: &Path, seconds: f64, x: f64, y: f64) -> [u8; 3] {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-ss", &seconds.to_string(), "-i"]).arg(file);
    let filter = format!("format=rgb24,crop=1:1:iw*{x}:ih*{y}");
    command.args(["-vf", &filter, "-frames:v", "1", "-f", "rawvideo", "-"]);
    let bytes = command.output().expect("ffmpeg").stdout;
    bytes.try_into().unwrap_or_else(|bytes| panic!("{}: {bytes:?}", file.display()))
}

fn is_near(one: [u8; 3], other: [u8; 3]) -> bool {
    one.iter().zip(other).all(|(a, b)| a.abs_diff(b) <= 12)
}

const GREEN: [u8; 3] = [0, 255, 0];
const BLUE: [u8; 3] = [0, 0, 128];

/// In every size, the middle of the bar is green at the times `shown`, and blue at the other ones.
fn is_burnt_in(made: &Ingested, (x, y): (f64, f64), shown: &[f64]) {
    for video in &made.record.video {
        let file = made.folder.join(&video.file);
        // A frame may be on either side of its beginning and its end, because times of subtitles are between frames.
        for time in [0.2, 0.4, 0.7, 0.9, 1.2, 1.4, 1.7, 1.9, 2.2, 2.5] {
            let expected = if shown.contains(&time) { GREEN } else { BLUE };
            let found = colour(&file, time, x, y);
            assert!(is_near(found, expected), "{} at {time}: {found:?}", video.file);
        }
        let above = colour(&file, 0.7, x, 0.3);
        assert!(is_near(above, BLUE), "{}: {above:?}", video.file);
    }
}

const BOTH: [f64; 4] = [0.7, 0.9, 1.7, 1.9];
const ONLY_FORCED: [f64; 2] = [1.7, 1.9];

#[test]
fn pictures_of_words_are_burnt_into_every_size_at_their_place_and_time() {
    if !ffmpeg_is_here() {
        return;
    }
    let (_folder, path) = film("320x180", "-c:s copy", "film.mkv", &[PLAIN, FORCED]);
    let (_library, made) = ingested(&path, "eng");
    assert_eq!(made.record.video.len(), 2);
    is_burnt_in(&made, (0.5, 320.0 / 360.0), &BOTH);
    let burnt_in = made.record.burnt_in.as_ref().expect("it says so");
    assert_eq!((burnt_in.stream, burnt_in.is_forced), (2, false));
    assert_eq!(burnt_in.language.as_deref(), Some("en"));
    assert_eq!(burnt_in.codec, "hdmv_pgs_subtitle");
    // The other track is left out.
    let [note] = &made.notes[..] else { panic!("{:?}", made.notes) };
    assert!(note.contains("subtitle stream 3 (hdmv_pgs_subtitle: pictures"), "{note}");
    let (_library, made) = ingested(&path, "3:forced");
    is_burnt_in(&made, (0.5, 320.0 / 360.0), &ONLY_FORCED);
    assert!(made.record.burnt_in.as_ref().is_some_and(|one| one.is_forced && one.stream == 3));
}

#[test]
fn a_canvas_of_another_shape_is_burnt_in_whole() {
    if !ffmpeg_is_here() {
        return;
    }
    // Black bars were cut off: the canvas of 16:9 has 234 of 320 columns, and all lines.
    let (_folder, path) = film("320x132", "-c:s copy", "film.mkv", &[PLAIN, FORCED]);
    let (_library, made) = ingested(&path, "2");
    is_burnt_in(&made, (0.5, 320.0 / 360.0), &BOTH);
    for video in &made.record.video {
        // The bar is a quarter of the canvas wide, less than a fifth of the film.
        let outside = colour(&made.folder.join(&video.file), 0.7, 0.385, 320.0 / 360.0);
        assert!(is_near(outside, BLUE), "{outside:?}");
    }
    // Pixels of the film are not square: the canvas, as wide as the stored picture, has the same.
    let words = "-c:s copy -aspect 4:3";
    let (_folder, path) = film("640x360", words, "film.mkv", &[PLAIN, FORCED]);
    let (_library, made) = ingested(&path, "2");
    is_burnt_in(&made, (0.5, 320.0 / 360.0), &BOTH);
}

#[test]
fn subtitles_of_dvds_and_broadcasts_are_burnt_in() {
    if !ffmpeg_is_here() {
        return;
    }
    for (words, name, codec) in [
        ("-c:s dvdsub", "film.mkv", "dvd_subtitle"),
        ("-c:s dvbsub -f mpegts", "film.ts", "dvb_subtitle"),
    ] {
        let (_folder, path) = film("640x360", words, name, &[PLAIN, FORCED]);
        let (_library, made) = ingested(&path, "en");
        assert_eq!(made.record.burnt_in.as_ref().map(|one| one.codec.as_str()), Some(codec));
        is_burnt_in(&made, (0.5, 320.0 / 360.0), &BOTH);
    }
}

#[test]
fn subtitles_that_outlast_the_film_do_not_make_it_longer() {
    if !ffmpeg_is_here() {
        return;
    }
    let words = "-c:s copy -t:v 1.8 -t:a 1.8";
    for bars in [&[PLAIN, FORCED][..], &[PLAIN]] {
        let (_folder, path) = film("320x180", words, "film.mkv", bars);
        let (_library, made) = ingested(&path, "en");
        for video in &made.record.video {
            let frames = frames(&made.folder.join(&video.file), "0:v");
            assert_eq!(frames.len(), 18, "{}", video.file);
        }
        let complaint = made.notes.iter().find(|note| note.contains("ffmpeg reports"));
        assert_eq!(complaint, None);
    }
}

#[test]
fn a_request_that_cannot_be_met_is_refused_before_anything_is_encoded() {
    if !ffmpeg_is_here() {
        return;
    }
    let (_folder, path) = film("320x180", "-c:s copy", "film.mkv", &[PLAIN]);
    let library = Library::new();
    let refused = |burn_in: &str, copy: bool| {
        let burn_in = BurnIn::parse(burn_in);
        let options = Options { burn_in, copy, ..options() };
        library.ingest(&path, "film", &options).expect_err("a refusal").to_string()
    };
    let said = refused("fr", false);
    assert!(said.contains("nothing fits --burn-in fr") && said.contains("2 (en, "), "{said}");
    assert!(refused("1", false).contains("3 (de, hdmv_pgs_subtitle)"));
    assert!(refused("en", true).contains("leave --copy out"));
    assert!(library.names().is_empty());
    // Without a request, a note says what to do.
    let made = library.ingest(&path, "film", &options()).expect("a title");
    assert!(made.record.burnt_in.is_none());
    assert!(made.notes.iter().any(|note| note.contains("burn them in with --burn-in 2")));
}
