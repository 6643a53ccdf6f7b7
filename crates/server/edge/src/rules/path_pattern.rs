//! Patterns of paths. `*` matches any bytes or none, slashes included; every other character matches itself, in either of Unicode's forms.
//!
//! There is no other syntax, and matching is fast: a path is searched for the pieces between the stars one after another, and
//! never from an earlier position again.

use std::fmt;

/// Longer than paths that people write, yet short enough for a fast search.
const BYTES_MAX: usize = 256;

/// One pattern. It matches whole paths, which begin with a slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    /// The text before the first star.
    first: Box<[u8]>,
    /// The text after each star.
    behind: Box<[Box<[u8]>]>,
}

impl PathPattern {
    /// Parses a pattern such as `/films/*` or `*.mpd`.
    ///
    /// # Errors
    /// If no path could match it, or if it is too long.
    pub fn new(text: &str) -> Result<Self, PatternFault> {
        if text.len() > BYTES_MAX {
            return Err(PatternFault::TooLong);
        }
        if !text.starts_with(['/', '*']) {
            return Err(PatternFault::Relative(text.to_owned()));
        }
        if text.ends_with('/') {
            return Err(PatternFault::Folder(text.to_owned()));
        }
        let is_strange = |segment: &str| matches!(segment, "" | "." | "..");
        if text.split('/').skip(1).any(is_strange) || text.chars().any(char::is_control) {
            return Err(PatternFault::Impossible);
        }
        // Paths are composed before they are compared.
        let composed = escape::unicode::composed(text.as_bytes());
        let mut pieces = composed.split(|byte| *byte == b'*').map(Box::from);
        let first = pieces.next().unwrap_or_default();
        Ok(Self { first, behind: pieces.collect() })
    }

    /// Whether the pattern matches all of `path`.
    pub fn matches(&self, path: &[u8]) -> bool {
        let Some(mut left) = path.strip_prefix(&*self.first) else { return false };
        let Some((last, middle)) = self.behind.split_last() else { return left.is_empty() };
        for piece in middle {
            let Some(at) = find(left, piece) else { return false };
            left = &left[at + piece.len()..];
        }
        left.ends_with(last)
    }
}

/// The first position of `piece` in `bytes`.
fn find(bytes: &[u8], piece: &[u8]) -> Option<usize> {
    match piece {
        [] => Some(0),
        _ => bytes.windows(piece.len()).position(|window| window == piece),
    }
}

/// Why a pattern is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternFault {
    /// It does not begin at the library's root; this is the text.
    #[error(fmt = write_relative)]
    Relative(String),
    /// It ends with a slash, and no file's path does; this is the text.
    #[error("it names a folder, and rules are for files; write {meant:?}", meant = format!("{}*", .0))]
    Folder(String),
    /// It has a segment that no file's path has, or control characters.
    #[error(
        "no file has such a path: leave out control characters, \"//\", \".\" and \"..\", as in \"/films/*\""
    )]
    Impossible,
    /// It is too long.
    #[error("it has more than {BYTES_MAX} bytes; write a shorter one, such as \"/films/*\"")]
    TooLong,
}

