//! What a viewer of an edge requests next: as its player announces (CMCD, CTA-5004), and as its playlist or the numbers of segments say.
//!
//! A hint costs a request for a cached film nothing unless its player announces something that the server doesn't have. Announced objects are
//! fetched as this viewer could request them without a password or a cookie: same server, same rules, and only with a token that covers them.

use super::edged::{Asked, FIRST_BYTE_MAX};
use super::forwarding::has_credentials;
use crate::edge::path_and_stored;
use crate::experience::in_query;
use edge::contract::AnnouncedObject;
use escape::percent;
use fullbore_http::{Field, LibraryPath, Method};
use qoe::{NextObject, next_objects};
use telemetry::since_1970;

/// Tells the edge what may follow the request for what has this key, which was answered with `status`. If it `is_hit`, the helper was not asked, and
/// what follows has been fetched for an earlier viewer.
pub(super) fn hint(asked: Asked<'_>, key: &[u8], status: u16, is_hit: bool) {
    let Asked { worker, edge, request, path, viewer, .. } = asked;
    let ahead = &worker.libraries.ahead;
    if !ahead.is_on() || request.method != Method::Get || !matches!(status, 200 | 206 | 304) {
        return;
    }
    let has_text = request.field(Field::Cmcd).is_some() || request.query().is_some();
    let may_announce = ahead.takes_announced && has_text;
    // A playlist may name what its viewer's token doesn't cover, and so may a number.
    let is_followed = !is_hit && ahead.follows() && worker.libraries.gate.is_none();
    let settings = worker.libraries.key_rules.at(path.as_bytes());
    if !may_announce && !is_followed || has_credentials((worker, settings), request) {
        return;
    }
    let announced = if may_announce { announced(asked) } else { Vec::new() };
    if !announced.is_empty() || is_followed {
        edge.hint_ahead((ahead, viewer), key, (announced, is_followed));
    }
}

/// The objects that the player announces, if its viewer may request them.
fn announced(asked: Asked<'_>) -> Vec<AnnouncedObject> {
    let request = asked.request;
    let query = request.query().and_then(in_query);
    let texts = request.field(Field::Cmcd).into_iter().chain(query.as_deref());
    // A query's CMCD is in place of the header's.
    let next = texts.map(next_objects).rev().find(|next| !next.is_empty()).unwrap_or_default();
    next.iter().filter_map(|one| permitted(asked, one)).collect()
}

/// An object as it is stored; none if this viewer may not request it.
fn permitted(asked: Asked<'_>, next: &NextObject<'_>) -> Option<AnnouncedObject> {
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
    let end = last.map(|last| last.saturating_add(1));
    (first < FIRST_BYTE_MAX).then_some(AnnouncedObject { path: stored, first, end })
}
