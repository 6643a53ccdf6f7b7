//! A file that cannot become a title causes one clear message, and leaves nothing visible.

use std::fs;
use std::path::Path;

use crate::library::{Library, options};
use crate::source::{ffmpeg_is_here, film, make, plain};
use fullbore_ingest::ingest::{IngestError, Options, Stop};

/// Ingests `source`, which must fail and leave nothing, visible or hidden; returns the message.
fn refused(source: &Path, options: &Options) -> String {
    let library = Library::new();
    let error = library.ingest(source, "refused", options).expect_err("it is no title");
    assert!(library.names().is_empty(), "{:?}", library.names());
    let line = error.to_string();
    assert!(!line.contains('\n'), "{line}");
    line
}

#[test]
fn a_text_in_a_videos_clothes_is_refused() {
    if !ffmpeg_is_here() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (file, text) in [("notes.mp4", "Buy milk.\n"), ("empty.mp4", ""), ("a.txt", "words\n")] {
        let source = folder.path().join(file);
        fs::write(&source, text).expect("a file");
        let said = refused(&source, &options());
        assert!(said.contains("not a video that ffmpeg can read"), "{file}: {said}");
    }
    assert!(refused(&folder.path().join("missing.mp4"), &options()).contains("cannot open"));
    assert!(refused(folder.path(), &options()).contains("not a file"));
}

#[test]
fn a_list_of_other_files_is_refused_whatever_it_is_called() {
    if !ffmpeg_is_here() {
        return;
    }
    let (folder, _source) = plain();
    let hls = "#EXTM3U\n#EXT-X-TARGETDURATION:6\n#EXTINF:6,\nplain.mp4\n#EXT-X-ENDLIST\n";
    for (file, text) in [("film.mp4", hls), ("film.mkv", "ffconcat version 1.0\nfile plain.mp4\n")]
    {
        let source = folder.path().join(file);
        fs::write(&source, text).expect("a file");
        let said = refused(&source, &options());
        assert!(said.contains("it only refers to other files"), "{file}: {said}");
    }
}

#[test]
fn a_file_that_is_cut_short_is_refused_wherever_its_head_is() {
    if !ffmpeg_is_here() {
        return;
    }
    let (folder, source) = plain();
    let whole = fs::read(&source).expect("a file");
    // Its head is in front: it states 6 seconds, and half of them are there.
    let half = folder.path().join("half.mp4");
    fs::write(&half, &whole[..whole.len() / 2]).expect("a file");
    let said = refused(&half, &options());
    assert!(said.contains("cut short: it should play 6.0 s"), "{said}");
    let copied = refused(&half, &Options { copy: true, ..options() });
    assert!(copied.contains("cut short"), "{copied}");
    // Its head is at its end.
    let behind = folder.path().join("behind.mp4");
    make(&format!("-i {} -c copy", source.display()), &behind);
    let whole = fs::read(&behind).expect("a file");
    fs::write(&half, &whole[..whole.len() / 2]).expect("a file");
    assert!(refused(&half, &options()).contains("moov atom not found"));
    // Matroska reports it as well.
    let whole = fs::read(film()).expect("a file");
    let half = folder.path().join("half.mkv");
    fs::write(&half, &whole[..whole.len() / 2]).expect("a file");
    assert!(refused(&half, &options()).contains("cut short"));
}

#[test]
fn what_browsers_do_not_play_is_not_copied() {
    if !ffmpeg_is_here() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("old.avi");
    make("-f lavfi -i testsrc2=size=160x90:rate=15:duration=1 -c:v mpeg4", &source);
    let said = refused(&source, &Options { copy: true, ..options() });
    assert!(said.contains("this is mpeg4") && said.contains("leave --copy out"), "{said}");
}

#[test]
fn a_folder_that_is_not_ours_is_not_replaced() {
    if !ffmpeg_is_here() {
        return;
    }
    let (_folder, source) = plain();
    let library = Library::new();
    let foreign = library.title("mine");
    fs::create_dir(&foreign).expect("a folder");
    fs::write(foreign.join("holiday.jpg"), "a picture").expect("a file");
    let copy = Options { copy: true, ..options() };
    let error = library.ingest(&source, "mine", &copy).expect_err("it is the user's");
    assert!(matches!(error, IngestError::Foreign(_)), "{error}");
    assert_eq!(crate::library::names(&foreign), ["holiday.jpg"]);
}

#[test]
fn of_two_at_once_one_makes_the_title_and_the_other_says_why_not() {
    if !ffmpeg_is_here() {
        return;
    }
    let (_folder, source) = plain();
    let library = Library::new();
    let mut other = None;
    let made = library.ingest_with(&source, "twice", &options(), &Stop::default(), |_| {
        if other.is_none() {
            other = Some(library.ingest(&source, "twice", &options()));
        }
    });
    made.expect("the first makes it");
    let error = other.expect("it was tried").expect_err("the second cannot");
    assert!(matches!(error, IngestError::Busy(_)), "{error}");
    assert_eq!(library.names(), ["twice"]);
}

#[test]
fn a_disk_that_is_full_is_said_beforehand() {
    if !ffmpeg_is_here() {
        return;
    }
    // Twelve days of a still picture: ingest must notice the lack of space without reading it to its end.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("long.mkv");
    make(
        "-f lavfi -i color=size=3840x2160:rate=1/100000:duration=1000000 -c:v libx264 -preset ultrafast",
        &source,
    );
    let ladder =
        fullbore_ingest::Ladder::new(vec![fullbore_ingest::Rung { height: 2160, kbps: 1_000_000 }]);
    let large = Options { ladder: ladder.expect("a ladder"), ..options() };
    let said = refused(&source, &large);
    assert!(said.contains("MB free, but this takes some"), "{said}");
}
