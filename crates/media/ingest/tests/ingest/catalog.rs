//! Listing, verifying and removing titles.

use std::fs;
use std::path::Path;

use crate::library::{Library, options, path};
use crate::source::{ffmpeg_is_here, plain};
use catalog::{CatalogError, Fault};
use fullbore_ingest::ingest::{Ingested, Options};

fn one_title() -> Option<(Library, Ingested)> {
    if !ffmpeg_is_here() {
        return None;
    }
    let (_folder, source) = plain();
    let library = Library::new();
    let made = library.ingest(&source, "film", &Options { copy: true, ..options() });
    Some((library, made.expect("a title")))
}

fn faults(library: &Library) -> Vec<Fault> {
    library.faults("film")
}

/// Flips one bit in the middle of a file; its length and its times stay.
fn flip(path: &Path) {
    let metadata = fs::metadata(path).expect("a file");
    let mut bytes = fs::read(path).expect("a file");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1 << 3;
    fs::write(path, bytes).expect("written");
    let file = fs::File::options().append(true).open(path).expect("a file");
    file.set_modified(metadata.modified().expect("a time")).expect("a time");
}

#[test]
fn one_bit_that_flipped_is_found_in_whichever_file_it_is() {
    let Some((library, made)) = one_title() else { return };
    assert_eq!(faults(&library), []);
    for file in &made.record.files {
        let path = made.folder.join(&file.path);
        flip(&path);
        // Files of this short film have one block.
        assert_eq!(faults(&library), [Fault::Content { path: file.path.clone(), blocks: vec![0] }]);
        flip(&path);
    }
    assert_eq!(faults(&library), []);
}

#[test]
fn one_bit_that_flipped_in_the_record_is_found_wherever_it_is() {
    let Some((library, made)) = one_title() else { return };
    let path = made.folder.join("title.json");
    let whole = fs::read(&path).expect("a record");
    for at in (0..whole.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 7);
        fs::write(&path, bytes).expect("written");
        assert!(matches!(&faults(&library)[..], [Fault::Record { .. }]), "at {at}");
    }
}

#[test]
fn missing_extra_and_cut_files_are_found() {
    let Some((library, made)) = one_title() else { return };
    let [first, second, ..] = &made.record.files[..] else { panic!("there are several") };
    fs::remove_file(made.folder.join(&first.path)).expect("a file");
    let cut = fs::File::options().write(true).open(made.folder.join(&second.path)).expect("a file");
    cut.set_len(second.bytes - 1).expect("cut");
    fs::create_dir(made.folder.join("sub")).expect("a folder");
    fs::write(made.folder.join("sub/notes.txt"), "mine").expect("a file");
    assert_eq!(
        faults(&library),
        [
            Fault::Missing { path: first.path.clone() },
            Fault::Length {
                path: second.path.clone(),
                expected_bytes: second.bytes,
                found_bytes: second.bytes - 1
            },
            Fault::Extra { path: "sub/notes.txt".into() },
        ]
    );
}

#[test]
fn a_removed_title_is_gone_and_others_stay() {
    let Some((library, _)) = one_title() else { return };
    fs::create_dir(library.title("other")).expect("a folder");
    fs::write(library.title("plain.mp4"), "a file of the user's").expect("a file");
    assert_eq!(catalog::list(library.path()).expect("a list").entries.len(), 1);
    for foreign in ["other", "plain.mp4", "none"] {
        let error = catalog::remove(library.path(), &path(foreign)).expect_err("not ours");
        assert!(matches!(error, CatalogError::Unknown(_)), "{error}");
    }
    catalog::remove(library.path(), &path("film")).expect("removed");
    assert_eq!(library.names(), ["other", "plain.mp4"]);
    assert!(catalog::list(library.path()).expect("a list").entries.is_empty());
}
