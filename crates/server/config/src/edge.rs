//! The caching edge: the server's origins, and the folder of its cache.

#[cfg(test)]
mod rules_tests;

use super::entrance::{check_prefixes, prefixes};
use super::{ConfigError, Route};
use crate::host_name::scheme_and_host;
use edge::fetcher::OriginSpread;
use edge::rules::{EdgeRule, RULES_BYTES_MAX, RULES_MAX, text_bytes};
use edge::{ORIGINS_MAX, OriginAddress, OriginSettings};
use net::Prefixes;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};

/// A smaller cache could not hold one viewer's window and the read-ahead next to it.
const GIB_MIN: f64 = 1.0 / 64.0;

/// A minute of usual segments. Players' buffers have hardly more room.
const AHEAD_SEGMENTS_MAX: u8 = 8;

/// No known method is longer.
const METHOD_BYTES_MAX: usize = 16;

/// A caching edge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EdgeConfig {
    /// The origins, in order of preference: one, or several as a list. Each is an address, or a table with its settings. Without one, the server
    /// serves its library.
    #[serde(deserialize_with = "one_or_more", skip_serializing_if = "Vec::is_empty")]
    pub origin: Vec<OriginSettings>,
    /// How requests are spread over several origins.
    pub spread: OriginSpread,
    /// The cache's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<PathBuf>,
    /// The cache's size limit, in GiB; 0 is nine tenths of the disk's free space for it at startup.
    pub cache_gib: f64,
    /// Seconds of silence after which the origin counts as unreachable.
    pub silent_seconds: f64,
    /// Methods, in addition to GET and HEAD, that are sent on to the origin. `OPTIONS` is answered here unless it is one of them.
    pub methods: Vec<String>,
    /// Whether viewers' cookies are sent on to the origin.
    pub cookies: bool,
    /// Addresses, as prefixes, from which `PURGE` requests are taken. None by default.
    pub purge_from: Vec<String>,
    /// Whether the origin gets the viewer's address, in `X-Forwarded-For`.
    pub forwarded_for: bool,
    /// The URL by which viewers know this edge, which the origin gets as `X-Forwarded-Proto` and `X-Forwarded-Host`. Not each viewer's own `Host`:
    /// a response is for all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_url: Option<String>,
    /// Whether to fetch what players announce that they request next (CMCD). Off by default until it has been watched in operation: a fault there
    /// would concern viewers who get nothing from it.
    pub ahead_cmcd: bool,
    /// How many segments after the requested one to fetch, by its HLS playlist. None by default: each viewer who stops or changes the quality wastes
    /// them, and only the operator knows what a request or a byte of the origin costs.
    pub ahead_segments: u8,
    /// How many segments after the requested one to fetch, by the number in its name, where no playlist names it. None by default, for the same
    /// reason.
    pub ahead_numbered: u8,
    /// Nothing is fetched ahead while more than this share of its bytes, in percent, was wasted lately.
    pub ahead_waste_percent: u8,
    /// Settings for some paths. The first matching rule applies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<EdgeRule>,
}

impl Default for EdgeConfig {
    fn default() -> Self {
        Self {
            origin: Vec::new(),
            spread: OriginSpread::default(),
            cache: None,
            cache_gib: 0.0,
            silent_seconds: 10.0,
            methods: Vec::new(),
            cookies: false,
            purge_from: Vec::new(),
            forwarded_for: false,
            public_url: None,
            ahead_cmcd: false,
            ahead_segments: 0,
            ahead_numbered: 0,
            // Of five objects that are fetched ahead, four should be worth it.
            ahead_waste_percent: 20,
            rules: Vec::new(),
        }
    }
}

