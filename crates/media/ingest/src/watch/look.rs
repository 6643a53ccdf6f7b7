//! Finds the films in a watched folder, with the subtitle files next to them.
//!
//! Names decide what is looked at, because the folder also holds notes, pictures and half-copied files. Whether a file is a film is decided
//! by its content, when it is ingested.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, DirEntry, Metadata, ReadDir};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::ingest::{SideSubtitles, TextPurpose};
use crate::language::is_language;

/// Extensions of films and sound in common use. Other formats of docs/library.md, such as GIF and bare streams, are not picked up.
const FILM_EXTENSIONS: [&str; 44] = [
    "3g2", "3gp", "aac", "ac3", "aif", "aiff", "amr", "ape", "asf", "avi", "caf", "divx", "dts",
    "dv", "eac3", "f4v", "flac", "flv", "gxf", "m2t", "m2ts", "m2v", "m4a", "m4b", "m4v", "mka",
    "mkv", "mov", "mp3", "mp4", "mpeg", "mpg", "mts", "mxf", "nut", "oga", "ogg", "ogv", "opus",
    "ts", "vob", "wav", "webm", "wmv",
];
const SUBTITLE_EXTENSIONS: [&str; 4] = ["ass", "srt", "ssa", "vtt"];
/// Extensions of subtitles that ingest can't read from a file of their own: VobSub and MicroDVD, PGS, SAMI, TTML.
const OTHER_SUBTITLE_EXTENSIONS: [&str; 6] = ["dfxp", "idx", "smi", "sub", "sup", "ttml"];
/// The most subtitle files that notes on a film name.
const IGNORED_MAX: usize = 20;
/// Deeper folders and further files are not looked at. They bound the memory and the time of a look.
const DEPTH_MAX: usize = 16;
const FILES_MAX: usize = 100_000;

/// A film, as it was when the folder was looked at.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// Its path below the watched folder.
    pub(super) file: String,
    pub(super) path: PathBuf,
    pub(super) stamp: Stamp,
    pub(super) subtitles: Vec<SideSubtitles>,
    /// Subtitle files that seem to belong to it and can't be used, as messages. At most [`IGNORED_MAX`].
    pub(super) ignored: Vec<String>,
}

/// The state of a film and its subtitle files. It changes when one of them is written, replaced, added or removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    pub(super) bytes: u64,
    /// Seconds and nanoseconds since 1970.
    pub(super) modified: (i64, i64),
    /// Path, length and time of each subtitle file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) subtitles: Vec<(String, u64, (i64, i64))>,
}

/// The contents of a watched folder.
#[derive(Debug, Default)]
pub(super) struct Look {
    /// Sorted by path.
    pub(super) films: Vec<Found>,
    /// Parts that could not be looked at, as messages.
    pub(super) problems: Vec<String>,
}

/// A file by its name, before films and subtitles are matched.
struct Named {
    path: PathBuf,
    metadata: Metadata,
}

/// A walk over a watched folder.
struct Walk<'a> {
    root: &'a Path,
    look: Look,
    /// Files so far.
    seen: usize,
}

/// Looks at `folder` and the folders in it. Hidden names are skipped: programs that copy files use them until a file is complete.
///
/// # Errors
/// If `folder` itself cannot be listed.
pub(super) fn look(folder: &Path) -> io::Result<Look> {
    let mut walk = Walk { root: folder, look: Look::default(), seen: 0 };
    walk.folder(folder, 0, fs::read_dir(folder)?);
    walk.look.films.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(walk.look)
}

