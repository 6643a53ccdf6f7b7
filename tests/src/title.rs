//! Titles as ingest makes them, without ffmpeg.

use catalog::{FileRecord, RECORD, Record, SourceRecord, sha256, version_name};
use std::fs;
use std::io;
use std::path::Path;

const HLS: &str = "master.m3u8";
const DASH: &str = "manifest.mpd";

/// The name of a title's one film, below the folder of its version.
pub const FILM: &str = "video-90.mp4";

/// Makes the title in `folder`, or replaces the present version by a new one with this `film`, as ingest does: the version first, then
/// manifests and record, each by rename. Returns the version's folder.
///
/// # Errors
/// If a file cannot be written.
pub fn make_title(folder: &Path, film: &[u8]) -> io::Result<String> {
    let version = version_name(&sha256::of_bytes(film));
    let (name, made) =
        (folder.file_name().unwrap_or_default().to_string_lossy(), folder.join(".made"));
    fs::create_dir_all(made.join(&version))?;
    fs::write(made.join(&version).join(FILM), film)?;
    fs::write(made.join(HLS), format!("#EXTM3U\n{version}/{FILM}\n"))?;
    fs::write(made.join(DASH), format!("<MPD>{version}/{FILM}</MPD>\n"))?;
    let paths = [format!("{version}/{FILM}"), HLS.to_owned(), DASH.to_owned()];
    let files = paths.iter().map(|path| FileRecord::of_file(&made.join(path), path));
    let mut record = record(&name, &version, files.collect::<Result<_, _>>()?);
    fs::write(made.join(RECORD), record.seal())?;
    for name in [version.as_str(), HLS, DASH, RECORD] {
        fs::rename(made.join(name), folder.join(name))?;
    }
    fs::remove_dir(&made)?;
    Ok(version)
}

/// The folder of a version, whose name isn't derived from its bytes.
pub(crate) const VERSION_FOLDER: &str = "v-000000000001";

/// A record of the title in `folder`, whose files are in [`VERSION_FOLDER`] already.
pub(crate) fn record_of(folder: &Path) -> Record {
    let names = fs::read_dir(folder.join(VERSION_FOLDER)).expect("the version's folder");
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("names are ASCII");
    let mut paths: Vec<_> =
        names.map(|entry| format!("{VERSION_FOLDER}/{}", name(entry.expect("an entry")))).collect();
    paths.extend([HLS.to_owned(), DASH.to_owned()]);
    paths.sort();
    let files = paths.iter().map(|path| FileRecord::of_file(&folder.join(path), path));
    let title = folder.file_name().unwrap_or_default().to_string_lossy();
    record(&title, VERSION_FOLDER, files.collect::<Result<_, _>>().expect("its own files"))
}

fn record(title: &str, version: &str, files: Vec<FileRecord>) -> Record {
    let (form, kind) = Record::form();
    Record {
        version: form,
        kind,
        title: title.to_owned(),
        series: None,
        duration_seconds: 1.0,
        ingested_unix_seconds: 1,
        source: SourceRecord { name: "film.mkv".into(), bytes: 1, key: version.to_owned() },
        folder: version.to_owned(),
        hls: HLS.into(),
        dash: DASH.into(),
        video: Vec::new(),
        audio: Vec::new(),
        subtitles: Vec::new(),
        poster: None,
        poster_widths: Vec::new(),
        thumbnails: None,
        burnt_in: None,
        chapters: None,
        manifest_forms: Vec::new(),
        files,
        replaced: Vec::new(),
        sha256: String::new(),
    }
}
