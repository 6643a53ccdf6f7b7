//! Chapters of the source: in a file for players, and named in the HLS playlist.

use std::fs;
use std::path::{Path, PathBuf};

use catalog::{Fault, Record};
use fullbore_ingest::ingest::{Ingested, Options};
use m3u8_rs::{Playlist, SessionDataField};
use serde_json::{Value, json};

use crate::judge::judge;
use crate::library::{Library, options};
use crate::source::{ffmpeg_is_here, make};

const SONG: &str = "-f lavfi -i sine=440:duration=6 -c:a aac";
const FILM: &str =
    "-f lavfi -i testsrc2=size=160x90:rate=25:duration=6 -c:v libx264 -preset ultrafast -g 25";

/// ffmpeg's text form of chapters, with times in milliseconds.
fn metadata(chapters: &[(u32, u32, &str)]) -> String {
    chapters.iter().fold(";FFMETADATA1\n".to_owned(), |text, (start, end, title)| {
        let title = if title.is_empty() { String::new() } else { format!("title={title}\n") };
        format!("{text}[CHAPTER]\nTIMEBASE=1/1000\nSTART={start}\nEND={end}\n{title}")
    })
}

/// A file with these chapters, made by ffmpeg with `words`.
fn with_chapters(folder: &Path, name: &str, words: &str, chapters: &[(u32, u32, &str)]) -> PathBuf {
    let list = folder.join("chapters.txt");
    fs::write(&list, metadata(chapters)).expect("a file");
    let file = folder.join(name);
    make(&format!("-i {} {words} -map_metadata 0 -map 1", list.display()), &file);
    file
}

fn ingest(library: &Library, file: &Path) -> Ingested {
    let copy = Options { copy: true, ..options() };
    let title = file.file_name().expect("a name").to_string_lossy().into_owned();
    let made = library.ingest(file, &title, &copy).expect("a title");
    judge(&made.folder, &made.record);
    made
}

/// The file that the playlist names, which is also the one in the record.
fn chapters(made: &Ingested) -> Option<Value> {
    let text = fs::read(made.folder.join(&made.record.hls)).expect("a playlist");
    let Ok((_, Playlist::MasterPlaylist(master))) = m3u8_rs::parse_playlist(&text) else {
        panic!("a multivariant playlist")
    };
    let [data] = &master.session_data[..] else {
        assert_eq!((master.session_data.len(), &made.record.chapters), (0, &None));
        return None;
    };
    assert_eq!(data.data_id, "com.apple.hls.chapters");
    let SessionDataField::Uri(uri) = &data.field else { panic!("a URI: {data:?}") };
    assert_eq!(Some(uri), made.record.chapters.as_ref());
    let bytes = fs::read(made.folder.join(uri)).expect("the file that it names");
    Some(serde_json::from_slice(&bytes).expect("JSON"))
}

fn chapter(number: u32, start: f64, seconds: f64, title: &str) -> Value {
    let titles = json!([{ "language": "und", "title": title }]);
    json!({ "chapter": number, "start-time": start, "duration": seconds, "titles": titles })
}

#[test]
fn chapters_are_kept_in_the_form_that_players_read() {
    if !ffmpeg_is_here() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let library = Library::new();
    let three = [(0, 2000, "Opening"), (2000, 4500, "\"Über\" & <co>"), (4500, 6000, "End")];
    let expected = json!([
        chapter(1, 0.0, 2.0, "Opening"),
        chapter(2, 2.0, 2.5, "\"Über\" & <co>"),
        chapter(3, 4.5, 1.5, "End")
    ]);
    for (name, words) in [("film.mkv", FILM), ("film.mp4", FILM)] {
        let made = ingest(&library, &with_chapters(folder.path(), name, words, &three));
        assert_eq!(chapters(&made), Some(expected.clone()), "{name}");
    }
    // An audio book; its priming samples begin before zero, and its last chapter lasts as long as its sound.
    let made = ingest(
        &library,
        &with_chapters(folder.path(), "book.m4b", &format!("{SONG} -f ipod"), &three),
    );
    let found = chapters(&made).expect("chapters");
    assert_eq!((&found[0], &found[1]), (&expected[0], &expected[1]));
    assert_eq!(found[2]["titles"], expected[2]["titles"]);

    // Without titles, and beyond the film's end.
    let odd = [(0, 3000, ""), (3000, 9000, ""), (9000, 9500, "Nothing")];
    let made = ingest(&library, &with_chapters(folder.path(), "odd.mkv", FILM, &odd));
    let found = chapters(&made).expect("chapters");
    assert_eq!(
        found,
        json!([
            { "chapter": 1, "start-time": 0.0, "duration": 3.0 },
            { "chapter": 2, "start-time": 3.0, "duration": 3.0 }
        ])
    );

    let made = ingest(&library, &with_chapters(folder.path(), "one.mkv", FILM, &[(0, 6000, "")]));
    assert_eq!(chapters(&made), None);
}

#[test]
fn the_file_of_chapters_is_part_of_the_title() {
    if !ffmpeg_is_here() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let library = Library::new();
    let two = [(0, 2000, "Opening"), (2000, 6000, "End")];
    let made = ingest(&library, &with_chapters(folder.path(), "film.mkv", FILM, &two));
    assert_eq!(library.faults("film.mkv"), []);
    let path = made.record.chapters.clone().expect("chapters");
    assert_eq!(Record::read(&made.folder).expect("a record").chapters, Some(path.clone()));
    let shelf = catalog::shelf::shelf(library.path()).expect("a library");
    let facts = shelf[0].facts.as_ref().expect("a record");
    assert_eq!(facts.chapters, Some(format!("film.mkv/{path}")));
    fs::write(made.folder.join(&path), "[]").expect("written");
    assert!(
        matches!(&library.faults("film.mkv")[..], [Fault::Length { path: found, .. }] if *found == path)
    );
}
