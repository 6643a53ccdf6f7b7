//! Compressed forms of a title's text files.

use std::fs;
use std::io::Read;
use std::path::Path;

use catalog::{BROTLI, Fault, GZIP, Record, RecordError, put_over};

use crate::library::{Library, names, options};
use crate::source::{ffmpeg_is_here, plain};
use fullbore_ingest::ingest::{Ingested, Options};

/// Many segments, so that playlists are long enough to be compressed.
fn ingested(library: &Library, segment_seconds: f64) -> Ingested {
    let (_folder, source) = plain();
    let options = Options { copy: true, segment_seconds, ..options() };
    library.ingest(&source, "film", &options).expect("a title")
}

/// The paths of all forms that a title should have: those in its version's folder and those of its manifests.
fn forms(record: &Record) -> Vec<String> {
    let paths = record.files.iter().chain(&record.manifest_forms).map(|file| file.path.clone());
    paths.filter(|path| path.ends_with(BROTLI) || path.ends_with(GZIP)).collect()
}

fn decompressed(path: &Path) -> Vec<u8> {
    let (bytes, mut text) = (fs::read(path).expect("a form"), Vec::new());
    let read = match path.extension().and_then(|extension| extension.to_str()) {
        Some("gz") => flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut text),
        _ => brotli::Decompressor::new(&bytes[..], 4096).read_to_end(&mut text),
    };
    read.expect("compressed");
    text
}

/// Each form is of its file, and has the same time.
#[track_caller]
fn assert_whole(folder: &Path, record: &Record) {
    for form in forms(record) {
        let (form, file) = (folder.join(&form), folder.join(&form[..form.len() - BROTLI.len()]));
        assert!(decompressed(&form) == fs::read(&file).expect("a file"), "{}", form.display());
        let modified =
            |path| fs::metadata(path).and_then(|found| found.modified()).expect("a time");
        assert_eq!(modified(&form), modified(&file), "{}", form.display());
        assert!(form.metadata().expect("a form").len() < file.metadata().expect("a file").len());
    }
}

#[test]
fn playlists_and_manifests_have_forms_that_are_part_of_the_title() {
    if !ffmpeg_is_here() {
        return;
    }
    let library = Library::new();
    let made = ingested(&library, 1.0);
    let folder = &made.record.folder;
    let found = forms(&made.record);
    for name in ["master.m3u8", "manifest.mpd"] {
        for suffix in [BROTLI, GZIP] {
            assert!(found.contains(&format!("{name}{suffix}")), "{name}: {found:?}");
            assert!(made.folder.join(format!("{name}{suffix}")).is_file());
        }
    }
    for video in &made.record.video {
        for suffix in [BROTLI, GZIP] {
            assert!(found.contains(&format!("{}{suffix}", video.playlist)), "{found:?}");
        }
    }
    assert!(found.iter().all(|path| !path.contains(".mp4") && !path.contains(".jpg")), "{found:?}");
    assert_whole(&made.folder, &made.record);
    assert_eq!(library.faults("film"), []);

    // A damaged form is a fault, wherever it is; a manifest's may be missing.
    let of_version = found.iter().find(|path| path.starts_with(folder)).expect("a form");
    for path in [of_version, &"master.m3u8.br".to_owned()] {
        let place = made.folder.join(path);
        let mut bytes = fs::read(&place).expect("a form");
        bytes[5] ^= 1;
        fs::write(&place, &bytes).expect("written");
        assert_eq!(
            library.faults("film"),
            [Fault::Content { path: path.clone(), blocks: vec![0] }]
        );
        bytes[5] ^= 1;
        fs::write(&place, &bytes).expect("written");
    }
    fs::remove_file(made.folder.join("master.m3u8.br")).expect("a form");
    assert_eq!(library.faults("film"), []);
}

#[test]
fn a_replaced_title_has_the_forms_of_its_new_manifests_only() {
    if !ffmpeg_is_here() {
        return;
    }
    let library = Library::new();
    let old = ingested(&library, 1.0);
    let left = old.folder.join("manifest.mpd.br");
    let (old_form, old_manifest) =
        (fs::read(&left).expect("a form"), fs::read(old.folder.join("manifest.mpd")));
    let new = ingested(&library, 2.0);
    assert_ne!(new.record.folder, old.record.folder);
    assert!(fs::read(new.folder.join("manifest.mpd")).ok() != old_manifest.ok());
    assert!(fs::read(&left).expect("a form") != old_form);
    assert_whole(&new.folder, &new.record);
    assert_eq!(library.faults("film"), []);
    let compressed = |name: &String| name.ends_with(BROTLI) || name.ends_with(GZIP);
    let at_top = names(&new.folder).into_iter().filter(compressed).count();
    assert_eq!(at_top, new.record.manifest_forms.len());
}

/// As on a fleet's node, which gets a new version without forms of its manifests.
#[test]
fn forms_that_a_new_version_lacks_go_with_the_old_one() {
    if !ffmpeg_is_here() {
        return;
    }
    let (library, made) = (Library::new(), tempfile::tempdir().expect("a folder"));
    let title = ingested(&library, 1.0);
    for name in ["master.m3u8", "manifest.mpd", "title.json"] {
        fs::copy(title.folder.join(name), made.path().join(name)).expect("copied");
    }
    fs::write(made.path().join("master.m3u8.gz"), "new").expect("written");
    put_over(made.path(), &title.folder, &title.record).expect("put in place");
    let read = |name: &str| fs::read(title.folder.join(name)).ok();
    assert_eq!(read("master.m3u8.gz").as_deref(), Some(&b"new"[..]));
    assert_eq!((read("master.m3u8.br"), read("manifest.mpd.br")), (None, None));
    assert!(names(made.path()).is_empty());
}

#[test]
fn a_record_names_no_form_of_another_file() {
    if !ffmpeg_is_here() {
        return;
    }
    let mut record = ingested(&Library::new(), 1.0).record;
    for (path, is_valid) in [
        ("master.m3u8.br", true),
        ("manifest.mpd.gz", true),
        ("master.m3u8.zst", false),
        ("../master.m3u8.br", false),
        ("master.m3u8", false),
        ("title.json.gz", false),
    ] {
        record.manifest_forms.truncate(1);
        path.clone_into(&mut record.manifest_forms[0].path);
        match Record::parse(record.seal().as_bytes()) {
            Ok(_) => assert!(is_valid, "{path}"),
            Err(RecordError::Broken(why)) => assert!(!is_valid, "{path}: {why}"),
            Err(RecordError::Io(error)) => panic!("{error}"),
        }
    }
}

/// The same film and options give the same version, with all of its forms.
#[test]
fn forms_are_the_same_each_time() {
    if !ffmpeg_is_here() {
        return;
    }
    let [one, other] = [Library::new(), Library::new()].map(|library| {
        let made = ingested(&library, 1.0);
        let of = |path: String| (fs::read(made.folder.join(&path)).expect("a form"), path);
        forms(&made.record).into_iter().map(of).collect::<Vec<_>>()
    });
    assert!(!one.is_empty() && one == other);
}
