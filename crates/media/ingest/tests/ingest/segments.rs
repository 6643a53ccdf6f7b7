//! Segments that are too short for players, and films with more segments than an index can list.

use std::path::Path;

use crate::judge::{frames, judge, media, tracks};
use crate::library::{Library, options};
use crate::source::{ffmpeg_is_here, make};
use catalog::Record;
use fullbore_ingest::ingest::{Ingested, Options};

/// Every segment that follows another lasts a tenth of a second or more.
pub(crate) fn none_is_too_short(title: &Path, record: &Record) {
    for file in tracks(record) {
        let segments = media(&title.join(&file).with_extension("m3u8")).segments;
        let short = segments.iter().skip(1).find(|one| one.duration < 0.0999);
        assert!(short.is_none(), "{file}: {short:?}");
    }
}

fn made(words: &str, options: &Options) -> Option<(Library, Ingested)> {
    if !ffmpeg_is_here() {
        return None;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("film.mkv");
    make(words, &source);
    let library = Library::new();
    let made = library.ingest(&source, "film", options).expect("a title");
    judge(&made.folder, &made.record);
    assert!(library.faults("film").is_empty(), "{:?}", library.faults("film"));
    Some((library, made))
}

#[test]
fn a_last_frame_is_part_of_the_segment_before_it() {
    // Two segments of 2 s, and a frame of 40 ms.
    let words = "-f lavfi -i testsrc2=size=160x90:rate=25:duration=4.04 -c:v libx264 -preset ultrafast -g 50";
    for copy in [false, true] {
        let Some((_library, made)) = made(words, &Options { copy, ..options() }) else { return };
        let video = &made.record.video[0];
        assert_eq!(video.segments, 2);
        let last = media(&made.folder.join(&video.playlist)).segments[1].duration;
        assert!((last - 2.04).abs() < 0.001, "{last}");
        for manifest in ["master.m3u8", "manifest.mpd"] {
            assert_eq!(frames(&made.folder.join(manifest), "0:v:0").len(), 101, "{manifest}");
        }
    }
}

#[test]
fn a_last_bit_of_sound_is_part_of_the_segment_before_it() {
    // 94 AAC frames of 1024 samples are 2.005 s: the second segment begins there, and lasts 0.05 s.
    let words = "-f lavfi -i sine=440:duration=2.055:sample_rate=48000 -c:a pcm_s16le";
    let Some((_library, made)) = made(words, &options()) else { return };
    assert_eq!(made.record.audio[0].segments, 1);
    assert!((made.record.duration_seconds - 2.06).abs() < 0.05, "{}", made.record.duration_seconds);
    let heard = |manifest: &str| frames(&made.folder.join(manifest), "0:a:0");
    // 2.055 s are 96.3 frames.
    assert!(heard("master.m3u8").len() >= 96);
    assert_eq!(heard("master.m3u8").len(), heard("manifest.mpd").len());
}

#[test]
fn a_last_segment_of_a_tenth_of_a_second_stays_one() {
    let words =
        "-f lavfi -i testsrc2=size=160x90:rate=20:duration=4.1 -c:v libx264 -preset ultrafast";
    let Some((_library, made)) = made(words, &options()) else { return };
    assert_eq!(made.record.video[0].segments, 3);
}

#[test]
fn a_film_with_too_many_segments_is_refused_at_once_with_the_length_that_would_do() {
    if !ffmpeg_is_here() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    // A second of sound whose time stamps say ten hours.
    let source = folder.path().join("long.mp4");
    make("-f lavfi -i sine=440:duration=1 -c:a aac -bsf:a setts=ts=TS*36000", &source);
    let library = Library::new();
    let short = Options { segment_seconds: 0.5, ..options() };
    let error = library.ingest(&source, "long", &short).expect_err("it has too many segments");
    let said = error.to_string();
    assert!(said.contains("a title can have at most 65535: use --segment-seconds 0.6"), "{said}");
    assert!(library.names().is_empty(), "{:?}", library.names());
}
