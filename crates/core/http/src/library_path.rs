//! A path in the library, in the one form in which it is compared.
//!
//! A library may hold names in any form: typed on Linux they are composed (NFC), copied from a Mac they are decomposed (NFD), and a path may mix
//! both. A request may write them either way, too. So a [`LibraryPath`] is composed when it is made, and whatever opens a file tries the path first
//! and then its [other spellings](LibraryPath::other_spellings). If a library has two files whose names are canonically equivalent, every request for
//! either is answered with the composed one: which file a path means must not depend on how it was written, because a token or a rule for it doesn't.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use escape::unicode::{composed, decomposed};

use crate::target::escape_of;

/// Up to this many segments that have two forms, each combination of their forms is tried. Their number doubles with each segment, and each costs an
/// attempt to open a file. With more, only paths that are in one form throughout are found.
const MIXED_SEGMENTS_MAX: usize = 3;

/// A decoded path relative to the library's root, composed (NFC), without `/` at either end. `target.rs` lists what else it guarantees.
/// Bytes, because file names on Linux need not be UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LibraryPath {
    path: Box<[u8]>,
    /// The path as it was written, if that differs. In two boxes, because it is rare and each idle session has room for a request.
    written: Option<Box<Box<[u8]>>>,
}

impl LibraryPath {
    /// The path of checked segments. ASCII, which is every path of most libraries, costs one scan.
    pub(crate) fn decoded(path: Vec<u8>) -> Self {
        match composed(&path) {
            Cow::Borrowed(_) => Self { path: path.into(), written: None },
            Cow::Owned(composed) => {
                Self { path: composed.into(), written: Some(Box::new(path.into())) }
            }
        }
    }

    /// A path as an operator writes it: as on disk, nothing encoded, with or without a slash at each end. `/` is the
    /// root. `None` if no request could name it, or if it has an empty segment: a request may, but here it is more likely a mistake.
    pub fn as_written(path: &[u8]) -> Option<Self> {
        let inner = path.strip_prefix(b"/").unwrap_or(path);
        let inner = inner.strip_suffix(b"/").unwrap_or(inner);
        let mut segments = inner.split(|byte| *byte == b'/').enumerate();
        let is_nameable = segments.all(|(index, segment)| {
            !segment.is_empty() && escape_of(segment, index == 0).is_none()
        });
        (path == b"/" || is_nameable).then(|| Self::decoded(inner.to_vec()))
    }

    /// The path's bytes, without NUL.
    pub fn as_bytes(&self) -> &[u8] {
        &self.path
    }

    /// The bytes before they were composed, for comparing with what others made of the same bytes, such as a signature.
    pub fn as_sent(&self) -> &[u8] {
        self.written.as_ref().map_or(&self.path, |written| &**written)
    }

    /// The path for calls of the standard library.
    pub fn as_path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.path))
    }

    /// The bytes without a copy.
    pub fn into_bytes(self) -> Vec<u8> {
        self.path.into()
    }

    /// Whether the same file may have another name: not if it was written in ASCII. A few characters become ASCII when they are composed, such as the
    /// sign for kelvin.
    pub fn has_other_spellings(&self) -> bool {
        !self.path.is_ascii() || self.written.is_some()
    }

    /// The names that the same file may have on disk or at an origin, in the order to try after the path itself: decomposed (NFD), with some segments
    /// in either form, and as it was written, which may be in neither form.
    pub fn other_spellings(&self) -> Vec<Vec<u8>> {
        let mut spellings = Vec::new();
        if !self.has_other_spellings() {
            return spellings;
        }
        let segments: Vec<_> = self.path.split(|byte| *byte == b'/').collect();
        let forms: Vec<_> = segments.iter().map(|segment| decomposed(segment)).collect();
        let has_two = |index: &usize| *forms[*index] != *segments[*index];
        let with_two: Vec<_> = (0..forms.len()).filter(has_two).collect();
        if with_two.len() > MIXED_SEGMENTS_MAX {
            // Viewers can invent paths of thousands of segments.
            spellings.push(forms.join(&b'/'));
        } else {
            // Bit N: the Nth segment with two forms is decomposed.
            for bits in (1..1_u32 << with_two.len()).rev() {
                let mut spelled = segments.clone();
                for (bit, index) in with_two.iter().enumerate() {
                    if (bits >> bit) & 1 == 1 {
                        spelled[*index] = &*forms[*index];
                    }
                }
                spellings.push(spelled.join(&b'/'));
            }
        }
        if let Some(written) = &self.written {
            if spellings.iter().all(|known| **known != ***written) {
                spellings.push(written.to_vec());
            }
        }
        spellings
    }

    /// The path without its first `count` segments; `None` if it has fewer. The root has no segments.
    pub(crate) fn below(&self, count: usize) -> Option<Self> {
        // Composing adds and removes no slash.
        let path: Box<[u8]> = without_segments(&self.path, count)?.into();
        let written = self.written.as_ref().and_then(|path| without_segments(path, count));
        let written = written.filter(|written| **written != *path);
        let written = written.map(|written| Box::new(written.into()));
        Some(Self { path, written })
    }
}