/// An origin, or a list of origins.
fn one_or_more<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<OriginSettings>, D::Error> {
    struct OneOrMore;
    impl<'de> Visitor<'de> for OneOrMore {
        type Value = Vec<OriginSettings>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("edge.origin to be an address, or a list of addresses")
        }

        fn visit_str<E: Error>(self, url: &str) -> Result<Self::Value, E> {
            Ok(vec![OriginSettings::at(url)])
        }

        fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Self::Value, A::Error> {
            Deserialize::deserialize(MapAccessDeserializer::new(table)).map(|origin| vec![origin])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
            let origins = Vec::deserialize(SeqAccessDeserializer::new(list))?;
            match origins.is_empty() {
                true => {
                    Err(A::Error::custom("edge.origin is an empty list: name at least one origin"))
                }
                false => Ok(origins),
            }
        }
    }
    from.deserialize_any(OneOrMore)
}

impl EdgeConfig {
    /// Addresses from which `PURGE` requests are taken. They have passed [`crate::Config::check`].
    pub fn purgers(&self) -> Prefixes {
        prefixes(&self.purge_from)
    }

    /// The scheme and the host of `public_url`. It has passed [`crate::Config::check`].
    pub fn public_scheme_and_host(&self) -> Option<(&str, &str)> {
        scheme_and_host(self.public_url.as_deref()?)
    }

    /// Names the origins by the addresses `urls`. Those that the configuration has, too, keep their settings.
    pub fn name_origins(&mut self, urls: Vec<String>) {
        let known = std::mem::take(&mut self.origin);
        let with_settings = |url: String| {
            let address = OriginAddress::parse(&url).ok();
            let is_it = |one: &&OriginSettings| {
                one.url == url
                    || address.is_some() && OriginAddress::parse(&one.url).ok() == address
            };
            known.iter().find(is_it).cloned().unwrap_or_else(|| OriginSettings::at(&url))
        };
        self.origin = urls.into_iter().map(with_settings).collect();
    }

    /// The names of the headers, in lower case, that viewers may not send to the origins because settings have them. A viewer's `Authorization` is
    /// for the origin, which answers it instead of the edge's.
    pub fn headers_for_origins(&self) -> Vec<String> {
        let names = self.origin.iter().flat_map(OriginSettings::header_names);
        names.filter(|name| name != "authorization").collect()
    }

    /// The files that the origins' settings name, each with its description for errors.
    pub(crate) fn files_of_origins(&self) -> impl Iterator<Item = (&Path, &'static str)> {
        self.origin.iter().flat_map(OriginSettings::files).map(|(path, what, _)| (path, what))
    }

    /// Whether the server is a caching edge.
    pub fn is_on(&self) -> bool {
        !self.origin.is_empty()
    }

    /// Whether the origins are buckets, which get a path and nothing else of a request.
    pub fn has_bucket(&self) -> bool {
        self.origin.iter().any(is_bucket)
    }

    fn check_origins(&self) -> Result<(), ConfigError> {
        let mut addresses = Vec::new();
        for origin in &self.origin {
            let address = origin.check().map_err(ConfigError::Origin)?;
            if addresses.contains(&address) {
                return Err(ConfigError::OriginTwice(address.to_string()));
            }
            addresses.push(address);
        }
        if self.origin.len() > ORIGINS_MAX {
            return Err(ConfigError::Origins(self.origin.len(), ORIGINS_MAX));
        }
        // With a bucket, URLs that differ only in the query are one film, and with a web server they are not.
        match self.has_bucket() && !self.origin.iter().all(is_bucket) {
            true => Err(ConfigError::OriginsMixed),
            false => Ok(()),
        }
    }

