//! Stored objects and responses by path, however names are spelled in it.
//!
//! An origin may know a name in another of Unicode's forms than the one that an operator types, and then it is stored as the origin spells it. A
//! purge or a change of a path concerns all spellings of it, so those are found by their common form ([`common_form`]).

use crate::origin_address::escaped;
use crate::purge::PurgeScope;
use escape::{percent, unicode};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::Bound;

/// The form that all spellings of `path` share: its names composed (NFC), and escaped as in [`crate::contract`]. The query stays as it is.
pub(crate) fn common_form(path: &str) -> Cow<'_, str> {
    let (names, query) = path.split_at(path.find('?').unwrap_or(path.len()));
    // Other paths are plain ASCII.
    let decoded = names.contains('%').then(|| percent::decode(names.as_bytes())).flatten();
    let Some(decoded) = decoded.filter(|decoded| decoded.starts_with(b"/")) else {
        return Cow::Borrowed(path);
    };
    let common = escaped(&unicode::composed(&decoded[1..])) + query;
    if common == path { Cow::Borrowed(path) } else { Cow::Owned(common) }
}

/// Values by path. In order, so that those under a prefix are found at once.
pub(crate) struct ByPath<V> {
    values: BTreeMap<String, V>,
    /// The paths that are not in their common form, each after that form.
    others: BTreeSet<(String, String)>,
}

impl<V> Default for ByPath<V> {
    fn default() -> Self {
        Self { values: BTreeMap::new(), others: BTreeSet::new() }
    }
}

impl<V> ByPath<V> {
    /// The value at exactly this path.
    pub(crate) fn get(&self, path: &str) -> Option<&V> {
        self.values.get(path)
    }

    /// The value at exactly this path.
    pub(crate) fn get_mut(&mut self, path: &str) -> Option<&mut V> {
        self.values.get_mut(path)
    }

