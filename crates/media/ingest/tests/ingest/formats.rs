//! The accepted formats, as docs/library.md lists them. The name of a file does not matter.

use std::fs;

use crate::judge::judge;
use crate::library::{Library, options};
use crate::source::{ffmpeg_is_here, make, plain};
use fullbore_ingest::ingest::{Options, SideSubtitles};
use fullbore_ingest::{Ladder, Rung};

const PICTURE: &str = "-f lavfi -i testsrc2=size=160x90:rate=25:duration=1";
const SOUND: &str = "-f lavfi -i sine=440:duration=1";

#[test]
fn films_of_every_kind_are_taken_whatever_they_are_called() {
    if !ffmpeg_is_here() {
        return;
    }
    let ladder = Ladder::new(vec![Rung { height: 90, kbps: 150 }]).expect("a ladder");
    let options = Options { ladder, ..options() };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("a film");
    for (format, codecs) in [
        ("mp4", "-c:v libx264 -preset ultrafast -c:a aac"),
        ("mov", "-c:v prores -c:a pcm_s16le"),
        ("matroska", "-c:v libx264 -preset ultrafast -c:a ac3"),
        ("webm", "-c:v libvpx -c:a libopus"),
        ("mpegts", "-c:v libx264 -preset ultrafast -c:a aac"),
        ("mpeg", "-c:v mpeg2video -c:a mp2"),
        ("avi", "-c:v mpeg4 -c:a mp3"),
        ("flv", "-c:v flv -c:a mp3 -ar 44100"),
        ("asf", "-c:v msmpeg4 -c:a wmav2"),
        ("ogg", "-c:v libtheora -c:a libvorbis"),
        ("mxf", "-c:v mpeg2video -c:a pcm_s16le -ar 48000"),
        ("nut", "-c:v ffv1 -c:a pcm_s16le"),
    ] {
        make(&format!("{PICTURE} {SOUND} -shortest {codecs} -f {format}"), &source);
        let library = Library::new();
        let made = library.ingest(&source, "film", &options);
        let made = made.unwrap_or_else(|error| panic!("{format}: {error}"));
        assert_eq!((made.record.video.len(), made.record.audio.len()), (1, 1), "{format}");
        assert!(made.notes.is_empty(), "{format}: {:?}", made.notes);
    }
}

#[test]
fn sound_of_every_kind_is_taken_whatever_it_is_called() {
    if !ffmpeg_is_here() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("a song");
    for (format, codec) in [
        ("wav", "pcm_s16le"),
        ("flac", "flac"),
        ("mp3", "libmp3lame"),
        ("adts", "aac"),
        ("ogg", "libvorbis"),
        ("ac3", "ac3"),
        ("aiff", "pcm_s16be"),
    ] {
        make(&format!("{SOUND} -c:a {codec} -f {format}"), &source);
        let library = Library::new();
        let made = library.ingest(&source, "song", &options());
        let made = made.unwrap_or_else(|error| panic!("{format}: {error}"));
        assert!(made.record.video.is_empty() && made.record.audio.len() == 1, "{format}");
        assert!(made.notes.is_empty(), "{format}: {:?}", made.notes);
    }
}

#[test]
fn subtitles_of_three_kinds_are_taken_whatever_they_are_called() {
    if !ffmpeg_is_here() {
        return;
    }
    let (folder, source) = plain();
    let ass = "[Script Info]\nScriptType: v4.00+\n\n[Events]\n\
        Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n\
        Dialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,Hello\n";
    let side = |file: &str, text: &str| {
        let path = folder.path().join(file);
        fs::write(&path, text).expect("a file");
        SideSubtitles { language: "en".into(), path, ..SideSubtitles::default() }
    };
    let subtitles = vec![
        side("one", "1\n00:00:01,000 --> 00:00:02,000\nHello\n"),
        side("two", "WEBVTT\n\n00:01.000 --> 00:02.000\nHello\n"),
        side("three", ass),
        // As saved by editors on other systems: with a byte order mark and other line ends.
        side("four", "\u{feff}1\r\n00:00:01,000 --> 00:00:02,000\r\nHello\r\n"),
    ];
    let library = Library::new();
    let options = Options { copy: true, subtitles, ..options() };
    let made = library.ingest(&source, "words", &options).expect("a title");
    judge(&made.folder, &made.record);
    assert_eq!(made.record.subtitles.len(), 4);
    for one in &made.record.subtitles {
        let text = fs::read_to_string(made.folder.join(&one.file)).expect("a file");
        assert!(text.contains("00:01.000 --> 00:02.000") && text.contains("Hello"), "{text}");
    }
}
