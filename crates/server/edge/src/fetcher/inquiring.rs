//! Answers operators' questions about what is kept. An answer fits into a message, whatever origins and viewers have sent.

use super::{Helper, answering};
use crate::http_cache::{Directives, Fields, is_secret};
use crate::inquiry::{Findings, Inquiry, KeptCopy, KeptPath};
use crate::store::{Stored, StoredResponse};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The most paths of a page.
const PATHS_MAX: usize = 100;

/// A page ends after this many bytes, and one more path: JSON may double a path's bytes, and a message has 192 KiB.
const PAGE_BYTES_MAX: usize = 12 << 10;

/// The most bytes of a copy's tags, and of the request fields that have selected it.
const TAGS_BYTES_MAX: usize = 512;
const SELECTED_BYTES_MAX: usize = 1024;

/// The most characters of a value.
const CHARACTERS_MAX: usize = 200;

impl Helper {
    /// Answers a question.
    pub(super) fn inquire(&self, inquiry: &Inquiry) -> Findings {
        let (paths, has_more, reason) = match inquiry {
            Inquiry::Why { url } => {
                self.restore(url);
                let paths = self.all_spellings(url).iter().map(|path| self.kept_at(path)).collect();
                (paths, false, self.reasons.find(url, Instant::now()))
            }
            Inquiry::List { prefix, after } => {
                let (paths, has_more) = self.page(prefix, after.as_deref());
                (paths, has_more, None)
            }
        };
        // Some may be gone by now.
        let paths = paths.into_iter().filter(|one: &KeptPath| !one.copies.is_empty()).collect();
        let are_all_found = self.store.heads().are_read();
        // The server knows the rule, which the path is stored by.
        Findings { paths, has_more, reason, are_all_found, rule: None }
    }

    fn all_spellings(&self, path: &str) -> Vec<String> {
        let responses = self.responses();
        let mut paths = self.spellings(&responses, path);
        paths.sort_unstable();
        paths.dedup();
        paths
    }

    /// A page of what is kept under a prefix, and whether there is more.
    fn page(&self, prefix: &str, after: Option<&str>) -> (Vec<KeptPath>, bool) {
        let count = PATHS_MAX + 1;
        let mut paths = self.responses().page(prefix, after, count);
        paths.extend(self.known().by_path.page(prefix, after, count));
        paths.sort_unstable();
        paths.dedup();
        let (mut page, mut bytes) = (Vec::new(), 0);
        for path in &paths {
            if page.len() == PATHS_MAX || bytes > PAGE_BYTES_MAX {
                return (page, true);
            }
            let kept = self.kept_at(path);
            bytes += kept_bytes(&kept);
            page.push(kept);
        }
        (page, false)
    }

    fn kept_at(&self, path: &str) -> KeptPath {
        let now = Instant::now();
        let film = self.known().by_path.get(path).cloned();
        let film = film.map(|film| self.film(&film, now));
        let variants = self.responses().at(path);
        let variants = variants.iter().map(|variant| self.variant(variant, now));
        KeptPath { path: path.to_owned(), copies: film.into_iter().chain(variants).collect() }
    }

    fn film(&self, film: &Arc<Stored>, now: Instant) -> KeptCopy {
        let said = film.said();
        let (tags, tags_left_out) = cut_tags(said.terms.tags.names());
        let usable = answering::stale_left(film);
        KeptCopy {
            is_film: true,
            status: 200,
            bytes: film.size,
            present_bytes: film.stored_bytes().min(film.size),
            version: Some(cut(&film.etag)),
            cache_control: said.terms.cache_control.as_deref().map(cut),
            age_seconds: (said.terms.age + said.at.elapsed()).as_secs(),
            fresh_seconds: answering::fresh_left(film).as_secs(),
            usable_seconds: usable.as_secs(),
            has_to_be_confirmed: usable.is_zero(),
            tags,
            tags_left_out,
            selected_by: Vec::new(),
            used_seconds_ago: self.used_seconds_ago(film.number, now),
            ahead: self.ahead.find(film.number, now),
            origin: film.last_origin().and_then(|origin| self.origins.name(origin)),
        }
    }

    fn variant(&self, variant: &StoredResponse, now: Instant) -> KeptCopy {
        let tags = crate::http_cache::Tags::of(&variant.fields);
        let (tags, tags_left_out) = cut_tags(tags.names());
        let lifetime = variant.lifetime;
        let ends = lifetime.fresh.saturating_add(lifetime.if_unreachable);
        let usable = match variant.is_invalid {
            true => Duration::ZERO,
            false => ends.saturating_sub(now.saturating_duration_since(variant.at)),
        };
        let version = ["etag", "last-modified"].iter().find_map(|name| variant.fields.first(name));
        KeptCopy {
            is_film: false,
            status: variant.status,
            bytes: variant.size,
            present_bytes: variant.size,
            version: version.map(cut),
            cache_control: deciding(&variant.fields).map(|said| cut(&said)),
            age_seconds: variant.age(now).as_secs(),
            fresh_seconds: variant.fresh_left(now).as_secs(),
            usable_seconds: usable.as_secs(),
            has_to_be_confirmed: usable.is_zero(),
            tags,
            tags_left_out,
            selected_by: selected_by(variant),
            used_seconds_ago: self.used_seconds_ago(variant.number, now),
            ahead: self.ahead.find(variant.number, now),
            origin: variant.origin.and_then(|origin| self.origins.name(origin)),
        }
    }

