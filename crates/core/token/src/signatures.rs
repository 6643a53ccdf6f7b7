//! Finds the signatures of tokens in any text, so that a log can leave them out.
//!
//! A token counts anywhere: in a path, in an argument, in a URL that is an argument of another one. So its characters may be
//! percent-encoded, once or several times, and the start of its expiry and the end of its depth do not matter: after `%20`, the expiry seems to
//! have two more digits. The search needs only a digit, a signature of exactly the right length, a key's id and a digit, with dots between them.
//!
//! Invariants:
//! * Everything that [`crate::Token::parse`] accepts is found in any text, and some of what it rejects.
//! * Time is linear in the length of the text, and nothing is allocated where nothing is found.

use std::borrow::Cow;
use std::ops::Range;

use crate::cat;
use crate::token::{CHECK_BYTES, ED25519_BYTES, HMAC_BYTES, KEY_ID_BYTES_MAX, is_of_key_id};

const HMAC_DIGITS: usize = 2 * HMAC_BYTES;
const ED25519_DIGITS: usize = 2 * (ED25519_BYTES + CHECK_BYTES);

/// `text` with `-` for each token's signature, those of Common Access Tokens included, with what directly follows those. The rest of a token
/// stays: it helps to see what went wrong.
pub fn without_signatures(text: &[u8]) -> Cow<'_, [u8]> {
    let mut found: Vec<_> = signatures(text).chain(cat::tails(text)).collect();
    // No token is within another: ours have dots, and Common Access Tokens have none.
    found.sort_unstable_by_key(|signature| signature.start);
    without(text, found)
}

/// As [`without_signatures`], where Common Access Tokens stay: another server may check those.
pub fn without_own_signatures(text: &[u8]) -> Cow<'_, [u8]> {
    without(text, signatures(text))
}

fn without(text: &[u8], found: impl IntoIterator<Item = Range<usize>>) -> Cow<'_, [u8]> {
    let (mut redacted, mut done_to) = (Vec::new(), 0);
    for signature in found {
        redacted.extend_from_slice(&text[done_to..signature.start]);
        redacted.push(b'-');
        done_to = signature.end;
    }
    if done_to == 0 {
        return Cow::Borrowed(text);
    }
    redacted.extend_from_slice(&text[done_to..]);
    Cow::Owned(redacted)
}

/// The ranges of tokens' signatures in `text`, in order.
fn signatures(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    Search { text, at: 0, digits: None, signature: None }
}

struct Search<'t> {
    text: &'t [u8],
    at: usize,
    /// A possible signature: its start, and the number of its digits so far.
    digits: Option<(usize, usize)>,
    /// A complete possible signature, and the part after it.
    signature: Option<(Range<usize>, Part)>,
}

/// The part of a token that the search is in.
enum Part {
    /// The id of the key, with its length so far.
    Key(usize),
    Depth,
}

impl Iterator for Search<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        while self.at < self.text.len() {
            let start = self.at;
            let (character, bytes) = character(&self.text[start..]);
            self.at += bytes;
            let found = self.step(character, start);
            if found.is_some() {
                return found;
            }
        }
        None
    }
}

impl Search<'_> {
    /// Processes the character at `start`. Returns a token's signature if this is the token's depth.
    fn step(&mut self, character: u8, start: usize) -> Option<Range<usize>> {
        let (digits, signature) = (self.digits.take(), self.signature.take());
        if character == b'.' {
            // A digit's percent-encoding ends with a digit, too. The text before the token may seem to encode the expiry's first digits.
            let is_behind_digit = self.text[..start].last().is_some_and(u8::is_ascii_digit);
            self.digits = is_behind_digit.then_some((self.at, 0));
            self.signature = match (digits, signature) {
                (Some((first, HMAC_DIGITS | ED25519_DIGITS)), _) => {
                    Some((first..start, Part::Key(0)))
                }
                (_, Some((signature, Part::Key(1..)))) => Some((signature, Part::Depth)),
                _ => None,
            };
            return None;
        }
        if matches!(character, b'0'..=b'9' | b'a'..=b'f') {
            self.digits = digits.map(|(first, count)| (first, count + 1));
        }
        match signature? {
            (signature, Part::Depth) => character.is_ascii_digit().then_some(signature),
            (signature, Part::Key(length)) => {
                if length < KEY_ID_BYTES_MAX && is_of_key_id(character) {
                    self.signature = Some((signature, Part::Key(length + 1)));
                }
                None
            }
        }
    }
}

