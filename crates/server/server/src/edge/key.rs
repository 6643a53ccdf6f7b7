//! Keys of stored responses: the path, and the query as far as it is the origin's.

use crate::redact;
use edge::escaped;

/// Separates a decoded path, which never contains this byte, from a query.
const QUERY: u8 = 0;

/// Parameters of a query that are for this server: a token, and a player's report (CTA-5004). Each viewer has others, so they would make one
/// film many.
const OF_SERVER: [&[u8]; 2] = [b"token", b"CMCD"];

/// The key of a request for a decoded path: its path, and its query without what is for this server.
pub(crate) fn key_of(path: &[u8], query: Option<&[u8]>, checks_tokens: bool) -> Vec<u8> {
    let mut key = path.to_vec();
    let kept = query_sent_on(query.unwrap_or_default(), checks_tokens);
    if !kept.is_empty() {
        key.push(QUERY);
        key.extend_from_slice(&kept);
    }
    key
}

/// A query as the origin gets it. If this server checks tokens, they do not travel within other parameters either, such as the address of a
/// playlist.
fn query_sent_on(query: &[u8], checks_tokens: bool) -> Vec<u8> {
    let is_own = |parameter: &&[u8]| {
        let name = parameter.split(|byte| *byte == b'=').next().unwrap_or_default();
        OF_SERVER.contains(&name)
    };
    let kept = query.split(|byte| *byte == b'&').filter(|parameter| !is_own(parameter));
    let kept = kept.filter(|parameter| !parameter.is_empty()).collect::<Vec<_>>().join(&b'&');
    if checks_tokens { redact::without_signatures(&kept).into_owned() } else { kept }
}

/// The path of a request to the origin, with its query, which is not decoded.
pub(super) fn escaped_key(key: &[u8]) -> String {
    match key.iter().position(|byte| *byte == QUERY) {
        Some(at) => {
            let query = key[at + 1..].iter().map(|byte| match byte.is_ascii_graphic() {
                true => char::from(*byte).to_string(),
                // As in a path, without its slash.
                false => escaped(&[*byte]).split_off(1),
            });
            format!("{}?{}", escaped(&key[..at]), query.collect::<String>())
        }
        None => escaped(key),
    }
}

/// The path and query under which the response to requests for a URL is stored. Scheme and host don't matter: an edge has one origin. `url` may
/// also be a path, or the beginning of one.
pub(super) fn stored_under(url: &str, checks_tokens: bool) -> Option<String> {
    let target = match url.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => url,
    };
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query.as_bytes())),
        None => (target, None),
    };
    let path = escape::percent::decode(path.strip_prefix('/')?.as_bytes())?;
    (!path.contains(&QUERY)).then(|| escaped_key(&key_of(&path, query, checks_tokens)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_sent_on_without_what_is_for_this_server() {
        let token = |signature: &str| format!("1790000000.{signature}.k1.2");
        let (whole, redacted) = (token(&"0a".repeat(32)), token("-"));
        let query = format!("CMCD=br%3D1&a=1&token={whole}&page=/t/{whole}/films&&b");
        let sent = |checks_tokens| {
            String::from_utf8(query_sent_on(query.as_bytes(), checks_tokens)).unwrap()
        };
        assert_eq!(sent(true), format!("a=1&page=/t/{redacted}/films&b"));
        let whole = format!("a=1&page=/t/{whole}/films&b");
        assert_eq!(sent(false), whole, "the origin may check its own");
    }

    #[test]
    fn a_url_and_the_request_for_it_have_the_same_key() {
        let stored = |url| stored_under(url, true).unwrap();
        assert_eq!(stored("https://edge.example:8443/a%20b/%41.mp4"), "/a%20b/A.mp4");
        assert_eq!(stored("/a b/A.mp4"), "/a%20b/A.mp4");
        assert_eq!(stored("http://h"), "/");
        assert_eq!(stored("/a?x=%2f&token=t&&CMCD=c&y"), "/a?x=%2f&y");
        assert_eq!(stored("/a?token=t"), "/a");
        assert_eq!(stored_under("/a?token=t&x", false).unwrap(), "/a?x", "without keys as well");
        assert_eq!(stored("/films/\u{e9}"), "/films/%C3%A9");
        for other in ["", "a", "/%zz", "/a%00b"] {
            assert_eq!(stored_under(other, true), None, "{other}");
        }
        let asked = key_of(b"a b", Some(b"q=\"1\"&token=t"), true);
        assert_eq!(escaped_key(&asked), stored("/a%20b?q=\"1\""));
    }
}