impl Walk<'_> {
    /// Looks at one folder, and then at those in it: only one of a level is open at a time.
    fn folder(&mut self, path: &Path, depth: usize, entries: ReadDir) {
        let (mut films, mut subtitles, mut folders) = (Vec::new(), Vec::new(), Vec::new());
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    self.cannot_list(path, &error);
                    break;
                }
            };
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            // A link to a folder could lead back to a folder above.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
                continue;
            }
            self.seen += 1;
            if self.seen > FILES_MAX {
                let problem = "files are looked at: move finished ones away";
                self.look.problems.push(format!("only the first {FILES_MAX} {problem}"));
                break;
            }
            let name = entry.file_name();
            if has_extension(&name, &FILM_EXTENSIONS) {
                films.extend(named(&entry));
            } else if has_extension(&name, &SUBTITLE_EXTENSIONS)
                || has_extension(&name, &OTHER_SUBTITLE_EXTENSIONS)
            {
                subtitles.extend(named(&entry));
            }
        }
        self.look.films.extend(with_subtitles(self.root, films, subtitles));
        for folder in folders {
            if self.seen > FILES_MAX {
                return;
            }
            if depth == DEPTH_MAX {
                let problem = format!("{} is too deep: move it up", folder.display());
                self.look.problems.push(problem);
                continue;
            }
            match fs::read_dir(&folder) {
                Ok(entries) => self.folder(&folder, depth + 1, entries),
                Err(error) => self.cannot_list(&folder, &error),
            }
        }
    }

    fn cannot_list(&mut self, path: &Path, error: &io::Error) {
        self.look.problems.push(format!("cannot list {}: {error}", path.display()));
    }
}

fn has_extension(name: &OsStr, extensions: &[&str]) -> bool {
    let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
    extension
        .is_some_and(|extension| extensions.iter().any(|one| one.eq_ignore_ascii_case(extension)))
}

/// `None` if it is not a regular file, or is gone already.
fn named(entry: &DirEntry) -> Option<Named> {
    let path = entry.path();
    let metadata = fs::metadata(&path).ok().filter(Metadata::is_file)?;
    Some(Named { path, metadata })
}

/// A file's name without its extension, composed (NFC): a Mac writes the same name in other bytes (`catalog::TitleName::composed`).
pub(super) fn stem(path: &Path) -> Vec<u8> {
    let stem = path.file_stem().unwrap_or_default();
    escape::unicode::composed(stem.as_encoded_bytes()).into_owned()
}

/// A subtitle file by its name.
enum Side {
    /// A file of a film, to be added to its title; its length and time.
    Usable(SideSubtitles, u64, (i64, i64)),
    /// A file that can't be added, as a message.
    Ignored(String),
}

/// The films of one folder, each with the subtitle files that belong to it.
fn with_subtitles(folder: &Path, films: Vec<Named>, mut subtitles: Vec<Named>) -> Vec<Found> {
    let text = |path: &Path| String::from_utf8(stem(path)).ok();
    let stems: HashSet<String> = films.iter().filter_map(|film| text(&film.path)).collect();
    subtitles.sort_by(|a, b| a.path.cmp(&b.path));
    let mut by_stem: HashMap<String, Vec<Side>> = HashMap::new();
    for named in subtitles {
        let Some((film, side)) = text(&named.path).and_then(|stem| side(&stem, named, &stems))
        else {
            continue;
        };
        by_stem.entry(film).or_default().push(side);
    }
    let own = |film: &Named| text(&film.path).and_then(|stem| by_stem.get(&stem));
    let own = |film: &Named| own(film).map_or(&[][..], Vec::as_slice);
    films.iter().map(|film| found(folder, film, own(film))).collect()
}

fn found(folder: &Path, film: &Named, own: &[Side]) -> Found {
    let relative =
        |path: &Path| path.strip_prefix(folder).unwrap_or(path).to_string_lossy().into_owned();
    let (mut stamps, mut subtitles, mut ignored) = (Vec::new(), Vec::new(), Vec::new());
    for one in own {
        match one {
            Side::Usable(side, bytes, modified) => {
                stamps.push((relative(&side.path), *bytes, *modified));
                subtitles.push(side.clone());
            }
            Side::Ignored(why) if ignored.len() < IGNORED_MAX => ignored.push(why.clone()),
            Side::Ignored(_) => {}
        }
    }
    let stamp =
        Stamp { bytes: film.metadata.len(), modified: modified(&film.metadata), subtitles: stamps };
    Found { file: relative(&film.path), subtitles, ignored, stamp, path: film.path.clone() }
}