    pub(crate) fn check(&self, route: Route) -> Result<(), ConfigError> {
        super::within("edge.silent_seconds", self.silent_seconds, 0.1..=600.0, "0.1 to 600")?;
        let gib = self.cache_gib;
        if gib != 0.0 {
            let allowed = "0 (what the disk has), or 0.016 to 1000000";
            super::within("edge.cache_gib", gib, GIB_MIN..=1e6, allowed)?;
        }
        for (setting, segments) in [
            ("edge.ahead_segments", self.ahead_segments),
            ("edge.ahead_numbered", self.ahead_numbered),
        ] {
            super::within(setting, segments, 0..=AHEAD_SEGMENTS_MAX, "0 to 8")?;
        }
        super::within("edge.ahead_waste_percent", self.ahead_waste_percent, 0..=100, "0 to 100")?;
        check_prefixes("edge.purge_from", &self.purge_from)?;
        for method in &self.methods {
            let is_token = !method.is_empty()
                && method.len() <= METHOD_BYTES_MAX
                && method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
            if !is_token || matches!(method.as_str(), "CONNECT" | "TRACE") {
                return Err(ConfigError::EdgeMethod(method.clone()));
            }
        }
        if let Some(url) = self.public_url.as_ref().filter(|url| scheme_and_host(url).is_none()) {
            return Err(ConfigError::EdgePublicUrl(url.clone()));
        }
        if self.has_bucket() && !self.methods.is_empty() {
            return Err(ConfigError::EdgeMethodsOfBucket);
        }
        let sends_more = self.cookies || self.forwarded_for || self.public_url.is_some();
        if self.has_bucket() && sends_more {
            return Err(ConfigError::EdgeForwardedToBucket);
        }
        self.check_rules()?;
        match (self.is_on(), &self.cache) {
            (false, None) => return Ok(()),
            (true, None) => return Err(ConfigError::OriginWithoutCache),
            (false, Some(_)) => return Err(ConfigError::CacheWithoutOrigin),
            (true, Some(_)) => self.check_origins()?,
        }
        if route == Route::Bypass { Err(ConfigError::BypassWithOrigin) } else { Ok(()) }
    }

    fn check_rules(&self) -> Result<(), ConfigError> {
        let count = self.rules.len();
        super::within("the number of edge.rules", count, 0..=RULES_MAX, "up to 100")?;
        let numbered = (1..).zip(&self.rules);
        let mut faults = numbered.filter_map(|(number, rule)| {
            let fault = rule.check(self.has_bucket()).err()?;
            Some(ConfigError::EdgeRules { number, path: rule.path.clone(), fault })
        });
        let bytes = text_bytes(&self.rules);
        match faults.next() {
            Some(fault) => Err(fault),
            None if bytes > RULES_BYTES_MAX => Err(ConfigError::EdgeRulesLong(bytes)),
            None => Ok(()),
        }
    }
}

