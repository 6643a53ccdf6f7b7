//! Reads the origin's answers: what they are, what viewers get of them, and what is stored.

use super::passing::Now;
use crate::contract::{ForwardedRequest, Trouble};
use crate::http_cache::{Fields, LifetimeRule, Selecting, end_to_end, lifetime_for, stored_fields};
use crate::origin::Refused;
use crate::policy::{content_range, fields_of, terms};
use crate::store::{OnDisk, StoredResponse};
use reqwest::header::CONTENT_RANGE;
use reqwest::{Response, StatusCode};

/// The most bytes of a response's header fields: they have to fit into one message.
pub(super) const FIELDS_BYTES_MAX: usize = 48 << 10;

/// Whether a response is an object. The next question about its path makes it one.
pub(super) fn is_object(
    request: &ForwardedRequest,
    answer: &Response,
    length: Option<u64>,
) -> bool {
    request.method == "GET"
        && length.is_some()
        && answer.status() == StatusCode::OK
        && !answer.headers().contains_key(CONTENT_RANGE)
        && terms(answer.url().path(), answer.headers(), LifetimeRule::default()).is_ok()
}

/// Whether a response takes the place of what is stored, although it can't be stored itself: the origin has been asked, and no longer gives viewers
/// what is stored. One to a viewer whom the origin knows may be about that viewer, and an error about the origin's state.
pub(super) fn replaces(request: &ForwardedRequest, status: u16) -> bool {
    request.method == "GET" && !request.fields.is_personal() && status < 500 && status != 429
}

/// Whether a response that is not stored may be about the request of one viewer, such as a header field that a firewall refuses. A stored response
/// is kept then, but revalidated before each use until the origin has confirmed it.
pub(super) fn is_about_request(status: u16) -> bool {
    (400..500).contains(&status) && !matches!(status, 404 | 410 | 451)
}

/// The status and the fields for viewers. A range that is all of it is a 200.
pub(super) fn head_of(answer: &Response) -> (u16, Fields) {
    let mut fields = end_to_end(fields_of(answer.headers()));
    // Some servers repeat it, and the server takes one.
    if fields.elements("content-length").count() > 1 {
        let length = fields.elements("content-length").next().unwrap_or_default().to_owned();
        fields.remove(|name| name.eq_ignore_ascii_case("content-length"));
        fields.push("Content-Length", length);
    }
    let status = answer.status();
    let is_whole =
        content_range(answer.headers()).is_some_and(|(start, end, size)| start == 0 && end == size);
    // A question about an object asked for it, or a viewer whose range is evaluated again here.
    if status == StatusCode::PARTIAL_CONTENT && is_whole {
        fields.remove(|name| name.eq_ignore_ascii_case("content-range"));
        return (200, fields);
    }
    (status.as_u16(), fields)
}

/// Checks that the fields of the response at `path` fit into a message.
pub(super) fn check_size(path: &str, fields: &Fields) -> Result<(), Refused> {
    if fields.bytes() <= FIELDS_BYTES_MAX {
        return Ok(());
    }
    let said = format!("{path}: the origin's header is longer than {FIELDS_BYTES_MAX} bytes");
    Err((Trouble::Wrong, said))
}

/// The length of the body, if it is known.
pub(super) fn length_of(answer: &Response, request: &ForwardedRequest, status: u16) -> Option<u64> {
    match status {
        204 | 304 => Some(0),
        _ if request.method == "HEAD" => Some(0),
        _ => answer.content_length(),
    }
}

/// What to store of the response with this status and these fields to `request`, once its body is complete. It lasts by the operator's `rule`.
pub(super) fn stored(
    (path, number): (&str, u64),
    (status, fields): (u16, &Fields),
    request: &Fields,
    (now, rule): (Now, LifetimeRule),
) -> StoredResponse {
    let lifetime = lifetime_for(request, path, (status, fields), now.unix_seconds, rule);
    let mut kept = stored_fields(fields);
    kept.remove(|name| name.eq_ignore_ascii_case("age"));
    StoredResponse {
        number,
        path: path.to_owned(),
        origin: None,
        status,
        lifetime,
        at: now.at,
        asked_at: now.at,
        selecting: Selecting::of(request, fields),
        fields: kept,
        size: 0,
        is_invalid: false,
        on_disk: OnDisk::default(),
    }
}

/// Whether an origin of this rank for a path refuses what one before it may have, which failed or is passed over. This viewer gets the refusal, and
/// the next one the other origin's answer if that is back.
pub(super) fn is_doubtful(rank: usize, status: u16) -> bool {
    rank > 0 && (400..500).contains(&status)
}
