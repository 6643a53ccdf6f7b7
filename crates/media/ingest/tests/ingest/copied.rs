//! `--copy` of streams that begin late or are cut: as browsers read them, which ignore empty edits, and drop frames before zero.

use std::fs::File;
use std::path::Path;

use crate::in_sync::{flashing, is_in_sync};
use crate::judge::judge;
use crate::library::{Library, options};
use crate::source::{ffmpeg_is_here, make};
use fullbore_ingest::ingest::{Ingested, Options};
use mp4_atom::{Any, ReadFrom};

fn copy() -> Options {
    Options { copy: true, segment_seconds: 1.0, ..options() }
}

/// When a browser shows or plays the first frame of a file: its decoding time, plus its shift, minus the start of the first edit. Chromium
/// ignores the edit list if its first edit is empty.
fn begins_seconds(file: &Path) -> f64 {
    let mut reader = File::open(file).expect("a file");
    let (mut timescale, mut edit) = (0, 0);
    while let Some(atom) = Option::<Any>::read_from(&mut reader).expect("boxes") {
        match atom {
            Any::Moov(moov) => {
                let track = &moov.trak[0];
                timescale = track.mdia.mdhd.timescale;
                let edits = track.edts.as_ref().and_then(|edits| edits.elst.as_ref());
                edit = edits.map_or(0, |edits| edits.entries[0].media_time.unwrap_or(0));
            }
            Any::Moof(moof) => {
                let decoded = moof.traf[0].tfdt.as_ref().expect("a time").base_media_decode_time;
                let shift = moof.traf[0].trun[0].entries[0].cts.unwrap_or(0);
                let ticks = i128::from(decoded) + i128::from(shift) - i128::from(edit);
                return ticks as f64 / f64::from(timescale);
            }
            _ => {}
        }
    }
    panic!("{}: no fragment", file.display());
}

/// Ingests `source` as a copy, and compares the starts of picture and sound.
fn begin(source: &Path, picture_seconds: f64, sound_seconds: f64) -> (Library, Ingested) {
    let library = Library::new();
    let made = library.ingest(source, "copied", &copy()).expect("a title");
    judge(&made.folder, &made.record);
    is_in_sync(source, &made.folder, &made.record);
    let found = [&made.record.video[0].file, &made.record.audio[0].file];
    let [picture, sound] = found.map(|file| begins_seconds(&made.folder.join(file)));
    let is_near = |found: f64, wanted: f64| (found - wanted).abs() < 0.002;
    assert!(
        is_near(picture, picture_seconds) && is_near(sound, sound_seconds),
        "{picture} {sound}"
    );
    (library, made)
}

#[test]
fn a_late_picture_or_sound_begins_where_it_belongs() {
    if !ffmpeg_is_here() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let film = flashing().display();
    let copied = |name: &str, late: &str, map: &str| {
        let source = folder.path().join(name);
        make(&format!("-i {film} -itsoffset {late} -i {film} {map} -c copy"), &source);
        source
    };
    // MP4 keeps the encoder's priming: 1024 samples before zero. In Matroska the film begins with them.
    let (_library, made) = begin(&copied("picture.mkv", "0.4", "-map 0:a -map 1:v"), 0.421, 0.0);
    assert_lasts(&made, 8.421);
    begin(&copied("picture.mp4", "0.4", "-map 0:a -map 1:v"), 0.4, -0.0213);
    let (_library, made) = begin(&copied("sound.mkv", "0.08", "-map 0:v -map 1:a"), 0.0, 0.059);
    assert_lasts(&made, 8.08);
    begin(&copied("picture.ts", "0.3", "-map 0:a -map 1:v"), 0.3213, 0.0);
}

/// The title lasts until its last picture or sound ends, even if that one begins late.
fn assert_lasts(made: &Ingested, seconds: f64) {
    let lasts = made.record.duration_seconds;
    assert!((lasts - seconds).abs() < 0.025, "{lasts} s instead of {seconds} s");
    let manifest =
        std::fs::read_to_string(made.folder.join(&made.record.dash)).expect("a manifest");
    let stated = format!("mediaPresentationDuration=\"PT{lasts:.3}S\"");
    assert!(manifest.contains(&stated), "no {stated} in {manifest}");
}

#[test]
fn a_clip_cut_in_the_middle_of_a_group_of_pictures_must_be_encoded() {
    if !ffmpeg_is_here() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let film = flashing().display();
    // The film has a key frame every second. ffmpeg puts frames since the last one into the clip, and an edit list that hides them.
    for from in ["2.5", "1.96"] {
        let clip = folder.path().join("clip.mp4");
        make(&format!("-ss {from} -i {film} -c copy"), &clip);
        let library = Library::new();
        let error = library.ingest(&clip, "clip", &copy()).expect_err("it has no picture at first");
        let said = error.to_string();
        assert!(said.contains("in the middle of a group of pictures"), "{said}");
        let made = library.ingest(&clip, "clip", &options()).expect("a title");
        assert!(begins_seconds(&made.folder.join(&made.record.video[0].file)).abs() < 0.001);
        is_in_sync(&clip, &made.folder, &made.record);
    }
}

#[test]
fn a_recording_whose_first_key_frame_comes_late_must_be_encoded() {
    if !ffmpeg_is_here() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = crate::sync::begins_in_the_middle(folder.path());
    let error = Library::new().ingest(&source, "late", &copy()).expect_err("no picture at first");
    assert!(error.to_string().contains("s after its sound, which --copy"), "{error}");
}
