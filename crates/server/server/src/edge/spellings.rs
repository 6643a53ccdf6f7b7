//! How the origin spells the names of files, where that differs from their composed form.
//!
//! An edge asks for the composed path first, and for another spelling if the origin has no such file. Once it has found one, it asks for that first:
//! otherwise each request for a cached film would wait for the origin to say again that it has no composed one, and fail while the origin is down.
//!
//! Invariants:
//! * A spelling is only a hint: if there is nothing under it any more, the others are tried.
//! * The memory is bounded. If it is full, all hints are dropped, and the origin is asked again.
//! * A purge of a path drops its hint, because the origin may spell the name in another way from then on.

use edge::purge::PurgeScope;
use std::collections::HashMap;
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};

/// The most paths: as many as the segments of a few hundred films.
const PATHS_MAX: usize = 100_000;

/// The most bytes of paths and spellings.
const BYTES_MAX: usize = 16 << 20;

/// The spelling of each path that isn't found under its composed form. Read for requests with names that have several spellings only.
#[derive(Default)]
pub(super) struct Spellings(RwLock<Known>);

#[derive(Default)]
struct Known {
    by_path: HashMap<Box<[u8]>, Box<[u8]>>,
    bytes: usize,
}

impl Spellings {
    /// The spelling of `path`, which is composed, if it is another one.
    pub(super) fn find(&self, path: &[u8]) -> Option<Vec<u8>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.by_path.get(path).map(|spelling| spelling.to_vec())
    }

    /// The origin has the file at `path` under this `spelling`.
    pub(super) fn note(&self, path: &[u8], spelling: &[u8]) {
        if path == spelling {
            self.forget(path);
            return;
        }
        // Most often, it is known.
        if self.find(path).is_some_and(|known| *known == *spelling) {
            return;
        }
        let mut known = self.known();
        known.bytes += path.len() + spelling.len();
        if known.by_path.len() >= PATHS_MAX || known.bytes > BYTES_MAX {
            *known = Known { bytes: path.len() + spelling.len(), ..Known::default() };
        }
        if let Some(before) = known.by_path.insert(path.into(), spelling.into()) {
            known.bytes -= path.len() + before.len();
        }
    }

    /// The origin has no file at `path` under any other spelling.
    pub(super) fn forget(&self, path: &[u8]) {
        // Most often, none is known.
        if self.find(path).is_some() {
            let mut known = self.known();
            if let Some(before) = known.by_path.remove(path) {
                known.bytes -= path.len() + before.len();
            }
        }
    }

    /// Drops the hints for what a purge covers, in the form of [`super::key::stored_under`]. Those of tags are not known, so all are dropped then.
    pub(super) fn purge(&self, scope: &PurgeScope) {
        match scope {
            PurgeScope::Url(url) => {
                if let Some(path) = names_of(url) {
                    self.forget(&path);
                }
            }
            PurgeScope::Prefix(prefix) => {
                let Some(prefix) = names_of(prefix) else { return };
                let mut known = self.known();
                let mut freed = 0;
                known.by_path.retain(|path, spelling| {
                    let is_kept = !path.starts_with(&prefix);
                    freed += if is_kept { 0 } else { path.len() + spelling.len() };
                    is_kept
                });
                known.bytes -= freed;
            }
            PurgeScope::Tags(_) => *self.known() = Known::default(),
        }
    }

    fn known(&self) -> RwLockWriteGuard<'_, Known> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The decoded path of a URL in the form of [`super::key::stored_under`].
fn names_of(url: &str) -> Option<Vec<u8>> {
    let path = url.split('?').next().unwrap_or_default();
    escape::percent::decode(path.strip_prefix('/')?.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPOSED: &[u8] = "f/\u{e9}".as_bytes();
    const DECOMPOSED: &[u8] = "f/e\u{301}".as_bytes();

    #[test]
    fn a_spelling_is_known_until_the_origin_has_another() {
        let spellings = Spellings::default();
        spellings.note(COMPOSED, COMPOSED);
        assert_eq!(spellings.find(COMPOSED), None);
        for _ in 0..2 {
            spellings.note(COMPOSED, DECOMPOSED);
            assert_eq!(spellings.find(COMPOSED).as_deref(), Some(DECOMPOSED));
        }
        spellings.note(COMPOSED, b"f/other");
        assert_eq!(spellings.find(COMPOSED).as_deref(), Some(&b"f/other"[..]));
        spellings.note(COMPOSED, COMPOSED);
        assert_eq!((spellings.find(COMPOSED), spellings.known().bytes), (None, 0));
    }

    #[test]
    fn a_purge_drops_the_hints_that_it_covers() {
        let url = |url: &str| PurgeScope::Url(url.into());
        let prefix = |prefix: &str| PurgeScope::Prefix(prefix.into());
        for (scope, is_covered) in [
            (url("/f/%C3%A9"), true),
            (url("/f/%C3%A9?x=1"), true),
            (url("/f"), false),
            (prefix("/f/"), true),
            (prefix("/f/%C3%A9?x"), true),
            (prefix("/g"), false),
            (PurgeScope::Tags(vec!["a".into()]), true),
        ] {
            let spellings = Spellings::default();
            spellings.note(COMPOSED, DECOMPOSED);
            spellings.purge(&scope);
            assert_eq!(spellings.find(COMPOSED).is_none(), is_covered, "{scope:?}");
            assert_eq!(spellings.known().bytes == 0, is_covered, "{scope:?}");
        }
    }

    #[test]
    fn the_memory_is_bounded() {
        let spellings = Spellings::default();
        for number in 0..=PATHS_MAX {
            spellings.note(format!("{number}").as_bytes(), b"x");
        }
        assert_eq!(spellings.known().by_path.len(), 1);
        let long = [b'x'; 16 << 10];
        for number in 0..2 * (BYTES_MAX / long.len()) {
            spellings.note(format!("{number}").as_bytes(), &long);
        }
        let known = spellings.known();
        let bytes: usize = known.by_path.iter().map(|(path, one)| path.len() + one.len()).sum();
        assert!(known.bytes == bytes && bytes <= BYTES_MAX, "{bytes}");
    }
}
