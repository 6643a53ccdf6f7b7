//! Keys of stored responses: the path, and the query as far as it is the origin's.

use crate::token_gate::CheckedTokens;
use config::Config;
use edge::escaped;
use edge::inquiry::HoldingRule;
use edge::rules::{PathRules, PathSettings, is_of_server};
use std::borrow::Cow;
use token::CAT_ARGUMENT;

/// Separates a decoded path, which never contains this byte, from a query.
const QUERY: u8 = 0;

/// The error for a URL that names nothing.
pub(super) const NO_URL: &str = "write a URL such as https://edge.example/films/a.mp4, or its path, with bytes encoded correctly";

/// The error for the beginning of a URL with a query that no key has.
const QUERY_OF_BUCKET: &str =
    "in front of a bucket, responses are stored without queries: leave the query out of the prefix";

/// The error for the beginning of a URL that no key has.
const PREFIX_WITH_TOKEN: &str = "responses are stored without the parameters token, CAT and CMCD: leave them out of the prefix, or purge the URL";

/// The error for the beginning of a URL with a query where a rule changes queries.
const PREFIX_WITH_RULE: &str = "a rule (edge.rules) leaves out or sorts parameters of this path, so what begins like this may be stored under another query: write the prefix without its query, or the whole URL without --prefix";

/// What of a request is no part of its key.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyRules {
    /// The tokens that this server checks, so they are for it.
    pub(crate) tokens: CheckedTokens,
    /// The origin is a bucket, which gets no query.
    pub(crate) has_bucket: bool,
    by_path: PathRules,
}

impl KeyRules {
    /// Those of a configuration that has passed [`Config::check`].
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            tokens: CheckedTokens::of(&config.signing),
            has_bucket: config.edge.has_bucket(),
            by_path: PathRules::new(&config.edge.rules, config.edge.cookies),
        }
    }

    /// The settings for a decoded path, in its composed form.
    pub(crate) fn at(&self, path: &[u8]) -> &PathSettings {
        self.by_path.at(path)
    }
}

/// The key of a request for a decoded path, for which these `settings` hold: its path, and its query without what is for this server. `path` may be
/// in another form than that in which rules have matched it.
pub(crate) fn key_of(
    path: &[u8],
    query: Option<&[u8]>,
    (rules, settings): (&KeyRules, &PathSettings),
) -> Vec<u8> {
    let mut key = path.to_vec();
    let query = query.filter(|_| !rules.has_bucket).unwrap_or_default();
    let kept = query_sent_on(query, (rules, settings));
    if !kept.is_empty() {
        key.push(QUERY);
        key.extend_from_slice(&kept);
    }
    key
}

/// A query as the origin gets it. If this server checks tokens, they do not travel within other parameters either, such as the address of a playlist.
fn query_sent_on(query: &[u8], (rules, settings): (&KeyRules, &PathSettings)) -> Vec<u8> {
    let is_sent = |parameter: &&[u8]| !is_for_server(parameter, rules.tokens);
    let parameters: Vec<_> = query.split(|byte| *byte == b'&').filter(is_sent).collect();
    let kept = settings.query_sent_on(&parameters.join(&b'&'));
    match rules.tokens.taken_from(&kept) {
        Cow::Owned(redacted) => redacted,
        Cow::Borrowed(_) => kept,
    }
}

