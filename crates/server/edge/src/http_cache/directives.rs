//! `Cache-Control` and its relatives.

use super::Fields;
use std::time::Duration;

/// The directives of a list, in order: a name in lower case, and an argument without its quotes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directives(Vec<(String, Option<String>)>);

impl Directives {
    /// The directives of all lines of a field. Restrictions count even if they are misspelled.
    pub fn of(fields: &Fields, name: &str) -> Self {
        let mut all: Vec<_> = fields.all(name).flat_map(elements).map(directive).collect();
        if name == "cache-control" {
            all.extend(fields.all(name).flat_map(misspelled).map(|name| (name, None)));
        }
        Self(all)
    }

    /// The directives that decide for this cache: those that a CDN's field addresses to it (RFC 9213 section 2.1), else `Cache-Control`.
    pub fn for_cdn(response: &Fields) -> Self {
        Self::deciding(response).1
    }

    /// The same with the name of their header.
    pub(crate) fn deciding(response: &Fields) -> (&'static str, Self) {
        if response.has("cdn-cache-control") {
            let elements = response.all("cdn-cache-control").flat_map(elements);
            let targeted = Self(elements.filter(|one| has_type(one)).map(directive).collect());
            // A field that is no dictionary is ignored, and so is an empty one.
            if !targeted.0.is_empty() && targeted.0.iter().all(|(name, _)| is_key(name)) {
                return ("CDN-Cache-Control", targeted);
            }
        }
        if response.has("surrogate-control") {
            // Its predecessor (W3C Edge Architecture). Directives addressed to a device by name are not for this one.
            let mut targeted = Self::of(response, "surrogate-control");
            targeted.0.retain(|(name, value)| {
                !name.contains(';') && value.as_ref().is_none_or(|value| !value.contains(';'))
            });
            if !targeted.0.is_empty() {
                return ("Surrogate-Control", targeted);
            }
        }
        ("Cache-Control", Self::of(response, "cache-control"))
    }

    /// Whether a directive is there, with an argument or without.
    pub fn has(&self, wanted: &str) -> bool {
        self.0.iter().any(|(name, _)| name == wanted)
    }

    /// Whether a directive is there that names no fields, so that it is about the whole response.
    pub fn has_without_names(&self, wanted: &str) -> bool {
        let is_empty = |value: &Option<String>| {
            value.as_ref().is_none_or(|value| value.split(',').all(|name| name.trim().is_empty()))
        };
        self.0.iter().any(|(name, value)| name == wanted && is_empty(value))
    }

    /// The arguments of all directives of this name.
    pub fn arguments<'a>(&'a self, wanted: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(name, _)| name == wanted)
            .filter_map(|(_, value)| value.as_deref())
    }

    /// The argument of a directive that has one.
    pub fn argument(&self, wanted: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == wanted)?.1.as_deref()
    }

    /// A number of seconds. An invalid one counts as 0, which is the cautious reading (RFC 9111 section 4.2.1). Of several, the least counts.
    pub fn seconds(&self, wanted: &str) -> Option<Duration> {
        let found = self.0.iter().filter(|(name, _)| name == wanted);
        found.map(|(_, value)| delta(value.as_deref()).unwrap_or_default()).min()
    }
}

/// A key of a structured dictionary (RFC 9651 section 3.1.2).
fn is_key(name: &str) -> bool {
    let first = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'*');
    first && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.*".contains(&byte))
}

/// Whether a member of a dictionary has the type that its directive needs (RFC 9213 section 2.1): a string in place of a number counts as absent.
fn has_type(element: &str) -> bool {
    let is_string =
        |name: &&str| element.strip_prefix(*name).is_some_and(|rest| rest.starts_with("=\""));
    !["max-age", "s-maxage", "stale-while-revalidate", "stale-if-error"].iter().any(is_string)
}

/// A number of seconds (RFC 9111 section 1.2.2); one that does not fit is long.
pub(super) fn delta(text: Option<&str>) -> Option<Duration> {
    let text = text?;
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| Duration::from_secs(text.parse::<u32>().unwrap_or(u32::MAX).into()))
}

/// The elements of a list, which has commas between them, but not those in quotes.
fn elements(line: &str) -> Vec<&str> {
    let (mut parts, mut start, mut is_quoted, mut is_escaped) = (Vec::new(), 0, false, false);
    for (at, one) in line.char_indices() {
        match one {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => {
                parts.push(&line[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&line[start..]);
    parts.into_iter().map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// Directives that forbid something, and that origins are known to write with semicolons instead of commas (`private; max-age=0`), with a
/// blank before the equals sign, or after a quote that does not end. A cache that all viewers share must not take these for unknown directives.
fn misspelled(line: &str) -> Vec<String> {
    let is_quote =
        |(at, byte): (usize, u8)| byte == b'"' && !line.as_bytes()[..at].ends_with(b"\\");
    let has_quotes = line.bytes().enumerate().filter(|one| is_quote(*one)).count() % 2 == 0;
    let (mut parts, mut start, mut is_quoted) = (Vec::new(), 0, false);
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            b'"' if has_quotes && is_quote((at, byte)) => is_quoted = !is_quoted,
            b',' | b';' if !is_quoted => {
                parts.push(&line[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&line[start..]);
    let restrictions = parts.into_iter().filter_map(|part| {
        let part = part.trim_matches([' ', '\t', '"']).to_ascii_lowercase();
        let end = part.find([' ', '\t', '=', '"']).unwrap_or(part.len());
        let (name, rest) = part.split_at(end);
        let is_restriction = matches!(name, "no-store" | "private" | "no-cache");
        (is_restriction && !rest.starts_with('=')).then(|| name.to_owned())
    });
    restrictions.collect()
}

fn directive(part: &str) -> (String, Option<String>) {
    let Some((name, value)) = part.split_once('=') else {
        return (part.to_ascii_lowercase(), None);
    };
    // With a space next to the equals sign it is not the directive of that name: the name keeps the space, or the value is no number.
    let quoted = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    (name.to_ascii_lowercase(), Some(quoted.unwrap_or(value).to_owned()))
}

/// What a client asks of a cache (RFC 9111 section 5.2.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestDirectives {
    /// Only a revalidated response will do.
    pub no_cache: bool,
    /// Store nothing of this request or its response.
    pub no_store: bool,
    /// No request to the origin: 504 if nothing is stored.
    pub only_if_cached: bool,
    /// The greatest age.
    pub max_age: Option<Duration>,
    /// The least remaining freshness.
    pub min_fresh: Option<Duration>,
    /// How stale a response may be.
    pub max_stale: Option<Duration>,
}

impl RequestDirectives {
    /// Reads those of a request. `Pragma` counts if there is no `Cache-Control` (RFC 9111 section 5.4).
    pub fn of(request: &Fields) -> Self {
        let said = Directives::of(request, "cache-control");
        let is_pragma = !request.has("cache-control")
            && request.elements("pragma").any(|one| one.eq_ignore_ascii_case("no-cache"));
        let max_stale = match said.argument("max-stale") {
            Some(_) => said.seconds("max-stale"),
            None if said.has("max-stale") => Some(Duration::MAX),
            None => None,
        };
        Self {
            no_cache: said.has("no-cache") || is_pragma,
            no_store: said.has("no-store"),
            only_if_cached: said.has("only-if-cached"),
            max_age: said.seconds("max-age"),
            min_fresh: said.seconds("min-fresh"),
            max_stale,
        }
    }
}
