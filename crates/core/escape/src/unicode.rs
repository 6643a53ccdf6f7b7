//! Unicode's two canonical forms of a name (Unicode Standard Annex 15): composed (NFC: `é` is one character), which keyboards produce and the web
//! prefers, and decomposed (NFD: `e` and an accent), which macOS writes to disks.
//!
//! The two look the same and are different bytes, so a file copied from a Mac isn't found by a typed address. Canonically equivalent names are one
//! name here: everything that compares paths compares their composed forms.
//!
//! Invariants:
//! * ASCII is in both forms already: it is returned as it is, after one scan.
//! * Each segment of a path is converted by itself, so a segment that is not UTF-8, and stays as it is, doesn't keep its neighbours from being
//!   compared.
//! * A form has as many segments as the path, and no segment becomes `.`, `..` or hidden: no character is equivalent to a slash, a dot or a control
//!   character (a test looks at all of them).

use std::borrow::Cow;

use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};

/// `path` with each segment composed (NFC).
pub fn composed(path: &[u8]) -> Cow<'_, [u8]> {
    let normalizer = ComposingNormalizerBorrowed::new_nfc();
    by_segment(path, |segment| normalizer.normalize(segment))
}

/// `path` with each segment decomposed (NFD).
pub fn decomposed(path: &[u8]) -> Cow<'_, [u8]> {
    let normalizer = DecomposingNormalizerBorrowed::new_nfd();
    by_segment(path, |segment| normalizer.normalize(segment))
}

fn by_segment(path: &[u8], form: impl Fn(&str) -> Cow<'_, str>) -> Cow<'_, [u8]> {
    if path.is_ascii() {
        return Cow::Borrowed(path);
    }
    let mut converted = Vec::with_capacity(path.len());
    for (index, segment) in path.split(|byte| *byte == b'/').enumerate() {
        if index > 0 {
            converted.push(b'/');
        }
        match std::str::from_utf8(segment) {
            Ok(text) => converted.extend_from_slice(form(text).as_bytes()),
            Err(_) => converted.extend_from_slice(segment),
        }
    }
    if converted == path { Cow::Borrowed(path) } else { Cow::Owned(converted) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPOSED: &str = "S\u{e9}ries/\u{c5}land/\u{d55c}.mp4";
    const DECOMPOSED: &str = "Se\u{301}ries/A\u{30a}land/\u{1112}\u{1161}\u{11ab}.mp4";

    fn text(path: &[u8]) -> &str {
        std::str::from_utf8(path).unwrap()
    }

    #[test]
    fn both_forms_of_a_path_lead_to_each_other() {
        for path in [COMPOSED, DECOMPOSED] {
            assert_eq!(text(&composed(path.as_bytes())), COMPOSED);
            assert_eq!(text(&decomposed(path.as_bytes())), DECOMPOSED);
        }
        // The sign for angstrom is in neither form.
        assert_eq!(text(&composed("\u{212b}land".as_bytes())), "\u{c5}land");
        assert_eq!(text(&decomposed("\u{212b}land".as_bytes())), "A\u{30a}land");
    }

    #[test]
    fn a_path_that_is_in_the_form_is_borrowed() {
        for path in ["", "films/a.mp4", COMPOSED] {
            assert!(matches!(composed(path.as_bytes()), Cow::Borrowed(_)), "{path}");
        }
        assert!(matches!(decomposed(DECOMPOSED.as_bytes()), Cow::Borrowed(_)));
    }

    #[test]
    fn a_segment_that_is_not_utf8_stays_alone() {
        let path = [b"prive\xcc\x81/", &b"\xff e\xcc\x81/e\xcc\x81"[..]].concat();
        assert_eq!(*composed(&path), *b"priv\xc3\xa9/\xff e\xcc\x81/\xc3\xa9");
    }

    #[test]
    fn no_character_becomes_a_slash_a_dot_or_a_control_character() {
        for character in ('\u{80}'..=char::MAX).filter(|character| !character.is_control()) {
            let mut buffer = [0; 4];
            let bytes = character.encode_utf8(&mut buffer).as_bytes();
            for form in [composed(bytes), decomposed(bytes)] {
                let is_risky = |byte: u8| byte.is_ascii_control() || byte == b'/' || byte == b'.';
                assert!(!form.is_empty() && !form.iter().copied().any(is_risky), "{character:?}");
            }
        }
    }
}
