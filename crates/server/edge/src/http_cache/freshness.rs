//! For how long a stored response may be used (RFC 9111 section 4.2, RFC 5861).

use super::directives::delta;
use super::live::MEDIA_FRESH;
use super::{ABSENT, Directives, Fields, INDEX_FRESH, LifetimeRule, ResponseKind};
use std::time::Duration;

/// Older responses are revalidated, whatever the origin says.
const FRESH_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// No age is greater: sums with it do not overflow.
const AGE_MAX: Duration = Duration::from_secs(u32::MAX as u64);

/// The most that is estimated.
const HEURISTIC_MAX: Duration = Duration::from_secs(24 * 3600);

/// How long a stale response is served while the origin doesn't answer, unless the origin says. An error has no such time: it may be over, and
/// players give up on a 404 but repeat a request that gets a 502.
const STALE_UNSAID: Duration = Duration::from_secs(24 * 3600);

/// For how long a response may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// Its age when it arrived.
    pub age: Duration,
    /// How long it is fresh, from its arrival.
    pub fresh: Duration,
    /// How long after that it may be used while it is being revalidated.
    pub while_revalidating: Duration,
    /// How long after that it may be used while the origin doesn't answer (RFC 9111 section 4.2.4).
    pub if_unreachable: Duration,
    /// How long after that it may be used in place of an error of the origin. Only the origin can allow that (RFC 5861 section 4).
    pub if_error: Duration,
    /// Whether it may be used for a request that accepts a stale response.
    pub may_be_stale: bool,
}

impl Freshness {
    /// The shorter of two lifetimes of one response.
    fn min(self, other: Self) -> Self {
        Self {
            age: self.age,
            fresh: self.fresh.min(other.fresh),
            while_revalidating: self.while_revalidating.min(other.while_revalidating),
            if_unreachable: self.if_unreachable.min(other.if_unreachable),
            if_error: self.if_error.min(other.if_error),
            may_be_stale: self.may_be_stale && other.may_be_stale,
        }
    }
}

/// The lifetime of a response to `request`, by the operator's `rule` for its path. If the origin may know the viewer, a rule can only shorten it:
/// other viewers share that response because the origin says `must-revalidate`, `s-maxage` or `public`, which means for as long as it is fresh by
/// the origin's own words (RFC 9111 section 3.5).
pub fn lifetime_for(
    request: &Fields,
    path: &str,
    (status, response): (u16, &Fields),
    now: u64,
    rule: LifetimeRule,
) -> Freshness {
    let ruled = lifetime(path, status, response, now, rule);
    match request.is_personal() {
        true => ruled.min(lifetime(path, status, response, now, LifetimeRule::default())),
        false => ruled,
    }
}

/// The lifetime of the response at `path` that arrived at `now` (seconds since 1970), by the operator's `rule` for that path.
pub fn lifetime(
    path: &str,
    status: u16,
    response: &Fields,
    now: u64,
    rule: LifetimeRule,
) -> Freshness {
    let rule = rule.for_status(status);
    let kind = ResponseKind::of(path, response.first("content-type"));
    let said = Directives::for_cdn(response);
    let age = age(response, now);
    let unsaid = rule.fresh_unsaid.filter(|_| !is_said(response, &said));
    let fresh = match (rule.fresh.or(unsaid), chosen(kind, status, response, &said)) {
        (Some(ruled), _) => ruled,
        (None, Some(chosen)) => chosen.saturating_sub(said_age(response)),
        (None, None) => total(status, response, &said, now).min(FRESH_MAX).saturating_sub(age),
    };
    let may_be_stale = may_be_stale(&said, rule);
    let allowed = |name: &str, ruled: Option<Duration>, unsaid: Duration| match may_be_stale {
        true => ruled.or_else(|| said.seconds(name)).unwrap_or(unsaid),
        false => Duration::ZERO,
    };
    let unsaid = match status {
        400.. => Duration::ZERO,
        _ => kind.stale(unchanged(response), STALE_UNSAID),
    };
    Freshness {
        age,
        fresh,
        while_revalidating: allowed("stale-while-revalidate", None, Duration::ZERO),
        if_unreachable: allowed("stale-if-error", rule.stale, unsaid),
        if_error: allowed("stale-if-error", rule.stale, Duration::ZERO),
        may_be_stale,
    }
}

