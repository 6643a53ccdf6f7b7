//! Conditional requests: checks whether the client's copy is still current (RFC 9110 section 13).
//!
//! The validators are ETag and Last-Modified. A date has a resolution of a second, so it identifies a version only once that second is over (RFC 9110
//! section 8.8.2.2). Until then Last-Modified is not sent. So every date that a client got here is a strong validator, unless a program has set the
//! file's date back: see [`Entity::date_is_strong`]. A time in the future is not sent either (RFC 9110 section 8.8.2.1). A cache's copies have their
//! origin's dates.
//!
//! A condition that cannot be parsed never makes a client keep or join wrong bytes: If-Match then fails, If-None-Match
//! and If-Range do not match, dates are ignored (RFC 9110 sections 13.1.3 and 13.1.4).

use crate::{Entity, Field, FileForm, HttpDate, Request};

/// The result of the conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Carry out the request.
    Proceed,
    /// The client's copy is current: 304.
    NotModified,
    /// The file is not the version that the client means: 412.
    Failed,
}

/// The validators that identify a version of a representation, as far as known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validators<'a> {
    /// The entity tag, with quotes.
    pub(crate) etag: Option<&'a str>,
    /// Modification time in whole seconds since 1970.
    pub(crate) modified_unix_seconds: Option<u64>,
}

impl<'a> From<&'a Entity<'_>> for Validators<'a> {
    fn from(entity: &'a Entity<'_>) -> Self {
        let modified_unix_seconds = entity.modified_unix_seconds;
        Self { etag: Some(entity.etag), modified_unix_seconds }
    }
}

/// A strong ETag, quotes included. Times are in nanoseconds since 1970.
///
/// The change time is part of it because the modification time can be set back, and two versions would then have one
/// tag. The change time also changes with a new mode, owner or name; caches then fetch the file again for nothing, but
/// the other mistake would be wrong bytes. Like the inode, it differs from machine to machine. So machines that share
/// an address should divide the load by client, not by request.
///
/// Two writes that keep the size look the same if they happen within one tick of the filesystem's clock (4 ms on many
/// kernels before Linux 6.13). Replace files by rename to be safe.
pub fn file_etag(
    inode: u64,
    size_bytes: u64,
    modified_unix_ns: u128,
    changed_unix_ns: u128,
) -> String {
    format!("\"{inode:x}-{size_bytes:x}-{modified_unix_ns:x}-{changed_unix_ns:x}\"")
}

/// Last-Modified, if it may be sent now. A cache passes on its origin's date, whatever its own clock says (RFC 9111 section 4.3.4).
pub(crate) fn last_modified(entity: &Entity<'_>, now: &HttpDate) -> Option<HttpDate> {
    let modified = entity.modified_unix_seconds?;
    let is_copy = entity.age_seconds.is_some();
    (is_copy || modified < now.unix_seconds()).then(|| HttpDate::new(modified))
}

/// Evaluates the conditions of a GET or HEAD in the order of RFC 9110 section 13.2.2; If-Range comes later. Without a
/// modification date, conditions by date are ignored (sections 13.1.3 and 13.1.4); without a tag, none matches.
pub(crate) fn evaluate<'a>(request: &Request, of: impl Into<Validators<'a>>) -> Verdict {
    let Validators { etag, modified_unix_seconds } = of.into();
    // Returns true if the date in a field is that of the representation or later; `None` if either is missing.
    let has_date_since = |field| {
        let date = HttpDate::parse(request.field(field)?)?;
        Some(modified_unix_seconds? <= date.unix_seconds())
    };
    let etag = etag.map(str::as_bytes);
    let meant = match request.field(Field::IfMatch) {
        Some(list) => {
            list_matches(list, |tag| etag.is_some_and(|etag| tags_match_strongly(tag, etag)))
        }
        None => has_date_since(Field::IfUnmodifiedSince).unwrap_or(true),
    };
    if !meant {
        return Verdict::Failed;
    }
    let current = match request.field(Field::IfNoneMatch) {
        Some(list) => {
            list_matches(list, |tag| etag.is_some_and(|etag| tags_match_weakly(tag, etag)))
        }
        None => has_date_since(Field::IfModifiedSince).unwrap_or(false),
    };
    if current { Verdict::NotModified } else { Verdict::Proceed }
}

/// Returns true if If-Range allows a Range header to be used (RFC 9110 section 13.1.5): both validators must be strong and exactly the file's.
pub(crate) fn if_range_holds(request: &Request, entity: &Entity<'_>, now: &HttpDate) -> bool {
    // All forms of a file have one date, so it does not distinguish their bytes.
    let is_strong = entity.date_is_strong && entity.form == FileForm::Only;
    let strong_date = if is_strong { last_modified(entity, now) } else { None };
    if_range_is(request, Some(entity.etag.as_bytes()), strong_date)
}

