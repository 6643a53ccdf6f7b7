//! Interprets an origin's response headers: whether an answer may be kept, and for how long (RFC 9111). No I/O and no clock.
//!
//! This is about objects: responses that are kept in blocks and are the same for all viewers. [`crate::http_cache`] decides about all others.

use crate::contract::{Trouble, is_plain, is_strong_tag};
use crate::http_cache::{
    self, Fields, INDEX_FRESH, LifetimeRule, ResponseKind, Tags, end_to_end, has_tags, unix_seconds,
};
use reqwest::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, DATE, ETAG, EXPIRES,
    LAST_MODIFIED, SET_COOKIE, VARY,
};
pub use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use std::time::Duration;

/// How long an answer is fresh if the origin does not say. Revalidating an unchanged film costs one small request.
const FRESH_UNSAID: Duration = Duration::from_secs(10);

/// How long after its freshness an object is served while the origin is unreachable, unless the origin says (`stale-if-error`, RFC 5861).
const STALE_UNSAID: Duration = Duration::from_secs(24 * 3600);

/// Older answers are revalidated, whatever the origin says.
pub const FRESH_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// The stored header fields of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The strong entity tag, with quotes.
    pub etag: String,
    /// The media type.
    pub content_type: Option<String>,
    /// When it was last modified, in seconds since 1970.
    pub modified: Option<u64>,
    /// Whether the answer was made at least a second after that by the origin's clock, so that no other version has the same date (RFC 9110
    /// section 8.8.2.2).
    pub is_date_strong: bool,
    /// `Cache-Control`, all lines of it.
    pub cache_control: Option<String>,
    /// How old the answer was when it arrived.
    pub age: Duration,
    /// How long it may be served, from its arrival.
    pub fresh: Duration,
    /// How much longer, if the origin is unreachable.
    pub stale: Duration,
    /// The further header fields, which viewers get as they are.
    pub fields: Fields,
    /// The surrogate keys, which viewers don't get.
    pub tags: Tags,
}

/// The most bytes of further header fields. Responses with more are kept whole.
pub(crate) const FIELDS_BYTES_MAX: usize = 8 << 10;

/// Fields of an object that the server writes itself, from the others of its terms.
const WRITTEN: [&str; 10] = [
    "accept-ranges",
    "age",
    "cache-control",
    "content-length",
    "content-range",
    "content-type",
    "etag",
    "last-modified",
    "server",
    "x-content-type-options",
];

/// The header fields of an answer, as text.
pub fn fields_of(header: &HeaderMap) -> Fields {
    let mut fields = Fields::default();
    for (name, value) in header {
        fields.push(&written(name.as_str()), http_cache::latin1_of(value.as_bytes()));
    }
    fields
}

/// A name with capitals, as servers write them: some clients of HTTP/1.1 look for these letters.
fn written(name: &str) -> String {
    if matches!(name, "etag" | "te" | "dnt" | "www-authenticate") {
        let upper = name.to_ascii_uppercase();
        return upper.replace("ETAG", "ETag").replace("-AUTHENTICATE", "-Authenticate");
    }
    let words = name.split('-').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    });
    words.collect::<Vec<_>>().join("-")
}

