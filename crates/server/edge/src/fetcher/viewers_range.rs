//! The range that the origin is asked for, for one viewer.

use crate::contract::ForwardedRequest;
use crate::http_cache::Fields;

/// The most bytes of a viewer's range without an end. A 206 may be shorter than what was asked for, and players go on where it ends (RFC 9110 section
/// 15.3.7).
const OPEN_RANGE_BYTES: u64 = 8 << 20;

/// The range that a viewer's request asks the origin for. Other responses are fetched whole, and ranges are taken from them. One to a viewer whom the
/// origin knows, or that is not kept, is for that viewer alone, and may be a film, of which it wants a little. Conditions are about all of it, and
/// are evaluated here.
///
/// A range without an end is cut to [`OPEN_RANGE_BYTES`]: players ask for the rest of a film at each seek, and read little of it.
pub(super) fn range_of(request: &ForwardedRequest, is_kept: bool) -> Fields {
    let viewers = &request.fields;
    let is_alone = viewers.has_credentials() || viewers.has("cookie") || !is_kept;
    let conditions = ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since"];
    let has_conditions = conditions.iter().any(|name| viewers.has(name));
    let mut range = Fields::default();
    if request.method != "GET" || !is_alone || has_conditions || !viewers.has("range") {
        return range;
    }
    for name in ["Range", "If-Range"] {
        if let Some(value) = viewers.first(name) {
            // Browsers request the rest when they need it. Other clients take a part for all of it.
            let is_element =
                ["video", "audio"].map(Some).contains(&viewers.first("sec-fetch-dest"));
            let closed = if name == "Range" && is_element { closed_range(value) } else { None };
            range.push(name, closed.unwrap_or_else(|| value.to_owned()));
        }
    }
    range
}

/// The first bytes of a range without an end, such as `bytes=100-`. Any other range stays as it is.
fn closed_range(range: &str) -> Option<String> {
    let first = range.strip_prefix("bytes=")?.strip_suffix('-')?.trim_ascii();
    let is_number = !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit());
    let first: u64 = first.parse().ok().filter(|_| is_number)?;
    Some(format!("bytes={first}-{}", first.checked_add(OPEN_RANGE_BYTES - 1)?))
}
