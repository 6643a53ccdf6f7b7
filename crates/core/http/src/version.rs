//! The third word of a request line, if it is neither HTTP/1.0 nor HTTP/1.1, which `httparse` knows.
//!
//! A later minor version of HTTP/1 is served as HTTP/1.1, the highest that this server supports (RFC 9110 section 2.5).
//! Another major version is refused as such. Anything else is not a version: a version is `HTTP/`, one digit, a dot,
//! one digit (RFC 9112 section 2.3).

/// The kind of word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// The beginning of a version; more bytes are needed.
    Partial,
    /// HTTP/1.2 to HTTP/1.9.
    LaterMinor,
    /// A version with another major number.
    OtherMajor,
    /// Not a version.
    Malformed,
}

/// The offset of the minor version's digit in the word.
pub(crate) const MINOR_AT: usize = b"HTTP/1.".len();

/// Classifies a word from its first byte on; `word` may continue after it.
pub(crate) fn judge(word: &[u8]) -> Word {
    for (index, expected) in b"HTTP/0.0".iter().enumerate() {
        let fits = match word.get(index) {
            None => return Word::Partial,
            Some(byte) if *expected == b'0' => byte.is_ascii_digit(),
            Some(byte) => byte == expected,
        };
        if !fits {
            return Word::Malformed;
        }
    }
    match (word[MINOR_AT - 2], word.get(MINOR_AT + 1)) {
        (_, None) => Word::Partial,
        (b'1', Some(b'\r' | b'\n')) => Word::LaterMinor,
        (_, Some(b'\r' | b'\n')) => Word::OtherMajor,
        _ => Word::Malformed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_two_digits_with_a_dot_between() {
        for (word, is) in [
            ("", Word::Partial),
            ("HTTP/", Word::Partial),
            ("HTTP/2", Word::Partial),
            ("HTTP/1.2", Word::Partial),
            ("HTTP/1.2\r", Word::LaterMinor),
            ("HTTP/1.9\n", Word::LaterMinor),
            ("HTTP/0.9\r", Word::OtherMajor),
            ("HTTP/2.0\r", Word::OtherMajor),
            ("HTTP/2\r", Word::Malformed),
            ("HTTP/1\r", Word::Malformed),
            ("HTTP/11\r", Word::Malformed),
            ("HTTP/1.10\r", Word::Malformed),
            ("HTTP/1.2 \r", Word::Malformed),
            ("HTTP/01.01", Word::Malformed),
            ("HTTP/-1.1", Word::Malformed),
            ("http/1.2\r", Word::Malformed),
            ("ICY\r", Word::Malformed),
        ] {
            assert_eq!(judge(word.as_bytes()), is, "{word:?}");
        }
    }
}
