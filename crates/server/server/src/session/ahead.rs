//! What a viewer of an edge requests next: as its player announces (CMCD, CTA-5004), and as its playlist says.
//!
//! A hint costs a request for a cached film nothing unless its player announces something that no viewer has requested lately. What is announced is
//! fetched as this viewer could request it without a password or a cookie: same server, same rules, and only with a token that covers it.

use super::edged::Asked;
use super::forwarding::has_credentials;
use crate::edge::path_and_stored;
use crate::experience::in_query;
use edge::contract::Announced;
use escape::percent;
use fullbore_http::{Field, LibraryPath, Method};
use qoe::{NextObject, next_objects};
use telemetry::since_1970;

/// Tells the edge what may follow the request for what has this key, which was answered with `status`. If it `is_hit`, the helper was not asked, and
/// what follows in a playlist has been fetched for an earlier viewer.
pub(super) fn hint(asked: Asked<'_>, key: &[u8], status: u16, is_hit: bool) {
    let Asked { worker, edge, request, path, viewer, .. } = asked;
    let ahead = &worker.libraries.ahead;
    if !ahead.is_on() || request.method != Method::Get || !matches!(status, 200 | 206 | 304) {
        return;
    }
    let announced = if ahead.takes_announced { announced(asked) } else { Vec::new() };
    let segments = if is_hit { 0 } else { ahead.segments };
    if announced.is_empty() && segments == 0 {
        return;
    }
    let settings = worker.libraries.key_rules.at(path.as_bytes());
    if !has_credentials(settings, request) {
        edge.hint_ahead((ahead, viewer), key, (announced, segments));
    }
}

/// The objects that the player announces, if its viewer may request them.
fn announced(asked: Asked<'_>) -> Vec<Announced> {
    let request = asked.request;
    let query = request.query().and_then(in_query);
    let texts = request.field(Field::Cmcd).into_iter().chain(query.as_deref());
    // A query's CMCD is in place of the header's.
    let next = texts.map(next_objects).rev().find(|next| !next.is_empty()).unwrap_or_default();
    next.iter().filter_map(|one| permitted(asked, one)).collect()
}

/// An object as it is stored; none if this viewer may not request it.
fn permitted(asked: Asked<'_>, next: &NextObject<'_>) -> Option<Announced> {
    let Asked { worker, request, viewer, .. } = asked;
    let requested = request.path_and_query()?;
    let url = match next.reference {
        None => requested.to_owned(),
        Some(reference) => {
            let reference = String::from_utf8(percent::decode(reference)?).ok()?;
            edge::resolved(requested, &reference)?
        }
    };
    let (path, stored) = path_and_stored(&url, &worker.libraries.key_rules)?;
    let is_file = !path.ends_with(b"/") && LibraryPath::as_written(&path).is_some();
    // The server's own pages are no files.
    if !is_file || path == b"-" || path.starts_with(b"-/") {
        return None;
    }
    if let Some(gate) = &worker.libraries.gate {
        let mut may_have = gate.may_have(request, viewer.address(), since_1970().as_secs());
        may_have(&path).then_some(())?;
    }
    let (first, last) = next.range.unwrap_or((0, None));
    Some(Announced { path: stored, first, end: last.map(|last| last.saturating_add(1)) })
}
