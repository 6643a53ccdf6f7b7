//! The place of a token in a URL: in front of the path (`/t/TOKEN/films/a.mp4`), so that the relative URLs in a playlist inherit it, or in the
//! query (`/films/a.mp4?token=TOKEN`).

/// The first segment of a path that begins with a token.
const SEGMENT: &str = "t";

/// How many segments a token takes up in front of a path: `t` and the token itself.
pub const SEGMENTS: usize = 2;

/// The name of a token in a query.
pub(crate) const ARGUMENT: &str = "token";

/// The path of a URL with `token` in front of `path`, which is percent-encoded and has no leading slash.
pub fn url_path(token: &str, path: &str) -> String {
    format!("/{SEGMENT}/{token}/{path}")
}

/// The path and query of a URL with `token` after `path`, which is percent-encoded and has no leading slash.
pub fn url_query(token: &str, path: &str) -> String {
    format!("/{path}?{ARGUMENT}={token}")
}

/// The token at the start of a decoded path, and the path after it if there is one.
pub fn before_path(path: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let mut parts = path.splitn(SEGMENTS + 1, |byte| *byte == b'/');
    if parts.next()? != SEGMENT.as_bytes() {
        return None;
    }
    Some((parts.next()?, parts.next()))
}

/// The first token in a query.
pub fn in_query(query: &[u8]) -> Option<&[u8]> {
    let mut pairs = query.split(|byte| *byte == b'&');
    pairs.find_map(|pair| pair.strip_prefix(ARGUMENT.as_bytes())?.strip_prefix(b"="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_front_is_taken_off_again() {
        let path = url_path("TOKEN", "films/a.mp4");
        assert_eq!(path, "/t/TOKEN/films/a.mp4");
        let (token, rest) = before_path(&path.as_bytes()[1..]).unwrap();
        assert_eq!((token, rest), (&b"TOKEN"[..], Some(&b"films/a.mp4"[..])));
        assert_eq!(before_path(b"t/TOKEN"), Some((&b"TOKEN"[..], None)));
        for path in ["t", "", "films/t/TOKEN/a", "tt/TOKEN/a"] {
            assert_eq!(before_path(path.as_bytes()), None, "{path}");
        }
    }

    #[test]
    fn the_first_token_of_a_query_counts() {
        let target = url_query("TOKEN", "films/a.mp4");
        assert_eq!(target, "/films/a.mp4?token=TOKEN");
        assert_eq!(in_query(b"CMCD=su&token=TOKEN&token=x"), Some(&b"TOKEN"[..]));
        for query in ["", "tokens=x", "token", "Token=x", "xtoken=x"] {
            assert_eq!(in_query(query.as_bytes()), None, "{query}");
        }
    }
}
