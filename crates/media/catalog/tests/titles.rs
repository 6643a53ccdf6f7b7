//! Tests which titles are found in which folders.

use std::fs;
use std::path::Path;

use fullbore_catalog::{EXAMPLES, Form, TITLES_MAX, Title, titles};
use tempfile::TempDir;

/// A library with these (empty) files.
fn library(files: &[&str]) -> TempDir {
    let root = TempDir::new().expect("a temporary folder");
    for file in files {
        let path = root.path().join(file);
        fs::create_dir_all(path.parent().expect("files lie below the root")).expect("a folder");
        fs::write(path, b"").expect("a file");
    }
    root
}

fn names(root: &Path) -> Vec<String> {
    titles(root).expect("a readable library").into_iter().map(|title| title.name).collect()
}

fn streams(title: &Title) -> Vec<(Form, &str)> {
    title.streams.iter().map(|stream| (stream.form, stream.url_path.as_str())).collect()
}

#[test]
fn the_examples_of_the_rule_are_found() {
    let root = library(&EXAMPLES.map(|(path, _)| path));
    let mut expected = EXAMPLES.map(|(_, title)| title).to_vec();
    expected.dedup();
    assert_eq!(names(root.path()), expected);
}

#[test]
fn a_folder_with_manifests_is_one_title_with_both_ways_to_play_it() {
    let root = library(&[
        "a film/master.m3u8",
        "a film/manifest.mpd",
        "a film/media_0.m3u8",
        "a film/0.mp4",
        "a film/1/x.ts",
    ]);
    let found = titles(root.path()).expect("a readable library");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].name, "a film");
    let expected = [(Form::Hls, "a%20film/master.m3u8"), (Form::Dash, "a%20film/manifest.mpd")];
    assert_eq!(streams(&found[0]), expected);
}

#[test]
fn the_only_playlist_of_a_folder_counts_whatever_its_name() {
    let root = library(&["live/index.m3u8", "live/1.ts", "live/2.ts"]);
    let found = titles(root.path()).expect("a readable library");
    assert_eq!(found.len(), 1);
    assert_eq!(streams(&found[0]), [(Form::Hls, "live/index.m3u8")]);
}

#[test]
fn playable_files_are_titles_by_extension_in_any_case_and_others_are_not() {
    let root = library(&["b.MP4", "a/c.mkv", "a/notes.txt", "a/cover.jpg", "d.webm", "mp4"]);
    assert_eq!(names(root.path()), ["a/c.mkv", "b.MP4", "d.webm"]);
}

#[test]
fn a_library_that_is_itself_a_title_has_the_folders_name() {
    let root = library(&["film/master.m3u8"]);
    let found = titles(&root.path().join("film")).expect("a readable library");
    assert_eq!(found[0].name, "film");
    assert_eq!(streams(&found[0]), [(Form::Hls, "master.m3u8")]);
}

#[test]
fn dot_names_and_symbolic_links_are_not_looked_at() {
    let root = library(&[".hidden.mp4", ".partial/a.mp4", "real.mp4"]);
    std::os::unix::fs::symlink("real.mp4", root.path().join("link.mp4")).expect("a link");
    std::os::unix::fs::symlink(root.path(), root.path().join("loop")).expect("a link");
    assert_eq!(names(root.path()), ["real.mp4"]);
}

#[test]
fn names_that_nobody_can_request_are_not_listed() {
    let root = library(&[
        "esc/z\nready https:/evil.example/f.mp4",
        "a\tb/master.m3u8",
        "del\u{7f}.mp4",
        "live/index.m3u8",
        "live/other\n.m3u8",
        "c\u{9b}.mp4",
    ]);
    assert_eq!(names(root.path()), ["c\u{9b}.mp4", "live"]);
}

#[test]
fn the_walk_stops_at_its_depth() {
    let root = library(&["1/2/3/4/5/6/7/8/in.mp4", "1/2/3/4/5/6/7/8/9/out.mp4"]);
    assert_eq!(names(root.path()), ["1/2/3/4/5/6/7/8/in.mp4"]);
}

#[test]
fn the_list_is_bounded() {
    let root = TempDir::new().expect("a temporary folder");
    for index in 0..=TITLES_MAX {
        fs::write(root.path().join(format!("{index}.ts")), b"").expect("a file");
    }
    assert_eq!(names(root.path()).len(), TITLES_MAX);
}

#[test]
fn an_empty_library_has_no_titles_and_a_missing_one_is_an_error() {
    let root = library(&[]);
    assert!(names(root.path()).is_empty());
    assert!(titles(&root.path().join("missing")).is_err());
}
