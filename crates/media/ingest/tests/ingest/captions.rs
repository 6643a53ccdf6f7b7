//! Captions in the picture (CEA-608 and CEA-708) are declared if they are there, and their absence is declared, too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::judge::{judge, said};
use crate::library::{Library, options};
use crate::source::{ffmpeg_is_here, make};
use fullbore_ingest::ingest::{Ingested, Options, VideoCodec};
use tempfile::TempDir;

/// `cc_data` for one frame: a type and two bytes each.
type Triples = Vec<[u8; 3]>;

/// A film of two seconds in which frame N has a message with `triples(N)`.
fn captioned(triples: impl Fn(usize) -> Triples) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let bare = folder.path().join("bare.h264");
    // Without reordered frames, the stream has them in the order in which they are shown.
    let words = "-f lavfi -i testsrc2=size=320x180:rate=30:duration=2 -c:v libx264 -preset ultrafast -pix_fmt yuv420p";
    make(&format!("{words} -g 30 -bf 0 -x264-params threads=1 -f h264"), &bare);
    let plain = fs::read(&bare).expect("a file");
    fs::write(&bare, with_messages(&plain, triples)).expect("written");
    let film = folder.path().join("film.mp4");
    make(&format!("-f h264 -framerate 30 -i {} -c copy", bare.display()), &film);
    (folder, film)
}

/// Puts a message (SEI, ATSC A/53 part 4) in front of each frame of a bare stream of H.264 with one slice a frame.
fn with_messages(plain: &[u8], triples: impl Fn(usize) -> Triples) -> Vec<u8> {
    let (mut stream, mut frames) = (Vec::new(), 0);
    for (at, byte) in plain.iter().enumerate() {
        let is_slice = plain[at..].starts_with(&[0, 0, 1])
            && plain.get(at + 3).is_some_and(|head| [1, 5].contains(&(head & 0x1f)));
        if is_slice {
            let triples = triples(frames);
            frames += 1;
            let mut payload = b"\xb5\x00\x31GA94\x03".to_vec();
            payload.extend([0xc0 | triples.len() as u8, 0xff]);
            payload.extend(triples.concat());
            payload.push(0xff);
            stream.extend([0, 0, 0, 1, 6, 4, payload.len() as u8]);
            stream.extend(payload);
            stream.push(0x80);
        }
        stream.push(*byte);
    }
    assert_eq!(frames, 60);
    stream
}

/// A pair of bytes of CEA-608 for the first field, with odd parity.
fn pair(bytes: [u8; 2]) -> [u8; 3] {
    let [first, second] = bytes.map(|byte: u8| byte | u8::from(byte.count_ones() % 2 == 0) << 7);
    [0xfc, first, second]
}

/// Frame by frame, the caption "HELLO WORLD" in channel 1: loaded (each command twice), shown at frame 22, and erased at frame 45.
fn hello(frame: usize) -> Triples {
    let commands = |commands: &[[u8; 2]]| commands.iter().flat_map(|one| [*one; 2]).collect();
    let mut pairs: Vec<[u8; 2]> = vec![[0, 0]; 10];
    pairs.extend::<Vec<_>>(commands(&[[0x14, 0x20], [0x14, 0x2e], [0x14, 0x70]]));
    pairs.extend(b"HELLO WORLD ".chunks_exact(2).map(|two| [two[0], two[1]]));
    pairs.extend::<Vec<_>>(commands(&[[0x14, 0x2f]]));
    pairs.resize(45, [0, 0]);
    pairs.extend::<Vec<_>>(commands(&[[0x14, 0x2c]]));
    // The other field has a command of channel 3, and CEA-708 a block of the first service.
    let others = [[0xfd, 0x15, 0x2c], [0xff, 0x02, 0x21], [0xfe, 0x41, 0x42]];
    [vec![pair(*pairs.get(frame).unwrap_or(&[0, 0]))], others.to_vec()].concat()
}

/// What ffmpeg's decoder of captions finds in the pictures of `file`, as SubRip.
fn decoded(file: &Path) -> String {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-f", "lavfi", "-i"]);
    command.arg(format!("movie={}[out0+subcc]", file.display()));
    said(command.args(["-map", "0:s", "-f", "srt", "-"]))
}

