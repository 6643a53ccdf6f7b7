//! The header of an origin's answer to a caching edge, with any lines.
//!
//! Checks that nothing panics; that nothing is kept that has `no-store` or `private`, sets a cookie, or lacks a strong tag; that times stay within
//! their limits; and that a range is inside its object.

#![no_main]

use edge::http_cache::LifetimeRule;
use edge::policy::{
    FRESH_MAX, HeaderMap, HeaderName, HeaderValue, content_range, terms, unsatisfied,
};
use libfuzzer_sys::fuzz_target;
use std::time::Duration;

fuzz_target!(|bytes: &[u8]| {
    let header = header(bytes);
    if let Some((start, end, size)) = content_range(&header) {
        assert!(start < end && end <= size);
        assert_eq!(unsatisfied(&header), None, "it is one or the other");
    }
    let Ok(terms) = terms("/live.m3u8", &header, LifetimeRule::default()) else { return };
    assert!(terms.fresh <= FRESH_MAX);
    assert!(terms.age.max(terms.stale) <= Duration::from_secs(u32::MAX.into()));
    assert!(terms.etag.len() >= 2 && terms.etag.starts_with('"') && terms.etag.ends_with('"'));
    assert!(!header.contains_key("set-cookie"));
    assert_eq!(header.get_all("etag").iter().count(), 1);
    for line in header.get_all("cache-control") {
        let line = String::from_utf8_lossy(line.as_bytes()).to_ascii_lowercase();
        for one in line.split(',').map(str::trim) {
            assert!(one != "no-store" && one != "private" && !one.starts_with("private="));
        }
    }
});

/// Makes a header of these lines. Skips lines that no header can have, as the HTTP client does.
fn header(bytes: &[u8]) -> HeaderMap {
    let mut header = HeaderMap::new();
    for line in bytes.split(|byte| *byte == b'\n').take(100) {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let (name, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let name = HeaderName::from_bytes(name.trim_ascii());
        let value = HeaderValue::from_bytes(value.trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            header.append(name, value);
        }
    }
    header
}
