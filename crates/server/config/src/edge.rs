//! The caching edge: the server's origin, and the folder of its cache.

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
        }
    }
}

impl EdgeConfig {
    /// Addresses from which `PURGE` requests are taken. They have passed [`crate::Config::check`].
    pub fn purgers(&self) -> Prefixes {
        prefixes(&self.purge_from)
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
        let is_bucket = self.origin.as_ref().is_some_and(|origin| origin.starts_with("s3://"));
        if is_bucket && !self.methods.is_empty() {
            return Err(ConfigError::EdgeMethodsOfBucket);
        }
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
