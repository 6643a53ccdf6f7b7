//! Finds Common Access Tokens in any text, so that a log can leave their signatures out.
//!
//! A token's end is its signature, so without its last characters it is worth nothing, and its claims can still be read. Its characters may be
//! percent-encoded, once or several times, as those of our own tokens may (`../signatures.rs`).
//!
//! Whether a run of characters is a token is seen by parsing it, so names of files that only look alike stay as they are.

use std::ops::Range;

use super::{TEXT_BYTES_MAX, cose};
use crate::signatures::character;

/// The shortest text: an array of two empty headers, no claims and 32 bytes of a signature, 38 bytes in all.
const TEXT_BYTES_MIN: usize = 51;

/// Characters that are left out. 43 are 32 bytes: all of the shortest signature, and enough of each longer one.
const TAIL: usize = 43;

/// First characters of a token: those of a tag or of an array of four.
const FIRST: &[u8] = b"20hmn";

/// The ranges of the ends of tokens in `text`, in order.
pub(crate) fn tails(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    Runs { text, at: 0 }.filter_map(|run| tail(text, run))
}

/// The runs of characters of base64url that are long enough.
struct Runs<'t> {
    text: &'t [u8],
    at: usize,
}

impl Iterator for Runs<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        while self.text.len() - self.at >= TEXT_BYTES_MIN {
            let (first, mut count, mut end) = (self.at, 0, self.text.len());
            while self.at < self.text.len() {
                let start = self.at;
                let (character, bytes) = character(&self.text[start..]);
                self.at += bytes;
                if !(character.is_ascii_alphanumeric() || matches!(character, b'-' | b'_')) {
                    end = start;
                    break;
                }
                count += 1;
            }
            if (TEXT_BYTES_MIN..=TEXT_BYTES_MAX).contains(&count) {
                return Some(first..end);
            }
        }
        None
    }
}

/// The end of the token that `run` is, if it is one.
fn tail(text: &[u8], run: Range<usize>) -> Option<Range<usize>> {
    if !FIRST.contains(&character(&text[run.clone()]).0) {
        return None;
    }
    let (mut characters, mut starts, mut at) = (Vec::new(), Vec::new(), run.start);
    while at < run.end {
        let (character, bytes) = character(&text[at..run.end]);
        characters.push(character);
        starts.push(at);
        at += bytes;
    }
    let start = starts[starts.len().checked_sub(TAIL)?];
    cose::has_form(&characters).then_some(start..run.end)
}
