//! The caching edge: the server's origin, and the folder of its cache.

mod rules;

pub use rules::{EdgeRule, EdgeRuleFault, ParameterName, QueryNames, QueryUse};

use super::entrance::{check_prefixes, prefixes};
use super::{ConfigError, Route};
use edge::OriginAddress;
use net::Prefixes;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A smaller cache could not hold one viewer's window and the read-ahead next to it.
const GIB_MIN: f64 = 1.0 / 64.0;

/// No known method is longer.
const METHOD_BYTES_MAX: usize = 16;

/// A name has at most 253 bytes, and a port 6 with its colon.
const HOST_BYTES_MAX: usize = 259;

/// A caching edge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EdgeConfig {
    /// The origin's address; without one, the server serves its library.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
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
    /// Settings for some paths. The first matching rule applies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<EdgeRule>,
}

impl Default for EdgeConfig {
    fn default() -> Self {
        Self {
            origin: None,
            cache: None,
            cache_gib: 0.0,
            silent_seconds: 10.0,
            methods: Vec::new(),
            cookies: false,
            purge_from: Vec::new(),
            forwarded_for: false,
            public_url: None,
            rules: Vec::new(),
        }
    }
}

/// The scheme and the host, perhaps with a port, of a URL without a path.
fn scheme_and_host(url: &str) -> Option<(&str, &str)> {
    let (scheme, host) = url.split_once("://")?;
    let host = host.strip_suffix('/').unwrap_or(host);
    let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-.:[]".contains(&byte);
    let is_valid = (1..=HOST_BYTES_MAX).contains(&host.len()) && host.bytes().all(is_of_host);
    (matches!(scheme, "http" | "https") && is_valid).then_some((scheme, host))
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

    /// Whether the origin is a bucket, which gets a path and nothing else of a request.
    pub fn has_bucket(&self) -> bool {
        self.origin.as_ref().is_some_and(|origin| origin.starts_with("s3://"))
    }

    pub(crate) fn check(&self, route: Route) -> Result<(), ConfigError> {
        super::within("edge.silent_seconds", self.silent_seconds, 0.1..=600.0, "0.1 to 600")?;
        let gib = self.cache_gib;
        if gib != 0.0 {
            let allowed = "0 (what the disk has), or 0.016 to 1000000";
            super::within("edge.cache_gib", gib, GIB_MIN..=1e6, allowed)?;
        }
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
        match (&self.origin, &self.cache) {
            (None, None) => return Ok(()),
            (Some(_), None) => return Err(ConfigError::OriginWithoutCache),
            (None, Some(_)) => return Err(ConfigError::CacheWithoutOrigin),
            (Some(origin), Some(_)) => {
                OriginAddress::parse(origin).map_err(ConfigError::Origin)?;
            }
        }
        if route == Route::Bypass { Err(ConfigError::BypassWithOrigin) } else { Ok(()) }
    }
}

impl EdgeConfig {
    fn check_rules(&self) -> Result<(), ConfigError> {
        let count = self.rules.len();
        super::within("the number of edge.rules", count, 0..=rules::RULES_MAX, "up to 100")?;
        let numbered = (1..).zip(&self.rules);
        let mut faults = numbered.filter_map(|(number, rule)| {
            let fault = rule.check(self.has_bucket()).err()?;
            Some(ConfigError::EdgeRules { number, path: rule.path.clone(), fault })
        });
        faults.next().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_url_is_a_scheme_and_a_host_and_no_bucket_gets_it() {
        let check = |url: &str, origin: &str| {
            let edge = EdgeConfig {
                origin: Some(origin.into()),
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
                origin: Some(origin.into()),
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
