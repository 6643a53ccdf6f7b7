//! The settings for one path.

use super::{AuthorizationUse, EdgeRule, QueryNames, QueryUse, is_same_header};
use crate::http_cache::{LifetimeRule, Selecting};
use escape::percent::decode_leniently;

/// Parameters of a query that are for this server: a token, and a player's report (CTA-5004). Each viewer has others, so they would make one
/// film many.
const OF_SERVER: [&[u8]; 2] = [b"token", b"CMCD"];

/// The settings for one path.
#[derive(Clone, Debug)]
pub struct PathSettings {
    query: QueryUse,
    names: QueryNames,
    /// Whether viewers' cookies travel.
    pub sends_cookies: bool,
    /// Whether viewers' passwords and tokens travel.
    pub sends_passwords: bool,
    headers_drop: Vec<String>,
    headers_vary: Vec<String>,
    /// Whether responses may be kept.
    pub is_kept: bool,
    pub(crate) lifetimes: LifetimeRule,
    /// The number of the rule, counted from 1, and the rule itself.
    rule: Option<(usize, EdgeRule)>,
}

impl Default for PathSettings {
    /// Those for a path without a rule, at an edge that sends no cookies on.
    fn default() -> Self {
        Self {
            query: QueryUse::default(),
            names: QueryNames::default(),
            sends_cookies: false,
            sends_passwords: true,
            headers_drop: Vec::new(),
            headers_vary: Vec::new(),
            is_kept: true,
            lifetimes: LifetimeRule::default(),
            rule: None,
        }
    }
}

impl PathSettings {
    /// Those for a path without a rule.
    pub fn without_rule(sends_cookies: bool) -> Self {
        Self { sends_cookies, ..Self::default() }
    }

    /// Those of the rule with this number.
    pub(super) fn of(rule: &EdgeRule, number: usize, sends_cookies: bool) -> Self {
        let lower = |names: &[String]| names.iter().map(|name| name.to_ascii_lowercase()).collect();
        Self {
            query: rule.query,
            names: rule.names(),
            sends_cookies: rule.cookies.unwrap_or(sends_cookies),
            sends_passwords: rule.authorization == AuthorizationUse::Pass,
            headers_drop: lower(&rule.headers_drop),
            headers_vary: lower(&rule.headers_vary),
            is_kept: rule.cache != Some(false),
            lifetimes: rule.lifetimes(),
            rule: Some((number, rule.clone())),
        }
    }

    /// The number of the rule, counted from 1, and the rule itself.
    pub fn rule(&self) -> Option<(usize, &EdgeRule)> {
        self.rule.as_ref().map(|(number, rule)| (*number, rule))
    }

    /// Whether the whole query counts, as it is.
    pub fn keeps_queries(&self) -> bool {
        self.query == QueryUse::Keep && self.names == QueryNames::All
    }

    /// Whether a viewer's header, whose name is in lower case, is left out.
    pub fn drops_header(&self, lower: &str) -> bool {
        self.headers_drop.iter().any(|name| is_same_header(name, lower))
    }

    /// Whether an origin may take a header, whose name is in lower case, for one on which responses depend, and the key would not have it.
    pub fn misspells_vary(&self, lower: &str) -> bool {
        self.headers_vary.iter().any(|name| name != lower && is_same_header(name, lower))
    }

    /// The headers on which responses depend, in lower case, whether the origin says so or not.
    pub fn headers_vary(&self) -> &[String] {
        &self.headers_vary
    }

    /// Whether a response with these selecting fields depends on all headers on which it should.
    pub(crate) fn tells_apart(&self, selecting: &Selecting) -> bool {
        let is_selecting = |name: &String| selecting.each().any(|(one, _)| one == name);
        self.headers_vary.iter().all(is_selecting)
    }

    /// Whether one response may be for all viewers, as a film is.
    pub fn may_be_for_all(&self) -> bool {
        self.is_kept && self.headers_vary.is_empty()
    }

    /// A query as the origin gets it, and as it is part of the key, but for tokens within other parameters.
    pub fn query_sent_on(&self, query: &[u8]) -> Vec<u8> {
        let parameters = query.split(|byte| *byte == b'&');
        let mut kept: Vec<&[u8]> = parameters
            .filter(|parameter| !parameter.is_empty() && !is_of_server(parameter))
            .filter(|parameter| self.counts(parameter))
            .collect();
        if self.query == QueryUse::Sort {
            // Stable: several of one name can be a list.
            kept.sort_by_cached_key(|parameter| decode_leniently(name_of(parameter)));
        }
        kept.join(&b'&')
    }

    fn counts(&self, parameter: &[u8]) -> bool {
        let is_listed = matches!(self.names, QueryNames::Only(_));
        (self.query != QueryUse::Drop || is_listed) && self.names.has(name_of(parameter))
    }
}

/// Whether a parameter of a query is for this server.
pub fn is_of_server(parameter: &[u8]) -> bool {
    OF_SERVER.contains(&name_of(parameter))
}

fn name_of(parameter: &[u8]) -> &[u8] {
    parameter.split(|byte| *byte == b'=').next().unwrap_or_default()
}