fn modified(metadata: &Metadata) -> (i64, i64) {
    (metadata.mtime(), metadata.mtime_nsec())
}

/// The film that the subtitle file `named` belongs to, and how. `None` if its name doesn't begin with a film's.
fn side(stem: &str, named: Named, films: &HashSet<String>) -> Option<(String, Side)> {
    let Named { path, metadata } = named;
    let name = path.file_name().unwrap_or_default();
    let is_readable = has_extension(name, &SUBTITLE_EXTENSIONS);
    if let Some((film, language, purpose)) = film_of(stem, films).filter(|_| is_readable) {
        let side = SideSubtitles { language, purpose, path, is_optional: true };
        return Some((film, Side::Usable(side, metadata.len(), modified(&metadata))));
    }
    let ends = stem.match_indices('.').map(|(end, _)| end).chain([stem.len()]);
    let mut beginnings = ends.map(|end| &stem[..end]).filter(|film| films.contains(*film));
    let film = beginnings.next_back()?.to_owned();
    let why = match is_readable {
        true => "its name isn't the film's with a language, such as .en, .forced or .en.sdh",
        false => "not SubRip, WebVTT or SubStation Alpha",
    };
    Some((film, Side::Ignored(format!("{} ({why})", name.to_string_lossy()))))
}

/// The film that the subtitles with the name `stem` belong to, their language and their purpose: `film.srt` (unknown), `film.en.srt`,
/// `film.forced.srt` or `film.en.forced.srt`.
fn film_of(stem: &str, films: &HashSet<String>) -> Option<(String, String, Option<TextPurpose>)> {
    const UNKNOWN: &str = "und";
    if films.contains(stem) {
        return Some((stem.to_owned(), UNKNOWN.to_owned(), None));
    }
    let (film, last) = stem.rsplit_once('.')?;
    if films.contains(film) {
        return match is_tag(last) {
            true => Some((film.to_owned(), last.to_owned(), None)),
            false => Some((film.to_owned(), UNKNOWN.to_owned(), Some(TextPurpose::parse(last)?))),
        };
    }
    let (film, first) = film.rsplit_once('.').filter(|(film, _)| films.contains(*film))?;
    let (language, purpose) = if is_tag(first) && TextPurpose::parse(last).is_some() {
        (first, last)
    } else {
        (last, first)
    };
    let purpose = TextPurpose::parse(purpose).filter(|_| is_tag(language))?;
    Some((film.to_owned(), language.to_owned(), Some(purpose)))
}

/// Whether a word of a name is a language. Its first part has two or three letters: longer words are names ("Alien.Covenant.srt"). Of the words
/// for purposes, only `hi` is one (Hindi): `sdh` is a code of Southern Kurdish, but in names of subtitles it means this, and `cc` is no code.
fn is_tag(word: &str) -> bool {
    let primary = word.split(['-', '_']).next().unwrap_or(word);
    let is_purpose = TextPurpose::parse(word).is_some() && !word.eq_ignore_ascii_case("hi");
    (2..=3).contains(&primary.len()) && is_language(word) && !is_purpose
}

#[cfg(test)]
mod tests {
    use super::*;
    use TextPurpose::{Forced, HardOfHearing};
    use tempfile::tempdir;

    #[test]
    fn films_are_found_with_their_subtitles() {
        let folder = tempdir().unwrap();
        let write = |name: &str| fs::write(folder.path().join(name), name).unwrap();
        fs::create_dir_all(folder.path().join("series/one")).unwrap();
        fs::create_dir(folder.path().join(".hidden")).unwrap();
        for name in [
            "b.MKV",
            "b.srt",
            "b.en.srt",
            "b.extra.words.srt",
            "bb.srt",
            "note.txt",
            ".a.mkv.part",
            "c.mkv.part",
        ] {
            write(name);
        }
        write("series/one/a.ts");
        write(".hidden/d.mkv");
        let look = look(folder.path()).unwrap();
        assert!(look.problems.is_empty(), "{:?}", look.problems);
        let names: Vec<_> = look.films.iter().map(|one| one.file.as_str()).collect();
        assert_eq!(names, ["b.MKV", "series/one/a.ts"]);
        let side = look.films[0].subtitles.iter();
        let side: Vec<_> = side.map(|one| (one.language.as_str(), one.path.clone())).collect();
        assert_eq!(
            side,
            [("en", folder.path().join("b.en.srt")), ("und", folder.path().join("b.srt"))]
        );
    }