/// Evaluates the header of a 200 or 206 at `path`, with the operator's `rule` for that.
///
/// # Errors
/// Why the answer must not be kept.
pub fn terms(
    path: &str,
    header: &HeaderMap,
    rule: LifetimeRule,
) -> Result<Terms, (Trouble, &'static str)> {
    let refused = |why| Err((Trouble::Uncacheable, why));
    let directives = Directives::of(header);
    if ["no-store", "private"].iter().any(|one| directives.has(one) || directives.may_mean(one)) {
        return refused("Cache-Control forbids it");
    }
    let has_fields = directives.each().any(|(name, value)| name == "no-cache" && !value.is_empty());
    let is_unclear = directives.may_mean("no-cache") && !directives.has("no-cache");
    if has_fields || is_unclear || directives.has("must-understand") {
        return refused("its Cache-Control is not for a whole object");
    }
    if header.contains_key("cdn-cache-control") || header.contains_key("surrogate-control") {
        return refused("it has directives for CDNs");
    }
    if header.contains_key(SET_COOKIE) {
        return refused("it sets a cookie");
    }
    let varies = header.get_all(VARY).iter().any(|value| {
        let mut names = value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        !names.all(|name| name.eq_ignore_ascii_case(b"accept-encoding"))
    });
    if varies {
        return refused("it varies with the request (Vary)");
    }
    if is_coded(header) {
        return refused("it is compressed, although that was not asked for");
    }
    let Some(etag) = strong_etag(header) else { return refused("it has no strong ETag") };
    let all = fields_of(header);
    // By the origin's `Age` alone: an origin whose clock is behind would otherwise be asked about its films at each request.
    let age = http_cache::said_age(&all);
    let (content_type, modified) = passed_on(header);
    let date = text(header, DATE).and_then(|date| unix_seconds(&date));
    let kind = ResponseKind::of(path, content_type.as_deref());
    let unsaid = if kind == ResponseKind::Index { INDEX_FRESH } else { FRESH_UNSAID };
    let said = freshness(header, &directives);
    let left = |lasts: Duration| lasts.min(FRESH_MAX).saturating_sub(age);
    let ruled = rule.fresh.or(rule.fresh_unsaid.filter(|_| said.is_none()));
    let fresh = ruled.unwrap_or_else(|| left(said.unwrap_or(unsaid)));
    // Before `stale-if-error`: an answer that must not be served stale must not be served stale on errors either (RFC 9111 section 4.2.4).
    let unchanged = modified.zip(date).map(|(modified, date)| date.saturating_sub(modified));
    let unsaid = kind.stale(unchanged.map(Duration::from_secs), STALE_UNSAID);
    let stale = match rule.forbid_stale().iter().any(|name| directives.has(name)) {
        true => Duration::ZERO,
        false => rule.stale.or(directives.seconds("stale-if-error")).unwrap_or(unsaid),
    };
    let is_date_strong = modified.zip(date).is_some_and(|(modified, date)| modified < date);
    let Some(fields) = further(header) else { return refused("its header is too large") };
    let cache_control = directives.whole;
    Ok(Terms {
        etag,
        content_type,
        modified,
        is_date_strong,
        cache_control,
        age,
        fresh,
        stale,
        fields,
        tags: Tags::of(&all),
    })
}

/// The fields that are not written from the other terms; none if they are too large, or not plain text.
fn further(header: &HeaderMap) -> Option<Fields> {
    let mut fields = end_to_end(fields_of(header));
    let is_written = |name: &str| WRITTEN.iter().any(|one| name.eq_ignore_ascii_case(one));
    fields.remove(|name| is_written(name) || has_tags(name));
    let is_plain = fields.0.iter().all(|(_, value)| is_plain(value));
    (is_plain && fields.bytes() <= FIELDS_BYTES_MAX).then_some(fields)
}

/// Whether the body is compressed, although the edge asks for `identity`.
fn is_coded(header: &HeaderMap) -> bool {
    let mut codings = header.get_all(CONTENT_ENCODING).iter();
    !codings.all(|coding| coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity"))
}

/// The media type and the date of the last change.
fn passed_on(header: &HeaderMap) -> (Option<String>, Option<u64>) {
    let modified = text(header, LAST_MODIFIED).and_then(|date| unix_seconds(&date));
    (text(header, CONTENT_TYPE), modified)
}

/// The entity tag, if it is strong.
pub(crate) fn strong_etag(header: &HeaderMap) -> Option<String> {
    text(header, ETAG).filter(|etag| is_strong_tag(etag))
}

/// The first byte, the one after the last, and the whole length, from `bytes 0-9/100`.
pub fn content_range(header: &HeaderMap) -> Option<(u64, u64, u64)> {
    let (first, end, size) = part(header)?;
    Some((first, end, size?))
}

/// The same, also from the `bytes 0-9/*` of an origin that doesn't know the whole length (RFC 9110 section 14.4).
pub(crate) fn part(header: &HeaderMap) -> Option<(u64, u64, Option<u64>)> {
    let value = text(header, CONTENT_RANGE)?;
    let (range, size) = value.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, end) = (number(first)?, number(last)?.checked_add(1)?);
    let size = if size == "*" { None } else { Some(number(size)?) };
    (first < end && size.is_none_or(|size| end <= size)).then_some((first, end, size))
}

/// The whole length, from the `bytes */100` of a range that does not exist.
pub fn unsatisfied(header: &HeaderMap) -> Option<u64> {
    number(text(header, CONTENT_RANGE)?.strip_prefix("bytes */")?)
}