    /// Whether there is a value at exactly this path.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.values.contains_key(path)
    }

    /// Puts a value at a path. Returns the one that was there.
    pub(crate) fn insert(&mut self, path: String, value: V) -> Option<V> {
        self.note(&path);
        self.values.insert(path, value)
    }

    /// The value at a path, which is an empty one if there is none yet.
    pub(crate) fn or_default(&mut self, path: &str) -> &mut V
    where
        V: Default,
    {
        self.note(path);
        self.values.entry(path.to_owned()).or_default()
    }

    /// Removes the value at exactly this path.
    pub(crate) fn remove(&mut self, path: &str) -> Option<V> {
        if let Cow::Owned(common) = common_form(path) {
            self.others.remove(&(common, path.to_owned()));
        }
        self.values.remove(path)
    }

    /// The paths with a value that are spellings of `path`.
    pub(crate) fn spellings(&self, path: &str) -> Vec<&str> {
        let common = common_form(path);
        let own = self.values.get_key_value(&*common).map(|(path, _)| path.as_str());
        let others = self.others_from(&common).take_while(|(one, _)| *one == *common);
        own.into_iter().chain(others.map(|(_, path)| path.as_str())).collect()
    }

    /// The values that a purge of a URL or a prefix covers. Tags are not known here.
    pub(crate) fn covered(&self, scope: &PurgeScope) -> Vec<&V> {
        let paths = match scope {
            PurgeScope::Url(path) => self.spellings(path),
            PurgeScope::Prefix(prefix) => self.under(prefix),
            PurgeScope::Tags(_) => Vec::new(),
        };
        paths.into_iter().filter_map(|path| self.values.get(path)).collect()
    }

    /// At most `count` paths under a prefix, in order, after one of them. Spellings of the prefix count as well.
    pub(crate) fn page(&self, prefix: &str, after: Option<&str>, count: usize) -> Vec<String> {
        let from = match after.filter(|after| *after >= prefix) {
            Some(after) => Bound::Excluded(after),
            None => Bound::Included(prefix),
        };
        let own = self.values.range::<str, _>((from, Bound::Unbounded)).map(|(path, _)| path);
        let own = own.take_while(|path| path.starts_with(prefix)).take(count);
        let common = common_form(prefix);
        let others = self.others_from(&common).take_while(|(one, _)| one.starts_with(&*common));
        let others = others.map(|(_, path)| path);
        // They are in the order of their common forms. So this looks at all of them, but keeps no more than it returns.
        let mut first = BinaryHeap::new();
        for path in others.filter(|path| after.is_none_or(|after| path.as_str() > after)) {
            first.push(path);
            if first.len() > count {
                first.pop();
            }
        }
        let mut paths: Vec<&String> = own.chain(first).collect();
        paths.sort_unstable();
        paths.dedup();
        paths.truncate(count);
        paths.into_iter().cloned().collect()
    }

    fn under(&self, prefix: &str) -> Vec<&str> {
        let prefix = common_form(prefix);
        let from = (Bound::Included(&*prefix), Bound::Unbounded);
        let own = self.values.range::<str, _>(from).map(|(path, _)| path.as_str());
        let own = own.take_while(|path| path.starts_with(&*prefix));
        // The others count by their common form, so that an accent is no longer name than the letter that it belongs to.
        let own = own.filter(|path| matches!(common_form(path), Cow::Borrowed(_)));
        let others = self.others_from(&prefix).take_while(|(one, _)| one.starts_with(&*prefix));
        own.chain(others.map(|(_, path)| path.as_str())).collect()
    }

    fn others_from(&self, common: &str) -> impl Iterator<Item = &(String, String)> {
        self.others.range((common.to_owned(), String::new())..)
    }

    fn note(&mut self, path: &str) {
        if let Cow::Owned(common) = common_form(path) {
            self.others.insert((common, path.to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPOSED: &str = "/f%C3%A9/a.mp4";
    const DECOMPOSED: &str = "/fe%CC%81/a.mp4";

    #[test]
    fn all_spellings_of_a_path_have_one_form() {
        for path in [COMPOSED, DECOMPOSED, "/f%c3%a9/%61.mp4"] {
            assert_eq!(common_form(path), COMPOSED);
        }
        assert_eq!(
            common_form("/%E2%84%AA?x=e%CC%81"),
            "/K?x=e%CC%81",
            "a query is compared as it is"
        );
        for path in ["/", "/a", "/a%20b", "/a%3Fb", "/a?b=%2f", "/%zz", COMPOSED, "/%FF%CC"] {
            assert!(matches!(common_form(path), Cow::Borrowed(_)), "{path}");
        }
    }

    #[test]
    fn a_page_has_the_first_paths_of_all_spellings() {
        let mut stored = ByPath::default();
        let mut paths: Vec<String> =
            (0..9).flat_map(|n| [format!("/f%C3%A9/{n}"), format!("/fe%CC%81/{n}")]).collect();
        paths.extend((0..9).map(|n| format!("/f%c3%a9/%3{n}")));
        paths.iter().for_each(|path| assert_eq!(stored.insert(path.clone(), ()), None));
        paths.sort_unstable();
        let (mut pages, mut after) = (Vec::new(), None);
        loop {
            let page = stored.page("/f%C3%A9/", after.as_deref(), 4);
            let Some(last) = page.last() else { break };
            after = Some(last.clone());
            pages.extend(page);
        }
        assert_eq!(pages, paths);
        assert!(stored.page("/f%C3%A9/", None, 0).is_empty());
    }

    #[test]
    fn values_are_found_at_their_path_and_covered_by_a_purge_of_any_spelling() {
        let mut stored = ByPath::default();
        let paths = [COMPOSED, DECOMPOSED, "/f%C3%A9/a.mp4?x", "/fe/a.mp4", "/f%C3%A8/a.mp4"];
        for (number, path) in paths.into_iter().enumerate() {
            assert_eq!(stored.insert(path.to_owned(), number), None);
        }
        assert_eq!((stored.get(COMPOSED), stored.get(DECOMPOSED)), (Some(&0), Some(&1)));
        let covered = |stored: &ByPath<usize>, scope| {
            let mut covered: Vec<_> = stored.covered(&scope).into_iter().copied().collect();
            covered.sort_unstable();
            covered
        };
        for path in [COMPOSED, DECOMPOSED] {
            assert_eq!(covered(&stored, PurgeScope::Url(path.into())), [0, 1]);
            let folder = path.strip_suffix("a.mp4").unwrap();
            assert_eq!(covered(&stored, PurgeScope::Prefix(folder.into())), [0, 1, 2]);
        }
        assert_eq!(covered(&stored, PurgeScope::Prefix("/fe".into())), [3], "no accent");
        assert_eq!(covered(&stored, PurgeScope::Prefix("/".into())), [0, 1, 2, 3, 4]);
        assert_eq!(stored.spellings("/fe/a.mp4"), ["/fe/a.mp4"]);
        for (number, path) in paths.into_iter().enumerate() {
            assert_eq!(stored.remove(path), Some(number));
        }
        assert!(stored.others.is_empty() && stored.values.is_empty());
    }
}