/// Whether a parameter of a query is for this server.
fn is_for_server(parameter: &[u8], tokens: CheckedTokens) -> bool {
    let name = parameter.split(|byte| *byte == b'=').next().unwrap_or_default();
    is_of_server(parameter)
        || tokens == CheckedTokens::OwnAndCats && name == CAT_ARGUMENT.as_bytes()
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
/// also be a path. It may be signed, as viewers get it.
pub(super) fn stored_under(url: &str, rules: &KeyRules) -> Option<String> {
    let (path, query) = path_and_query(url);
    let path = requested(path, rules)?;
    let key = key_of(&path, query.map(str::as_bytes), (rules, rules.at(&path)));
    Some(escaped_key(&key))
}

/// The decoded path of a URL, and the path and query under which the response to requests for it is stored.
pub(crate) fn path_and_stored(url: &str, rules: &KeyRules) -> Option<(Vec<u8>, String)> {
    Some((requested(path_and_query(url).0, rules)?, stored_under(url, rules)?))
}

/// The rule that holds for the path of a URL.
pub(super) fn holding_rule(url: &str, rules: &KeyRules) -> Option<HoldingRule> {
    let path = requested(path_and_query(url).0, rules)?;
    let (number, rule) = rules.at(&path).rule()?;
    Some(HoldingRule::of(number, rule))
}

/// The decoded path of a URL, as requests' paths are read.
fn requested(path: &str, rules: &KeyRules) -> Option<Vec<u8>> {
    let path = escape::percent::decode(path.strip_prefix('/')?.as_bytes())?;
    let path = with_single_slashes(&path);
    let path = without_token(&path, rules.tokens);
    // As requests' paths. The helper finds what is stored under other spellings.
    let path = escape::unicode::composed(path);
    (!path.contains(&QUERY)).then(|| path.into_owned())
}

/// How the paths and queries begin under which responses to requests for URLs are stored that begin with `prefix`.
///
/// # Errors
/// What to change, if there are none, or if it would cover others, too.
pub(super) fn stored_beginning(prefix: &str, rules: &KeyRules) -> Result<String, &'static str> {
    let stored = stored_under(prefix, rules).ok_or(NO_URL)?;
    let (path, Some(query)) = path_and_query(prefix) else { return Ok(stored) };
    if rules.has_bucket {
        return Err(QUERY_OF_BUCKET);
    }
    if query.split('&').any(|parameter| is_for_server(parameter.as_bytes(), rules.tokens)) {
        return Err(PREFIX_WITH_TOKEN);
    }
    let path = requested(path, rules).ok_or(NO_URL)?;
    if !rules.at(&path).keeps_queries() {
        return Err(PREFIX_WITH_RULE);
    }
    // A separator at the end is part of it: without it, `/a?` would cover `/abc`, and `/a?x=1&` would cover `/a?x=10`.
    let end = match query.trim_end_matches('&') {
        "" => "?",
        other if other.len() < query.len() => "&",
        _ => "",
    };
    Ok(stored + end)
}

/// The path and the query of a URL, which may lack its scheme and host.
fn path_and_query(url: &str) -> (&str, Option<&str>) {
    let target = match url.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => url,
    };
    target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)))
}

/// A decoded path without empty segments, as requests are read (`fullbore_http::LibraryPath`). One slash at its end stays, as that of a prefix.
fn with_single_slashes(path: &[u8]) -> Vec<u8> {
    let mut joined = Vec::with_capacity(path.len());
    for byte in path {
        let is_empty_segment = joined.last().is_none_or(|last| *last == b'/');
        if *byte != b'/' || !is_empty_segment {
            joined.push(*byte);
        }
    }
    joined
}

