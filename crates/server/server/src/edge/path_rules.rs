//! The operator's rules for some paths (`edge.rules`), prepared once per worker.

use crate::redact;
use config::{EdgeConfig, EdgeRule, PathPattern, QueryNames, QueryUse};
use escape::percent::decode_leniently;
use std::borrow::Cow;

/// Parameters of a query that are for this server: a token, and a player's report (CTA-5004). Each viewer has others, so they would make one
/// film many.
const OF_SERVER: [&[u8]; 2] = [b"token", b"CMCD"];

/// All rules, in the order of their priority.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathRules {
    rules: Box<[(PathPattern, PathSettings)]>,
    /// For paths without a rule.
    others: PathSettings,
}

/// The settings for one path.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathSettings {
    query: QueryUse,
    names: QueryNames,
    /// Whether viewers' cookies travel.
    pub(crate) sends_cookies: bool,
}

impl PathRules {
    /// The rules of a configuration that has passed [`config::Config::check`].
    pub(crate) fn of(config: &EdgeConfig) -> Self {
        let others = PathSettings { sends_cookies: config.cookies, ..PathSettings::default() };
        let ready = |rule: &EdgeRule| {
            let path = PathPattern::new(&rule.path).expect("checked with the configuration");
            let sends_cookies = rule.cookies.unwrap_or(config.cookies);
            (path, PathSettings { query: rule.query, names: rule.names(), sends_cookies })
        };
        Self { rules: config.rules.iter().map(ready).collect(), others }
    }

    /// The settings for a path, which is decoded, composed, and without its first slash.
    pub(crate) fn at(&self, path: &[u8]) -> &PathSettings {
        if self.rules.is_empty() {
            return &self.others;
        }
        let path = [b"/", path].concat();
        let rule = self.rules.iter().find(|(pattern, _)| pattern.matches(&path));
        rule.map_or(&self.others, |(_, settings)| settings)
    }
}

impl PathSettings {
    /// Whether the whole query counts, as it is.
    pub(super) fn keeps_queries(&self) -> bool {
        self.query == QueryUse::Keep && self.names == QueryNames::All
    }

    /// A query as the origin gets it, and as it is part of the key. If this server checks tokens, they do not travel within other parameters either,
    /// such as the address of a playlist.
    pub(super) fn query_sent_on(&self, query: &[u8], checks_tokens: bool) -> Vec<u8> {
        let parameters = query.split(|byte| *byte == b'&');
        let mut kept: Vec<&[u8]> = parameters
            .filter(|parameter| !parameter.is_empty() && !is_of_server(parameter))
            .filter(|parameter| self.counts(parameter))
            .collect();
        if self.query == QueryUse::Sort {
            // Stable: several of one name can be a list.
            kept.sort_by_cached_key(|parameter| decode_leniently(name_of(parameter)));
        }
        let kept = kept.join(&b'&');
        match checks_tokens {
            true => match redact::without_signatures(&kept) {
                Cow::Owned(redacted) => redacted,
                Cow::Borrowed(_) => kept,
            },
            false => kept,
        }
    }

    fn counts(&self, parameter: &[u8]) -> bool {
        let is_listed = matches!(self.names, QueryNames::Only(_));
        (self.query != QueryUse::Drop || is_listed) && self.names.has(name_of(parameter))
    }
}

/// Whether a parameter of a query is for this server.
pub(super) fn is_of_server(parameter: &[u8]) -> bool {
    OF_SERVER.contains(&name_of(parameter))
}

fn name_of(parameter: &[u8]) -> &[u8] {
    parameter.split(|byte| *byte == b'=').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(toml: &str) -> PathRules {
        let config: config::Config = toml::from_str(toml).unwrap();
        PathRules::of(&config.edge)
    }

    #[test]
    fn a_query_is_sent_on_without_what_is_for_this_server() {
        let token = |signature: &str| format!("1790000000.{signature}.k1.2");
        let (whole, redacted) = (token(&"0a".repeat(32)), token("-"));
        let query = format!("CMCD=br%3D1&a=1&token={whole}&page=/t/{whole}/films&&b");
        let sent = |checks_tokens| {
            let sent = PathSettings::default().query_sent_on(query.as_bytes(), checks_tokens);
            String::from_utf8(sent).unwrap()
        };
        assert_eq!(sent(true), format!("a=1&page=/t/{redacted}/films&b"));
        let whole = format!("a=1&page=/t/{whole}/films&b");
        assert_eq!(sent(false), whole, "the origin may check its own");
    }

    #[test]
    fn the_first_rule_that_matches_decides_about_the_query() {
        let rules = rules(
            "[[edge.rules]]\npath = \"/keep/*\"\n\
             [[edge.rules]]\npath = \"*.m3u8\"\nquery_keep = [\"_HLS_*\"]\nquery = \"sort\"\n\
             [[edge.rules]]\npath = \"/only/*\"\nquery = \"drop\"\nquery_keep = [\"v\"]\n\
             [[edge.rules]]\npath = \"/sort/*\"\nquery = \"sort\"\nquery_drop = [\"utm_*\"]\n\
             [[edge.rules]]\npath = \"/drop/*\"\nquery = \"drop\"\n",
        );
        for (path, query, sent) in [
            ("keep/a.m3u8", "b=1&a&token=t", "b=1&a"),
            ("live/a.m3u8", "x=1&_HLS_part=2&_HLS_msn=1", "_HLS_msn=1&_HLS_part=2"),
            ("only/a", "a=1&v=2&%76=3&vv=4&v", "v=2&%76=3&v"),
            ("sort/a", "b=2&utm_source=x&a=9&%75tm_y=1&b=1&a", "a=9&a&b=2&b=1"),
            ("sort/a", "b=2&%61=1&a=3&%zz=4", "%zz=4&%61=1&a=3&b=2"),
            ("sort/a", "utm_%zz=1&%75tm_%z=2&a", "a"),
            ("drop/a", "a=1&b=2", ""),
            ("drop", "a=1&&b=2", "a=1&b=2"),
        ] {
            let settings = rules.at(path.as_bytes());
            let is = settings.query_sent_on(query.as_bytes(), false);
            assert_eq!(String::from_utf8(is).unwrap(), sent, "{path}?{query}");
        }
    }

    #[test]
    fn a_rule_decides_about_cookies_or_leaves_that_to_the_edge() {
        let rules = rules(
            "[edge]\ncookies = true\n[[edge.rules]]\npath = \"/films/*\"\ncookies = false\n\
             [[edge.rules]]\npath = \"/api/*\"\nquery = \"sort\"\n",
        );
        let sends = |path: &str| rules.at(path.as_bytes()).sends_cookies;
        assert_eq!([sends("films/a"), sends("api/a"), sends("a")], [false, true, true]);
    }
}
