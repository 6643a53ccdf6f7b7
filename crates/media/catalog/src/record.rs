//! `title.json`: the record of a title's contents. docs/library.md describes it.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::error::CatalogError;
use crate::forms::manifest_form_paths;
use crate::sha256;

/// The name of the record in a title's folder.
pub const RECORD: &str = "title.json";
/// The version of [`Record`]'s format.
const VERSION: u32 = 1;
const KIND: &str = "title";
/// The longest record that ingest makes: that would be a title of 800 GB.
const BYTES_MAX: u64 = 16 << 20;
/// The length of the blocks of a file, each of which has its own SHA-256: 4 MiB. A block is the unit that one copy of a title fetches from
/// another and verifies. So it should be small compared with a segment's time on the wire, and its checksum small compared with the block
/// (a film of 10 GB has 190 KB of checksums).
pub const BLOCK_BYTES: u64 = 4 << 20;
/// Placeholder for a record's own checksum while that is computed.
const NO_SUM: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The contents of a title; paths are relative to its folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The version of this format: 1.
    pub version: u32,
    /// `title`.
    pub kind: String,
    /// The title's name.
    pub title: String,
    /// The series that it belongs to, if it was ingested with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<String>,
    /// Playing time.
    pub duration_seconds: f64,
    /// When it was made, by the clock of the machine that made it, in seconds since 1970.
    pub ingested_unix_seconds: u64,
    /// The file that it was made from.
    pub source: SourceRecord,
    /// The folder with all of the title's files except its manifests and this record.
    pub folder: String,
    /// The HLS multivariant playlist.
    pub hls: String,
    /// The DASH manifest.
    pub dash: String,
    /// Pictures, smallest first; those of high dynamic range after the others.
    pub video: Vec<VideoRecord>,
    /// Sound, in the source's order, then other versions of it.
    pub audio: Vec<AudioRecord>,
    /// WebVTT files.
    pub subtitles: Vec<SubtitleRecord>,
    /// A JPEG, if there is a picture.
    pub poster: Option<String>,
    /// The widths in which the poster is there, smallest first, its own last: one of 320 pixels is `poster-320.jpg`, next to `poster.jpg`. Empty if
    /// there is only the poster, as in records of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub poster_widths: Vec<u32>,
    /// A WebVTT file of thumbnails for positions in the film, if there is a picture.
    pub thumbnails: Option<String>,
    /// A JSON file of chapters, in the form of Apple's HLS players, if the source had any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chapters: Option<String>,
    /// Subtitles in the picture, if they were burnt in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burnt_in: Option<BurntInRecord>,
    /// Every file of the title except this record and the forms of its manifests.
    pub files: Vec<FileRecord>,
    /// Compressed forms of the manifests (`master.m3u8.br`), each with the manifest's modification time. Copies of the title may lack them. Records
    /// of earlier versions have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifest_forms: Vec<FileRecord>,
    /// Folders of earlier versions. Their files are kept for viewers who are still watching them.
    pub replaced: Vec<ReplacedRecord>,
    /// SHA-256 of this record, computed with zeros in place of these 64 digits.
    pub sha256: String,
}

/// The file that a title was made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceRecord {
    /// Its name, without folders.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// A key that identifies the file together with the options.
    pub key: String,
}

/// One size of the picture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VideoRecord {
    /// A CMAF track file.
    pub file: String,
    /// Its HLS playlist.
    pub playlist: String,
    /// As in RFC 6381.
    pub codec: String,
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
    /// Constant.
    pub frames_per_second: f64,
    /// Mean.
    pub bits_per_second: u64,
    /// The rate of the segment with the highest one.
    pub bits_per_second_max: u64,
    /// The size of the file.
    pub bytes: u64,
    /// The number of parts in which it can be fetched.
    pub segments: usize,
    /// `pq` or `hlg` for a high dynamic range. None for standard range, and in records of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
}

/// One sound.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AudioRecord {
    /// A CMAF track file.
    pub file: String,
    /// Its HLS playlist.
    pub playlist: String,
    /// As in RFC 6381.
    pub codec: String,
    /// BCP 47, if it is known.
    pub language: Option<String>,
    /// The display name in players.
    pub name: String,
    /// Its purposes, such as `commentary` or `audio-description` (docs/library.md). Empty for most sounds, and in records of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// Whether players choose it by default.
    pub is_default: bool,
    /// The file of the basic version of the same sound, if this is another version of it: in surround, or in AC-3, E-AC-3 or FLAC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version_of: Option<String>,
    /// 2 is stereo.
    pub channels: u32,
    /// Mean.
    pub bits_per_second: u64,
    /// The rate of the segment with the highest one.
    pub bits_per_second_max: u64,
    /// The size of the file.
    pub bytes: u64,
    /// The number of parts in which it can be fetched.
    pub segments: usize,
}

