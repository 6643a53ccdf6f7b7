//! Orders to purge the fleet's edges.

use fleet_protocol::{FleetPurge, PurgeTarget};

use super::Gateway;
use super::changes::By;
use crate::api::ApiError;
use store::records::{
    OrderedPurge, PURGE_REASON_BYTES_MAX, PURGES_BYTES_MAX, PURGES_MAX, PurgesRecord,
};

/// An order is kept for at least this long. A node that was away for longer may have to purge everything, but must not have to because of a flood.
const KEPT_SECONDS_MIN: u64 = 300;

/// Longest list of URLs or tags in the audit log and in lists of orders. With the reason, it fits into the log's text.
const SHOWN_BYTES_MAX: usize = 250;

impl Gateway {
    /// Has every edge of the fleet carry out a purge. Returns the order's number.
    ///
    /// # Errors
    /// If no edge could carry it out, there are too many orders, or the store refuses the change.
    pub async fn order_purge(
        &self,
        purge: FleetPurge,
        reason: &str,
        operator: &str,
    ) -> Result<u64, ApiError> {
        purge.check().map_err(|why| ApiError::Wrong(why.to_string()))?;
        let (by, reason) = (operator.to_owned(), reason.trim().to_owned());
        if reason.len() > PURGE_REASON_BYTES_MAX || reason.chars().any(char::is_control) {
            return Err(ApiError::Wrong(format!(
                "reason is longer than {PURGE_REASON_BYTES_MAX} bytes, or has a control character"
            )));
        }
        let softly = if purge.is_soft { "soft " } else { "" };
        let detail = format!("{softly}{}: {} {reason}", purge.kind(), shown(&purge));
        let line = By { who: by.clone(), what: "purge", detail: detail.trim_end().to_owned() };
        let now = self.now().unix_seconds();
        let order = OrderedPurge { purge, by, reason, unix_seconds: now };
        let add = |before: Option<PurgesRecord>| {
            let mut purges = before.unwrap_or_default();
            purges.orders.push(order.clone());
            purges.last += 1;
            make_room(&mut purges, now)?;
            Ok(purges)
        };
        Ok(self.change(&line, "", add).await?.last)
    }
}

/// Drops the oldest orders, if there are too many.
fn make_room(purges: &mut PurgesRecord, now_unix_seconds: u64) -> Result<(), ApiError> {
    while purges.orders.len() > PURGES_MAX || purges.bytes() > PURGES_BYTES_MAX {
        let oldest = purges.orders.remove(0);
        if oldest.unix_seconds.saturating_add(KEPT_SECONDS_MIN) > now_unix_seconds {
            return Err(ApiError::Unavailable(format!(
                "not ordered: within {} minutes, a fleet takes at most {PURGES_MAX} purges with {} KiB of URLs and tags: \
                 purge a prefix or a tag instead of many URLs, or try again later",
                KEPT_SECONDS_MIN / 60,
                PURGES_BYTES_MAX >> 10
            )));
        }
    }
    Ok(())
}

/// What a purge names, for logs and lists: without hosts, queries and signatures of tokens, which may grant access.
pub(crate) fn shown(purge: &FleetPurge) -> String {
    let is_tag = matches!(purge.target, PurgeTarget::Tags(_));
    let mut text = String::new();
    for part in purge.parts() {
        let part = if is_tag { part.clone() } else { redacted(part) };
        text = if text.is_empty() { part } else { format!("{text} {part}") };
        if text.len() > SHOWN_BYTES_MAX {
            let fits = |end: &usize| text.is_char_boundary(*end);
            let end = (0..=SHOWN_BYTES_MAX - 3).rev().find(fits).unwrap_or(0);
            text.truncate(end);
            return text + "...";
        }
    }
    text
}

fn redacted(url: &str) -> String {
    let target = match url.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => url,
    };
    let (path, query) = target.split_once('?').map_or((target, ""), |(path, _)| (path, "?..."));
    let path = token::without_signatures(path.as_bytes());
    String::from_utf8_lossy(&path).into_owned() + query
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(urls: &[&str]) -> FleetPurge {
        let urls = urls.iter().map(|url| (*url).to_owned()).collect();
        FleetPurge { target: PurgeTarget::Urls(urls), is_soft: false }
    }

    #[test]
    fn what_is_shown_of_an_order_grants_no_access_and_is_short() {
        let signature = "0a".repeat(32);
        let signed =
            format!("https://a:b@edge.example/t/1790000000.{signature}.k1.2c/films/a?key=secret");
        assert_eq!(shown(&urls(&[&signed, "/b"])), "/t/1790000000.-.k1.2c/films/a?... /b");
        let long = shown(&urls(&["/é"; 100]));
        assert!(long.len() <= SHOWN_BYTES_MAX && long.ends_with("..."), "{long}");
        let tags = PurgeTarget::Tags(vec!["film?7".into(), "season-2".into()]);
        assert_eq!(shown(&FleetPurge { target: tags, is_soft: true }), "film?7 season-2");
    }

    #[test]
    fn a_flood_of_orders_is_refused_and_old_ones_make_room() {
        let order = |unix_seconds| OrderedPurge {
            purge: FleetPurge::everything(),
            by: "anna".into(),
            reason: String::new(),
            unix_seconds,
        };
        let full = |unix_seconds| PurgesRecord {
            last: 600,
            orders: vec![order(unix_seconds); PURGES_MAX + 1],
        };
        let mut purges = full(1000);
        assert!(make_room(&mut purges, 1000 + KEPT_SECONDS_MIN).is_ok());
        assert_eq!((purges.orders.len(), purges.dropped()), (PURGES_MAX, 100));
        let refused = make_room(&mut full(1000), 1000 + KEPT_SECONDS_MIN - 1);
        assert!(refused.is_err_and(|why| why.to_string().contains("at most 500 purges")));
        let mut large = PurgesRecord { last: 2, orders: vec![order(1), order(1)] };
        large.orders[0].purge = urls(&[&"x".repeat(PURGES_BYTES_MAX)]);
        assert!(make_room(&mut large, 1000).is_ok() && large.orders.len() == 1);
    }
}
