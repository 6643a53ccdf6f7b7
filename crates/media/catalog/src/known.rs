//! Learns from requests which folders are titles: for code that sees requests and cannot list the library.
//!
//! A folder is learned when a manifest in it was served, so viewers cannot invent one. The library's own folder is never learned: one stray
//! playlist at its top would turn everything into a single title.

use std::collections::HashSet;

use crate::rule::{folder_of, is_manifest, outermost, title_of};

/// The most folders to remember: some 4 MB at their longest. Beyond that, the list starts over and learns again as players request
/// manifests.
const FOLDERS_MAX: usize = 16_384;

/// Longer names are not learned.
const FOLDER_BYTES_MAX: usize = 256;

/// Folders that contain a manifest.
#[derive(Clone, Debug, Default)]
pub struct KnownTitles(HashSet<Box<[u8]>>);

impl KnownTitles {
    /// The title of the file at `path`; see [`title_of`].
    pub fn title_of<'p>(&self, path: &'p [u8]) -> &'p [u8] {
        title_of(path, |folder| self.0.contains(folder))
    }

    /// The current title of a file for which [`Self::title_of`] returned `title` earlier: the same, unless a folder above it was learned
    /// since.
    pub fn retitle<'p>(&self, title: &'p [u8]) -> &'p [u8] {
        outermost(title, |folder| self.0.contains(folder)).unwrap_or(title)
    }

    /// The folder to learn because `path` was served, if it is a new one.
    pub fn news<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        let folder = Some(path).filter(|path| is_manifest(path)).map(folder_of)?;
        let is_news = (1..=FOLDER_BYTES_MAX).contains(&folder.len()) && !self.0.contains(folder);
        is_news.then_some(folder)
    }

    /// Learns that `folder` has a manifest.
    pub fn learn(&mut self, folder: &[u8]) {
        if self.0.len() >= FOLDERS_MAX {
            self.0.clear();
        }
        self.0.insert(folder.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EXAMPLES;

    fn taught(paths: impl IntoIterator<Item = &'static str>) -> KnownTitles {
        let mut known = KnownTitles::default();
        for path in paths {
            if let Some(folder) = known.news(path.as_bytes()) {
                known.learn(folder);
            }
        }
        known
    }

    #[test]
    fn what_was_served_teaches_the_examples() {
        let known = taught(EXAMPLES.map(|(path, _)| path));
        for (path, title) in EXAMPLES {
            assert_eq!(known.title_of(path.as_bytes()), title.as_bytes(), "{path}");
        }
    }

    #[test]
    fn what_was_learned_later_corrects_what_was_said() {
        let before = taught(["a/v/1.m3u8"]);
        assert_eq!(before.title_of(b"a/v/1.ts"), b"a/v");
        let after = taught(["a/v/1.m3u8", "a/master.m3u8"]);
        assert_eq!(after.retitle(b"a/v"), b"a");
        assert_eq!(after.retitle(b"a"), b"a");
        assert_eq!(after.retitle(b"ab/v"), b"ab/v");
        assert_eq!(after.title_of(b"a/v/1.ts"), b"a");
    }

    #[test]
    fn only_news_is_news_and_the_library_itself_is_none() {
        let known = taught(["a/master.m3u8"]);
        assert_eq!(known.news(b"a/manifest.mpd"), None);
        assert_eq!(known.news(b"b/manifest.mpd"), Some(&b"b"[..]));
        assert_eq!(known.news(b"b/1.m4s"), None);
        assert_eq!(known.news(b"master.m3u8"), None);
        let deep = format!("{}/master.m3u8", "x".repeat(FOLDER_BYTES_MAX + 1));
        assert_eq!(known.news(deep.as_bytes()), None);
    }

    #[test]
    fn it_is_bounded() {
        let mut known = KnownTitles::default();
        for index in 0..=FOLDERS_MAX {
            known.learn(index.to_string().as_bytes());
        }
        assert_eq!(known.0.len(), 1);
    }
}
