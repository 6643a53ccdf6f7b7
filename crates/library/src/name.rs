//! The name of a title: one folder of a library.

use std::fmt::{self, Display, Formatter};
use std::path::Path;

/// A name that can be a folder of a library and part of a URL as it is: no slash, no control character, no dot at its start (such
/// names are hidden and never served), not `-` (the server's own pages are there).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TitleName(String);

/// Why a text is no title's name. Its text says what to do.
#[derive(Debug, PartialEq, Eq)]
pub struct NameError(String);

impl Display for NameError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NameError {}

/// File names on Linux are no longer than 255 bytes; the work folder's is the title's and a little more.
const BYTES_MAX: usize = 200;

impl TitleName {
    /// Takes `text` as a name.
    ///
    /// # Errors
    /// [`NameError`], if it cannot be one.
    pub fn new(text: &str) -> Result<Self, NameError> {
        let wrong = if text.is_empty() {
            "it is empty"
        } else if text.len() > BYTES_MAX {
            "it is longer than 200 bytes"
        } else if text.starts_with('.') {
            "names that begin with a dot are not served"
        } else if text == "-" {
            "the server keeps that one for itself"
        } else if text.contains('/') {
            "it has a slash in it"
        } else if text.chars().any(char::is_control) {
            "it has a control character in it"
        } else {
            return Ok(Self(text.to_owned()));
        };
        Err(NameError(format!("{text:?} cannot be a title's name: {wrong}")))
    }

    /// The name that a video file gives its title: its own without the extension.
    ///
    /// # Errors
    /// [`NameError`], if that is none.
    pub fn of_file(path: &Path) -> Result<Self, NameError> {
        let stem = path.file_stem().unwrap_or_default();
        let text = stem.to_str().ok_or_else(|| {
            NameError(format!("the name of {} is not UTF-8; give one with --title", path.display()))
        })?;
        Self::new(text)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_name_their_titles() {
        let named = |path: &str| TitleName::of_file(Path::new(path)).map(|name| name.0);
        assert_eq!(named("/films/A film, 50% off.final.mkv").unwrap(), "A film, 50% off.final");
        assert_eq!(named("noext").unwrap(), "noext");
        assert!(named("/").is_err());
    }

    #[test]
    fn names_that_cannot_be_served_are_refused() {
        for text in ["", ".hidden", "..", "-", "a/b", "a\nb", &"x".repeat(201)] {
            assert!(TitleName::new(text).is_err(), "{text}");
        }
    }
}
