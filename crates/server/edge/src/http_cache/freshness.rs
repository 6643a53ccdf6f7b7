//! For how long a stored response may be used (RFC 9111 section 4.2, RFC 5861).

use super::directives::delta;
use super::{Directives, Fields};
use std::time::Duration;

/// Older responses are revalidated, whatever the origin says.
const FRESH_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// No age is greater: sums with it do not overflow.
const AGE_MAX: Duration = Duration::from_secs(u32::MAX as u64);

/// The most that is estimated.
const HEURISTIC_MAX: Duration = Duration::from_secs(24 * 3600);

/// How long a 404 or 410 without any directive counts: players ask for the next segment of a live title before it exists.
const ABSENT: Duration = Duration::from_secs(1);

/// How long a stale response is served while the origin doesn't answer, unless the origin says. An error has no such time: it may be over, and players
/// give up on a 404 but repeat a request that gets a 502.
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

/// The lifetime of a response that arrived at `now` (seconds since 1970).
pub fn lifetime(status: u16, response: &Fields, now: u64) -> Freshness {
    let said = Directives::for_cdn(response);
    let age = age(response, now);
    let total = total(status, response, &said, now);
    // RFC 9111 sections 4.2.4 and 5.2.2: what forbids stale responses forbids those after an error, too.
    let must_ask = ["must-revalidate", "proxy-revalidate", "no-cache", "s-maxage"];
    let may_be_stale = !must_ask.iter().any(|name| said.has(name));
    let allowed = |name: &str, unsaid: Duration| match may_be_stale {
        true => said.seconds(name).unwrap_or(unsaid),
        false => Duration::ZERO,
    };
    let unsaid = if status >= 400 { Duration::ZERO } else { STALE_UNSAID };
    Freshness {
        age,
        fresh: total.min(FRESH_MAX).saturating_sub(age),
        while_revalidating: allowed("stale-while-revalidate", Duration::ZERO),
        if_unreachable: allowed("stale-if-error", unsaid),
        if_error: allowed("stale-if-error", Duration::ZERO),
        may_be_stale,
    }
}

/// RFC 9111 section 4.2.3.
fn age(response: &Fields, now: u64) -> Duration {
    let apparent = response.date("date").map_or(0, |date| now.saturating_sub(date));
    said_age(response).max(Duration::from_secs(apparent))
}

/// The age in `Age`. Anything that is not one number might hide any age, so the response counts as stale. RFC 9111 section 5.1 lets a cache take the
/// first member of a list, but a proxy that joins two lines into one (RFC 9110 section 5.3) does not say which of them was its own.
pub fn said_age(response: &Fields) -> Duration {
    let mut lines = response.all("age");
    let said = match (lines.next(), lines.next()) {
        (None, _) => Duration::ZERO,
        (Some(line), None) => delta(Some(line.trim())).unwrap_or(Duration::MAX),
        (Some(_), Some(_)) => Duration::MAX,
    };
    said.min(AGE_MAX)
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
    let changed = response.date("last-modified").zip(response.date("date"));
    let tenth =
        changed.map(|(changed, date)| Duration::from_secs(date.saturating_sub(changed) / 10));
    match status {
        404 | 410 => tenth.unwrap_or(ABSENT).min(HEURISTIC_MAX),
        _ => tenth.unwrap_or_default().min(HEURISTIC_MAX),
    }
}

/// Status codes that are heuristically cacheable (RFC 9110 section 15.1). 206 is not stored here.
pub(super) fn is_heuristic(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}