/// As [`if_range_holds`], for a representation with this entity tag and with this date, which is strong.
pub(crate) fn if_range_is(
    request: &Request,
    etag: Option<&[u8]>,
    strong_date: Option<HttpDate>,
) -> bool {
    let Some(value) = request.field(Field::IfRange) else { return true };
    if value.ends_with(b"\"") {
        return etag.is_some_and(|etag| tags_match_strongly(value, etag));
    }
    strong_date.is_some() && HttpDate::parse(value) == strong_date
}

/// RFC 9110 section 8.8.3.2: equal, and neither weak.
fn tags_match_strongly(one: &[u8], other: &[u8]) -> bool {
    one == other && !one.starts_with(b"W/")
}

/// RFC 9110 section 8.8.3.2: equal, regardless of weakness.
fn tags_match_weakly(one: &[u8], other: &[u8]) -> bool {
    let opaque = |tag| <[u8]>::strip_prefix(tag, b"W/").unwrap_or(tag);
    opaque(one) == opaque(other)
}

/// Returns true if `*` or any entity tag of the list matches; nothing after a malformed element counts.
fn list_matches(list: &[u8], matches: impl Fn(&[u8]) -> bool) -> bool {
    if list == b"*" {
        return true;
    }
    let mut rest = list;
    while let Some((tag, tail)) = next_tag(rest) {
        if matches(tag) {
            return true;
        }
        rest = tail;
    }
    false
}

