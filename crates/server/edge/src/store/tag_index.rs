//! Which stored responses have which surrogate keys.
//!
//! It is rebuilt from the records when a helper starts. Its memory is bounded: a response that finds no room is listed as one that may have any
//! tag, and a purge by any tag then purges it, too.

use crate::http_cache::Tags;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The most entries: some 100 MB. A million objects with four tags each.
const ENTRIES_MAX: usize = 4_000_000;

/// The numbers of responses by tag.
pub(crate) struct TagIndex {
    /// The hash of a tag, and the number of a response. Two tags with one hash are purged together.
    entries: BTreeSet<(u64, u64)>,
    /// Responses that may have any tag.
    untold: BTreeSet<u64>,
    entries_max: usize,
}

impl Default for TagIndex {
    fn default() -> Self {
        Self { entries: BTreeSet::new(), untold: BTreeSet::new(), entries_max: ENTRIES_MAX }
    }
}

impl TagIndex {
    /// Adds a response.
    pub(crate) fn add(&mut self, number: u64, tags: &Tags) {
        let count = tags.names().count();
        if tags.has_others() || self.entries.len() + count > self.entries_max {
            self.untold.insert(number);
            return;
        }
        self.entries.extend(tags.names().map(|tag| (hash(tag), number)));
    }

    /// Removes a response that was added with these tags.
    pub(crate) fn remove(&mut self, number: u64, tags: &Tags) {
        self.untold.remove(&number);
        for tag in tags.names() {
            self.entries.remove(&(hash(tag), number));
        }
    }

    /// The responses that have, or may have, a tag.
    pub(crate) fn find(&self, tag: &str) -> impl Iterator<Item = u64> {
        let hash = hash(tag);
        let tagged = self.entries.range((hash, 0)..=(hash, u64::MAX)).map(|(_, number)| *number);
        tagged.chain(self.untold.iter().copied())
    }
}

fn hash(tag: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    tag.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http_cache::Fields;

    fn tags(names: &str) -> Tags {
        Tags::of(&Fields::of(&[("xkey", names)]))
    }

    fn found(index: &TagIndex, tag: &str) -> Vec<u64> {
        index.find(tag).collect()
    }

    #[test]
    fn responses_are_found_by_each_of_their_tags_until_they_are_removed() {
        let mut index = TagIndex::default();
        index.add(1, &tags("a b"));
        index.add(u64::MAX, &tags("b"));
        assert_eq!((found(&index, "a"), found(&index, "b")), (vec![1], vec![1, u64::MAX]));
        assert!(found(&index, "c").is_empty());
        index.remove(1, &tags("a b"));
        assert_eq!((found(&index, "a"), found(&index, "b")), (vec![], vec![u64::MAX]));
        index.remove(u64::MAX, &tags("b"));
        assert!(index.entries.is_empty() && index.untold.is_empty());
    }

    #[test]
    fn what_does_not_fit_is_found_by_every_tag() {
        let mut index = TagIndex { entries_max: 2, ..TagIndex::default() };
        index.add(1, &tags("a"));
        index.add(2, &tags("b c"));
        index.add(3, &Tags::unknown());
        assert_eq!((found(&index, "a"), found(&index, "other")), (vec![1, 2, 3], vec![2, 3]));
        index.remove(2, &tags("b c"));
        index.remove(3, &Tags::unknown());
        assert_eq!((found(&index, "a"), found(&index, "b")), (vec![1], vec![]));
    }
}
