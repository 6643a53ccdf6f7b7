//! Makes text from outside safe for a terminal or a log.
//!
//! File names, requests, and ffmpeg's messages about a film may contain characters with a meaning to terminals: escape sequences that clear
//! the screen or type for the operator, and marks that reverse the order of letters, so that a line reads as another one.

use std::borrow::Cow;

/// `text` as one line without characters that a terminal interprets: they are escaped, as `\u{9b}` or `\n`.
pub fn shown(text: &str) -> Cow<'_, str> {
    escaped(text, |letter| letter.escape_default().to_string(), |_| false)
}

/// Like [`shown`], for text with several lines: line breaks and tabs stay.
pub fn shown_lines(text: &str) -> Cow<'_, str> {
    let stays = |letter| matches!(letter, '\n' | '\t');
    escaped(text, |letter| letter.escape_default().to_string(), stays)
}

/// Like [`shown`], for JSON: parsers read the same text.
pub fn shown_json(json: &str) -> Cow<'_, str> {
    // Outside strings JSON has no such character except its own white space, and inside strings none that needs a surrogate pair.
    let stays = |letter| matches!(letter, '\n' | '\r' | '\t');
    escaped(json, |letter| format!("\\u{:04x}", u32::from(letter)), stays)
}

fn escaped(
    text: &str,
    escape: impl Fn(char) -> String,
    stays: impl Fn(char) -> bool,
) -> Cow<'_, str> {
    let is_escaped = |letter: char| steers(letter) && !stays(letter);
    // Nearly all text is plain.
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~');
    if text.as_bytes().iter().all(is_plain) || !text.contains(is_escaped) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match is_escaped(letter) {
            true => shown.push_str(&escape(letter)),
            false => shown.push(letter),
        }
    }
    shown.into()
}

/// Whether a terminal interprets the character: the control characters of ASCII and of ISO 6429 (C0, DEL, C1), the separators of lines and
/// paragraphs, and marks that set the direction of writing (Unicode Standard Annex 9).
fn steers(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}')
        || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_escaped() {
        for (text, wanted) in [
            ("a\x1b[2Jb", "a\\u{1b}[2Jb"),
            ("\u{9b}2J\u{7f}", "\\u{9b}2J\\u{7f}"),
            ("one\r\ntwo\t", "one\\r\\ntwo\\t"),
            ("\u{202e}4pm.exe\u{2069}\u{200f}", "\\u{202e}4pm.exe\\u{2069}\\u{200f}"),
            ("\u{2028}\u{61c}", "\\u{2028}\\u{61c}"),
        ] {
            assert_eq!(shown(text), wanted);
        }
        assert_eq!(shown_lines("one\n\ttwo\x1b\r"), "one\n\ttwo\\u{1b}\\r");
    }

    #[test]
    fn everything_else_is_shown_as_it_is() {
        for text in ["", "plain ~", "Größe 漢字 עברית 🎬", "a\u{ad}b"] {
            assert!(matches!(shown(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn json_says_the_same_as_before() {
        let value = serde_json::json!({ "a\u{9b}": "b\u{7f}\u{202e}\x1b\"\\", "c": [1, 2] });
        for json in [value.to_string(), format!("{value:#}")] {
            let shown = shown_json(&json);
            assert!(!shown.chars().any(|letter| steers(letter) && letter != '\n'), "{shown}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        }
    }
}
