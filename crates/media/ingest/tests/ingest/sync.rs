//! Picture and sound stay in sync, although each rendition is made by a run of its own: recordings that begin in the middle, streams that
//! begin late, and clocks that jump.

use std::fs;
use std::path::{Path, PathBuf};

use crate::in_sync::{flashing, is_in_sync};
use crate::judge::{judge, probe};
use crate::library::{self, Library};
use crate::source::{ffmpeg_is_here, make};
use fullbore_ingest::ingest::Options;
use fullbore_ingest::{Ladder, Rung};
use tempfile::TempDir;

const H264: &str = "-c:v libx264 -preset veryfast -g 25 -c:a aac";
const HEVC: &str = "-c:v libx265 -preset ultrafast -x265-params log-level=error:keyint=50 -c:a ac3";
const MPEG2: &str = "-c:v mpeg2video -g 12 -bf 2 -c:a mp2";

/// One small size: renditions are made alike.
fn options() -> Options {
    let ladder = Ladder::new(vec![Rung { height: 90, kbps: 150 }]).expect("a ladder");
    Options { ladder, ..library::options() }
}

fn folder() -> Option<TempDir> {
    ffmpeg_is_here().then(|| tempfile::tempdir().expect("a temporary folder"))
}

/// Ingests `source` and compares its flashes and beeps with the title's.
fn stays_in_sync(source: &Path, options: &Options) {
    let library = Library::new();
    let made = library.ingest(source, "sync", options).expect("a title");
    judge(&made.folder, &made.record);
    is_in_sync(source, &made.folder, &made.record);
}

/// The flashing film, encoded with `codecs` into files whose clocks start at `starts`, then joined byte by byte.
pub(crate) fn joined(folder: &Path, codecs: &str, form: &str, starts: &[u32]) -> PathBuf {
    let film = flashing().display();
    let mut bytes = Vec::new();
    for start in starts {
        let part = folder.join(format!("part.{form}"));
        // Sound and picture end at different times, by up to a frame.
        make(&format!("-i {film} {codecs} -t 4 -output_ts_offset {start} -f {form}"), &part);
        bytes.extend(fs::read(&part).expect("a file"));
    }
    let path = folder.join(format!("joined.{form}"));
    fs::write(&path, bytes).expect("a file");
    path
}

/// A recording that begins between two key frames: the first twelfth of a stream is missing.
pub(crate) fn begins_in_the_middle(folder: &Path) -> PathBuf {
    let whole = folder.join("whole.ts");
    let words = "-c:v libx264 -preset veryfast -g 75 -keyint_min 75 -sc_threshold 0 -x264-params repeat-headers=1 \
                 -c:a aac -b:a 64k -f mpegts";
    make(&format!("-i {} {words}", flashing().display()), &whole);
    let bytes = fs::read(&whole).expect("a file");
    let cut = folder.join("cut.ts");
    const PACKET_BYTES: usize = 188;
    fs::write(&cut, &bytes[bytes.len() / 12 / PACKET_BYTES * PACKET_BYTES..]).expect("a file");
    cut
}

#[test]
fn a_recording_that_begins_in_the_middle_of_a_group_of_pictures() {
    let Some(folder) = folder() else { return };
    stays_in_sync(&begins_in_the_middle(folder.path()), &options());
}

#[test]
fn sound_or_picture_that_begins_late() {
    let Some(folder) = folder() else { return };
    let film = flashing().display();
    for (late, (codecs, form, extension)) in [
        ("-map 0:v -map 1:a", (H264, "mpegts", "ts")),
        ("-map 0:a -map 1:v", (MPEG2, "vob", "vob")),
        ("-map 0:a -map 1:v", ("-c:v libtheora -c:a libvorbis", "ogg", "ogv")),
    ] {
        let source = folder.path().join(format!("late.{extension}"));
        make(&format!("-i {film} -itsoffset 0.5 -i {film} {late} {codecs} -f {form}"), &source);
        stays_in_sync(&source, &options());
    }
}

#[test]
fn silence_before_a_late_sound_is_kept() {
    let Some(folder) = folder() else { return };
    let words = "-f lavfi -i testsrc2=size=160x90:rate=25:duration=4 -itsoffset 1.5 -f lavfi -i sine=440:duration=2.5 \
                 -c:v libx264 -preset ultrafast -c:a aac";
    let source = folder.path().join("late.ts");
    make(words, &source);
    let library = Library::new();
    let made = library.ingest(&source, "late", &options()).expect("a title");
    let seconds = probe(&made.folder.join(&made.record.audio[0].file), "stream=duration");
    assert!((seconds.parse::<f64>().expect("a number") - 4.0).abs() < 0.1, "{seconds}");
}

#[test]
fn clocks_that_jump_back_and_forth() {
    let Some(folder) = folder() else { return };
    for (codecs, form) in [(H264, "mpegts"), (HEVC, "mpegts"), (MPEG2, "vob")] {
        let source = joined(folder.path(), codecs, form, &[50, 3, 300]);
        stays_in_sync(&source, &options());
    }
}

#[test]
fn clocks_that_jump_by_a_few_seconds_or_wrap() {
    let Some(folder) = folder() else { return };
    // Two seconds forwards; six back. MPEG's clock wraps after 95,443.7 s.
    for starts in [&[300, 306][..], &[306, 304], &[95_440]] {
        let source = joined(folder.path(), H264, "mpegts", starts);
        stays_in_sync(&source, &options());
    }
}

#[test]
fn copies_of_recordings_with_jumps() {
    let Some(folder) = folder() else { return };
    let source = joined(folder.path(), H264, "mpegts", &[3, 100]);
    stays_in_sync(&source, &Options { copy: true, segment_seconds: 1.0, ..options() });
}