fn write_relative(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (there, anywhere) = (format!("/{text}"), format!("*{text}"));
    match text {
        "" => f.write_str("it is empty; write a path with a slash in front, such as \"/films/*\""),
        _ => {
            write!(f, "it begins with neither a slash nor a star; write {there:?} or {anywhere:?}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_matches(pattern: &str, paths: &[&str]) {
        let compiled = PathPattern::new(pattern).unwrap();
        for path in paths {
            assert!(compiled.matches(path.as_bytes()), "{pattern} does not match {path}");
        }
    }

    #[track_caller]
    fn assert_other(pattern: &str, paths: &[&str]) {
        let compiled = PathPattern::new(pattern).unwrap();
        for path in paths {
            assert!(!compiled.matches(path.as_bytes()), "{pattern} matches {path}");
        }
    }

    #[test]
    fn without_a_star_it_is_one_path() {
        assert_matches("/a/b.mp4", &["/a/b.mp4"]);
        assert_other("/a/b.mp4", &["/a/b.mp45", "/a/b.mp", "/x/a/b.mp4", "/a", ""]);
        assert_other("/a", &["/A"]);
    }

    #[test]
    fn a_name_is_matched_in_either_form_of_unicode() {
        // Requests' paths are composed.
        for pattern in ["/priv\u{e9}/*", "/prive\u{301}/*"] {
            assert_matches(pattern, &["/priv\u{e9}/a.mp4"]);
            assert_other(pattern, &["/prive/a.mp4"]);
        }
    }

    #[test]
    fn a_star_is_anything_across_folders_or_nothing() {
        assert_matches("*", &["/", "/a", "/a/b.mp4"]);
        assert_matches("/films/*", &["/films/a.mp4", "/films/a/b.mp4", "/films/"]);
        assert_other("/films/*", &["/films", "/film/a.mp4", "/x/films/a.mp4"]);
        assert_matches("*.mpd", &["/a.mpd", "/a/b.mpd", "/.mpd"]);
        assert_other("*.mpd", &["/a.mpd2", "/mpd"]);
        assert_matches("*/a.mpd", &["/a.mpd", "/b/a.mpd"]);
        assert_matches("/films/**", &["/films/a/b"]);
    }

    #[test]
    fn pieces_come_in_order_and_do_not_overlap() {
        assert_matches("/a*b*c", &["/abc", "/a1b2c", "/abbcc", "/ab/c"]);
        assert_other("/a*b*c", &["/acb", "/a1c", "/abcd"]);
        assert_matches("/*aa*aa", &["/aaaa", "/aaxaa", "/aaaaa"]);
        assert_other("/*aa*aa", &["/aaa", "/aa"]);
        assert_other("/ab*ba", &["/aba"]);
        assert_matches("/*.m*", &["/a.mp4", "/a.m"]);
    }

    #[test]
    fn all_other_characters_stand_for_themselves() {
        for literal in ["/a?b", "/a[b]", "/a{b,c}", "/a\\b", "/a%20b", "/caf\u{e9} 1"] {
            assert_matches(literal, &[literal]);
        }
        assert_other("/a?b", &["/acb"]);
        assert!(PathPattern::new("/*").unwrap().matches(b"/\xff\xfe"));
    }

    /// The reference is the definition itself, one byte at a time.
    #[test]
    fn it_matches_what_the_definition_does() {
        fn by_definition(pattern: &[u8], path: &[u8]) -> bool {
            match (pattern, path) {
                ([], []) => true,
                ([b'*', rest @ ..], _) => {
                    (0..=path.len()).any(|taken| by_definition(rest, &path[taken..]))
                }
                ([p, pattern @ ..], [c, path @ ..]) => p == c && by_definition(pattern, path),
                _ => false,
            }
        }
        let words = |letters: &'static [u8], longest: u32| {
            let of = move |length: u32, number: usize| -> Vec<u8> {
                let digit = |place| letters[number / letters.len().pow(place) % letters.len()];
                (0..length).map(digit).collect()
            };
            let count = move |length| 0..letters.len().pow(length);
            (0..=longest).flat_map(move |length| count(length).map(move |n| of(length, n)))
        };
        let paths: Vec<_> = words(b"ab", 6).collect();
        let mut matching = 0;
        for pattern in words(b"ab*", 5) {
            let text = format!("/{}", String::from_utf8(pattern).unwrap());
            let Ok(compiled) = PathPattern::new(&text) else { continue };
            for path in &paths {
                let path = [b"/", &path[..]].concat();
                let expected = by_definition(text.as_bytes(), &path);
                assert_eq!(compiled.matches(&path), expected, "{text} {path:?}");
                matching += usize::from(expected);
            }
        }
        assert!(matching > 1000, "{matching}");
    }

    #[test]
    fn a_pattern_that_nothing_could_match_is_refused_with_what_to_write() {
        let long = "/a".repeat(300);
        for (text, advice) in [
            ("", "\"/films/*\""),
            ("films/*", "\"/films/*\" or \"*films/*\""),
            ("/films/", "\"/films/*\""),
            ("/", "\"/*\""),
            ("//a", "\"//\""),
            ("/a/../b", "\"..\""),
            ("/a\n", "control"),
            (long.as_str(), "shorter"),
        ] {
            let said = PathPattern::new(text).unwrap_err().to_string();
            assert!(said.contains(advice) && !said.contains('\n'), "{text:?}: {said}");
        }
    }
}
