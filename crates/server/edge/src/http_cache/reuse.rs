//! Which request a stored response answers, and what a revalidation does to it (RFC 9111 sections 3.2, 4.1, 4.3 and 4.4).

use super::storing::is_for_one_viewer;
use super::{Fields, end_to_end, is_credential, may_store, stored_fields};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

/// The request fields that selected a response, as its `Vary` names them, normalised.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
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

    /// A request that selects the same response.
    pub fn as_request(&self) -> Fields {
        let fields = self.0.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        Fields(fields.map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    /// The names of the fields with their values.
    pub fn each(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_deref()))
    }

    /// Whether a password or a cookie is among them.
    pub fn has_secrets(&self) -> bool {
        self.each().any(|(name, value)| is_secret(name) && value.is_some())
    }

    /// Whether the response varies with the request.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of memory, roughly.
    pub fn bytes(&self) -> usize {
        let length = |value: &Option<String>| value.as_ref().map_or(0, String::len);
        self.0.iter().map(|(name, value)| name.len() + length(value) + 64).sum()
    }
}

/// Whether a field's value is a password, a token or a cookie.
pub(crate) fn is_secret(name: &str) -> bool {
    is_credential(name) || name.eq_ignore_ascii_case("cookie")
}

/// A field's value with lines joined and without blanks around commas (RFC 9111 section 4.1). Languages have no case, and their weights give their
/// order.
fn normal(request: &Fields, name: &str) -> Option<String> {
    if !request.has(name) {
        return None;
    }
    if is_secret(name) {
        // These are no lists, and a blank may be part of a name or a password.
        return Some(request.all(name).collect::<Vec<_>>().join("\n"));
    }
    let mut elements: Vec<String> = request.elements(name).map(str::to_owned).collect();
    if name == "accept-language" {
        elements.iter_mut().for_each(|one| one.make_ascii_lowercase());
        if elements.iter().all(|one| weight(one).is_some()) {
            // Those of one weight keep their order, which some servers read as a priority (RFC 9110 section 12.5.4).
            elements.sort_by_key(|one| Reverse(weight(one)));
        }
    }
    Some(elements.join(","))
}

/// Gives a request's field the form by which it selects responses: the origin must not see a difference that no key has. A password or a cookie
/// stays as it is, as it does there.
pub fn send_as_selected(request: &mut Fields, name: &str) {
    let Some(value) = normal(request, name).filter(|_| !is_secret(name)) else { return };
    request.remove(|one| one.eq_ignore_ascii_case(name));
    // With the blank that most lists and product names have.
    request.push(name, value.replace(',', ", "));
}

/// The weight of a language in thousandths (RFC 9110 section 12.4.2), if it has a valid one or none.
fn weight(element: &str) -> Option<u32> {
    let Some((_, parameter)) = element.split_once(';') else { return Some(1000) };
    let value = parameter.trim().strip_prefix("q=")?;
    let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let thousandths: u32 = format!("{fraction:0<3}").parse().ok()?;
    match whole {
        "0" => Some(thousandths),
        "1" if thousandths == 0 => Some(1000),
        _ => None,
    }
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
    // `Age` is no property of the stored response: its lifetime counts from the age that the newer one has.
    newer.remove(|name| {
        name.eq_ignore_ascii_case("age") || OF_BODY.iter().any(|one| name.eq_ignore_ascii_case(one))
    });
    stored.remove(|name| newer.has(name) || name.eq_ignore_ascii_case("age"));
    stored.0.extend(newer.0);
}

/// What a 304, or a 200 to a HEAD request, makes of the stored response that it confirms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// It is stored with these fields.
    Renewed(Fields),
    /// It stays as it was, and has to be revalidated again: this answer is only for the viewer whose request it answers.
    Unchanged,
    /// It must no longer be stored.
    Ended,
}

/// Decides what the answer `newer` to `request` makes of a response that is stored with this `status`, these fields, and these selecting
/// fields. The result obeys the rules for a new response, since all viewers share it: it has no cookie that the answer sets for one of them, may be
/// stored, is selected by the same requests, and has at most `bytes_max` bytes of fields.
pub fn renewal(
    request: &Fields,
    status: u16,
    (stored, selecting): (&Fields, &Selecting),
    newer: &Fields,
    bytes_max: usize,
) -> Renewal {
    let mut newer = newer.clone();
    newer.remove(is_for_one_viewer);
    let mut fields = stored.clone();
    update(&mut fields, &newer);
    let may_be_kept = may_store(&Fields::default(), status, &fields).is_ok();
    if !may_be_kept || Selecting::of(request, &fields) != *selecting {
        return Renewal::Ended;
    }
    let fields_kept = stored_fields(&fields);
    match may_store(request, status, &fields).is_ok() && fields_kept.bytes() <= bytes_max {
        true => Renewal::Renewed(fields_kept),
        false => Renewal::Unchanged,
    }
}

/// Whether a response to `method` makes what is stored for its URL invalid (RFC 9111 section 4.4).
pub fn is_invalidating(method: &str, status: u16) -> bool {
    let is_safe = matches!(method, "GET" | "HEAD" | "OPTIONS" | "TRACE");
    !is_safe && (200..400).contains(&status)
}
