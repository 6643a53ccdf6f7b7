//! Names of titles with a record: the name of their folder, and its path in the library.

use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::{fs, io};

use escape::unicode;

/// A name that can be a folder of a library and, unchanged, part of a URL. It has no slash and no control character. It does not start with
/// a dot (such names are hidden and never served), and it is not `-` (reserved for the server's own pages).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TitleName(String);

/// Why a text cannot be a title's name. The message says what to do.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NameError(String);

/// File names on Linux have at most 255 bytes, and the work folder's name is a little longer than the title's.
const BYTES_MAX: usize = 200;

impl TitleName {
    /// Parses `text` as a name.
    ///
    /// # Errors
    /// [`NameError`], if it is invalid.
    pub fn new(text: &str) -> Result<Self, NameError> {
        let wrong = if text.is_empty() {
            "it is empty"
        } else if text.len() > BYTES_MAX {
            "it is longer than 200 bytes"
        } else if text.starts_with('.') {
            "names that begin with a dot are not served"
        } else if text == "-" {
            "that name is reserved for the server"
        } else if text.contains('/') {
            "it contains a slash"
        } else if text.chars().any(char::is_control) {
            "it contains a control character"
        } else {
            return Ok(Self(text.to_owned()));
        };
        Err(NameError(format!("{text:?} cannot be a title's name: {wrong}")))
    }

    /// The name that a title gets from its video file: the file's name without the extension, [composed](Self::composed).
    ///
    /// # Errors
    /// [`NameError`], if that is invalid.
    pub fn of_file(path: &Path) -> Result<Self, NameError> {
        let stem = path.file_stem().unwrap_or_default();
        let text = stem.to_str().ok_or_else(|| {
            NameError(format!("the name of {} is not UTF-8; give one with --title", path.display()))
        })?;
        Ok(Self::new(text)?.composed())
    }

    /// The name in Unicode's composed form (NFC), in which the server looks up a title first, however a viewer spells it. New titles have it, even
    /// if their file comes from a Mac, which writes names decomposed (NFD).
    #[must_use]
    pub fn composed(&self) -> Self {
        let composed = unicode::composed(self.0.as_bytes());
        // Some rare characters become longer. A name that is too long then stays as it is.
        let name = std::str::from_utf8(&composed).ok().and_then(|text| Self::new(text).ok());
        name.unwrap_or_else(|| self.clone())
    }

    /// The name that the title has in the folder `folder`: one that is equivalent by Unicode, because the server serves one of these for all. If
    /// there are several, the one that the server serves.
    ///
    /// # Errors
    /// If `folder` cannot be listed.
    pub fn in_folder(&self, folder: &Path) -> io::Result<Option<Self>> {
        let composed = self.composed();
        let mut names = Vec::new();
        for entry in fs::read_dir(folder)? {
            let name = entry?.file_name();
            let name = name.to_str().and_then(|name| Self::new(name).ok());
            names.extend(name.filter(|name| name.composed() == composed));
        }
        Ok(names.into_iter().min_by_key(|name| (*name != composed, name.to_string())))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Display for TitleName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The path of a title in a library, as users write it: `film`, or `films/a` in the folder `films`. Each segment is a [`TitleName`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TitlePath {
    text: String,
    /// Of its last segment.
    name: TitleName,
}

impl TitlePath {
    /// Parses `text` as a path.
    ///
    /// # Errors
    /// [`NameError`], if it is invalid.
    pub fn new(text: &str) -> Result<Self, NameError> {
        let mut names = text.split('/').map(TitleName::new).collect::<Result<Vec<_>, _>>()?;
        // Splitting a text gives at least one part.
        let name = names.pop().ok_or_else(|| NameError(format!("{text:?} is empty")))?;
        Ok(Self { text: text.to_owned(), name })
    }

    /// The path, with slashes.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The title's own name.
    pub fn name(&self) -> &TitleName {
        &self.name
    }

    /// The title's folder.
    pub fn folder(&self, library: &Path) -> PathBuf {
        library.join(&self.text)
    }

    /// The parent of the title's folder.
    pub fn above(&self, library: &Path) -> PathBuf {
        let above = self.text.rsplit_once('/').map_or("", |(above, _)| above);
        if above.is_empty() { library.to_path_buf() } else { library.join(above) }
    }
}

impl Display for TitlePath {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_made_of_names() {
        let path = TitlePath::new("films/a film").unwrap();
        assert_eq!((path.as_str(), path.name().as_str()), ("films/a film", "a film"));
        assert_eq!(path.above(Path::new("/lib")), Path::new("/lib/films"));
        assert_eq!(TitlePath::new("film").unwrap().above(Path::new("/lib")), Path::new("/lib"));
        for text in ["", "/", "/film", "film/", "a//b", "../a", "a/../b", "a/.b", "-/a"] {
            assert!(TitlePath::new(text).is_err(), "{text}");
        }
    }

    #[test]
    fn files_name_their_titles() {
        let named = |path: &str| TitleName::of_file(Path::new(path)).map(|name| name.0);
        assert_eq!(named("/films/A film, 50% off.final.mkv").unwrap(), "A film, 50% off.final");
        assert_eq!(named("noext").unwrap(), "noext");
        assert!(named("/").is_err());
    }

    #[test]
    fn a_new_title_has_its_composed_name_and_an_old_one_keeps_its_own() {
        let (composed, decomposed) = ("Am\u{e9}lie", "Ame\u{301}lie");
        let file = format!("/films/{decomposed}.mkv");
        let name = TitleName::of_file(Path::new(&file)).unwrap();
        assert_eq!(name.as_str(), composed);
        // Composed, it would be longer than names may be.
        let long = TitleName::new(&"\u{1d160}".repeat(50)).unwrap();
        assert_eq!(long.composed(), long);
        let folder = tempfile::tempdir().unwrap();
        let found = || name.in_folder(folder.path()).unwrap().map(|name| name.0);
        assert_eq!(found(), None);
        fs::create_dir(folder.path().join("Amelie")).unwrap();
        assert_eq!(found(), None);
        fs::create_dir(folder.path().join(decomposed)).unwrap();
        assert_eq!(found().as_deref(), Some(decomposed));
        // Of both, the server serves this one.
        fs::create_dir(folder.path().join(composed)).unwrap();
        assert_eq!(found().as_deref(), Some(composed));
        assert!(name.in_folder(Path::new("/not/there")).is_err());
    }

    #[test]
    fn names_that_cannot_be_served_are_refused() {
        for text in ["", ".hidden", "..", "-", "a/b", "a\nb", &"x".repeat(201)] {
            assert!(TitleName::new(text).is_err(), "{text}");
        }
    }
}
