//! Settings of a caching edge for some paths, as a configuration has them.

use super::{EdgeRuleFault, PathPattern};
use crate::http_cache::{LifetimeRule, is_credential, is_of_proxies};
use crate::origin_settings::is_made_by_edge;
use reqwest::header::HeaderName;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Bounds on the lists of names. Each parameter or header of a request is compared with all of its rule's.
pub(super) const NAMES_MAX: usize = 50;
const NAME_BYTES_MAX: usize = 64;

/// More headers would make more variants of a response than are kept (16).
pub(super) const VARY_MAX: usize = 8;

/// A year: whatever is older is revalidated.
pub(super) const SECONDS_MAX: f64 = 365.0 * 24.0 * 3600.0;

/// Parameters that are for the edge itself, and reach no origin.
const OF_EDGE: [&str; 2] = ["token", "CMCD"];

/// Settings for the requests to some paths.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EdgeRule {
    /// Pattern of the paths, where `*` matches anything, including several folders.
    pub path: String,
    /// What becomes of the query.
    #[serde(default, skip_serializing_if = "QueryUse::is_default")]
    pub query: QueryUse,
    /// The only parameters that count; all others are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub query_keep: Vec<String>,
    /// Parameters that are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub query_drop: Vec<String>,
    /// Whether viewers' cookies are sent on to the origin; if unset, as for all paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookies: Option<bool>,
    /// What becomes of viewers' passwords and tokens.
    #[serde(default, skip_serializing_if = "AuthorizationUse::is_default")]
    pub authorization: AuthorizationUse,
    /// Headers of viewers' requests that are not sent on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers_drop: Vec<String>,
    /// Headers on which responses depend, as if the origin named them in `Vary`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers_vary: Vec<String>,
    /// Whether responses are kept; if unset, as far as the origin allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<bool>,
    /// How long a response is fresh at the edge, whatever the origin says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fresh_seconds: Option<f64>,
    /// The same if the origin says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fresh_default_seconds: Option<f64>,
    /// How long after that it is served while the origin doesn't answer, or with an error of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale_seconds: Option<f64>,
}

/// What becomes of the headers by which an origin knows a viewer: `Authorization` and its like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AuthorizationUse {
    /// They are sent on, and the response is for that viewer unless the origin says otherwise.
    #[default]
    Pass,
    /// They are left out, so the response is for all viewers.
    Drop,
}

impl AuthorizationUse {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What becomes of a query before it is sent on to the origin, and before what is stored is looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueryUse {
    /// It stays as it is.
    #[default]
    Keep,
    /// It is left out.
    Drop,
    /// Its parameters are sorted by name. Several of one name stay in their order.
    Sort,
}

impl QueryUse {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The parameters of a query that count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum QueryNames {
    /// All.
    #[default]
    All,
    /// Only these.
    Only(Vec<ParameterName>),
    /// All but these.
    Without(Vec<ParameterName>),
}

/// A parameter's name, or with a star how names begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterName {
    text: Vec<u8>,
    is_prefix: bool,
}

impl ParameterName {
    fn new(text: &str) -> Self {
        match text.strip_suffix('*') {
            Some(prefix) => Self { text: prefix.into(), is_prefix: true },
            None => Self { text: text.into(), is_prefix: false },
        }
    }

    /// Whether a decoded name is it.
    fn matches(&self, name: &[u8]) -> bool {
        if self.is_prefix { name.starts_with(&self.text) } else { name == self.text }
    }
}

impl QueryNames {
    /// Whether the parameter with this name, as it is in the query, counts. Encoding a letter of its name makes no difference.
    pub fn has(&self, name: &[u8]) -> bool {
        let is_named = |names: &[ParameterName]| {
            let name = escape::percent::decode_leniently(name);
            names.iter().any(|one| one.matches(&name))
        };
        match self {
            Self::All => true,
            Self::Only(names) => is_named(names),
            Self::Without(names) => !is_named(names),
        }
    }
}

impl EdgeRule {
    /// The parameters that count. It has passed [`Self::check`].
    pub fn names(&self) -> QueryNames {
        let names = |list: &[String]| list.iter().map(|name| ParameterName::new(name)).collect();
        match (&self.query_keep[..], &self.query_drop[..]) {
            ([], []) => QueryNames::All,
            ([], drop) => QueryNames::Without(names(drop)),
            (keep, _) => QueryNames::Only(names(keep)),
        }
    }

    /// The lifetimes that it sets. It has passed [`Self::check`].
    pub(super) fn lifetimes(&self) -> LifetimeRule {
        let time = |seconds: Option<f64>| seconds.map(Duration::from_secs_f64);
        LifetimeRule {
            fresh: time(self.fresh_seconds),
            fresh_unsaid: time(self.fresh_default_seconds),
            stale: time(self.stale_seconds),
        }
    }