fn is_bucket(origin: &OriginSettings) -> bool {
    origin.url.starts_with("s3://")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_one_or_several_of_one_kind() {
        let check = |origin: &str| {
            let text = format!("origin = {origin}\ncache = \"/cache\"");
            let edge: EdgeConfig = toml::from_str(&text).map_err(|error| error.to_string())?;
            edge.check(Route::Auto).map_err(|error| error.to_string())
        };
        let many: Vec<_> = (0..9).map(|number| format!("\"http://o{number}\"")).collect();
        let (eight, nine) = (many[..8].join(","), many.join(","));
        for origin in
            ["\"http://a\"", "[\"http://a\", \"https://b/x\"]", "[\"s3://a\", \"s3://b\"]"]
        {
            assert_eq!(check(origin), Ok(()), "{origin}");
        }
        assert_eq!(check(&format!("[{eight}]")), Ok(()));
        for (origin, said) in [
            ("[]", "empty list"),
            ("7", "an address, or a list of addresses"),
            ("[\"http://a\", 7]", "or a table with its url"),
            ("{ url = \"http://a\", headers = { Host = \"b\" } }", "set host instead"),
            ("[\"http://a\", { url = \"http://b\", hots = \"b\" }]", "unknown field `hots`"),
            ("[\"http://a\", \"b\"]", "is not the address of an origin"),
            ("[\"http://a\", \"http://a\"]", "twice"),
            ("[\"http://a:80/x\", \"http://A/x/\"]", "twice"),
            ("[\"http://a\", \"s3://b\"]", "buckets"),
            (&format!("[{nine}]"), "at most 8"),
        ] {
            let error = check(origin).unwrap_err();
            assert!(error.contains(said), "{origin}: {error}");
        }
    }

    #[test]
    fn origins_with_settings_are_tables_and_keep_them_under_their_address() {
        let text = "cache = \"/cache\"\n[[origin]]\nurl = \"http://a/x\"\nhost = \"b\"\n\
            [origin.headers]\nX-A = \"1\"\nX-B = { file = \"/b\" }\n[[origin]]\nurl = \"http://c\"\n";
        let mut edge: EdgeConfig = toml::from_str(text).unwrap();
        edge.check(Route::Auto).unwrap();
        assert_eq!(edge.origin[0].host.as_deref(), Some("b"));
        assert_eq!(edge.files_of_origins().next().unwrap().0, Path::new("/b"));
        let written = toml::to_string(&edge).unwrap();
        assert_eq!(toml::from_str::<EdgeConfig>(&written).unwrap(), edge, "{written}");
        let former = edge.origin.clone();
        edge.name_origins(vec!["http://d".into(), "http://A:80/x/".into()]);
        assert_eq!(edge.origin, [OriginSettings::at("http://d"), former[0].clone()]);
    }

    #[test]
    fn what_is_fetched_ahead_is_bounded() {
        let check = |text: &str| {
            let edge: EdgeConfig = toml::from_str(text).map_err(|error| error.to_string())?;
            edge.check(Route::Auto).map_err(|error| error.to_string())
        };
        for good in ["", "ahead_segments = 8\nahead_waste_percent = 100", "ahead_cmcd = true"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, said) in [
            ("ahead_segments = 9", "0 to 8"),
            ("ahead_numbered = 9", "0 to 8"),
            ("ahead_waste_percent = 101", "0 to 100"),
            ("ahead_segments = -1", "ahead_segments"),
            ("ahead_cmcd = 1", "ahead_cmcd"),
        ] {
            let error = check(bad).unwrap_err();
            assert!(error.contains(said), "{bad}: {error}");
        }
    }

    #[test]
    fn a_public_url_is_a_scheme_and_a_host_and_no_bucket_gets_it() {
        let check = |url: &str, origin: &str| {
            let edge = EdgeConfig {
                origin: vec![OriginSettings::at(origin)],
                cache: Some("/cache".into()),
                public_url: Some(url.into()),
                ..EdgeConfig::default()
            };
            let public = edge.public_scheme_and_host();
            let public = public.map(|(scheme, host)| (scheme.to_owned(), host.to_owned()));
            edge.check(Route::Auto).map(|()| public.unwrap())
        };
        let public = check("https://edge.example:8443/", "http://origin");
        assert_eq!(public.ok(), Some(("https".into(), "edge.example:8443".into())));
        for url in ["", "edge.example", "ftp://h", "https://", "https://h/a", "https://h\r\nA: b"] {
            let refused = check(url, "http://origin");
            assert!(matches!(refused, Err(ConfigError::EdgePublicUrl(_))), "{url}");
        }
        let refused = check("https://edge.example", "s3://films");
        assert!(matches!(refused, Err(ConfigError::EdgeForwardedToBucket)));
    }

    #[test]
    fn viewers_cookies_and_addresses_are_not_for_buckets() {
        let check = |origin: &str, change: &dyn Fn(&mut EdgeConfig)| {
            let mut edge = EdgeConfig {
                origin: vec![OriginSettings::at(origin)],
                cache: Some("/cache".into()),
                ..EdgeConfig::default()
            };
            change(&mut edge);
            edge.check(Route::Auto)
        };
        let changes: [&dyn Fn(&mut EdgeConfig); 2] =
            [&|edge: &mut EdgeConfig| edge.cookies = true, &|edge: &mut EdgeConfig| {
                edge.forwarded_for = true
            }];
        for change in changes {
            assert!(check("http://origin", change).is_ok());
            let refused = check("s3://films", change);
            assert!(matches!(refused, Err(ConfigError::EdgeForwardedToBucket)));
        }
        assert!(check("s3://films", &|_| {}).is_ok());
    }
}
