//! The stated length of a film is that of its picture and its sound, counted from the first frame.

use std::fs;
use std::path::Path;

use crate::in_sync::flashing;
use crate::judge::judge;
use crate::library::{Library, options};
use crate::source::{ffmpeg_is_here, make};
use fullbore_ingest::ingest::{IngestError, Options};

const PICTURE: &str = "-f lavfi -i testsrc2=size=160x90:rate=15:duration=5";
const H264: &str = "-c:v libx264 -preset ultrafast";

/// Ingests `source`, which plays this many seconds; encoded, and copied if `codec` is one that can be.
fn plays(source: &Path, seconds: f64, can_be_copied: bool) {
    let library = Library::new();
    for copy in [false, true] {
        if copy && !can_be_copied {
            continue;
        }
        let made = library.ingest(source, "whole", &Options { copy, ..options() });
        let made = made.unwrap_or_else(|error| panic!("{}: {error}", source.display()));
        judge(&made.folder, &made.record);
        let found = made.record.duration_seconds;
        assert!((found - seconds).abs() < 0.3, "{}: {found}", source.display());
    }
}

#[test]
fn films_whose_timestamps_begin_late_are_whole() {
    if !ffmpeg_is_here() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("camera.mkv");
    make(&format!("{PICTURE} {H264} -output_ts_offset 10"), &source);
    plays(&source, 5.0, true);
    // Pieces as ffmpeg's segment muxer cuts them.
    for (form, codecs) in [("mkv", "-c copy"), ("mp4", "-c copy"), ("wmv", "-c:v wmv2 -c:a wmav2")]
    {
        let pieces = folder.path().join(format!("%d.{form}"));
        make(&format!("-i {} {codecs} -f segment -segment_time 4", flashing().display()), &pieces);
        plays(&folder.path().join(format!("1.{form}")), 4.0, codecs == "-c copy");
    }
}

#[test]
fn a_late_film_that_is_cut_short_is_still_refused() {
    if !ffmpeg_is_here() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("camera.mkv");
    make(&format!("{PICTURE} {H264} -output_ts_offset 10"), &source);
    let bytes = fs::read(&source).expect("a file");
    fs::write(&source, &bytes[..bytes.len() / 2]).expect("a file");
    let error = Library::new().ingest(&source, "half", &options()).expect_err("half of it is lost");
    assert!(matches!(error, IngestError::CutShort { .. }), "{error}");
}

#[test]
fn subtitles_that_outlast_the_film_do_not_count() {
    if !ffmpeg_is_here() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let words = folder.path().join("words.srt");
    fs::write(&words, "1\n00:00:01,000 --> 00:00:09,000\nThe end\n").expect("a file");
    let words = words.display();
    for (file, codec) in [("film.mkv", "srt"), ("film.mp4", "mov_text")] {
        let source = folder.path().join(file);
        make(&format!("{PICTURE} -i {words} {H264} -c:s {codec}"), &source);
        plays(&source, 5.0, true);
    }
    // A second picture is not part of the title.
    let source = folder.path().join("two.mkv");
    let longer = "-f lavfi -i color=size=160x90:rate=15:duration=9";
    make(&format!("{PICTURE} {longer} -map 0 -map 1 {H264} -disposition:v:0 default"), &source);
    plays(&source, 5.0, false);
}