    fn used_seconds_ago(&self, number: u64, now: Instant) -> Option<u64> {
        let used = self.space().used(number)?;
        Some(now.saturating_duration_since(used).as_secs())
    }
}

/// What the origin says of lifetimes, with the name of its header if that is one for CDNs.
fn deciding(fields: &Fields) -> Option<String> {
    let (name, _) = Directives::deciding(fields);
    let value = fields.joined(name)?;
    Some(if name == "Cache-Control" { value } else { format!("{name}: {value}") })
}

/// The request fields that have selected a variant. Passwords and cookies are not shown.
fn selected_by(variant: &StoredResponse) -> Vec<(String, Option<String>)> {
    let mut bytes = 0;
    let each = variant.selecting.each().map(|(name, value)| {
        let value = value.map(|value| if is_secret(name) { "...".to_owned() } else { cut(value) });
        (cut(name), value)
    });
    let fits = |(name, value): &(String, Option<String>)| {
        bytes += name.len() + value.as_ref().map_or(0, String::len);
        bytes <= SELECTED_BYTES_MAX
    };
    each.take_while(fits).collect()
}

/// As many tags as fit, and the number of those that don't.
fn cut_tags<'t>(tags: impl Iterator<Item = &'t str>) -> (Vec<String>, u64) {
    let (mut kept, mut left_out, mut bytes) = (Vec::new(), 0, 0);
    for tag in tags {
        bytes += tag.len() + 4;
        match bytes <= TAGS_BYTES_MAX {
            true => kept.push(tag.to_owned()),
            false => left_out += 1,
        }
    }
    (kept, left_out)
}

fn cut(text: &str) -> String {
    text.chars().take(CHARACTERS_MAX).collect()
}

fn kept_bytes(kept: &KeptPath) -> usize {
    let of_tags = |copy: &KeptCopy| copy.tags.iter().map(|tag| tag.len() + 4).sum::<usize>();
    let of_fields = |copy: &KeptCopy| {
        let fields = copy.selected_by.iter();
        fields
            .map(|(name, value)| name.len() + value.as_ref().map_or(0, String::len))
            .sum::<usize>()
    };
    let copies = kept.copies.iter().map(|copy| 600 + of_tags(copy) + of_fields(copy));
    kept.path.len() + copies.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{EdgeTold, PATH_BYTES_MAX};
    use crate::inquiry::FetchedAhead;
    use helper_process::packets::PACKET_BYTES_MAX;

    #[test]
    fn the_header_that_decides_is_shown() {
        let plain = ("Cache-Control", "max-age=5, public");
        for (fields, shown) in [
            (&[][..], None),
            (&[plain], Some("max-age=5, public")),
            (&[plain, ("cdn-cache-control", "max-age=9")], Some("CDN-Cache-Control: max-age=9")),
            // It is no dictionary, so it does not count.
            (&[plain, ("CDN-Cache-Control", "&")], Some("max-age=5, public")),
            (&[("Surrogate-Control", "max-age=7"), plain], Some("Surrogate-Control: max-age=7")),
        ] {
            assert_eq!(deciding(&Fields::of(fields)).as_deref(), shown, "{fields:?}");
        }
    }

    #[test]
    fn what_is_shown_of_a_copy_is_bounded() {
        let many: Vec<String> = (0..4000).map(|number| format!("tag-{number}")).collect();
        let (kept, left_out) = cut_tags(many.iter().map(String::as_str));
        assert!(!kept.is_empty() && kept.len() as u64 + left_out == 4000);
        assert!(kept.concat().len() <= TAGS_BYTES_MAX);
        assert_eq!(cut(&"x".repeat(1000)).len(), CHARACTERS_MAX);
        assert_eq!(cut_tags(["a", "b"].into_iter()), (vec!["a".into(), "b".into()], 0));
    }

    /// A page is full, and then the longest path comes, with as many variants as there may be and a film.
    #[test]
    fn the_longest_page_fits_into_a_message() {
        let copy = || KeptCopy {
            is_film: false,
            status: 200,
            bytes: u64::MAX,
            present_bytes: u64::MAX,
            version: Some("\"".repeat(CHARACTERS_MAX)),
            cache_control: Some("\"".repeat(CHARACTERS_MAX)),
            age_seconds: u64::MAX,
            fresh_seconds: u64::MAX,
            usable_seconds: u64::MAX,
            has_to_be_confirmed: false,
            tags: vec!["\"".into(); TAGS_BYTES_MAX / 5],
            tags_left_out: u64::MAX,
            selected_by: vec![("x".into(), Some("\"".repeat(CHARACTERS_MAX))); 5],
            used_seconds_ago: Some(u64::MAX),
            origin: Some("\"".repeat(CHARACTERS_MAX)),
            ahead: Some(FetchedAhead {
                source: "playlist".into(),
                seconds_ago: u64::MAX,
                is_used: false,
            }),
        };
        let longest = KeptPath {
            path: "\"".repeat(PATH_BYTES_MAX),
            copies: std::iter::repeat_with(copy).take(17).collect(),
        };
        let before = KeptPath { path: "\"".repeat(PAGE_BYTES_MAX), copies: Vec::new() };
        let findings = Findings { paths: vec![before, longest], ..Findings::default() };
        let told = EdgeTold::Found { ticket: u64::MAX, findings: Box::new(findings) };
        let bytes = serde_json::to_vec(&told).unwrap().len();
        assert!(bytes < PACKET_BYTES_MAX, "{bytes}");
    }
}