/// How long an answer is fresh, if the origin says so.
fn freshness(header: &HeaderMap, directives: &Directives) -> Option<Duration> {
    if directives.has("no-cache") {
        return Some(Duration::ZERO);
    }
    let said = directives.seconds("s-maxage").or_else(|| directives.seconds("max-age"));
    if said.is_some() {
        return said;
    }
    let expires = text(header, EXPIRES)?;
    // An invalid date means that it has expired (RFC 9111 section 5.3).
    let date = text(header, DATE).and_then(|date| unix_seconds(&date));
    let left = unix_seconds(&expires).zip(date).map(|(end, now)| end.saturating_sub(now));
    Some(Duration::from_secs(left.unwrap_or(0)))
}

/// `Cache-Control`, all lines of it.
struct Directives {
    whole: Option<String>,
}

impl Directives {
    fn of(header: &HeaderMap) -> Self {
        let lines = header.get_all(CACHE_CONTROL).iter();
        let lines: Vec<_> = lines.map(|line| String::from_utf8_lossy(line.as_bytes())).collect();
        let whole = (!lines.is_empty()).then(|| lines.join(", "));
        // Directives that cannot be forwarded cannot be trusted either, so nothing is kept.
        let whole = whole.map(|whole| match is_plain(&whole) {
            true => whole,
            false => "no-store".to_owned(),
        });
        Self { whole }
    }

    fn each(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.whole.as_deref().unwrap_or_default().split(',');
        all.map(|one| {
            let (name, value) = one.split_once('=').unwrap_or((one, ""));
            (name.trim(), value.trim().trim_matches('"'))
        })
    }

    fn has(&self, wanted: &str) -> bool {
        self.each().any(|(name, _)| name.eq_ignore_ascii_case(wanted))
    }

    /// Whether it is there as [`http_cache`] reads it, which knows more ways to misspell a restriction.
    fn may_mean(&self, wanted: &str) -> bool {
        let whole = self.whole.as_deref().unwrap_or_default();
        let fields = Fields::of(&[("cache-control", whole)]);
        http_cache::Directives::of(&fields, "cache-control").has(wanted)
    }

    /// A number of seconds. An invalid one counts as 0, which is the cautious reading.
    fn seconds(&self, wanted: &str) -> Option<Duration> {
        let found = self.each().find(|(name, _)| name.eq_ignore_ascii_case(wanted))?;
        Some(seconds(Some(found.1)).unwrap_or_default())
    }
}

fn seconds(text: Option<&str>) -> Option<Duration> {
    let text = text?;
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // A value that does not fit is long, not wrong (RFC 9111 section 1.2.2). Sums of such durations do not overflow.
    is_number.then(|| Duration::from_secs(text.parse::<u32>().unwrap_or(u32::MAX).into()))
}

