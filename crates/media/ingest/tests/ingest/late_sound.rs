//! Sound that begins after the part of a file in which ffmpeg looks for streams by default.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::judge::{judge, probe};
use crate::library::{Library, options};
use crate::source::{ffmpeg_is_here, make};

const BLACK: &str = "-f lavfi -i color=black:size=160x90:rate=10";
const TONE: &str = "-f lavfi -i sine=440:duration=3";

/// Ingests `source`; the title has one sound, which lasts as long as the picture.
fn has_sound(source: &Path) {
    let library = Library::new();
    let made = library.ingest(source, "late", &options()).expect("a title");
    judge(&made.folder, &made.record);
    assert!(made.notes.is_empty(), "{:?}", made.notes);
    let [sound] = &made.record.audio[..] else { panic!("{:?}", made.record.audio) };
    let seconds = |file: &str| {
        let seconds = probe(&made.folder.join(file), "stream=duration");
        seconds.parse::<f64>().expect("a number")
    };
    let (sound, picture) = (seconds(&sound.file), seconds(&made.record.video[0].file));
    assert!((sound - picture).abs() < 0.2 && sound > 14.0, "{sound} and {picture}");
}

#[test]
fn sound_that_begins_long_after_the_picture_is_found() {
    if !ffmpeg_is_here() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (file, codecs) in [
        ("late.ts", "-c:v libx264 -preset ultrafast -c:a aac"),
        ("late.vob", "-c:v mpeg2video -c:a mp2"),
    ] {
        let source = folder.path().join(file);
        make(&format!("{BLACK}:duration=15 -itsoffset 12 {TONE} -map 0 -map 1 {codecs}"), &source);
        has_sound(&source);
    }
}

#[test]
fn sound_that_the_list_of_programs_names_only_later_is_found() {
    if !ffmpeg_is_here() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut bytes = Vec::new();
    for words in [
        format!("{BLACK}:duration=12 -c:v libx264 -preset ultrafast"),
        format!(
            "{BLACK}:duration=3 {TONE} -c:v libx264 -preset ultrafast -c:a aac -output_ts_offset 12"
        ),
    ] {
        let part = folder.path().join("part.ts");
        make(&words, &part);
        bytes.extend(fs::read(&part).expect("a file"));
    }
    let source = folder.path().join("joined.ts");
    fs::write(&source, bytes).expect("a file");
    has_sound(&source);
}

#[test]
fn a_sound_that_is_listed_and_never_comes_is_an_error() {
    if !ffmpeg_is_here() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("film.ts");
    make(&format!("{BLACK}:duration=3 {TONE} -c:v libx264 -preset ultrafast -c:a aac"), &source);
    // ffmpeg gives the second stream of a program this identifier.
    const SOUND: u16 = 0x101;
    let bytes = fs::read(&source).expect("a file");
    let is_sound = |packet: &&[u8]| u16::from_be_bytes([packet[1] & 0x1f, packet[2]]) == SOUND;
    let silent = bytes.chunks_exact(188).filter(|packet| !is_sound(packet));
    let silent: Vec<u8> = silent.flatten().copied().collect();
    assert!(silent.len() < bytes.len());
    fs::write(&source, silent).expect("a file");
    let library = Library::new();
    let error = library.ingest(&source, "silent", &options()).expect_err("its sound is lost");
    let said = error.to_string();
    assert!(
        said.contains("sound was not found: audio stream 1") && said.contains("-map 0:v"),
        "{said}"
    );
    assert!(library.names().is_empty(), "{:?}", library.names());
}

#[test]
fn a_recording_without_sound_becomes_a_silent_title_with_a_note() {
    if !ffmpeg_is_here() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let silent = |file: &str| {
        let source = folder.path().join(file);
        make(&format!("{BLACK}:duration=3 -c:v libx264 -preset ultrafast"), &source);
        source
    };
    let notes =
        |source: &Path| Library::new().ingest(source, "film", &options()).map(|made| made.notes);
    let recording = silent("film.ts");
    let found = notes(&recording).expect("a title");
    assert_eq!(found, ["no sound was found in it, so the title is silent"]);
    // In its middle, empty packets (ISO/IEC 13818-1 section 2.4.3.3), more than ingest reads ahead.
    let mut empty = [0xff; 188];
    empty[..4].copy_from_slice(&[0x47, 0x1f, 0xff, 0x10]);
    let whole = fs::read(&recording).expect("a file");
    let (begin, end) = whole.split_at(whole.len() / 2 / 188 * 188);
    let mut long = File::create(&recording).expect("a file");
    long.write_all(begin).expect("room");
    for _ in 0..201 {
        long.write_all(&empty.repeat((1 << 20) / 188 + 1)).expect("room");
    }
    long.write_all(end).expect("room");
    drop(long);
    let found = notes(&recording).expect("a title");
    assert_eq!(found, ["no sound was found in its first 200 MiB, so the title is silent"]);
    // Its container lists what it has.
    assert_eq!(notes(&silent("film.mkv")).expect("a title"), [""; 0]);
}
