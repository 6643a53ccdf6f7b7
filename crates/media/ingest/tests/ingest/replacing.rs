//! A title that is ingested again.

use std::fs;

use crate::judge::judge;
use crate::library::{Library, names, options, path};
use crate::source::{ffmpeg_is_here, plain};
use fullbore_ingest::ingest::{Options, Outcome};

fn copy() -> Options {
    Options { copy: true, ..options() }
}

#[test]
fn the_same_again_is_nothing_to_do() {
    if !ffmpeg_is_here() {
        return;
    }
    let (_folder, source) = plain();
    let library = Library::new();
    let first = library.ingest(&source, "film", &copy()).expect("a title");
    let again = library.ingest(&source, "film", &copy()).expect("a title");
    assert_eq!(again.outcome, Outcome::Kept);
    assert_eq!(again.record, first.record);
    // Not if one of its files is missing.
    fs::remove_file(first.folder.join(&first.record.video[0].file)).expect("a file");
    let mended = library.ingest(&source, "film", &copy()).expect("a title");
    assert_eq!(mended.outcome, Outcome::Replaced);
    judge(&mended.folder, &mended.record);
}

#[test]
fn whoever_watches_the_old_one_still_finds_its_files() {
    if !ffmpeg_is_here() {
        return;
    }
    let (_folder, source) = plain();
    let library = Library::new();
    let old = library.ingest(&source, "film", &copy()).expect("a title");
    let shorter = Options { segment_seconds: 1.0, ..copy() };
    let new = library.ingest(&source, "film", &shorter).expect("a title");
    assert_eq!(new.outcome, Outcome::Replaced);
    judge(&new.folder, &new.record);
    assert_ne!(old.record.folder, new.record.folder);
    for file in &old.record.files {
        assert!(new.folder.join(&file.path).exists(), "{} is gone", file.path);
    }
    assert_eq!(library.faults("film"), []);

    assert_eq!(catalog::remove_replaced(library.path(), &path("film")).expect("removed"), 1);
    assert!(!new.folder.join(&old.record.folder).exists());
    assert_eq!(library.faults("film"), []);
    assert_eq!(library.names(), ["film"]);
    let expected = [new.record.folder.as_str(), "manifest.mpd", "master.m3u8", "title.json"];
    let mut expected: Vec<_> = expected.into();
    expected.extend(new.record.manifest_forms.iter().map(|form| form.path.as_str()));
    expected.sort_unstable();
    assert_eq!(names(&new.folder), expected);
}

#[test]
fn a_name_in_another_form_of_unicode_is_the_same_title() {
    if !ffmpeg_is_here() {
        return;
    }
    let (_folder, source) = plain();
    let (composed, decomposed) = ("Am\u{e9}lie", "Ame\u{301}lie");
    let library = Library::new();
    let made = library.ingest(&source, decomposed, &copy()).expect("a title");
    assert_eq!((made.outcome, made.record.title.as_str()), (Outcome::Made, composed));
    let shorter = Options { segment_seconds: 1.0, ..copy() };
    let again = library.ingest(&source, decomposed, &shorter).expect("a title");
    assert_eq!(again.outcome, Outcome::Replaced);
    assert_eq!(library.names(), [composed]);
    // A title that is decomposed on the disk, as one copied from a Mac.
    fs::rename(library.title(composed), library.title(decomposed)).expect("renamed");
    let again = library.ingest(&source, composed, &copy()).expect("a title");
    assert_eq!(again.outcome, Outcome::Replaced);
    assert_eq!(library.names(), [decomposed]);
    judge(&again.folder, &again.record);
}

#[test]
fn made_again_on_request_the_title_has_another_folder_even_for_the_same_bytes() {
    if !ffmpeg_is_here() {
        return;
    }
    let (_folder, source) = plain();
    let library = Library::new();
    let first = library.ingest(&source, "film", &copy()).expect("a title");
    let again = Options { again: true, ..copy() };
    let second = library.ingest(&source, "film", &again).expect("a title");
    assert_eq!(second.outcome, Outcome::Replaced);
    assert_ne!(first.record.folder, second.record.folder);
    assert_eq!(second.record.replaced.len(), 1);
    judge(&second.folder, &second.record);
}

#[test]
fn what_somebody_who_was_cut_off_has_left_in_a_title_is_removed_like_what_was_replaced() {
    if !ffmpeg_is_here() {
        return;
    }
    let (_folder, source) = plain();
    let library = Library::new();
    let first = library.ingest(&source, "film", &copy()).expect("a title");
    let left = first.folder.join("v-0123456789ab");
    fs::create_dir(&left).expect("a folder");
    fs::write(left.join("video-180.mp4"), "a version that was never announced").expect("a file");
    let again = Options { again: true, ..copy() };
    let second = library.ingest(&source, "film", &again).expect("a title");
    let mut replaced: Vec<_> =
        second.record.replaced.iter().map(|one| one.folder.as_str()).collect();
    replaced.sort_unstable();
    let mut expected = ["v-0123456789ab", first.record.folder.as_str()];
    expected.sort_unstable();
    assert_eq!(replaced, expected);
    assert_eq!(catalog::remove_replaced(library.path(), &path("film")).expect("removed"), 2);
    assert!(!left.exists());
}
