//! Records of titles: reading those of earlier versions, finding damage, completing. The titles here are hand-made; the tests of the
//! `ingest` crate have titles made by ffmpeg.

mod place;

use std::collections::BTreeSet;
use std::fs;

use fullbore_catalog::{
    BLOCK_BYTES, CatalogError, Completed, EXAMPLES, Fault, FileRecord, TitleName, Workshop,
    complete, list, parts, remove, remove_replaced,
};
use place::{Place, path};

/// A record as fullbore wrote it before records had block checksums.
const OLDER: &str = include_str!("older.json");

fn older_title() -> Place {
    let place = Place::new();
    place.write("film/title.json", OLDER.as_bytes());
    place.write("film/master.m3u8", b"#EXTM3U\n");
    place.write("film/manifest.mpd", b"<MPD/>\n");
    place.write("film/v-0123456789ab/video-90.mp4", b"pictures");
    place.write("film/v-0123456789ab/video-90.m3u8", b"#EXTM3U\nvideo-90.mp4\n");
    place
}

#[test]
fn titles_with_a_record_are_those_of_the_rule() {
    let place = Place::new();
    for (path, _) in EXAMPLES {
        place.write(path, b"");
    }
    place.write("films/a/v-0123456789ab/title.json", b"a file of the title");
    place.write("films/e/title.json", b"without a manifest");
    place.write(".hidden/title.json", b"");
    place.write("title.json", b"a file of the user's");
    let found: BTreeSet<_> =
        list(place.path()).unwrap().entries.iter().map(|entry| entry.title.to_string()).collect();
    let records = EXAMPLES.iter().filter(|(path, _)| path.ends_with("/title.json"));
    let mut expected: BTreeSet<_> = records.map(|(_, title)| (*title).to_owned()).collect();
    expected.insert("films/e".to_owned());
    assert_eq!(found, expected);
}

#[test]
fn an_older_record_is_read_and_its_title_verified() {
    let place = older_title();
    let entry = place.entry("film");
    let record = entry.record.as_ref().unwrap();
    assert!(!record.has_blocks());
    assert_eq!((record.files.len(), record.video[0].height), (4, 90));
    assert_eq!(place.faults("film"), []);
    place.write("film/v-0123456789ab/video-90.mp4", b"pictureS");
    let path = "v-0123456789ab/video-90.mp4".to_owned();
    let fault = Fault::Content { path, blocks: Vec::new() };
    assert_eq!(fault.to_string(), "v-0123456789ab/video-90.mp4 does not match its SHA-256");
    assert_eq!(place.faults("film"), [fault]);
}

#[test]
fn the_parts_of_a_title_are_the_files_of_its_present_version() {
    let place = older_title();
    place.write("film/v-ba9876543210/video-90.mp4", b"of an earlier version");
    let mut found = parts(place.path(), &path("film")).unwrap();
    found.sort();
    let expected = [
        "film/manifest.mpd",
        "film/master.m3u8",
        "film/v-0123456789ab/video-90.m3u8",
        "film/v-0123456789ab/video-90.mp4",
    ];
    assert_eq!(found, expected.map(std::path::PathBuf::from));
}

#[test]
fn completing_adds_the_sums_of_blocks_and_changes_nothing_else() {
    let place = older_title();
    let before = place.entry("film").record.unwrap();
    let completed = Completed { faults: Vec::new(), was_replaced: true };
    assert_eq!(complete(place.path(), &path("film")).unwrap(), completed);
    let mut after = place.entry("film").record.unwrap();
    assert!(after.has_blocks());
    assert_eq!(place.faults("film"), []);
    assert_eq!(place.names(), ["film"], "no work folder is left");
    for file in &mut after.files {
        // Each is shorter than a block.
        assert_eq!(file.blocks_sha256.take(), Some(vec![file.sha256.clone()]));
    }
    after.sha256.clone_from(&before.sha256);
    assert_eq!(after, before);
    let nothing = Completed { faults: Vec::new(), was_replaced: false };
    assert_eq!(complete(place.path(), &path("film")).unwrap(), nothing, "it is complete");
}

#[test]
fn what_is_damaged_is_not_completed() {
    let place = older_title();
    place.write("film/master.m3u8", b"#EXTM3V\n");
    let completed = complete(place.path(), &path("film")).unwrap();
    assert!(!completed.was_replaced);
    assert_eq!(completed.faults, place.faults("film"));
    assert_eq!(completed.faults.len(), 1);
    assert_eq!(place.read("film/title.json"), OLDER.as_bytes());
}

