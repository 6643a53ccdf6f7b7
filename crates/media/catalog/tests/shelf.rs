//! Listing a library again: what changed is read again.

use std::fs;
use std::path::Path;

use fullbore_catalog::shelf::ShelfReader;
use tempfile::TempDir;

/// Puts a record in place as ingest does: by renaming a file.
fn record(folder: &Path, seconds: u32) {
    fs::create_dir_all(folder).expect("a folder");
    fs::write(folder.join("master.m3u8"), "#EXTM3U\n").expect("a playlist");
    let next = folder.join("title.json.new");
    fs::write(&next, format!(r#"{{ "duration_seconds": {seconds} }}"#)).expect("a record");
    fs::rename(next, folder.join("title.json")).expect("in place");
}

fn durations(reader: &mut ShelfReader, root: &Path) -> Vec<Option<f64>> {
    let items = reader.list(root).expect("a library");
    items.into_iter().map(|item| item.facts.map(|facts| facts.duration_seconds)).collect()
}

#[test]
fn a_record_that_changes_comes_or_goes_is_noticed() {
    let library = TempDir::new().expect("a temporary folder");
    let (a, b) = (library.path().join("a"), library.path().join("b"));
    record(&a, 10);
    record(&b, 20);
    let mut reader = ShelfReader::default();
    for _ in 0..2 {
        assert_eq!(durations(&mut reader, library.path()), [Some(10.0), Some(20.0)]);
    }
    // Of the same length as before.
    record(&b, 30);
    assert_eq!(durations(&mut reader, library.path()), [Some(10.0), Some(30.0)]);
    fs::remove_file(a.join("title.json")).expect("a record to remove");
    assert_eq!(durations(&mut reader, library.path()), [None, Some(30.0)]);
    record(&a, 40);
    fs::remove_dir_all(&b).expect("a title to remove");
    assert_eq!(durations(&mut reader, library.path()), [Some(40.0)]);
}

#[test]
fn a_damaged_record_gives_a_title_without_facts_until_it_is_replaced() {
    let library = TempDir::new().expect("a temporary folder");
    let title = library.path().join("a");
    record(&title, 10);
    fs::write(title.join("title.json"), "{").expect("a damaged record");
    let mut reader = ShelfReader::default();
    for _ in 0..2 {
        assert_eq!(durations(&mut reader, library.path()), [None]);
    }
    record(&title, 10);
    assert_eq!(durations(&mut reader, library.path()), [Some(10.0)]);
}

#[test]
fn a_posters_widths_are_listed_if_its_record_has_them() {
    let library = TempDir::new().expect("a temporary folder");
    let title = library.path().join("a");
    record(&title, 10);
    let widths = |members: &str| {
        let text = format!(r#"{{ "duration_seconds": 10, "poster": "v-1/poster.jpg"{members} }}"#);
        fs::write(title.join("title.json"), text).expect("a record");
        let items = ShelfReader::default().list(library.path()).expect("a library");
        let listed = serde_json::to_value(&items).expect("JSON");
        assert_eq!(listed[0]["poster"], "a/v-1/poster.jpg");
        listed[0].get("poster_widths").cloned()
    };
    assert_eq!(
        widths(r#", "poster_widths": [320, 640, 1920]"#),
        Some(serde_json::json!([320, 640, 1920]))
    );
    // Of an earlier version.
    assert_eq!(widths(""), None);
}
