//! Settings of a caching edge for some paths: which part of a query counts, and whether cookies travel.

use crate::path_pattern::{PathPattern, PatternFault};
use serde::{Deserialize, Serialize};

/// More rules than people write. Each request is matched against all of them.
pub(super) const RULES_MAX: usize = 100;

/// Bounds on the lists of parameters. Each parameter of a request is compared with all of its rule's.
const NAMES_MAX: usize = 50;
const NAME_BYTES_MAX: usize = 64;

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
    /// The parameters that count. It has passed [`crate::Config::check`].
    pub fn names(&self) -> QueryNames {
        let names = |list: &[String]| list.iter().map(|name| ParameterName::new(name)).collect();
        match (&self.query_keep[..], &self.query_drop[..]) {
            ([], []) => QueryNames::All,
            ([], drop) => QueryNames::Without(names(drop)),
            (keep, _) => QueryNames::Only(names(keep)),
        }
    }

    pub(super) fn check(&self, has_bucket: bool) -> Result<(), EdgeRuleFault> {
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
        let has_query = !self.query.is_default() || lists.iter().any(|(_, list)| !list.is_empty());
        if !self.query_keep.is_empty() && !self.query_drop.is_empty() {
            Err(EdgeRuleFault::KeepAndDrop)
        } else if self.query == QueryUse::Drop && !self.query_drop.is_empty() {
            Err(EdgeRuleFault::DropTwice)
        } else if has_bucket && has_query {
            Err(EdgeRuleFault::QueryOfBucket)
        } else if has_bucket && self.cookies == Some(true) {
            Err(EdgeRuleFault::CookiesOfBucket)
        } else {
            Ok(())
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

/// The fault of a rule for some paths of an edge.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EdgeRuleFault {
    /// Its path.
    #[error("path: {0}")]
    Path(PatternFault),
    /// A name in one of its lists that no parameter can have.
    #[error(
        "{0} has {1:?}; write the name of a parameter, such as \"v\", or how names begin, such as \"utm_*\""
    )]
    Name(&'static str, String),
    /// A parameter that is not the operator's to choose.
    #[error(
        "{0} has {1:?}, which is for the edge itself and never reaches the origin; leave it out"
    )]
    OfEdge(&'static str, String),
    /// One of its lists is too long.
    #[error("{0} has more than {NAMES_MAX} names; join them, as in \"utm_*\"")]
    TooMany(&'static str),
    /// Both lists.
    #[error(
        "query_keep already leaves out everything else; remove query_drop, or write query_drop alone"
    )]
    KeepAndDrop,
    /// Everything is left out, and some of it again.
    #[error(
        "query = \"drop\" already leaves out everything; remove query_drop, or the line with query"
    )]
    DropTwice,
    /// A query for an origin that gets none.
    #[error(
        "a bucket gets no query, so every URL that differs only there is one file already; remove query, query_keep and query_drop"
    )]
    QueryOfBucket,
    /// Cookies for an origin that gets none.
    #[error("a bucket gets no cookies; remove cookies = true")]
    CookiesOfBucket,
}

#[cfg(test)]
mod tests {
    use crate::{Config, ConfigError};

    const ORIGIN: &str = "[edge]\norigin = \"http://origin\"\ncache = \"/cache\"\n";

    fn check(text: &str) -> Result<Config, String> {
        let config: Config = toml::from_str(text).map_err(|error| error.to_string())?;
        config.check().map_err(|error: ConfigError| error.to_string())?;
        Ok(config)
    }

    #[test]
    fn rules_are_read_and_survive_being_written() {
        let rules = "[[edge.rules]]\npath = \"/api/*\"\nquery = \"sort\"\ncookies = true\n\
            [[edge.rules]]\npath = \"*.m3u8\"\nquery_keep = [\"_HLS_*\"]\n\
            [[edge.rules]]\npath = \"*\"\nquery_drop = [\"utm_*\", \"a[]\"]\n\
            [[edge.rules]]\npath = \"/x\"\nquery = \"drop\"\n";
        let config = check(&format!("{ORIGIN}{rules}")).unwrap();
        assert_eq!(config.edge.rules.len(), 4);
        let written = toml::to_string(&config).unwrap();
        assert_eq!(toml::from_str::<Config>(&written).unwrap(), config);
        let names = config.edge.rules[2].names();
        for (name, counts) in [
            ("utm_source", false),
            ("utm", true),
            ("a[]", false),
            ("%75tm_%zz", false),
            ("b", true),
        ] {
            assert_eq!(names.has(name.as_bytes()), counts, "{name}");
        }
        let names = config.edge.rules[1].names();
        assert!(names.has(b"_HLS_msn") && names.has(b"%5FHLS_msn") && !names.has(b"session"));
    }

    #[test]
    fn each_fault_names_the_rule_the_key_and_what_to_write() {
        let good = "[[edge.rules]]\npath = \"*.mpd\"\n";
        for (bad, key, advice) in [
            ("path = \"films/*\"", "path", "\"/films/*\""),
            ("path = \"/films/\"", "path", "\"/films/*\""),
            ("path = \"/a\"\nquery_keep = [\"\"]", "query_keep", "\"utm_*\""),
            ("path = \"/a\"\nquery_drop = [\"*\"]", "query_drop", "\"utm_*\""),
            ("path = \"/a\"\nquery_drop = [\"a=b\"]", "query_drop", "\"utm_*\""),
            ("path = \"/a\"\nquery_keep = [\"a*b\"]", "query_keep", "\"utm_*\""),
            ("path = \"/a\"\nquery_keep = [\"token\"]", "query_keep", "leave it out"),
            ("path = \"/a\"\nquery_keep = [\"a\"]\nquery_drop = [\"b\"]", "query_keep", "remove"),
            ("path = \"/a\"\nquery = \"drop\"\nquery_drop = [\"b\"]", "query_drop", "remove"),
        ] {
            let said = check(&format!("{ORIGIN}{good}[[edge.rules]]\n{bad}\n")).unwrap_err();
            let named = said.starts_with("edge.rules, rule 2, for \"") && said.contains(key);
            assert!(named && said.contains(advice) && !said.contains('\n'), "{bad}: {said}");
        }
        let said = check("[[edge.rules]]\npath = \"/a\"\nquery = \"none\"\n").unwrap_err();
        assert!(said.contains("line 3") && said.contains("`keep`"), "{said}");
        assert!(check(&format!("{ORIGIN}{}", good.repeat(101))).unwrap_err().contains("up to 100"));
        check(&format!("{ORIGIN}{}", good.repeat(100))).unwrap();
    }

    #[test]
    fn rules_that_would_send_a_bucket_more_are_not_for_buckets() {
        let bucket = "[edge]\norigin = \"s3://films\"\ncache = \"/cache\"\n";
        for (setting, advice) in [
            ("query = \"sort\"", "remove query"),
            ("query_keep = [\"a\"]", "remove query"),
            ("cookies = true", "remove cookies"),
        ] {
            let said = check(&format!("{bucket}[[edge.rules]]\npath = \"*\"\n{setting}\n"));
            assert!(said.unwrap_err().contains(advice), "{setting}");
        }
        check(&format!("{bucket}[[edge.rules]]\npath = \"*\"\ncookies = false\n")).unwrap();
    }
}
