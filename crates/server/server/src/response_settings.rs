//! Everything that a response depends on besides its request: limits, timeouts, headers that are the same for all, the date.

use crate::header_rules::{HeaderRules, ReadyRule};
use config::Config;
use disk::File;
use fullbore_http::HttpDate;
use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;
use telemetry::since_1970;

/// How long viewers may take; see [`config::Timeouts`].
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// For the whole handshake.
    pub handshake: Duration,
    /// From a head's first byte to its last.
    pub head: Duration,
    /// Between requests.
    pub idle: Duration,
}

/// The end of the paths at which players post events: a token may come before it.
const POSTS_AT: &str = "/-/cmcd";

/// One worker's settings for responses.
pub struct Answering {
    /// Limits on requests.
    pub limits: fullbore_http::RequestLimits,
    /// How long viewers may take.
    pub timeouts: Timeouts,
    /// Set if viewers can ask for the server's health.
    pub(crate) tells_health: bool,
    cache_control: String,
    header_rules: HeaderRules,
    cors: fullbore_http::Cors,
    cors_headers: Vec<String>,
    hsts_seconds: u64,
    date: Cell<HttpDate>,
    boundaries: Boundaries,
}

impl Answering {
    /// The settings of the configuration.
    pub(crate) fn new(config: &Config) -> Self {
        let seconds = Duration::from_secs_f64;
        Self {
            limits: fullbore_http::RequestLimits {
                head_bytes_max: config.limits.head_bytes_max,
                uri_bytes_max: config.limits.uri_bytes_max,
                // Some are sent on, and PURGE may be for this server.
                are_other_methods_taken: config.edge.is_on(),
                posts_at: config.http.cmcd.then_some(POSTS_AT),
                ..fullbore_http::RequestLimits::default()
            },
            timeouts: Timeouts {
                handshake: seconds(config.timeouts.handshake_seconds),
                head: seconds(config.timeouts.head_seconds),
                idle: seconds(config.timeouts.idle_seconds),
            },
            tells_health: config.http.healthz,
            cache_control: config.http.cache_control.clone(),
            header_rules: HeaderRules::of(&config.http),
            cors: config.http.cors_of_files(),
            cors_headers: config.http.cors_headers.clone(),
            hsts_seconds: if config.tls.enabled { config.tls.hsts_seconds } else { 0 },
            date: Cell::new(date_now()),
            boundaries: Boundaries::default(),
        }
    }

    /// Updates the date; called once a second.
    pub(crate) fn set_date(&self) {
        self.date.set(date_now());
    }

    /// Calls `f` with the context of a response; `closing` means that the connection ends after it.
    pub(crate) fn with_context<R>(
        &self,
        closing: bool,
        f: impl FnOnce(&fullbore_http::Context<'_>) -> R,
    ) -> R {
        self.with_rule(None, closing, f)
    }

    /// As [`Self::with_context`], for a response at `path` that is no file of a library.
    pub(crate) fn with_path_context<R>(
        &self,
        path: &[u8],
        closing: bool,
        f: impl FnOnce(&fullbore_http::Context<'_>) -> R,
    ) -> R {
        self.with_rule(self.header_rules.for_path(path), closing, f)
    }

    /// As [`Self::with_context`], for a response with the file at `path`.
    pub(crate) fn with_file_context<R>(
        &self,
        (file, path): (&File, &[u8]),
        closing: bool,
        f: impl FnOnce(&fullbore_http::Context<'_>) -> R,
    ) -> R {
        self.with_rule(self.header_rules.for_file(file, path), closing, f)
    }

    fn with_rule<R>(
        &self,
        rule: Option<&ReadyRule>,
        closing: bool,
        f: impl FnOnce(&fullbore_http::Context<'_>) -> R,
    ) -> R {
        let date = self.date.get();
        f(&fullbore_http::Context {
            cache_control: rule.and_then(ReadyRule::cache_control).unwrap_or(&self.cache_control),
            content_type: rule.and_then(ReadyRule::content_type),
            fields: rule.map(ReadyRule::fields),
            cors: self.cors,
            cors_headers: &self.cors_headers,
            hsts_seconds: self.hsts_seconds,
            boundary: self.boundaries.next(),
            closing,
            ..fullbore_http::Context::new(&date, &self.limits)
        })
    }
}

fn date_now() -> HttpDate {
    HttpDate::new(since_1970().as_secs())
}

/// Boundaries of multipart responses: a count under a keyed hash. The key comes from the kernel's random source (`getrandom`, through the
/// standard library), so no boundary reveals the next one. This costs some 45 ns per response, multipart or not.
#[derive(Default)]
struct Boundaries {
    key: RandomState,
    count: Cell<u64>,
}

impl Boundaries {
    fn next(&self) -> u128 {
        let count = self.count.get();
        self.count.set(count.wrapping_add(1));
        let half = |half: u8| u128::from(self.key.hash_one((count, half)));
        half(0) << 64 | half(1)
    }
}