    fn seconds(&self) -> [(&'static str, Option<f64>); 3] {
        [
            ("fresh_seconds", self.fresh_seconds),
            ("fresh_default_seconds", self.fresh_default_seconds),
            ("stale_seconds", self.stale_seconds),
        ]
    }

    /// Checks it for web servers, or for a bucket.
    ///
    /// # Errors
    /// The fault, and what to write.
    pub fn check(&self, has_bucket: bool) -> Result<(), EdgeRuleFault> {
        PathPattern::new(&self.path).map_err(EdgeRuleFault::Path)?;
        let lists = [("query_keep", &self.query_keep), ("query_drop", &self.query_drop)];
        for (setting, list) in lists {
            if list.len() > NAMES_MAX {
                return Err(EdgeRuleFault::TooMany(setting));
            }
            for name in list {
                check_name(setting, name)?;
            }
        }
        self.check_headers()?;
        self.check_lifetimes()?;
        let has_query = !self.query.is_default() || lists.iter().any(|(_, list)| !list.is_empty());
        let has_headers = !self.headers_drop.is_empty() || !self.headers_vary.is_empty();
        if !self.query_keep.is_empty() && !self.query_drop.is_empty() {
            Err(EdgeRuleFault::KeepAndDrop)
        } else if self.query == QueryUse::Drop && !self.query_drop.is_empty() {
            Err(EdgeRuleFault::DropTwice)
        } else if has_bucket && has_query {
            Err(EdgeRuleFault::QueryOfBucket)
        } else if has_bucket && self.cookies == Some(true) {
            Err(EdgeRuleFault::CookiesOfBucket)
        } else if has_bucket && has_headers {
            Err(EdgeRuleFault::HeadersOfBucket)
        } else if has_bucket && self.cache == Some(false) {
            Err(EdgeRuleFault::PassedBucket)
        } else {
            Ok(())
        }
    }

    fn check_headers(&self) -> Result<(), EdgeRuleFault> {
        let lists = [
            ("headers_drop", &self.headers_drop, NAMES_MAX),
            ("headers_vary", &self.headers_vary, VARY_MAX),
        ];
        for (setting, list, count_max) in lists {
            if list.len() > count_max {
                return Err(EdgeRuleFault::TooManyHeaders(setting, count_max));
            }
            for name in list {
                check_header(setting, name)?;
            }
        }
        let is_dropped =
            |name: &&String| self.headers_drop.iter().any(|one| is_same_header(one, name));
        match self.headers_vary.iter().find(is_dropped) {
            Some(name) => Err(EdgeRuleFault::DropAndVary(name.clone())),
            None => Ok(()),
        }
    }

    fn check_lifetimes(&self) -> Result<(), EdgeRuleFault> {
        for (setting, seconds) in self.seconds() {
            if seconds.is_some_and(|seconds| !(0.0..=SECONDS_MAX).contains(&seconds)) {
                return Err(EdgeRuleFault::Seconds(setting));
            }
        }
        if self.fresh_seconds.is_some() && self.fresh_default_seconds.is_some() {
            return Err(EdgeRuleFault::FreshTwice);
        }
        let is_set = |(setting, seconds): (&'static str, Option<f64>)| seconds.map(|_| setting);
        let vary = (!self.headers_vary.is_empty()).then_some("headers_vary");
        match self.seconds().into_iter().find_map(is_set).or(vary) {
            Some(setting) if self.cache == Some(false) => Err(EdgeRuleFault::KeptNot(setting)),
            _ => Ok(()),
        }
    }
}

fn check_name(setting: &'static str, name: &str) -> Result<(), EdgeRuleFault> {
    let literal = name.strip_suffix('*').unwrap_or(name);
    let is_of_name = |byte: u8| byte.is_ascii_graphic() && !b"&=#?*%+".contains(&byte);
    if OF_EDGE.contains(&name) {
        Err(EdgeRuleFault::OfEdge(setting, name.to_owned()))
    } else if literal.is_empty() || name.len() > NAME_BYTES_MAX || !literal.bytes().all(is_of_name)
    {
        Err(EdgeRuleFault::Name(setting, name.to_owned()))
    } else {
        Ok(())
    }
}

/// Refuses headers that no request has, that never travel from a viewer, that the edge makes, and those that have a setting of their own.
fn check_header(setting: &'static str, name: &str) -> Result<(), EdgeRuleFault> {
    if HeaderName::from_bytes(name.as_bytes()).is_err() || name.len() > NAME_BYTES_MAX {
        return Err(EdgeRuleFault::HeaderName(setting, name.to_owned()));
    }
    let lower = name.to_ascii_lowercase();
    let why = match lower.as_str() {
        "cookie" => "that is what cookies = true or false is for",
        other if is_credential(other) && setting == "headers_drop" => {
            "authorization = \"drop\" leaves out all of its kind"
        }
        other if is_credential(other) => "a response to a request with it is for that viewer alone",
        other if other == "host" || is_made_by_edge(other) || other.starts_with("cmcd-") => {
            "the edge makes it, or it is for the edge itself"
        }
        other if is_of_proxies(other) => "it never reaches the origin from a viewer",
        other if setting == "headers_vary" && other.contains('_') => {
            "write it with hyphens: programs behind CGI and WSGI can't tell one from the other, so no other spelling reaches the origin"
        }
        _ => return Ok(()),
    };
    Err(EdgeRuleFault::Header(setting, name.to_owned(), why))
}

/// Whether an origin may take two names of headers for one: programs behind CGI and WSGI read `_` and `-` alike.
pub fn is_same_header(one: &str, other: &str) -> bool {
    let read_as = |byte: u8| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    one.bytes().map(read_as).eq(other.bytes().map(read_as))
}