/// The first character of `text`, which is not empty, percent-decoded, and the number of bytes it takes there. Encoded twice, `1` is
/// `%2531`. A `%` that encodes nothing is itself.
pub(crate) fn character(text: &[u8]) -> (u8, usize) {
    let [b'%', rest @ ..] = text else { return (text[0], 1) };
    let mut encoded = rest;
    while let [b'2', b'5', inner @ ..] = encoded {
        encoded = inner;
    }
    let digit = |index: usize| char::from(*encoded.get(index)?).to_digit(16);
    match (digit(0), digit(1)) {
        (Some(high), Some(low)) => ((high * 16 + low) as u8, text.len() - encoded.len() + 2),
        _ => (b'%', 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn redacted(text: &str) -> String {
        String::from_utf8(without_signatures(text.as_bytes()).into_owned()).unwrap()
    }

    /// Every byte of the text, percent-encoded.
    fn encoded(text: &str) -> String {
        text.bytes().map(|byte| format!("%{byte:02X}")).collect()
    }

    #[test]
    fn a_signature_is_found_whatever_stands_around_its_token() {
        for signature in ["0a".repeat(HMAC_BYTES), "9f".repeat(ED25519_BYTES + CHECK_BYTES)] {
            let token = format!("1790000000.{signature}.k-1_A.2c");
            for (before, behind) in [
                ("", ""),
                ("/t/", "/films/a"),
                ("%2Ft%2F", "%2Ffilms"),
                ("%252ft%252f", "%252ffilms"),
                ("?a;token=", "&b"),
                ("%20", "%20"),
                ("see \"https://h/t/", "\"."),
                ("1.2.", ".3"),
                ("%", "%"),
                ("%25", "%25"),
                (token.as_str(), token.as_str()),
            ] {
                let expected = format!("{before}{token}{behind}").replace(&signature, "-");
                assert_eq!(redacted(&format!("{before}{token}{behind}")), expected);
            }
        }
    }

    #[test]
    fn a_signature_is_found_if_its_token_is_percent_encoded() {
        let digits = "0a".repeat(HMAC_BYTES);
        let once = encoded(&digits);
        let twice = once.replace('%', "%25");
        let thrice = twice.replace("%25", "%2525");
        let token = |signature: &str| format!("/t/1790000000.{signature}.k1.2c/a");
        for signature in [&once, &twice, &thrice] {
            assert_eq!(redacted(&token(signature)), token("-"));
        }
        let (before, behind) = (encoded("1790000000."), encoded(".k1.2"));
        let whole = format!("{before}{digits}{behind}");
        let expected = format!("{before}-{behind}");
        assert_eq!(redacted(&whole), expected);
        assert_eq!(redacted(&whole.to_lowercase()), expected.to_lowercase());
    }

    #[test]
    fn what_does_not_have_the_parts_of_a_token_is_left_alone() {
        let z = "00".repeat(HMAC_BYTES);
        for text in [
            String::new(),
            "/films/1.2.3.4/x".into(),
            "%".into(),
            "%2".into(),
            "%25%2525".into(),
            format!("/sha256/{z}.m4s"),
            format!("1.{z}"),
            format!("1.{z}.m4s"),
            format!("1.{z}..2"),
            format!("1.{z}.k"),
            format!("1.{z}.k."),
            format!("1.{z}.k.x"),
            format!("a.{z}.k.2"),
            format!("1.{z}0.k.2"),
            format!("1.{}.k.2", "A0".repeat(HMAC_BYTES)),
            format!("1.{z}.{}.2", "k".repeat(KEY_ID_BYTES_MAX + 1)),
            format!("1.{z}%2Fk.2"),
        ] {
            assert_eq!(redacted(&text), text);
        }
    }

    proptest! {
        #[test]
        fn a_token_is_found_in_any_text(
            before: Vec<u8>, expiry in 0..10u64.pow(12), hmac: [u8; 32], key in "[a-zA-Z0-9_-]{1,32}",
            depth in 0..10_000, behind: Vec<u8>,
        ) {
            let mut text = before;
            text.extend(format!("{expiry}.").bytes());
            let first = text.len();
            text.extend(data_encoding::HEXLOWER.encode(&hmac).bytes());
            let signature = first..text.len();
            text.extend(format!(".{key}.{depth}").bytes());
            text.extend(behind);
            prop_assert!(signatures(&text).any(|found| found == signature));
        }

        #[test]
        fn what_is_found_is_in_order_and_within_the_text(text in "(1\\.|%25|%2e|0{64}|\\.k|\\.2|%|c){0,60}") {
            let mut end = 0;
            for found in signatures(text.as_bytes()) {
                prop_assert!(end < found.start && found.start < found.end);
                end = found.end;
            }
            prop_assert!(end <= text.len());
        }
    }
}
