//! What this cache says of its part in a response: `Cache-Status` (RFC 9211), and `Via` (RFC 9110 section 7.6.3).

use super::{Fields, has_tags};
use serde::{Deserialize, Serialize};
use std::fmt;

/// How this cache names itself in `Via`, `CDN-Loop` and `Cache-Status`.
pub const NAME: &str = "fullbore";

/// Its element of `Via`, in requests and responses.
pub const VIA: &str = "1.1 fullbore";

/// Why the origin was asked (RFC 9211 section 2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ForwardReason {
    /// Nothing was stored for the URL.
    UriMiss,
    /// The stored response had to be revalidated.
    Stale,
}

/// The origin's answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForwardStatus {
    /// Why it was asked.
    pub why: ForwardReason,
    /// The status of its answer.
    pub status: u16,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheStatus {
    /// It was answered from the cache alone. The response is fresh for this long, or has been stale for as long if this is negative.
    Hit {
        /// In seconds.
        ttl: i64,
    },
    /// The cache has a part of it, and fetches the rest.
    Partial,
    /// The origin was asked.
    Forwarded {
        /// Its answer.
        origin: ForwardStatus,
        /// Whether its answer is stored.
        is_stored: bool,
        /// Whether it was asked for another viewer, who made the same request.
        is_collapsed: bool,
    },
}

impl CacheStatus {
    /// The origin has confirmed what is stored.
    pub const CONFIRMED: Self = Self::Forwarded {
        origin: ForwardStatus { why: ForwardReason::Stale, status: 304 },
        is_stored: false,
        is_collapsed: false,
    };

    /// The origin was asked because nothing was stored, or to revalidate what is `known`, and answered with `status`.
    pub(crate) fn forwarded(is_known: bool, status: u16, is_stored: bool) -> Self {
        let why = if is_known { ForwardReason::Stale } else { ForwardReason::UriMiss };
        let origin = ForwardStatus { why, status };
        Self::Forwarded { origin, is_stored, is_collapsed: false }
    }

    /// Makes the fields of a response those for its viewer: with lines about this cache, and without tags.
    pub(crate) fn add_to(self, fields: &mut Fields) {
        fields.remove(has_tags);
        fields.push("Via", VIA);
        fields.push("Cache-Status", self.to_string());
    }
}

impl fmt::Display for CacheStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hit { ttl } => write!(f, "{NAME}; hit; ttl={ttl}"),
            Self::Partial => write!(f, "{NAME}; fwd=partial"),
            Self::Forwarded { origin, is_stored, is_collapsed } => {
                let why = match origin.why {
                    ForwardReason::UriMiss => "uri-miss",
                    ForwardReason::Stale => "stale",
                };
                let stored = if *is_stored { "; stored" } else { "" };
                let collapsed = if *is_collapsed { "; collapsed" } else { "" };
                let status = origin.status;
                write!(f, "{NAME}; fwd={why}; fwd-status={status}{stored}{collapsed}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vocabulary_is_that_of_rfc_9211() {
        let origin = ForwardStatus { why: ForwardReason::UriMiss, status: 206 };
        let first = CacheStatus::Forwarded { origin, is_stored: true, is_collapsed: true };
        for (status, text) in [
            (CacheStatus::Hit { ttl: 50 }, "fullbore; hit; ttl=50"),
            (CacheStatus::Hit { ttl: -3 }, "fullbore; hit; ttl=-3"),
            (CacheStatus::Partial, "fullbore; fwd=partial"),
            (CacheStatus::CONFIRMED, "fullbore; fwd=stale; fwd-status=304"),
            (first, "fullbore; fwd=uri-miss; fwd-status=206; stored; collapsed"),
        ] {
            assert_eq!(status.to_string(), text);
        }
        let mut fields = Fields::of(&[("Via", "1.1 other"), ("Surrogate-Key", "a")]);
        CacheStatus::CONFIRMED.add_to(&mut fields);
        assert_eq!(fields.joined("via").as_deref(), Some("1.1 other, 1.1 fullbore"));
        assert!(!fields.has("surrogate-key") && VIA.ends_with(NAME));
    }
}