fn number(text: &str) -> Option<u64> {
    // `parse` would take a sign as well.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// The value of a field, if it occurs once and is short, visible ASCII.
fn text(header: &HeaderMap, name: HeaderName) -> Option<String> {
    let mut values = header.get_all(name).iter();
    let value = values.next()?.to_str().ok()?.trim();
    (values.next().is_none() && is_plain(value)).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(lines: &[&str]) -> HeaderMap {
        let mut header = HeaderMap::new();
        for line in lines {
            let (name, value) = line.split_once(": ").unwrap();
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            header.append(name, HeaderValue::from_str(value).unwrap());
        }
        header
    }

    fn of(lines: &[&str]) -> Result<Terms, Trouble> {
        let mut all = vec!["ETag: \"v1\""];
        all.extend(lines);
        ruled(&all, LifetimeRule::default())
    }

    fn ruled(lines: &[&str], rule: LifetimeRule) -> Result<Terms, Trouble> {
        terms("/a", &header(lines), rule).map_err(|(trouble, _)| trouble)
    }

    fn fresh(lines: &[&str]) -> u64 {
        of(lines).unwrap().fresh.as_secs()
    }

    #[test]
    fn what_is_for_one_viewer_only_is_not_kept() {
        for line in [
            "Cache-Control: no-store",
            "Cache-Control: max-age=60, PRIVATE",
            "Cache-Control: private=\"x\"",
            "Cache-Control: max-age=60\u{e9}",
            "Cache-Control: private; max-age=60",
            "Cache-Control: max-age=60; no-cache",
            "Set-Cookie: a=b",
            "Vary: *",
            "Vary: Accept-Encoding, Cookie",
            "Vary: Origin",
            "Content-Encoding: gzip",
        ] {
            assert_eq!(of(&[line]), Err(Trouble::Uncacheable), "{line}");
        }
        let twice = ["Content-Encoding: gzip", "Content-Encoding: br"];
        assert_eq!(of(&twice), Err(Trouble::Uncacheable));
        assert!(of(&["Vary: accept-encoding", "Content-Encoding: identity"]).is_ok());
    }

    #[test]
    fn only_a_strong_tag_names_a_version() {
        for tag in ["W/\"a\"", "a", "\"a", "\"", "\"a\"b\"", "\"a b\""] {
            assert_eq!(strong_etag(&header(&[&format!("ETag: {tag}")])), None, "{tag}");
        }
        assert_eq!(strong_etag(&header(&["ETag: \"a\"", "ETag: \"b\""])), None, "two");
        assert_eq!(strong_etag(&header(&["ETag: \"\""])).as_deref(), Some("\"\""));
    }

    #[test]
    fn freshness_is_the_origins_word_less_the_age() {
        assert_eq!(fresh(&[]), FRESH_UNSAID.as_secs());
        assert_eq!(fresh(&["Cache-Control: max-age=60"]), 60);
        assert_eq!(fresh(&["Cache-Control: max-age=60, s-maxage=5"]), 5);
        assert_eq!(fresh(&["Cache-Control: public", "Cache-Control: Max-Age=\"7\""]), 7);
        assert_eq!(fresh(&["Cache-Control: max-age=60", "Age: 50"]), 10);
        assert_eq!(fresh(&["Cache-Control: max-age=60", "Age: 70"]), 0);
        assert_eq!(fresh(&["Cache-Control: max-age=60", "Age: 50, 3"]), 10);
        assert_eq!(fresh(&["Cache-Control: max-age=60", "Age: 5", "Age: 7"]), 55);
        assert_eq!(fresh(&["Cache-Control: max-age=60", "Age: 5;a"]), 55);
        assert_eq!(fresh(&["Cache-Control: no-cache, max-age=60"]), 0);
        assert_eq!(fresh(&["Cache-Control: max-age=x"]), 0);
        assert_eq!(fresh(&["Cache-Control: max-age=-1"]), 0);
        assert_eq!(fresh(&["Cache-Control: max-age=99999999999999999999"]), FRESH_MAX.as_secs());
        let dated = |expires| fresh(&["Date: Sun, 06 Nov 1994 08:49:37 GMT", expires]);
        assert_eq!(dated("Expires: Sun, 06 Nov 1994 08:50:37 GMT"), 60);
        assert_eq!(dated("Expires: Sun, 06 Nov 1994 08:48:37 GMT"), 0);
        assert_eq!(dated("Expires: 0"), 0);
    }

    #[test]
    fn an_index_without_a_lifetime_is_fresh_for_a_second_and_stale_for_seconds() {
        let of = |path: &str, lines: &[&str]| {
            let mut all = vec!["ETag: \"v1\"", "Date: Sun, 06 Nov 1994 08:49:40 GMT"];
            all.extend(lines);
            let terms = terms(path, &header(&all), LifetimeRule::default()).unwrap();
            (terms.fresh.as_secs(), terms.stale.as_secs())
        };
        let changing = "Last-Modified: Sun, 06 Nov 1994 08:49:38 GMT";
        let settled = "Last-Modified: Sun, 06 Nov 1994 07:49:38 GMT";
        let day = 24 * 3600;
        assert_eq!(of("/a.m3u8", &[changing]), (1, 10));
        assert_eq!(of("/a.m3u8", &[]), (1, 10));
        assert_eq!(of("/a.m3u8", &[settled]), (1, day));
        assert_eq!(of("/a", &["Content-Type: application/dash+xml"]), (1, 10));
        assert_eq!(of("/a.m3u8", &["Cache-Control: max-age=4, stale-if-error=5"]), (4, 5));
        assert_eq!(of("/a.m3u8", &["Cache-Control: max-age=4"]), (4, 10));
        assert_eq!(of("/a.m4s", &[changing]), (FRESH_UNSAID.as_secs(), day));
    }

    #[test]
    fn stale_is_served_only_where_the_origin_lets_it() {
        let stale = |line| of(&[line]).unwrap().stale;
        assert_eq!(stale("Cache-Control: max-age=1"), STALE_UNSAID);
        assert_eq!(stale("Cache-Control: max-age=1, stale-if-error=30").as_secs(), 30);
        assert_eq!(stale("Cache-Control: max-age=1, must-revalidate"), Duration::ZERO);
        assert_eq!(stale("Cache-Control: s-maxage=1"), Duration::ZERO);
        for strict in ["must-revalidate", "Proxy-Revalidate", "no-cache", "s-maxage=1"] {
            for line in [
                format!("Cache-Control: max-age=1, {strict}, stale-if-error=600"),
                format!("Cache-Control: stale-if-error=600, {strict}"),
            ] {
                assert_eq!(of(&[&line]).unwrap().stale, Duration::ZERO, "{line}");
            }
        }
        let longest = Duration::from_secs(u32::MAX.into());
        assert_eq!(stale("Cache-Control: stale-if-error=18446744073709551615"), longest);
        assert_eq!(of(&["Age: 18446744073709551615"]).unwrap().age, longest);
    }

    #[test]
    fn an_operators_lifetime_holds_for_films() {
        let seconds = |seconds: Option<u64>| seconds.map(Duration::from_secs);
        let of = |line: &str, fresh, fresh_unsaid, stale| {
            let [fresh, fresh_unsaid, stale] = [fresh, fresh_unsaid, stale].map(seconds);
            let rule = LifetimeRule { fresh, fresh_unsaid, stale };
            let terms = ruled(&["ETag: \"v1\"", line, "Age: 50"], rule)?;
            Ok((terms.fresh.as_secs(), terms.stale.as_secs()))
        };
        let day = STALE_UNSAID.as_secs();
        assert_eq!(of("X: y", None, Some(100), None), Ok((100, day)));
        assert_eq!(of("Cache-Control: max-age=60", None, Some(100), None), Ok((10, day)));
        assert_eq!(of("Cache-Control: max-age=60", Some(100), None, Some(7)), Ok((100, 7)));
        assert_eq!(of("Cache-Control: no-cache", Some(100), None, None), Ok((100, day)));
        assert_eq!(of("Cache-Control: no-cache", None, Some(100), Some(7)), Ok((0, 0)));
        assert_eq!(of("Cache-Control: must-revalidate", Some(100), None, Some(7)), Ok((100, 0)));
        for line in ["Cache-Control: private", "Cache-Control: no-store", "Set-Cookie: a=b"] {
            assert_eq!(of(line, Some(100), None, Some(7)), Err(Trouble::Uncacheable), "{line}");
        }
    }

    #[test]
    fn a_date_names_a_version_once_its_second_is_over_by_the_origins_clock() {
        let modified = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT";
        let of = |date: &str| {
            let terms = of(&[modified, date]).unwrap();
            (terms.modified, terms.is_date_strong)
        };
        assert_eq!(of("Date: Sun, 06 Nov 1994 08:49:38 GMT"), (Some(784_111_777), true));
        assert_eq!(of("Date: Sun, 06 Nov 1994 08:49:37 GMT"), (Some(784_111_777), false));
        assert_eq!(of("Date: Sun, 06 Nov 1994 08:49:30 GMT"), (Some(784_111_777), false));
        assert_eq!(of("Server: x"), (Some(784_111_777), false));
    }

    #[test]
    fn a_content_range_is_believed_only_if_it_is_one() {
        let of = |value: &str| content_range(&header(&[&format!("Content-Range: {value}")]));
        assert_eq!(of("bytes 0-9/100"), Some((0, 10, 100)));
        for wrong in [
            "bytes 0-9/*",
            "bytes */100",
            "bytes 9-8/100",
            "bytes 0-100/100",
            "bytes +0-9/100",
            "bytes 0-/100",
            "items 0-9/100",
            "bytes 0-18446744073709551615/18446744073709551615",
            "",
        ] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        let part = |value: &str| part(&header(&[&format!("Content-Range: {value}")]));
        assert_eq!(part("bytes 0-9/*"), Some((0, 10, None)));
        assert_eq!(part("bytes 0-9/100"), Some((0, 10, Some(100))));
        for wrong in ["bytes */*", "bytes 9-8/*", "bytes 0-18446744073709551615/*"] {
            assert_eq!(part(wrong), None, "{wrong}");
        }
        assert_eq!(unsatisfied(&header(&["Content-Range: bytes */100"])), Some(100));
        assert_eq!(unsatisfied(&header(&["Content-Range: bytes 0-9/100"])), None);
    }
}
