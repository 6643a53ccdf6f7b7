//! Percent-encoding (RFC 3986 section 2).
//!
//! Encoding is done by the crate percent-encoding. Decoding is ours, because it must be strict: a `%` without two hexadecimal digits is an error,
//! while that crate copies it to the output.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode, utf8_percent_encode};

/// All except the unreserved characters (RFC 3986 section 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// All except the unreserved characters and the slash.
const RESERVED_IN_PATH: &AsciiSet = &RESERVED.remove(b'/');

/// `text`, decoded once; `None` if the encoding is broken. Accepts bytes that a URI should have encoded.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    decode_into(text, &mut decoded).map(|()| decoded)
}

/// Appends `text`, decoded once, to `decoded`; `None` if the encoding is broken. Accepts bytes that a URI should have encoded.
pub fn decode_into(text: &[u8], decoded: &mut Vec<u8>) -> Option<()> {
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        let (byte, tail) = if *first == b'%' { decode_pair(tail)? } else { (*first, tail) };
        decoded.push(byte);
        rest = tail;
    }
    Some(())
}

/// `text`, decoded once, where a `%` without two hexadecimal digits stays as it is.
pub fn decode_leniently(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        let pair = Some(tail).filter(|_| *first == b'%').and_then(decode_pair);
        let (byte, tail) = pair.unwrap_or((*first, tail));
        decoded.push(byte);
        rest = tail;
    }
    decoded
}

fn decode_pair(tail: &[u8]) -> Option<(u8, &[u8])> {
    let [high, low, tail @ ..] = tail else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some(((digit(*high)? * 16 + digit(*low)?) as u8, tail))
}

/// `path` as the path of a URL: slashes stay, and every other byte that is not unreserved is encoded. Different paths stay different.
pub fn encode_path(path: &[u8]) -> String {
    percent_encode(path, RESERVED_IN_PATH).to_string()
}

/// `text` as a part of a URL, such as a parameter's value: no byte of it can be mistaken for a separator.
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// `url` with every non-ASCII byte encoded, as browsers do: a URI has none (RFC 3986 section 2).
pub fn encode_non_ascii(url: &str) -> String {
    utf8_percent_encode(url, &AsciiSet::EMPTY).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_decoded_once() {
        assert_eq!(decode(b"a%20b%2fc%2F%25%32%35").as_deref(), Some(&b"a b/c/%25"[..]));
        assert_eq!(decode(b"%252e+\xc3%FF%00").as_deref(), Some(&b"%2e+\xc3\xff\0"[..]));
        assert_eq!(decode(b"").as_deref(), Some(&b""[..]));
    }

    #[test]
    fn broken_encoding_is_refused() {
        for broken in ["%", "a%2", "%zz", "%+1", "%-1", "%2%30", "%%20", "% 1", "%\u{e9}"] {
            assert_eq!(decode(broken.as_bytes()), None, "{broken}");
        }
        assert_eq!(decode_leniently(b"%61%zz%%62%"), b"a%zz%b%");
    }

    #[test]
    fn every_byte_of_a_path_returns() {
        let all: Vec<u8> = (0..=255).collect();
        let encoded = encode_path(&all);
        assert!(encoded.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~/%".contains(&b)));
        assert_eq!(decode(encoded.as_bytes()), Some(all));
        assert_eq!(encode_path(b"a/B-1_2.mp4~"), "a/B-1_2.mp4~");
        let name = "50% off?#1 &\u{e9}.mp4";
        assert_eq!(encode_path(name.as_bytes()), "50%25%20off%3F%231%20%26%C3%A9.mp4");
    }

    #[test]
    fn a_part_of_a_url_has_no_separators() {
        assert_eq!(encode("bl=1,u=\"a/\u{e9}\"&~"), "bl%3D1%2Cu%3D%22a%2F%C3%A9%22%26~");
    }

    #[test]
    fn what_is_ascii_stays_in_a_url() {
        assert_eq!(encode_non_ascii("/f\u{fc}r%20?\u{20ac}\n"), "/f%C3%BCr%20?%E2%82%AC\n");
    }
}