/// Subtitles in one language.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubtitleRecord {
    /// A WebVTT file.
    pub file: String,
    /// BCP 47, if it is known.
    pub language: Option<String>,
    /// The display name in players.
    pub name: String,
    /// Whether players show it by default: subtitles of speech in a language other than the film's.
    pub is_forced: bool,
    /// Its purposes, such as `hard-of-hearing` (docs/library.md). Empty for most subtitles, and in records of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
}

/// Subtitles that are part of the picture, in every size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BurntInRecord {
    /// The number of the stream in the source, from 0.
    pub stream: u32,
    /// The codec in the source, by ffmpeg's name, such as `hdmv_pgs_subtitle`.
    pub codec: String,
    /// BCP 47, if it is known.
    pub language: Option<String>,
    /// Whether they are only for speech in a language other than the film's.
    pub is_forced: bool,
}

/// A file with its checksums.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileRecord {
    /// Relative to the title's folder.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// Its SHA-256.
    pub sha256: String,
    /// SHA-256 of each block of [`BLOCK_BYTES`]; the last block may be shorter. Records written by earlier versions of fullbore have none
    /// until [`complete`](crate::complete()) adds them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks_sha256: Option<Vec<String>>,
}

impl FileRecord {
    /// The entry for the file at `place`, whose path in its title is `path`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn of_file(place: &Path, path: &str) -> io::Result<Self> {
        let sums = sha256::of_file(place)?;
        let (bytes, sha256) = (sums.bytes, sums.whole);
        Ok(Self { path: path.to_owned(), bytes, sha256, blocks_sha256: Some(sums.blocks) })
    }

    fn has_fitting_blocks(&self) -> bool {
        let count = self.blocks_sha256.as_ref().map(|blocks| blocks.len() as u64);
        count.is_none_or(|count| count == self.bytes.div_ceil(BLOCK_BYTES))
    }
}

/// An earlier version of a title.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplacedRecord {
    /// A folder in the title's folder.
    pub folder: String,
    /// When it was replaced, in seconds since 1970.
    pub unix_seconds: u64,
}

/// Why a record cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub enum RecordError {
    /// It cannot be read.
    Io(io::Error),
    /// It is not a record, or it was modified after it was written.
    Broken(String),
}

impl Record {
    /// The version and kind that this program writes.
    pub fn form() -> (u32, String) {
        (VERSION, KIND.to_owned())
    }