#[test]
fn a_file_that_is_none_of_the_titles_does_not_keep_it_from_being_completed() {
    let place = older_title();
    place.write("film/notes.txt", b"mine");
    let completed = complete(place.path(), &path("film")).unwrap();
    assert!(completed.was_replaced);
    assert_eq!(completed.faults, [Fault::Extra { path: "notes.txt".into() }]);
}

#[test]
fn what_an_interrupted_completion_left_is_taken_over() {
    let place = older_title();
    place.write(".ingest-film/title.json", &OLDER.as_bytes()[..100]);
    place.write(".ingest-film/video-180.mp4", b"a finished rendition of an ingest");
    assert!(complete(place.path(), &path("film")).unwrap().was_replaced);
    assert_eq!(place.faults("film"), []);
    assert_eq!(place.names(), [".ingest-film", "film"], "the rendition is another attempt's");
    assert!(!place.path().join(".ingest-film/title.json").exists());
}

#[test]
fn a_title_that_is_worked_on_is_left_alone() {
    let place = older_title();
    let workshop = Workshop::lock(place.path(), &TitleName::new("film").unwrap()).unwrap();
    let busy = complete(place.path(), &path("film")).unwrap_err();
    assert!(matches!(&busy, CatalogError::Busy(title) if title == "film"), "{busy}");
    assert_eq!(place.read("film/title.json"), OLDER.as_bytes());
    workshop.leave();
    assert!(complete(place.path(), &path("film")).unwrap().was_replaced);
}

#[test]
fn a_flipped_byte_is_named_by_its_block() {
    let place = older_title();
    let block = BLOCK_BYTES as usize;
    let mut content: Vec<_> = (0..10 * block + 5).map(|at| (at / 4096 % 251) as u8).collect();
    let file = "film/v-0123456789ab/video-90.mp4";
    place.write(file, &content);
    place.change_record("film", |record| {
        for one in &mut record.files {
            *one =
                FileRecord::of_file(&place.path().join("film").join(&one.path), &one.path).unwrap();
        }
    });
    assert_eq!(place.faults("film"), []);
    let expected = |blocks: Vec<usize>| {
        [Fault::Content { path: "v-0123456789ab/video-90.mp4".into(), blocks }]
    };
    for (at, of_block) in
        [(0, 0), (block - 1, 0), (block, 1), (3 * block + 17, 3), (10 * block + 4, 10)]
    {
        content[at] ^= 1;
        place.write(file, &content);
        assert_eq!(place.faults("film"), expected(vec![of_block]), "byte {at}");
        content[at] ^= 1;
    }
    let several: Vec<_> = (0..=9).collect();
    several.iter().for_each(|index| content[index * block + 1] ^= 1);
    place.write(file, &content);
    let [fault] = &place.faults("film")[..] else { panic!("there is one") };
    assert_eq!(*fault, expected(several)[0]);
    let told = fault.to_string();
    assert!(told.contains("in blocks 0, 1, 2, 3, 4, 5, 6, 7 and 2 others"), "{told}");
}

#[test]
fn a_record_whose_blocks_do_not_fit_is_damaged() {
    let place = older_title();
    place.change_record("film", |record| record.files[0].blocks_sha256 = Some(Vec::new()));
    let [Fault::Record { why }] = &place.faults("film")[..] else { panic!("it is damaged") };
    assert!(why.contains("blocks"), "{why}");
}

#[test]
fn a_title_in_a_folder_is_completed_and_removed_like_others() {
    let place = older_title();
    fs::create_dir(place.path().join("films")).unwrap();
    fs::rename(place.path().join("film"), place.path().join("films/film")).unwrap();
    let title = path("films/film");
    assert!(complete(place.path(), &title).unwrap().was_replaced);
    assert_eq!(place.faults("films/film"), []);
    place.write("films/film/v-00000000000f/video-90.mp4", b"what it was before");
    place.change_record("films/film", |record| {
        let folder = "v-00000000000f".to_owned();
        record.replaced = vec![fullbore_catalog::ReplacedRecord { folder, unix_seconds: 1 }];
    });
    assert_eq!(remove_replaced(place.path(), &title).unwrap(), 1);
    assert!(!place.path().join("films/film/v-00000000000f").exists());
    assert_eq!(place.faults("films/film"), []);
    remove(place.path(), &title).unwrap();
    assert!(fs::read_dir(place.path().join("films")).unwrap().next().is_none());
    let unknown = remove(place.path(), &title).unwrap_err();
    assert!(matches!(unknown, CatalogError::Unknown(_)), "{unknown}");
}