/// A decoded path without the token at its start, if that is for this server.
fn without_token(path: &[u8], tokens: CheckedTokens) -> &[u8] {
    let signed = token::before_path(path).filter(|(token, _)| tokens.have_form(token));
    signed.and_then(|(_, path)| path).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(toml: &str) -> KeyRules {
        KeyRules::of(&toml::from_str(toml).unwrap())
    }

    fn checking() -> KeyRules {
        KeyRules { tokens: CheckedTokens::Own, ..KeyRules::default() }
    }

    fn bucket() -> KeyRules {
        KeyRules { has_bucket: true, ..KeyRules::default() }
    }

    fn key(path: &[u8], query: Option<&[u8]>, rules: &KeyRules) -> Vec<u8> {
        key_of(path, query, (rules, rules.at(path)))
    }

    #[test]
    fn a_signed_url_has_the_key_of_its_path() {
        let token = format!("1790000000.{}.k1.2", "0a".repeat(32));
        let signed = format!("https://edge.example/t/{token}/films/a.mp4?x=1");
        assert_eq!(stored_under(&signed, &checking()).unwrap(), "/films/a.mp4?x=1");
        let unsigned = format!("/t/{token}/films/a.mp4?x=1");
        assert_eq!(
            stored_under(&signed, &KeyRules::default()).unwrap(),
            unsigned,
            "the origin may check it"
        );
        let doubled = format!("https://edge.example//t//{token}//films//a.mp4?x=1");
        assert_eq!(stored_under(&doubled, &checking()).unwrap(), "/films/a.mp4?x=1");
        assert_eq!(stored_under("/t/films/a", &checking()).unwrap(), "/t/films/a", "a folder");
    }

    #[test]
    fn a_bucket_gets_no_query_so_keys_have_none() {
        let rules = bucket();
        let asked = key(b"film.mp4", Some(b"session=1"), &rules);
        assert_eq!(asked, key(b"film.mp4", None, &rules));
        assert_eq!(stored_under("/film.mp4?session=2", &rules).unwrap(), escaped_key(&asked));
        assert_eq!(escaped_key(&asked), "/film.mp4");
    }

    #[test]
    fn a_url_and_the_request_for_it_have_the_same_key() {
        let stored = |url| stored_under(url, &checking()).unwrap();
        assert_eq!(stored("https://edge.example:8443/a%20b/%41.mp4"), "/a%20b/A.mp4");
        assert_eq!(stored("/a b/A.mp4"), "/a%20b/A.mp4");
        assert_eq!(stored("http://h"), "/");
        assert_eq!(stored("/a?x=%2f&token=t&&CMCD=c&y"), "/a?x=%2f&y");
        assert_eq!(stored("/a?token=t"), "/a");
        assert_eq!(
            stored_under("/a?token=t&x", &KeyRules::default()).unwrap(),
            "/a?x",
            "without keys as well"
        );
        for spelled in ["/films/\u{e9}", "//films///e\u{301}", "/films/e%CC%81"] {
            assert_eq!(stored(spelled), "/films/%C3%A9");
        }
        assert_eq!(stored("/films//"), "/films/", "a prefix");
        assert_eq!(stored("/films/\u{e9}"), "/films/%C3%A9");
        assert_eq!(stored("https://edge.example//films///a.mp4"), "/films/a.mp4");
        for other in ["", "a", "/%zz", "/a%00b"] {
            assert_eq!(stored_under(other, &checking()), None, "{other}");
        }
        let asked = key(b"a b", Some(b"q=\"1\"&token=t"), &checking());
        assert_eq!(escaped_key(&asked), stored("/a%20b?q=\"1\""));
    }

    #[test]
    fn a_query_is_sent_on_without_what_is_for_this_server() {
        let token = |signature: &str| format!("1790000000.{signature}.k1.2");
        let (whole, redacted) = (token(&"0a".repeat(32)), token("-"));
        let query = format!("CMCD=br%3D1&a=1&token={whole}&page=/t/{whole}/films&&b");
        let sent = |rules: &KeyRules| {
            let sent = query_sent_on(query.as_bytes(), (rules, &PathSettings::default()));
            String::from_utf8(sent).unwrap()
        };
        assert_eq!(sent(&checking()), format!("a=1&page=/t/{redacted}/films&b"));
        let whole = format!("a=1&page=/t/{whole}/films&b");
        assert_eq!(sent(&KeyRules::default()), whole, "the origin may check its own");
    }

    #[test]
    fn a_common_access_token_is_sent_on_unless_this_server_checks_it() {
        let keys = "k:0101010101010101010101010101010101010101010101010101010101010101";
        let ring = token::KeyRing::none().with_cats_of(keys, &Default::default()).unwrap();
        let (cat, _) = ring
            .sign_cat(&token::CatGrant {
                scope: token::CatScope::All,
                issued_unix_seconds: 1,
                expires_unix_seconds: 2,
                not_before_unix_seconds: None,
                networks: &[],
                methods: &[],
                issuer: None,
            })
            .unwrap();
        let query = format!("a=1&CAT={cat}&page=/t/{cat}/films");
        let sent = |tokens| {
            let rules = KeyRules { tokens, ..KeyRules::default() };
            let sent = query_sent_on(query.as_bytes(), (&rules, &PathSettings::default()));
            String::from_utf8(sent).unwrap()
        };
        assert_eq!(sent(CheckedTokens::None), query);
        assert_eq!(sent(CheckedTokens::Own), query, "the origin may check it");
        // 32 bytes of the signature, and two of its length in CBOR.
        let redacted = format!("a=1&page=/t/{}-/films", &cat[..cat.len() - 45]);
        assert_eq!(sent(CheckedTokens::OwnAndCats), redacted);
    }

    #[test]
    fn a_purged_url_has_the_key_that_its_paths_rule_makes() {
        let rules = rules(
            "[[edge.rules]]\npath = \"/caf\u{e9}/*\"\nquery = \"sort\"\nquery_drop = [\"utm_*\"]\n\
             [[edge.rules]]\npath = \"/kept/*\"\ncookies = true\n",
        );
        let asked = key("caf\u{e9}/a".as_bytes(), Some(b"b=1&utm_x=1&a=2"), &rules);
        assert_eq!(escaped_key(&asked), "/caf%C3%A9/a?a=2&b=1");
        for url in ["https://h/caf%C3%A9/a?a=2&b=1", "//cafe%CC%81//a?b=1&utm_y=2&a=2&token=t"] {
            assert_eq!(stored_under(url, &rules).unwrap(), escaped_key(&asked), "{url}");
        }
        for (prefix, beginning) in [
            // Without parameters that count, it is stored without a question mark.
            ("/caf\u{e9}/a?", Err(PREFIX_WITH_RULE)),
            // `/a?b=1&a=2` is stored as `/a?a=2&b=1`.
            ("/caf\u{e9}/a?b=", Err(PREFIX_WITH_RULE)),
            ("/caf\u{e9}/a?utm_x=1", Err(PREFIX_WITH_RULE)),
            ("/caf\u{e9}/a", Ok("/caf%C3%A9/a")),
            ("/b?b=1&a", Ok("/b?b=1&a")),
            ("/kept/b?b=1&a", Ok("/kept/b?b=1&a")),
        ] {
            let found = stored_beginning(prefix, &rules);
            assert_eq!(found.as_deref().map_err(|why| *why), beginning, "{prefix}");
        }
    }

    #[test]
    fn a_prefix_covers_no_more_than_it_says() {
        let stored = |prefix| stored_beginning(prefix, &checking());
        for (prefix, beginning) in [
            ("/", "/"),
            ("/films/2025/", "/films/2025/"),
            ("/films//2025//", "/films/2025/"),
            ("https://edge.example/a", "/a"),
            // All queries of one path, and not other paths.
            ("/a?", "/a?"),
            ("/?", "/?"),
            ("/a?&&", "/a?"),
            ("/a?x=1", "/a?x=1"),
            ("/a?x=1&", "/a?x=1&"),
            ("/a?x=1&&y", "/a?x=1&y"),
            ("/a?tok", "/a?tok"),
        ] {
            assert_eq!(stored(prefix).as_deref(), Ok(beginning), "{prefix}");
        }
        for prefix in ["/a?token=t", "/a?token", "/a?x=1&CMCD=c", "/a?token=t&"] {
            assert_eq!(stored(prefix), Err(PREFIX_WITH_TOKEN), "{prefix} would cover more");
        }
        assert_eq!(stored("a"), Err(NO_URL));
        assert_eq!(stored_beginning("/a", &bucket()).as_deref(), Ok("/a"));
        for prefix in ["/a?", "/a?x=1"] {
            assert_eq!(stored_beginning(prefix, &bucket()), Err(QUERY_OF_BUCKET), "{prefix}");
        }
    }
}
