//! Surrogate keys: the names under which an origin lets its responses be purged together.
//!
//! Caches and CDNs read them from different fields, and origins that were set up for one of them work here, too:
//!
//! | field | separator | who reads it |
//! |---|---|---|
//! | `Surrogate-Key` | blanks | Fastly |
//! | `Cache-Tag` | commas | Cloudflare |
//! | `Edge-Cache-Tag` | commas | Akamai |
//! | `xkey` | blanks | Varnish (vmod_xkey) |
//!
//! Fastly, Cloudflare and Akamai remove their field before a response leaves for its viewer, because it is about the cache and may name what
//! the site does not publish. So does this cache. Varnish sends `xkey` on unless its configuration removes it.

use super::Fields;
use serde::{Deserialize, Serialize};

/// The fields, in lower case, each with the separator of its names.
const FIELDS: [(&str, char); 4] =
    [("surrogate-key", ' '), ("cache-tag", ','), ("edge-cache-tag", ','), ("xkey", ' ')];

/// The most bytes of one response's tags: the limit of Fastly and of Cloudflare.
const TAGS_BYTES_MAX: usize = 16 << 10;

/// The tags of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tags {
    names: Vec<String>,
    /// Set if some tags are not known: there were too many, or an earlier release stored the response. It is purged by every tag, because
    /// a response that stays although it should have been purged is worse than one that is fetched again.
    has_others: bool,
}

impl Tags {
    /// The tags that a response's fields name.
    pub fn of(response: &Fields) -> Self {
        let mut names = Vec::new();
        for (field, separator) in FIELDS {
            names.extend(response.all(field).flat_map(|line| split(line, separator)));
        }
        let bytes: usize = names.iter().map(|name| name.len() + 1).sum();
        if bytes > TAGS_BYTES_MAX {
            return Self::unknown();
        }
        names.sort_unstable();
        names.dedup();
        Self { names: names.into_iter().map(str::to_owned).collect(), has_others: false }
    }

    /// The tags of a response of which none is known.
    pub fn unknown() -> Self {
        Self { names: Vec::new(), has_others: true }
    }

    /// Each known tag.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Whether it has, or may have, the tag `name`.
    pub fn has(&self, name: &str) -> bool {
        self.has_others || self.names.binary_search_by(|one| one.as_str().cmp(name)).is_ok()
    }

    /// Whether there may be tags that are not known.
    pub fn has_others(&self) -> bool {
        self.has_others
    }

    /// Whether there are no tags.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && !self.has_others
    }
}

/// The tags in a value of the field `name`, or none if the field has no tags.
pub fn tags_in<'v>(name: &str, value: &'v str) -> Vec<&'v str> {
    let known = FIELDS.iter().find(|(field, _)| name.eq_ignore_ascii_case(field));
    known.map_or_else(Vec::new, |(_, separator)| split(value, *separator).collect())
}

/// Whether a field has tags, which viewers do not get.
pub fn has_tags(name: &str) -> bool {
    FIELDS.iter().any(|(field, _)| name.eq_ignore_ascii_case(field))
}

fn split(line: &str, separator: char) -> impl Iterator<Item = &str> {
    let parts = line.split(move |one: char| one == separator || separator == ' ' && one == '\t');
    parts.map(str::trim).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(fields: &[(&str, &str)]) -> Vec<String> {
        Tags::of(&Fields::of(fields)).names().map(str::to_owned).collect()
    }

    #[test]
    fn each_field_has_its_own_separator_and_lines_add_up() {
        assert_eq!(
            names(&[("Surrogate-Key", "film-7  season-2\tall,eu")]),
            ["all,eu", "film-7", "season-2"]
        );
        assert_eq!(names(&[("cache-tag", "b, a,,a ,"), ("Cache-Tag", "c d")]), ["a", "b", "c d"]);
        assert_eq!(
            names(&[("Edge-Cache-Tag", "x"), ("XKEY", "y z"), ("ETag", "w")]),
            ["x", "y", "z"]
        );
        assert_eq!(tags_in("SURROGATE-KEY", "a b"), ["a", "b"]);
        assert!(tags_in("Host", "a b").is_empty());
        let tags = Tags::of(&Fields::of(&[("xkey", "A")]));
        assert!(tags.has("A") && !tags.has("a") && !tags.has(""), "names are case-sensitive");
        assert!(Tags::of(&Fields::default()).is_empty());
    }

    #[test]
    fn a_response_with_too_many_tags_is_purged_by_each() {
        let many = |count: usize| "0123456 ".repeat(count);
        let fits = Tags::of(&Fields::of(&[("xkey", &many(2048))]));
        assert!(fits.has("0123456") && !fits.has("other"));
        let tags = Tags::of(&Fields::of(&[("xkey", &many(2049))]));
        assert!(tags.has("other") && tags.names().next().is_none() && !tags.is_empty());
    }
}
