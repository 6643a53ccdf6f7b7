//! Redacts request targets and URLs for the log: a token's signature would give the films to anyone who reads the log, and CMCD
//! identifies viewers' sessions.

use std::borrow::Cow;
use token::Token;

/// Query arguments whose values are redacted.
const REDACTED: [&[u8]; 2] = [b"token", b"cmcd"];

/// A request target or a URL as text, with `-` for each secret.
pub fn target(target: &[u8]) -> String {
    let (path, query) = match target.iter().position(|byte| *byte == b'?') {
        Some(mark) => (&target[..mark], Some(&target[mark + 1..])),
        None => (target, None),
    };
    let mut redacted = join(path, b'/', redact_segment);
    if let Some(query) = query {
        redacted.push('?');
        redacted.push_str(&join(query, b'&', redact_argument));
    }
    redacted
}

fn join(text: &[u8], separator: u8, redact: fn(&[u8]) -> Cow<'_, str>) -> String {
    let parts: Vec<_> = text.split(|byte| *byte == separator).map(redact).collect();
    parts.join(&char::from(separator).to_string())
}

/// Redacts only the signature of a token: the rest helps to see what went wrong.
fn redact_segment(segment: &[u8]) -> Cow<'_, str> {
    let decoded = http::percent_decoded(segment);
    match decoded.as_deref().and_then(Token::parse) {
        Some(token) => {
            let bound = if token.is_bound { "c" } else { "" };
            let Token { expires_unix_seconds, key_id, depth, .. } = token;
            format!("{expires_unix_seconds}.-.{key_id}.{depth}{bound}").into()
        }
        None => String::from_utf8_lossy(segment),
    }
}

fn redact_argument(pair: &[u8]) -> Cow<'_, str> {
    let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default();
    let decoded = http::percent_decoded(name);
    let is_redacted = |name: &[u8]| REDACTED.iter().any(|known| name.eq_ignore_ascii_case(known));
    if decoded.as_deref().is_some_and(is_redacted) {
        format!("{}=-", String::from_utf8_lossy(name)).into()
    } else {
        String::from_utf8_lossy(pair)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_and_sessions_are_redacted() {
        let signature = "0a".repeat(32);
        let redacted = |text: &str| target(text.as_bytes());
        assert_eq!(
            redacted(&format!("/t/1790000000.{signature}.k1.2c/films/a/b.m4s?x=1")),
            "/t/1790000000.-.k1.2c/films/a/b.m4s?x=1"
        );
        assert_eq!(
            redacted(&format!("https://h/t/1790000000.%30a{}.k1.2/a", "0a".repeat(31))),
            "https://h/t/1790000000.-.k1.2/a"
        );
        assert_eq!(
            redacted("/a.mp4?y&CMCD=sid%3D%22me%22&token=secret&%43mcd=me"),
            "/a.mp4?y&CMCD=-&token=-&%43mcd=-"
        );
    }

    #[test]
    fn everything_else_is_kept() {
        for text in ["", "/", "/a//b%20c?", "/a?b=%zz&c&&=d", "/films/1.2.3.4/x"] {
            assert_eq!(target(text.as_bytes()), text);
        }
        assert_eq!(target(b"/\xff"), "/\u{fffd}");
    }
}