    /// Reads and checks the record of the title in `folder`.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn read(folder: &Path) -> Result<Self, RecordError> {
        let broken = |why: &str| RecordError::Broken(why.to_owned());
        let bytes = read_small(&folder.join(RECORD)).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => broken("it is not a regular file"),
            io::ErrorKind::FileTooLarge => broken("it is longer than any record"),
            _ => RecordError::Io(error),
        })?;
        Self::parse(&bytes)
    }

    /// Reads and checks a record's bytes.
    ///
    /// # Errors
    /// [`RecordError::Broken`].
    pub fn parse(bytes: &[u8]) -> Result<Self, RecordError> {
        let broken = |why: &str| RecordError::Broken(why.to_owned());
        let text = std::str::from_utf8(bytes).map_err(|_| broken("it is not text"))?;
        let record: Self =
            serde_json::from_str(text).map_err(|error| RecordError::Broken(error.to_string()))?;
        if record.kind != KIND {
            return Err(broken("it is not the record of a title"));
        }
        if record.version != VERSION {
            return Err(broken("it was written by another version of fullbore"));
        }
        if sha256::of_bytes(text.replacen(&record.sha256, NO_SUM, 1).as_bytes()) != record.sha256 {
            return Err(broken("it was changed after it was written"));
        }
        let is_form = |path| manifest_form_paths(&record).any(|form| form == path);
        if !record.manifest_forms.iter().all(|form| is_form(form.path.as_str())) {
            return Err(broken("it has forms of other files than manifests"));
        }
        if !record.files.iter().all(FileRecord::has_fitting_blocks) {
            return Err(broken("it has the wrong number of blocks for a file"));
        }
        if let Some(path) = record.paths().find(|path| !is_below(path)) {
            return Err(RecordError::Broken(format!("no title has a file or folder {path:?}")));
        }
        Ok(record)
    }

    /// All paths in it. They are untrusted.
    fn paths(&self) -> impl Iterator<Item = &str> {
        let own = [&self.folder, &self.hls, &self.dash].into_iter();
        let video = self.video.iter().flat_map(|one| [&one.file, &one.playlist]);
        let audio = self.audio.iter().flat_map(|one| {
            [Some(&one.file), Some(&one.playlist), one.version_of.as_ref()].into_iter().flatten()
        });
        let pictures = self.poster.iter().chain(&self.thumbnails).chain(&self.chapters);
        let others = self.subtitles.iter().map(|one| &one.file);
        let others = others.chain(self.replaced.iter().map(|one| &one.folder));
        let files = self.files.iter().map(|file| &file.path);
        own.chain(video).chain(audio).chain(pictures).chain(others).chain(files).map(String::as_str)
    }

    /// The size of all files, as recorded.
    pub fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes))
    }

    /// Like [`Self::read`], for a caller that holds the title's [`Workshop`](crate::Workshop) and wants to change the record.
    pub(crate) fn read_for_change(folder: &Path) -> Result<Self, CatalogError> {
        let path = folder.to_path_buf();
        Self::read(folder).map_err(|why| CatalogError::Damaged { path, why })
    }

    /// Whether all files have block checksums.
    pub fn has_blocks(&self) -> bool {
        self.files.iter().all(|file| file.blocks_sha256.is_some())
    }

    /// Puts the record's checksum into it, and returns it as text.
    ///
    /// # Panics
    /// Never: JSON can express everything in a record.
    pub fn seal(&mut self) -> String {
        NO_SUM.clone_into(&mut self.sha256);
        // A record has texts, numbers and lists of them, all of which JSON can express.
        let mut text = serde_json::to_string_pretty(self).expect("a record is plain JSON");
        text.push('\n');
        self.sha256 = sha256::of_bytes(text.as_bytes());
        let at = text.rfind(NO_SUM).expect("it was written above, as the last member");
        text.replace_range(at..at + NO_SUM.len(), &self.sha256);
        text
    }
}

/// Whether `path` stays below the folder that it is relative to, and all its names can be served.
fn is_below(path: &str) -> bool {
    let is_name = |name: &str| !name.is_empty() && !name.starts_with('.') && !name.contains('\0');
    path.split('/').all(is_name)
}

/// Reads a small file of a title. Its contents are untrusted: no link is followed, opening a pipe does not block, and anything other than a
/// regular file gives `InvalidInput`.
pub(crate) fn read_small(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.bits() as i32);
    let no_file = || io::Error::from(io::ErrorKind::InvalidInput);
    let is_no_file = |error: &io::Error| {
        [Errno::LOOP, Errno::NXIO].iter().any(|no| error.raw_os_error() == Some(no.raw_os_error()))
    };
    let opened = options.open(path);
    let file = opened.map_err(|error| if is_no_file(&error) { no_file() } else { error })?;
    if !file.metadata()?.is_file() {
        return Err(no_file());
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    #[test]
    fn a_path_stays_in_its_folder() {
        assert!(["master.m3u8", "v-0a1b2c3d4e5f/video-240.mp4"].into_iter().all(is_below));
        for path in ["", "/etc/passwd", "../x", "a/../../x", "a//b", "a/", ".", "a/.b", "a\0b"] {
            assert!(!is_below(path), "{path:?}");
        }
    }

    #[test]
    fn what_is_no_file_is_no_record_and_keeps_nobody_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let record = folder.path().join(RECORD);
        let refused = || Record::read(folder.path()).unwrap_err().to_string();
        mknodat(CWD, &record, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert_eq!(refused(), "it is not a regular file");
        std::fs::remove_file(&record).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &record).unwrap();
        assert_eq!(refused(), "it is not a regular file");
        std::fs::remove_file(&record).unwrap();
        std::fs::File::create(&record).unwrap().set_len(BYTES_MAX + 1).unwrap();
        assert_eq!(refused(), "it is longer than any record");
    }
}
