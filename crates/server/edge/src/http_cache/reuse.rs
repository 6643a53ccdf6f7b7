//! Which request a stored response answers, and what a revalidation does to it (RFC 9111 sections 3.2, 4.1, 4.3 and 4.4).

use super::{Fields, end_to_end};

/// The request fields that selected a response, as its `Vary` names them, normalised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selecting(Vec<(String, Option<String>)>);

impl Selecting {
    /// Those of `request` that `response` names.
    pub fn of(request: &Fields, response: &Fields) -> Self {
        let mut names: Vec<String> =
            response.elements("vary").map(str::to_ascii_lowercase).collect();
        names.sort();
        names.dedup();
        // This cache always asks for the identity coding, so responses do not vary with it.
        names.retain(|name| name != "accept-encoding");
        let of = |name: String| (normal(request, &name), name);
        Self(names.into_iter().map(of).map(|(value, name)| (name, value)).collect())
    }

    /// Whether `request` selects the same response.
    pub fn matches(&self, request: &Fields) -> bool {
        self.0.iter().all(|(name, value)| normal(request, name) == *value)
    }

    /// Whether the response varies with the request.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A field's value with lines joined and without blanks around commas (RFC 9111 section 4.1). Languages have neither case nor, where none
/// has a weight, an order that servers use to choose.
fn normal(request: &Fields, name: &str) -> Option<String> {
    if !request.has(name) {
        return None;
    }
    let mut elements: Vec<String> = request.elements(name).map(str::to_owned).collect();
    if name == "accept-language" {
        elements.iter_mut().for_each(|one| one.make_ascii_lowercase());
        elements.sort();
    }
    Some(elements.join(","))
}

/// The conditions with which a stored response is revalidated (RFC 9111 section 4.3.1).
pub fn validators(stored: &Fields) -> Fields {
    let mut conditions = Fields::default();
    if let Some(etag) = stored.first("etag") {
        conditions.push("If-None-Match", etag);
    }
    if let Some(date) = stored.first("last-modified") {
        conditions.push("If-Modified-Since", date);
    }
    conditions
}

/// Fields that describe the stored body, which a 304 does not bring (RFC 9111 section 3.2).
const OF_BODY: [&str; 5] =
    ["content-encoding", "content-length", "content-md5", "content-range", "etag"];

/// Updates the fields of a stored response with those of a 304, or of a 200 to a HEAD request.
pub fn update(stored: &mut Fields, newer: &Fields) {
    let mut newer = end_to_end(newer.clone());
    newer.remove(|name| OF_BODY.iter().any(|one| name.eq_ignore_ascii_case(one)));
    stored.remove(|name| newer.has(name) || name.eq_ignore_ascii_case("age"));
    stored.0.extend(newer.0);
}

/// Whether a response to `method` makes what is stored for its URL invalid (RFC 9111 section 4.4).
pub fn is_invalidating(method: &str, status: u16) -> bool {
    let is_safe = matches!(method, "GET" | "HEAD" | "OPTIONS" | "TRACE");
    !is_safe && (200..400).contains(&status)
}