/// The next `[W/]"..."` and what follows it. A tag may contain commas, so the list cannot simply be split.
fn next_tag(list: &[u8]) -> Option<(&[u8], &[u8])> {
    let blank_bytes = list.iter().take_while(|byte| b" \t,".contains(byte)).count();
    let list = &list[blank_bytes..];
    let opening = if list.starts_with(b"W/") { 2 } else { 0 };
    let opaque = list.get(opening..)?.strip_prefix(b"\"")?;
    let closing = opaque.iter().position(|&byte| byte == b'"')?;
    let (tag, tail) = list.split_at(opening + 1 + closing + 1);
    matches!(tail, [] | [b' ' | b'\t' | b',', ..]).then_some((tag, tail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Parse, RequestLimits, parse};

    const MODIFIED: u64 = 784_111_777;
    const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const EARLIER: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const LATER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn request(lines: &str) -> Request {
        let head = format!("GET /a HTTP/1.1\r\nHost: h\r\n{lines}\r\n\r\n");
        match parse(head.as_bytes(), &RequestLimits::default()) {
            Ok(Parse::Complete { request, .. }) => request,
            other => panic!("{head:?} gave {other:?}"),
        }
    }

    fn entity(etag: &str) -> Entity<'_> {
        Entity {
            size_bytes: 10,
            modified_unix_seconds: Some(MODIFIED),
            date_is_strong: true,
            etag,
            form: FileForm::Only,
            content_type: "video/mp4",
            age_seconds: None,
            fields: &[],
        }
    }

    #[track_caller]
    fn assert_verdict(lines: &str, verdict: Verdict) {
        assert_eq!(evaluate(&request(lines), &entity("\"v1\"")), verdict, "{lines}");
    }

    #[test]
    fn if_match_compares_strongly() {
        assert_verdict("If-Match: \"v1\"", Verdict::Proceed);
        assert_verdict("If-Match: *", Verdict::Proceed);
        assert_verdict("If-Match: \"a,b\" , W/\"x\",,\"v1\"", Verdict::Proceed);
        assert_verdict("If-Match: \"a\"\r\nIf-Match: \"v1\"", Verdict::Proceed);
        assert_verdict("If-Match: W/\"v1\"", Verdict::Failed);
        assert_verdict("If-Match: \"v2\"", Verdict::Failed);
        assert_verdict("If-Match: v1", Verdict::Failed);
        assert_verdict("If-Match: \"x\"\"v1\"", Verdict::Failed);
        assert_verdict("If-Match:", Verdict::Failed);
    }

    #[test]
    fn if_none_match_compares_weakly() {
        assert_verdict("If-None-Match: \"v1\"", Verdict::NotModified);
        assert_verdict("If-None-Match: W/\"v1\"", Verdict::NotModified);
        assert_verdict("If-None-Match: \"v0\", \"v1\"", Verdict::NotModified);
        assert_verdict("If-None-Match: *", Verdict::NotModified);
        assert_verdict("If-None-Match: \"v2\"", Verdict::Proceed);
        assert_verdict("If-None-Match: \"v1", Verdict::Proceed);
    }

    #[test]
    fn dates_are_compared_to_the_second() {
        for (date, unmodified, modified) in [
            (EARLIER, Verdict::Failed, Verdict::Proceed),
            (SAME, Verdict::Proceed, Verdict::NotModified),
            (LATER, Verdict::Proceed, Verdict::NotModified),
            ("not a date", Verdict::Proceed, Verdict::Proceed),
        ] {
            assert_verdict(&format!("If-Unmodified-Since: {date}"), unmodified);
            assert_verdict(&format!("If-Modified-Since: {date}"), modified);
        }
    }

    #[test]
    fn what_has_no_date_ignores_conditions_by_date() {
        let undated = Validators { etag: Some("\"v1\""), modified_unix_seconds: None };
        for date in [EARLIER, SAME, LATER] {
            for field in ["If-Unmodified-Since", "If-Modified-Since"] {
                let verdict = evaluate(&request(&format!("{field}: {date}")), undated);
                assert_eq!(verdict, Verdict::Proceed, "{field}: {date}");
            }
        }
        assert_eq!(evaluate(&request("If-None-Match: \"v1\""), undated), Verdict::NotModified);
    }

    #[test]
    fn what_has_no_tag_matches_none() {
        let untagged = Validators { etag: None, modified_unix_seconds: None };
        assert_eq!(evaluate(&request("If-None-Match: \"now\""), untagged), Verdict::Proceed);
        assert_eq!(evaluate(&request("If-Match: \"now\""), untagged), Verdict::Failed);
        assert_eq!(evaluate(&request("If-Match: *"), untagged), Verdict::Proceed);
    }

    #[test]
    fn conditions_are_evaluated_in_order_and_tags_shadow_dates() {
        assert_verdict(
            &format!("If-Match: \"v1\"\r\nIf-Unmodified-Since: {EARLIER}"),
            Verdict::Proceed,
        );
        assert_verdict(
            &format!("If-None-Match: \"v2\"\r\nIf-Modified-Since: {LATER}"),
            Verdict::Proceed,
        );
        assert_verdict("If-Match: \"v2\"\r\nIf-None-Match: \"v1\"", Verdict::Failed);
        assert_verdict("If-Match: \"v1\"\r\nIf-None-Match: \"v1\"", Verdict::NotModified);
    }

    #[test]
    fn if_range_wants_the_exact_strong_validator() {
        let now = HttpDate::new(MODIFIED + 1);
        let holds = |value: &str, etag: &str, now: &HttpDate| {
            if_range_holds(&request(&format!("If-Range: {value}")), &entity(etag), now)
        };
        assert!(holds("\"v1\"", "\"v1\"", &now));
        assert!(holds(SAME, "\"v1\"", &now));
        assert!(!holds("\"v2\"", "\"v1\"", &now));
        assert!(!holds("W/\"v1\"", "W/\"v1\"", &now));
        assert!(!holds(LATER, "\"v1\"", &now));
        assert!(!holds(EARLIER, "\"v1\"", &now));
        assert!(!holds("nonsense", "\"v1\"", &now));
        assert!(if_range_holds(&request("A: b"), &entity("\"v1\""), &now));
    }

    #[test]
    fn a_modification_date_is_not_told_before_its_second_is_over() {
        let entity = entity("\"v1\"");
        assert_eq!(last_modified(&entity, &HttpDate::new(MODIFIED)), None);
        assert_eq!(last_modified(&entity, &HttpDate::new(MODIFIED - 1)), None);
        let told = last_modified(&entity, &HttpDate::new(MODIFIED + 1));
        assert_eq!(told, Some(HttpDate::new(MODIFIED)));
        let same_second = HttpDate::new(MODIFIED);
        assert!(!if_range_holds(&request(&format!("If-Range: {SAME}")), &entity, &same_second));
    }

    #[test]
    fn a_cache_passes_its_origins_date_on_whatever_its_own_clock_says() {
        let copy = Entity { age_seconds: Some(0), date_is_strong: false, ..entity("\"v1\"") };
        let now = HttpDate::new(MODIFIED - 5);
        assert_eq!(last_modified(&copy, &now), Some(HttpDate::new(MODIFIED)));
        let same_date = request(&format!("If-Range: {SAME}"));
        assert!(!if_range_holds(&same_date, &copy, &now), "it may have changed in that second");
        let strong = Entity { date_is_strong: true, ..copy };
        assert!(if_range_holds(&same_date, &strong, &now));
    }

    #[test]
    fn a_date_that_may_have_been_set_back_does_not_join_parts() {
        let now = HttpDate::new(MODIFIED + 1);
        let same_date = request(&format!("If-Range: {SAME}"));
        let set_back = Entity { date_is_strong: false, ..entity("\"v1\"") };
        assert!(!if_range_holds(&same_date, &set_back, &now));
        assert!(if_range_holds(&request("If-Range: \"v1\""), &set_back, &now));
    }

    #[test]
    fn etags_differ_when_inode_size_or_a_time_do() {
        let etag = file_etag(1, 2, 3, 4);
        assert_eq!(etag, "\"1-2-3-4\"");
        for other in [
            file_etag(5, 2, 3, 4),
            file_etag(1, 5, 3, 4),
            file_etag(1, 2, 5, 4),
            file_etag(1, 2, 3, 5),
        ] {
            assert_ne!(etag, other);
        }
    }
}
