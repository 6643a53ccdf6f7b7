//! The latest purges, for responses that were requested before a purge and arrive after it.
//!
//! Their number is bounded. A response that was requested before the oldest of them counts as purged.

use super::by_path::common_form;
use super::epochs::Outdated;
use crate::http_cache::Tags;
use crate::purge::Purge;
use std::collections::VecDeque;

/// The most purges. Checking a response takes as many comparisons at most.
const PURGES_MAX: usize = 1000;

/// The most bytes of their URLs, prefixes and tags.
const BYTES_MAX: usize = 4 << 20;

/// The latest purges, numbered from 1.
#[derive(Default)]
pub(super) struct RecentPurges {
    last: u64,
    kept: VecDeque<Purge>,
    bytes: usize,
}

impl RecentPurges {
    /// The number of the latest one.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    pub(super) fn add(&mut self, purge: &Purge) {
        self.last += 1;
        let purge = Purge { scope: purge.scope.in_common_form(), ..*purge };
        self.bytes += purge.scope.bytes();
        self.kept.push_back(purge);
        while self.kept.len() > PURGES_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.kept.pop_front() else { return };
            self.bytes -= oldest.scope.bytes();
        }
    }

    /// What the purges after the one with number `since` do to a response.
    pub(super) fn since(&self, since: u64, path: &str, tags: &Tags) -> Option<Outdated> {
        let later = usize::try_from(self.last - since).unwrap_or(usize::MAX);
        if later > self.kept.len() {
            return Some(Outdated::Purged);
        }
        let path = common_form(path);
        let covering =
            self.kept.iter().rev().take(later).filter(|one| one.scope.covers(&path, tags));
        let effects =
            covering.map(|one| if one.is_soft { Outdated::Stale } else { Outdated::Purged });
        effects.max_by_key(|effect| *effect == Outdated::Purged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http_cache::Fields;
    use crate::purge::PurgeScope;

    #[test]
    fn a_response_is_outdated_by_later_purges_that_cover_it() {
        let mut purges = RecentPurges::default();
        let purge = |scope, is_soft| Purge { scope, is_soft };
        let tags = |name: &str| Tags::of(&Fields::of(&[("xkey", name)]));
        purges.add(&purge(PurgeScope::Url("/a".into()), false));
        purges.add(&purge(PurgeScope::Tags(vec!["x".into()]), true));
        purges.add(&purge(PurgeScope::Prefix("/b".into()), true));
        let since = |since, path, name| purges.since(since, path, &tags(name));
        assert_eq!(since(0, "/a", ""), Some(Outdated::Purged));
        assert_eq!(since(0, "/a", "x"), Some(Outdated::Purged), "the hard one counts");
        assert_eq!(since(1, "/a", "x"), Some(Outdated::Stale));
        assert_eq!(since(1, "/a", "y"), None);
        assert_eq!((since(2, "/bc", "x"), since(3, "/bc", "x")), (Some(Outdated::Stale), None));
        for path in ["/%C3%A9/a", "/e%CC%81/a"] {
            let last = purges.last();
            purges.add(&purge(PurgeScope::Url(path.into()), false));
            purges.add(&purge(PurgeScope::Prefix(path.into()), true));
            for spelled in ["/%C3%A9/a", "/e%CC%81/a"] {
                let since = |since| purges.since(since, spelled, &tags("x"));
                let effects = (since(last), since(last + 1));
                assert_eq!(effects, (Some(Outdated::Purged), Some(Outdated::Stale)), "{spelled}");
            }
        }
    }

    #[test]
    fn a_response_from_before_the_oldest_purge_counts_as_purged() {
        let mut purges = RecentPurges::default();
        let long = "/".repeat(BYTES_MAX / 10);
        for count in [PURGES_MAX + 1, 11] {
            let path = if count > 11 { "/a" } else { long.as_str() };
            let before = purges.last();
            for _ in 0..count {
                purges.add(&Purge { scope: PurgeScope::Url(path.into()), is_soft: true });
            }
            let since = |since| purges.since(since, "/other", &Tags::default());
            assert_eq!(
                (since(before), since(before + 1)),
                (Some(Outdated::Purged), None),
                "{count}"
            );
            assert!(purges.bytes <= BYTES_MAX);
        }
    }
}
