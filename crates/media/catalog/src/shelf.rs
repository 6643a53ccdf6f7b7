//! The shelf's view of a library: its titles, with details that help a viewer to choose.
//!
//! For a title made by ingest, the shelf reads its record (`title.json`, docs/library.md), and only the members that it shows. So a record
//! of a later version works as long as it has these members, and a broken record gives a title that plays but has no picture. A title
//! without a record is shown by name.
//!
//! Bounded: [`TITLES_MAX`](crate::TITLES_MAX) titles, 16 MiB of each record.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::record::{RECORD, read_small};
use crate::{Form, Title, encode_path, titles};

/// A title as the shelf shows it. Paths are relative to the library, percent-encoded.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Item {
    /// The display name.
    pub name: String,
    /// Its folder, or the file itself.
    pub path: String,
    /// The same path as it is on disk.
    #[serde(skip)]
    pub location: PathBuf,
    /// The HLS playlist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hls: Option<String>,
    /// The DASH manifest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dash: Option<String>,
    /// A file that browsers may play directly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The data from its record.
    #[serde(flatten)]
    pub facts: Option<Facts>,
}

/// The data from a title's record.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Facts {
    /// Its playing time.
    pub duration_seconds: f64,
    /// When it was made, in seconds since 1970.
    pub ingested_unix_seconds: u64,
    /// Of the largest picture, in pixels; 0 for sound alone.
    pub width: u32,
    /// Of the largest picture, in pixels; 0 for sound alone.
    pub height: u32,
    /// The languages of its sounds, BCP 47, without duplicates.
    pub languages: Vec<String>,
    /// The languages of its subtitles, BCP 47, without duplicates.
    pub subtitle_languages: Vec<String>,
    /// A JPEG.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poster: Option<String>,
    /// The widths in which it is there, as in the record.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub poster_widths: Vec<u32>,
    /// A WebVTT file of small pictures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thumbnails: Option<String>,
    /// A JSON file of chapters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chapters: Option<String>,
}

/// The titles in the folder `root`, sorted by name.
///
/// # Errors
/// If `root` itself cannot be listed. Folders below it that cannot be read are left out.
pub fn shelf(root: &Path) -> io::Result<Vec<Item>> {
    ShelfReader::default().list(root)
}

/// Lists one library again and again, and reads only the records that have changed: that of a long film has hundreds of kilobytes of checksums.
#[derive(Debug, Default)]
pub struct ShelfReader {
    known: Known,
}

/// By the title's folder. A record that cannot be read is not among them, so that it is tried again.
type Known = HashMap<PathBuf, (Stamp, Facts)>;

/// Distinguishes versions of a record. Ingest replaces a record by renaming another file to its name, which always changes the inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(record: &Path) -> Option<Self> {
        let met = std::fs::metadata(record).ok()?;
        Some(Self { inode: met.ino(), bytes: met.size(), changed: (met.ctime(), met.ctime_nsec()) })
    }
}

impl ShelfReader {
    /// The titles in the folder `root`, sorted by name.
    ///
    /// # Errors
    /// If `root` itself cannot be listed. Folders below it that cannot be read are left out.
    pub fn list(&mut self, root: &Path) -> io::Result<Vec<Item>> {
        let titles = titles(root)?;
        let mut before = std::mem::take(&mut self.known);
        Ok(titles.into_iter().map(|title| self.item(root, title, &mut before)).collect())
    }

    fn item(&mut self, root: &Path, title: Title, before: &mut Known) -> Item {
        // A title that is a file has no folder for a record.
        let has_record = title.streams.iter().all(|stream| stream.form != Form::File);
        let facts = has_record.then(|| self.facts(root, &title.location, before)).flatten();
        item(title, facts)
    }

    fn facts(&mut self, root: &Path, location: &Path, before: &mut Known) -> Option<Facts> {
        let folder = root.join(location);
        let stamp = Stamp::of(&folder.join(RECORD))?;
        let (at, facts) = match before.remove_entry(location) {
            Some((at, (known, facts))) if known == stamp => (at, facts),
            _ => {
                let record = Record::read(&folder).ok()?;
                (location.to_owned(), record.facts(&encode_path(location)))
            }
        };
        self.known.insert(at, (stamp, facts.clone()));
        Some(facts)
    }
}

fn item(title: Title, facts: Option<Facts>) -> Item {
    let stream = |form| {
        let of_form = title.streams.iter().find(|stream| stream.form == form);
        of_form.map(|stream| stream.url_path.clone())
    };
    let (hls, dash, file) = (stream(Form::Hls), stream(Form::Dash), stream(Form::File));
    let path = encode_path(&title.location);
    Item { name: title.name, path, location: title.location, hls, dash, file, facts }
}

/// The members of a record that the shelf shows.
#[derive(Deserialize)]
struct Record {
    duration_seconds: f64,
    #[serde(default)]
    ingested_unix_seconds: u64,
    #[serde(default)]
    video: Vec<Picture>,
    #[serde(default)]
    audio: Vec<Track>,
    #[serde(default)]
    subtitles: Vec<Track>,
    poster: Option<String>,
    #[serde(default)]
    poster_widths: Vec<u32>,
    thumbnails: Option<String>,
    chapters: Option<String>,
}

#[derive(Deserialize)]
struct Picture {
    width: u32,
    height: u32,
}

#[derive(Deserialize)]
struct Track {
    language: Option<String>,
}

impl Record {
    fn read(folder: &Path) -> io::Result<Self> {
        let text = read_small(&folder.join(RECORD))?;
        Ok(serde_json::from_slice(&text)?)
    }

    fn facts(self, folder: &str) -> Facts {
        let below = |path: String| match encode_path(Path::new(&path)) {
            path if folder.is_empty() => path,
            path => format!("{folder}/{path}"),
        };
        let largest = self.video.iter().max_by_key(|picture| picture.height);
        Facts {
            duration_seconds: self.duration_seconds,
            ingested_unix_seconds: self.ingested_unix_seconds,
            width: largest.map_or(0, |picture| picture.width),
            height: largest.map_or(0, |picture| picture.height),
            languages: languages(self.audio),
            subtitle_languages: languages(self.subtitles),
            poster: self.poster.map(below),
            poster_widths: self.poster_widths,
            thumbnails: self.thumbnails.map(below),
            chapters: self.chapters.map(below),
        }
    }
}

fn languages(tracks: Vec<Track>) -> Vec<String> {
    let mut languages = Vec::new();
    for language in tracks.into_iter().filter_map(|track| track.language) {
        if !languages.contains(&language) {
            languages.push(language);
        }
    }
    languages
}