fn without_segments(path: &[u8], count: usize) -> Option<&[u8]> {
    let mut rest = path;
    for _ in 0..count {
        rest = match rest.iter().position(|byte| *byte == b'/') {
            Some(end) => &rest[end + 1..],
            None if rest.is_empty() => return None,
            None => &[],
        };
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> LibraryPath {
        LibraryPath::decoded(text.as_bytes().to_vec())
    }

    fn spellings(text: &str) -> Vec<String> {
        let spellings = path(text).other_spellings().into_iter();
        spellings.map(|spelling| String::from_utf8(spelling).unwrap()).collect()
    }

    #[test]
    fn a_written_path_is_one_that_a_request_could_name() {
        let written = |text: &str| LibraryPath::as_written(text.as_bytes());
        for (text, same) in [
            ("/", ""),
            ("a", "a"),
            ("/a/", "a"),
            ("a/b c%20.mp4", "a/b c%20.mp4"),
            (".well-known/x", ".well-known/x"),
        ] {
            assert_eq!(written(text), Some(path(same)), "{text}");
        }
        for text in ["", "//", "a//", "//a", "a//b", ".", "../a", "a/./b", "a\nb", ".a", "a/.b"] {
            assert_eq!(written(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_path_is_composed_and_what_was_written_is_kept() {
        let sent = path("a/e\u{301}/t");
        assert_eq!(sent.as_bytes(), "a/\u{e9}/t".as_bytes());
        assert_eq!(sent.as_sent(), "a/e\u{301}/t".as_bytes());
        assert_eq!(sent.below(1).unwrap().as_sent(), "e\u{301}/t".as_bytes());
        assert_eq!(sent.below(2), Some(path("t")));
        assert_eq!(sent.below(3), Some(path("")));
        assert_eq!(sent.below(4), None);
        let written = LibraryPath::as_written("/prive\u{301}/".as_bytes());
        assert_eq!(written.unwrap().as_bytes(), "priv\u{e9}".as_bytes());
    }

    #[test]
    fn ascii_has_one_spelling() {
        assert!(spellings("films/a.mp4").is_empty());
        assert!(spellings("").is_empty());
        assert!(spellings("\u{4e2d}.mp4").is_empty(), "no other form of it exists");
    }

    #[test]
    fn the_decomposed_path_comes_first_then_mixed_ones_then_the_written_one() {
        assert_eq!(spellings("a/\u{e9}/b"), ["a/e\u{301}/b"]);
        assert_eq!(spellings("a/e\u{301}/b"), ["a/e\u{301}/b"]);
        assert_eq!(
            spellings("\u{e9}/\u{fc}"),
            ["e\u{301}/u\u{308}", "\u{e9}/u\u{308}", "e\u{301}/\u{fc}"]
        );
        assert_eq!(spellings("\u{212b}"), ["A\u{30a}", "\u{212b}"]);
        let four = "\u{e9}/\u{e9}/\u{e9}/\u{e9}";
        assert_eq!(spellings(four), ["e\u{301}/e\u{301}/e\u{301}/e\u{301}"]);
        assert_eq!(spellings("\u{e9}/\u{e9}/\u{e9}").len(), 7);
    }

    #[test]
    fn a_long_path_has_one_other_spelling() {
        let (long, decomposed) = (["\u{e9}"; 5000].join("/"), ["e\u{301}"; 5000].join("/"));
        assert_eq!(spellings(&long), [decomposed]);
    }

    #[test]
    fn what_composes_to_ascii_is_also_tried_as_it_was_written() {
        for (written, composed) in [("\u{212a}", "K"), ("a\u{37e}", "a;"), ("b/\u{1fef}", "b/`")] {
            let sent = path(written);
            assert_eq!(sent.as_bytes(), composed.as_bytes());
            assert!(sent.has_other_spellings(), "{composed}");
            assert_eq!(spellings(written), [written]);
            assert!(!path(composed).has_other_spellings());
        }
    }
}