/// The film with reordered frames: libx264 takes captions over, each with its frame.
fn reordered(film: &Path) -> PathBuf {
    let path = film.with_file_name("reordered.mp4");
    // With few threads, so that each frame is one slice.
    let words = "-c:v libx264 -preset veryfast -g 30 -bf 2 -b_strategy 0 -x264-params threads=1";
    make(&format!("-i {} {words}", film.display()), &path);
    let mut command = Command::new("ffprobe");
    command.args(["-v", "error", "-show_entries", "stream=has_b_frames", "-of", "csv=p=0"]);
    assert_ne!(said(command.arg(&path)).trim(), "0");
    path
}

fn ingested(film: &Path, options: &Options) -> (Library, Ingested, String, String) {
    let library = Library::new();
    let made = library.ingest(film, "captions", options).expect("a title");
    judge(&made.folder, &made.record);
    let read = |file: &str| fs::read_to_string(made.folder.join(file)).expect("a file");
    let (hls, dash) = (read("master.m3u8"), read("manifest.mpd"));
    (library, made, hls, dash)
}

fn are_declared(hls: &str, dash: &str) {
    for name in ["CC1", "CC3", "SERVICE1"] {
        assert!(hls.contains(&format!("INSTREAM-ID=\"{name}\"")), "{name}: {hls}");
    }
    let mut variants = hls.lines().filter(|line| line.starts_with("#EXT-X-STREAM"));
    assert!(variants.all(|line| line.ends_with("CLOSED-CAPTIONS=\"captions\"")), "{hls}");
    assert!(dash.contains("cc:cea-608:2015\" value=\"CC1=und;CC3=und\""), "{dash}");
    assert!(dash.contains("cc:cea-708:2015\" value=\"1=lang:und\""), "{dash}");
}

fn are_declared_as_none(hls: &str, dash: &str) {
    assert!(hls.contains("CLOSED-CAPTIONS=NONE") && !hls.contains("INSTREAM-ID"), "{hls}");
    assert!(!dash.contains("urn:scte"), "{dash}");
}

#[test]
fn captions_in_the_picture_are_declared_copied_or_encoded() {
    if !ffmpeg_is_here() {
        return;
    }
    let (_folder, film) = captioned(hello);
    // To ten milliseconds.
    let is_whole = |words: &str| {
        let [from, to] = ["00:00:00,73", "--> 00:00:01,50"].map(|time| words.contains(time));
        from && to && words.matches("HELLO WORLD").count() == 1
    };
    let reordered = reordered(&film);
    for film in [&film, &reordered] {
        assert!(is_whole(&decoded(film)), "{}", decoded(film));
    }
    let copy = Options { copy: true, ..options() };
    let cases = [
        (&film, &copy, 1),
        (&film, &options(), 2),
        (&reordered, &copy, 1),
        (&reordered, &options(), 2),
    ];
    for (film, options, sizes) in cases {
        let (_library, made, hls, dash) = ingested(film, options);
        are_declared(&hls, &dash);
        assert_eq!(made.record.video.len(), sizes);
        for video in &made.record.video {
            let words = decoded(&made.folder.join(&video.file));
            assert!(is_whole(&words), "{}: {words}", video.file);
        }
    }
}

#[test]
fn captions_that_an_encoder_drops_are_not_declared_but_noted() {
    if !ffmpeg_is_here() {
        return;
    }
    let (_folder, film) = captioned(hello);
    for video_codec in [VideoCodec::Hevc, VideoCodec::Av1] {
        let (_library, made, hls, dash) = ingested(&film, &Options { video_codec, ..options() });
        let has_note = made.notes.iter().any(|note| note.contains("captions in its picture"));
        // Later versions of ffmpeg may keep them.
        if decoded(&made.folder.join(&made.record.video[0].file)).is_empty() {
            are_declared_as_none(&hls, &dash);
            assert!(has_note, "{:?}", made.notes);
        } else {
            are_declared(&hls, &dash);
            assert!(!has_note, "{:?}", made.notes);
        }
    }
}

#[test]
fn padding_and_pictures_without_captions_are_declared_as_none() {
    if !ffmpeg_is_here() {
        return;
    }
    let copy = Options { copy: true, ..options() };
    for triples in [vec![[0xfc, 0x80, 0x80], [0xfd, 0x80, 0x80]], Vec::new()] {
        let (_folder, film) = captioned(|_| triples.clone());
        let (_library, _, hls, dash) = ingested(&film, &copy);
        are_declared_as_none(&hls, &dash);
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let song = folder.path().join("song.mp3");
    make("-f lavfi -i sine=440:duration=1 -c:a libmp3lame", &song);
    let (_library, _, hls, _) = ingested(&song, &copy);
    assert!(hls.contains("CLOSED-CAPTIONS=NONE"), "{hls}");
}