    #[test]
    fn subtitles_of_another_film_are_left_to_it() {
        let films = ["Alien", "Alien.Covenant", "Rocky.II"].map(str::to_owned).into();
        for (stem, expected) in [
            ("Alien", Some(("Alien", "und", None))),
            ("Alien.pt-BR", Some(("Alien", "pt-BR", None))),
            ("Alien.zh-Hant", Some(("Alien", "zh-Hant", None))),
            ("Alien.Covenant", Some(("Alien.Covenant", "und", None))),
            ("Alien.Covenant.en", Some(("Alien.Covenant", "en", None))),
            ("Alien.Covenant.en.SDH", Some(("Alien.Covenant", "en", Some(HardOfHearing)))),
            ("Alien.forced", Some(("Alien", "und", Some(Forced)))),
            ("Alien.sdh", Some(("Alien", "und", Some(HardOfHearing)))),
            ("Alien.en.forced", Some(("Alien", "en", Some(Forced)))),
            ("Alien.forced.en", Some(("Alien", "en", Some(Forced)))),
            ("Alien.en.hi", Some(("Alien", "en", Some(HardOfHearing)))),
            ("Alien.hi", Some(("Alien", "hi", None))),
            ("Alien.hi.cc", Some(("Alien", "hi", Some(HardOfHearing)))),
            ("Alien.cc.hi", Some(("Alien", "hi", Some(HardOfHearing)))),
            ("Alien.en.default", None),
            ("Alien.forced.sdh", None),
            ("Alien.en.de", None),
            ("Rocky", None),
            ("Rocky.II", Some(("Rocky.II", "und", None))),
        ] {
            let found = film_of(stem, &films);
            let found = found.as_ref().map(|(film, tag, why)| (film.as_str(), tag.as_str(), *why));
            assert_eq!(found, expected, "{stem}");
        }
    }

    #[test]
    fn subtitle_files_that_cannot_be_used_are_named() {
        let folder = tempdir().unwrap();
        for name in
            ["a.mkv", "a.b.mkv", "a.b.en.default.srt", "a.x.y.srt", "a.idx", "a.en.sub", "ab.srt"]
        {
            fs::write(folder.path().join(name), name).unwrap();
        }
        let films = look(folder.path()).unwrap().films;
        let ignored = |film: usize| {
            films[film].ignored.iter().map(|one| one.split(' ').next().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(ignored(0), ["a.b.en.default.srt"], "{:?}", films[0]);
        assert_eq!(ignored(1), ["a.en.sub", "a.idx", "a.x.y.srt"]);
        for number in 0..30 {
            fs::write(folder.path().join(format!("a.x.{number}.srt")), "").unwrap();
        }
        assert_eq!(look(folder.path()).unwrap().films[1].ignored.len(), IGNORED_MAX);
    }

    #[test]
    fn a_new_subtitle_file_changes_the_stamp() {
        let folder = tempdir().unwrap();
        fs::write(folder.path().join("a.mkv"), "film").unwrap();
        let stamp = || look(folder.path()).unwrap().films[0].stamp.clone();
        let before = stamp();
        assert_eq!(before, stamp());
        fs::write(folder.path().join("a.de.srt"), "words").unwrap();
        assert_ne!(before, stamp());
    }

    #[test]
    fn a_folder_that_is_missing_is_an_error() {
        assert!(look(Path::new("/not/there")).is_err());
    }
}
