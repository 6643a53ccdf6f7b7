//! Lifetimes that the operator sets for some paths.

use super::freshness::is_heuristic;
use std::time::Duration;

/// Lifetimes in place of the origin's, or where it says nothing. They count from the arrival of a response at this edge, whatever its age, and only
/// for a response that may be stored without them. Errors have none: a film that is there a moment later must not be missing for an hour.
/// Temporary redirects (302, 303, 307) have none either: no cache keeps those unless the origin says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LifetimeRule {
    /// In place of `s-maxage`, `max-age`, `Expires` and `no-cache`.
    pub fresh: Option<Duration>,
    /// If the origin says none of these.
    pub fresh_unsaid: Option<Duration>,
    /// In place of `stale-if-error`, and of the time without it. Zero forbids all that is stale.
    pub stale: Option<Duration>,
}

impl LifetimeRule {
    /// As far as it holds for a response with this status.
    pub(super) fn for_status(self, status: u16) -> Self {
        if is_heuristic(status) && status < 400 { self } else { Self::default() }
    }

    /// Whether nothing stale may be served, whatever the origin and the viewer say.
    pub(crate) fn forbids_all_stale(self) -> bool {
        self.stale == Some(Duration::ZERO)
    }

    /// The directives that forbid to serve what is stale (RFC 9111 sections 4.2.4 and 5.2.2). Those that the operator's lifetime replaces do not.
    pub(crate) fn forbid_stale(self) -> &'static [&'static str] {
        let all = &["must-revalidate", "proxy-revalidate", "no-cache", "s-maxage"];
        if self.fresh.is_some() { &all[..2] } else { all }
    }
}