/// RFC 9111 sections 4.2.4 and 5.2.2: what forbids stale responses forbids those after an error, too. So does a rule whose time is zero.
fn may_be_stale(said: &Directives, rule: LifetimeRule) -> bool {
    !rule.forbids_all_stale() && !rule.forbid_stale().iter().any(|name| said.has(name))
}

/// For how long after its freshness a film with this `Cache-Control` may be served while it is being revalidated (RFC 5861 section 3), by the
/// operator's `rule`. It is of this age, and its time has been over for `expired`. What arrives stale from another cache has less of that time, or
/// none.
pub fn while_revalidating(
    cache_control: &str,
    (age, expired): (Duration, Duration),
    rule: LifetimeRule,
) -> Duration {
    let said = Directives::of(&Fields::of(&[("cache-control", cache_control)]), "cache-control");
    let seconds = said.seconds("stale-while-revalidate");
    let seconds = seconds.filter(|_| may_be_stale(&said, rule));
    let was_stale = match rule.fresh {
        // It counts from the arrival, whatever the age.
        Some(_) => expired,
        None => age.saturating_sub(said.seconds("max-age").unwrap_or(age)),
    };
    seconds.unwrap_or_default().saturating_sub(was_stale)
}

/// RFC 9111 section 4.2.3.
fn age(response: &Fields, now: u64) -> Duration {
    let apparent = response.date("date").map_or(0, |date| now.saturating_sub(date));
    said_age(response).max(Duration::from_secs(apparent))
}

/// The age in `Age`: the first member of the first line, and none if that is invalid (RFC 9111 section 5.1). What follows a number after a semicolon
/// is no part of it.
pub fn said_age(response: &Fields) -> Duration {
    let line = response.first("age").unwrap_or_default();
    let number = line.split([',', ';']).next().map(str::trim);
    delta(number).unwrap_or_default().min(AGE_MAX)
}

/// The lifetime that this cache chooses for what a live stream is made of, if the origin doesn't say. It counts from the arrival: dates have no
/// fractions of a second, so by them most of it would be over.
fn chosen(
    kind: ResponseKind,
    status: u16,
    response: &Fields,
    said: &Directives,
) -> Option<Duration> {
    let unchanged = unchanged(response);
    match (status, kind) {
        _ if is_said(response, said) => None,
        (404 | 410, _) if unchanged.is_none() => Some(ABSENT),
        // Also a playlist of yesterday: the next stream may begin under its name.
        (200, ResponseKind::Index) => Some(INDEX_FRESH),
        (200, ResponseKind::Media) if unchanged.is_none_or(|time| time < 10 * MEDIA_FRESH) => {
            Some(MEDIA_FRESH)
        }
        _ => None,
    }
}

/// Whether the origin says how long a response is fresh.
fn is_said(response: &Fields, said: &Directives) -> bool {
    ["s-maxage", "max-age"].iter().any(|name| said.has(name))
        || said.has_without_names("no-cache")
        || response.has("expires")
}

fn total(status: u16, response: &Fields, said: &Directives, now: u64) -> Duration {
    if said.has_without_names("no-cache") {
        return Duration::ZERO;
    }
    if let Some(lasts) = said.seconds("s-maxage").or_else(|| said.seconds("max-age")) {
        return lasts;
    }
    if response.has("expires") {
        // An invalid date means that it has expired (RFC 9111 section 5.3), and so do two dates.
        let end = response.date("expires").filter(|_| response.all("expires").count() == 1);
        // Without a valid date, that of the arrival (RFC 9110 section 6.6.1).
        let date = response.date("date").unwrap_or(now);
        return Duration::from_secs(end.map_or(0, |end| end.saturating_sub(date)));
    }
    heuristic(status, response, said)
}

/// A tenth of the time since the last change (RFC 9111 section 4.2.2).
fn heuristic(status: u16, response: &Fields, said: &Directives) -> Duration {
    if !is_heuristic(status) && !said.has("public") {
        return Duration::ZERO;
    }
    let tenth = unchanged(response).map(|time| Duration::from_secs(time.as_secs() / 10));
    tenth.unwrap_or_default().min(HEURISTIC_MAX)
}

/// The time from the last change to the response, by the origin's clock.
fn unchanged(response: &Fields) -> Option<Duration> {
    let changed = response.date("last-modified").zip(response.date("date"))?;
    Some(Duration::from_secs(changed.1.saturating_sub(changed.0)))
}

/// Status codes that are heuristically cacheable (RFC 9110 section 15.1). 206 is not stored here.
pub(super) fn is_heuristic(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}
