//! Redacts request targets and other text of viewers for the log: a token's signature would give the films to anyone who reads the log, and
//! CMCD identifies viewers' sessions.

use std::borrow::Cow;
use token::without_signatures;

/// Query arguments whose values are redacted.
const REDACTED: [&[u8]; 2] = [b"token", b"cmcd"];

/// A request target or a URL as text, with `-` for each secret.
pub fn target(target: &[u8]) -> String {
    let target = without_signatures(target);
    let (path, query) = match target.iter().position(|byte| *byte == b'?') {
        Some(mark) => (&target[..mark], Some(&target[mark + 1..])),
        None => (&target[..], None),
    };
    let mut redacted = String::from_utf8_lossy(path).into_owned();
    if let Some(query) = query {
        let arguments: Vec<_> = query.split(|byte| *byte == b'&').map(redact_argument).collect();
        redacted.push('?');
        redacted.push_str(&arguments.join("&"));
    }
    redacted
}

/// Any text with `-` for each token's signature.
pub fn text(text: &[u8]) -> String {
    String::from_utf8_lossy(&without_signatures(text)).into_owned()
}

/// Any text with `...` for each query, up to the next space. An origin may have addresses that grant access by their query.
pub fn queries(text: &str) -> String {
    let words = text.split(' ').map(|word| match word.split_once('?') {
        Some((path, query)) if path.contains('/') && !query.is_empty() => {
            let end = if query.ends_with(':') { ":" } else { "" };
            Cow::Owned(format!("{path}?...{end}"))
        }
        _ => Cow::Borrowed(word),
    });
    words.collect::<Vec<_>>().join(" ")
}

fn redact_argument(pair: &[u8]) -> Cow<'_, str> {
    let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default();
    let decoded = escape::percent::decode(name);
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
            redacted("/a.mp4?y&CMCD=sid%3D%22me%22&token=secret&%43mcd=me&CAT=comedy"),
            "/a.mp4?y&CMCD=-&token=-&%43mcd=-&CAT=comedy"
        );
        // HMAC 256/256, no claims, and a signature of 32 bytes.
        let cat = format!("0YRDoQEFoEGgWCA{}", "x".repeat(43));
        assert_eq!(redacted(&format!("/a.mp4?CAT={cat}&b")), "/a.mp4?CAT=0YRDoQEFoEGg-&b");
    }

    #[test]
    fn signatures_are_redacted_within_values_and_other_text() {
        let token = |signature: &str| format!("1790000000.{signature}.k1.2");
        let (whole, redacted) = (token(&"0a".repeat(32)), token("-"));
        for around in [
            "/player.html?src=/t/TOKEN/films/a/master.m3u8",
            "/player.html?src=%2Ft%2FTOKEN%2Ffilms%2Fa%2fmaster.m3u8&x=%2F",
            "https://h/player.html?page=%252Ft%252FTOKEN%252Ffilms#TOKEN",
            "/films/a.mp4?a;token=TOKEN&b=%3Ftoken%3DTOKEN",
            "/films/a.mp4;token=TOKEN,TOKEN?%zz",
        ] {
            let expected = around.replace("TOKEN", &redacted);
            assert_eq!(target(around.replace("TOKEN", &whole).as_bytes()), expected);
        }
        let agent = "player (+\"https://h/films/a.mp4?CMCD=x&token=TOKEN\") \u{fffd}";
        let expected = agent.replace("TOKEN", &redacted);
        assert_eq!(text(agent.replace("TOKEN", &whole).as_bytes()), expected);
        assert_eq!(text(b"\xff?token=x"), "\u{fffd}?token=x");
    }

    #[test]
    fn queries_are_left_out_of_sentences() {
        let said = "/a?Signature=x:y&b=?: the origin said 403 of http://h/b?c (why?)";
        assert_eq!(queries(said), "/a?...: the origin said 403 of http://h/b?... (why?)");
        assert_eq!(queries("the cache is full: is it? yes"), "the cache is full: is it? yes");
    }

    #[test]
    fn everything_else_is_kept() {
        for text in ["", "/", "/a//b%20c?", "/a?b=%zz&c&&=d", "/films/1.2.3.4/x"] {
            assert_eq!(target(text.as_bytes()), text);
        }
        assert_eq!(target(b"/\xff"), "/\u{fffd}");
    }
}
