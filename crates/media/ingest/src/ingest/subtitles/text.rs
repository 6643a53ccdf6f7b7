//! The text of a file or packet: its encoding, and character references.

/// Bytes that are neither UTF-8 nor UTF-16 with a byte order mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Invalid UTF-8 in line {line}: convert the subtitles to UTF-8")]
pub(super) struct NotUnicode {
    /// Counts from 1.
    line: usize,
}

/// Decodes UTF-8 or UTF-16 (with a byte order mark). Every line of the result ends with `\n` only.
pub(super) fn decode(bytes: &[u8]) -> Result<String, NotUnicode> {
    let text = match bytes {
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes)?,
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes)?,
        [0xef, 0xbb, 0xbf, rest @ ..] => utf8(rest)?.to_owned(),
        bytes => utf8(bytes)?.to_owned(),
    };
    Ok(if text.contains('\r') { text.replace("\r\n", "\n").replace('\r', "\n") } else { text })
}

fn utf8(bytes: &[u8]) -> Result<&str, NotUnicode> {
    std::str::from_utf8(bytes).map_err(|error| {
        let before = bytes.iter().take(error.valid_up_to());
        NotUnicode { line: 1 + before.filter(|byte| **byte == b'\n').count() }
    })
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String, NotUnicode> {
    let units = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
    let mut text = String::with_capacity(bytes.len());
    for letter in char::decode_utf16(units) {
        let lines = || 1 + text.matches('\n').count();
        text.push(letter.map_err(|_| NotUnicode { line: lines() })?);
    }
    Ok(text)
}

/// Names that people write in SubRip files; WebVTT's own are the first seven.
const NAMED: [(&str, char); 12] = [
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("nbsp", '\u{a0}'),
    ("lrm", '\u{200e}'),
    ("rlm", '\u{200f}'),
    ("quot", '"'),
    ("apos", '\''),
    ("hellip", '\u{2026}'),
    ("ndash", '\u{2013}'),
    ("mdash", '\u{2014}'),
    ("shy", '\u{ad}'),
];
/// The longest reference is `&hellip;` or `&#x10ffff;`.
const REFERENCE_BYTES_MAX: usize = 10;

/// The character reference at the beginning of `text`, such as `&amp;` or `&#39;`, and its length in bytes.
pub(super) fn reference(text: &str) -> Option<(char, usize)> {
    let rest = text.strip_prefix('&')?;
    let end = rest.bytes().take(REFERENCE_BYTES_MAX).position(|byte| byte == b';')?;
    let name = rest.get(..end)?;
    let letter = match name.strip_prefix('#') {
        Some(number) => {
            let hexadecimal = number.strip_prefix(['x', 'X']);
            // `parse` alone would take a sign, too.
            let code = match hexadecimal {
                Some(digits) if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                    u32::from_str_radix(digits, 16)
                }
                None if number.bytes().all(|byte| byte.is_ascii_digit()) => number.parse(),
                _ => return None,
            };
            code.ok().and_then(char::from_u32)?
        }
        None => NAMED.iter().find(|(known, _)| *known == name)?.1,
    };
    Some((letter, end + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_with_a_mark_and_utf_8_are_read() {
        let utf16 = |order: fn(u16) -> [u8; 2]| -> Vec<u8> {
            "\u{feff}ä\r\nb\u{1f600}".encode_utf16().flat_map(order).collect()
        };
        for bytes in [
            utf16(u16::to_le_bytes),
            utf16(u16::to_be_bytes),
            "\u{feff}ä\rb\u{1f600}".as_bytes().to_vec(),
            "ä\nb\u{1f600}".as_bytes().to_vec(),
        ] {
            assert_eq!(decode(&bytes).unwrap(), "ä\nb\u{1f600}");
        }
    }

    #[test]
    fn other_encodings_are_refused_with_the_line() {
        assert_eq!(decode(b"a\nb\nM\xfcller"), Err(NotUnicode { line: 3 }));
        assert_eq!(decode(&[0xff, 0xfe, 10, 0, 0, 0xd8, 0, 0]), Err(NotUnicode { line: 2 }));
    }

    #[test]
    fn references_are_read_and_anything_else_is_text() {
        for (text, expected) in [
            ("&amp;lt;", Some(('&', 5))),
            ("&#39;", Some(('\'', 5))),
            ("&#x2026;", Some(('\u{2026}', 8))),
            ("&", None),
            ("&;", None),
            ("& b;", None),
            ("&#xd800;", None),
            ("&#;", None),
            ("&ä;", None),
            ("&ääääääääääää;", None),
            ("&copy=1;", None),
        ] {
            assert_eq!(reference(text), expected, "{text}");
        }
    }
}
