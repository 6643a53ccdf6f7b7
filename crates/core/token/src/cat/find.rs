//! Finds Common Access Tokens in any text, so that a log can leave their signatures out.
//!
//! A token's end is its signature, so without its last characters it is worth nothing, and its claims can still be read. Its characters may be
//! percent-encoded, once or several times, as those of our own tokens may (`../signatures.rs`). Other characters of base64url may come directly
//! before and after it, and it may be cut off: then a part of its signature is left out, too.
//!
//! The beginning of a token is recognized by parsing its headers, so names of files that only look alike stay as they are.

use std::ops::Range;

use super::cose;
use crate::signatures::character;

/// The shortest text that can have a signature: an array of a header with an algorithm, an empty one, no claims and eight bytes (HMAC 256/64).
const TEXT_BYTES_MIN: usize = 22;

/// The first two characters of a token: of the tags 61, 17 and 18, or of an array of four. Only a few names of files have them, so few are parsed.
const FIRST: [&[u8; 2]; 11] =
    [b"2D", b"2Q", b"0Y", b"0Z", b"0o", b"0p", b"hE", b"hF", b"mA", b"n0", b"n1"];

/// The ranges of the ends of tokens in `text`, in order.
pub(crate) fn tails(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    Runs { text, at: 0 }.filter_map(|run| tail(text, run))
}

/// The runs of characters of base64url that may have a token.
struct Runs<'t> {
    text: &'t [u8],
    at: usize,
}

impl Iterator for Runs<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        while self.text.len() - self.at >= TEXT_BYTES_MIN {
            let (first, mut count, mut end) = (self.at, 0, self.text.len());
            let (mut before, mut has_first) = (0, false);
            while self.at < self.text.len() {
                let start = self.at;
                let (character, bytes) = character(&self.text[start..]);
                self.at += bytes;
                if !(character.is_ascii_alphanumeric() || matches!(character, b'-' | b'_')) {
                    end = start;
                    break;
                }
                has_first |= FIRST.contains(&&[before, character]);
                before = character;
                count += 1;
            }
            if has_first && count >= TEXT_BYTES_MIN {
                return Some(first..end);
            }
        }
        None
    }
}

/// The signature, or its beginning, of the token in `run`, if there is one, and what comes after it.
fn tail(text: &[u8], run: Range<usize>) -> Option<Range<usize>> {
    let (mut characters, mut starts, mut at) = (Vec::new(), Vec::new(), run.start);
    while at < run.end {
        let (character, bytes) = character(&text[at..run.end]);
        characters.push(character);
        starts.push(at);
        at += bytes;
    }
    let may_begin = |at: &usize| FIRST.iter().any(|first| characters[*at..].starts_with(*first));
    (0..characters.len()).filter(may_begin).find_map(|first| {
        let claims_end = cose::claims_end(&characters[first..])?;
        // The character after the claims has at most their last bits, and the length of the signature. Without it, the claims were cut off.
        let start = *starts.get(first + (claims_end * 4).div_ceil(3))?;
        Some(start..run.end)
    })
}
