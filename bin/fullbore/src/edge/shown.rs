//! How what is kept is shown: in words, and as JSON.

use edge::inquiry::{KeptCopy, KeptPath};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// A time span in its two largest units, such as `59m 3s`.
pub(crate) fn span(seconds: u64) -> String {
    let units = [(86_400, "d"), (3600, "h"), (60, "m"), (1, "s")];
    let mut rest = seconds;
    let mut parts = Vec::new();
    for (unit, name) in units {
        if rest >= unit {
            parts.push(format!("{}{name}", rest / unit));
            rest %= unit;
        }
    }
    parts.truncate(2);
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}

/// A size in its largest binary unit, such as `3.0 MiB`.
pub(super) fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1024.0 && unit + 1 < units.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", units[unit]) }
}

/// What may be done with a copy, and for how long.
pub(super) fn lifetime(copy: &KeptCopy) -> String {
    let KeptCopy { fresh_seconds: fresh, usable_seconds: usable, .. } = *copy;
    if copy.has_to_be_confirmed {
        return "stale: the origin has to confirm it before it is used".to_owned();
    }
    match (fresh, usable.saturating_sub(fresh)) {
        (0, more) => format!("stale: used for {} more if the origin doesn't answer", span(more)),
        (fresh, 0) => format!("fresh for {} more", span(fresh)),
        (fresh, more) => format!(
            "fresh for {} more, then used for {} if the origin doesn't answer",
            span(fresh),
            span(more)
        ),
    }
}

/// The responses kept at a path.
pub(super) fn document(kept: &KeptPath) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let copies: Vec<Value> = kept.copies.iter().map(|copy| copy_document(copy, now)).collect();
    json!({ "path": kept.path, "copies": copies })
}

fn copy_document(copy: &KeptCopy, now: u64) -> Value {
    let selected_by: serde_json::Map<String, Value> =
        copy.selected_by.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({
        "kind": if copy.is_film { "film" } else { "response" },
        "status": copy.status,
        "bytes": copy.bytes,
        "present_bytes": copy.present_bytes,
        "version": copy.version,
        "cache_control": copy.cache_control,
        "age_seconds": copy.age_seconds,
        "fresh_seconds": copy.fresh_seconds,
        "fresh_until": now.saturating_add(copy.fresh_seconds),
        "usable_seconds": copy.usable_seconds,
        "usable_until": now.saturating_add(copy.usable_seconds),
        "has_to_be_confirmed": copy.has_to_be_confirmed,
        "tags": copy.tags,
        "tags_left_out": copy.tags_left_out,
        "selected_by": selected_by,
        "used_seconds_ago": copy.used_seconds_ago,
        "origin": copy.origin,
        "ahead": copy.ahead.as_ref().map(|ahead| json!({
            "source": ahead.source,
            "seconds_ago": ahead.seconds_ago,
            "is_used": ahead.is_used,
        })),
    })
}

#[cfg(test)]
pub(super) fn copy() -> KeptCopy {
    use edge::inquiry::FetchedAhead;
    KeptCopy {
        is_film: true,
        status: 200,
        bytes: 3 << 20,
        present_bytes: 1 << 20,
        version: Some("\"v1\"".into()),
        cache_control: Some("max-age=3600".into()),
        age_seconds: 57,
        fresh_seconds: 3543,
        usable_seconds: 90_000,
        has_to_be_confirmed: false,
        tags: vec!["film-7".into()],
        tags_left_out: 0,
        selected_by: vec![("accept-language".into(), Some("de".into())), ("x".into(), None)],
        used_seconds_ago: None,
        origin: Some("http://b".into()),
        ahead: Some(FetchedAhead { source: "cmcd".into(), seconds_ago: 65, is_used: false }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_sizes_are_short() {
        assert_eq!([0, 59, 60, 3601, 90_061].map(span), ["0s", "59s", "1m", "1h 1s", "1d 1h"]);
        assert_eq!([0, 1023, 1536, 3 << 20].map(size), ["0 B", "1023 B", "1.5 KiB", "3.0 MiB"]);
        assert_eq!(size(u64::MAX), "16777216.0 TiB");
    }

    #[test]
    fn a_lifetime_says_what_happens_next() {
        let with = |fresh_seconds, usable_seconds, has_to_be_confirmed| {
            lifetime(&KeptCopy { fresh_seconds, usable_seconds, has_to_be_confirmed, ..copy() })
        };
        assert_eq!(with(60, 60, false), "fresh for 1m more");
        assert_eq!(
            with(60, 3660, false),
            "fresh for 1m more, then used for 1h if the origin doesn't answer"
        );
        assert_eq!(with(0, 60, false), "stale: used for 1m more if the origin doesn't answer");
        assert!(with(0, 0, true).contains("has to confirm it"));
    }
}
