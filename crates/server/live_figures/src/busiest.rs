//! The titles with the most bytes, in bounded memory: Space-Saving (Metwally, Agrawal, El Abbadi: Efficient computation of frequent and
//! top-k elements in data streams, ICDT 2005). Bytes are counted once per response, never per window.
//!
//! A title with more than 1/64 of a worker's bytes is always in the worker's list. The list is restarted each second, so a rare title
//! inherits at most a second's bytes from the title that it displaced.
//!
//! Titles are those of [`catalog::title_of`]. A worker sees only its own requests, so it reports the folders in which it served
//! manifests, and each second receives those that all workers have found.

use catalog::KnownTitles;
use std::sync::Arc;

/// The most titles in a list.
const TITLES_MAX: usize = 64;

/// The most bytes kept of a name.
const NAME_BYTES_MAX: usize = 256;

/// The most new folders reported in a second. Others follow when their manifest is requested again.
const NEWS_MAX: usize = 64;

/// A title and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TitleShare {
    /// The title; empty for the library itself.
    pub title: Box<[u8]>,
    /// Bytes sent for it.
    pub bytes: u64,
    /// Responses that began with the first byte of a playable file.
    pub starts: u64,
}

/// One worker's titles in the current second.
#[derive(Debug, Default)]
pub struct Busiest {
    shares: Vec<TitleShare>,
    news: Vec<Box<[u8]>>,
    known: Arc<KnownTitles>,
}

impl Busiest {
    /// Counts the bytes of one response for the file at `path`; `is_start`: the response began with the file's first byte.
    pub fn note(&mut self, path: &[u8], bytes: u64, is_start: bool) {
        if let Some(folder) = self.known.news(path) {
            self.add_news(folder);
        }
        let title = self.known.title_of(path);
        let starts = u64::from(is_start && begins(title, path));
        let title = &title[..title.len().min(NAME_BYTES_MAX)];
        if let Some(share) = self.shares.iter_mut().find(|share| *share.title == *title) {
            share.bytes += bytes;
            share.starts += starts;
            return;
        }
        if self.shares.len() < TITLES_MAX {
            self.shares.push(TitleShare { title: title.into(), bytes, starts });
            return;
        }
        let least = self.shares.iter_mut().min_by_key(|share| share.bytes);
        let least = least.expect("the list is full, so it is not empty");
        *least = TitleShare { title: title.into(), bytes: least.bytes + bytes, starts };
    }

    fn add_news(&mut self, folder: &[u8]) {
        if self.news.len() < NEWS_MAX && self.news.iter().all(|told| **told != *folder) {
            self.news.push(folder.into());
        }
    }

    /// Returns the list, and starts a new one that uses the titles in `known`. Also returns folders that were found to be titles.
    pub fn take(&mut self, known: &Arc<KnownTitles>) -> (Vec<TitleShare>, Vec<Box<[u8]>>) {
        let taken = std::mem::take(self);
        self.known = Arc::clone(known);
        (taken.shares, taken.news)
    }
}

/// Whether the first byte of the file at `path` begins a film or one of its tracks. Transport stream files in a title's folder are segments.
fn begins(title: &[u8], path: &[u8]) -> bool {
    let extension = &path[path.len().saturating_sub(3)..];
    let is_segment = extension.eq_ignore_ascii_case(b".ts") && title != path;
    catalog::is_playable(path) && !is_segment
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The titles of a new list and their bytes.
    fn taken(busiest: &mut Busiest) -> Vec<(Box<[u8]>, u64)> {
        let (shares, _) = busiest.take(&Arc::default());
        shares.into_iter().map(|share| (share.title, share.bytes)).collect()
    }

    #[test]
    fn the_examples_are_counted_by_their_titles_once_manifests_are_known() {
        let mut busiest = Busiest::default();
        let note = |busiest: &mut Busiest| {
            catalog::EXAMPLES.iter().for_each(|(path, _)| busiest.note(path.as_bytes(), 1, false));
        };
        note(&mut busiest);
        let (_, news) = busiest.take(&Arc::default());
        let mut known = KnownTitles::default();
        news.iter().for_each(|folder| known.learn(folder));
        busiest.take(&Arc::new(known));
        note(&mut busiest);
        let mut expected: Vec<(Box<[u8]>, u64)> = Vec::new();
        for (_, title) in catalog::EXAMPLES {
            match expected.iter_mut().find(|(known, _)| **known == *title.as_bytes()) {
                Some((_, count)) => *count += 1,
                None => expected.push((title.as_bytes().into(), 1)),
            }
        }
        assert_eq!(taken(&mut busiest), expected);
        assert!(taken(&mut busiest).is_empty(), "a new list has begun");
    }

    #[test]
    fn folders_with_manifests_are_news_once() {
        let mut busiest = Busiest::default();
        for path in [&b"film/index.m3u8"[..], b"film/index.m3u8", b"film/1.ts", b"index.m3u8"] {
            busiest.note(path, 1, false);
        }
        let (_, news) = busiest.take(&Arc::default());
        assert_eq!(news, [Box::from(&b"film"[..])]);
        let mut known = KnownTitles::default();
        known.learn(b"film");
        busiest.take(&Arc::new(known));
        busiest.note(b"film/index.m3u8", 1, false);
        assert!(busiest.take(&Arc::default()).1.is_empty());
    }

    #[test]
    fn what_is_asked_for_most_stays_among_many_others() {
        let mut busiest = Busiest::default();
        for index in 0..10_000 {
            busiest.note(format!("rare-{index}/a").as_bytes(), 100, false);
            busiest.note(b"hit/a", 50, false);
        }
        let taken = taken(&mut busiest);
        assert_eq!(taken.len(), TITLES_MAX);
        let hit = taken.iter().find(|(title, _)| **title == *b"hit").unwrap();
        assert!(hit.1 >= 500_000);
    }

    #[test]
    fn what_begins_a_film_or_a_track_is_a_start() {
        let mut busiest = Busiest::default();
        busiest.note(b"film/v-0123456789ab/video.mp4", 900, true);
        busiest.note(b"film/v-0123456789ab/video.mp4", 9000, false);
        busiest.note(b"film/v-0123456789ab/video.m3u8", 90, true);
        let (shares, _) = busiest.take(&Arc::default());
        assert_eq!(shares, [TitleShare { title: Box::from(&b"film"[..]), bytes: 9990, starts: 1 }]);
        for (path, starts) in [(&b"lone.ts"[..], 1), (&b"film/v-0123456789ab/7.TS"[..], 0)] {
            busiest.note(path, 1, true);
            let (shares, _) = busiest.take(&Arc::default());
            assert_eq!(shares[0].starts, starts);
        }
    }

    #[test]
    fn long_names_are_cut() {
        let mut busiest = Busiest::default();
        busiest.note(&[&[b'x'; 4000][..], b".mp4"].concat(), 1, false);
        assert_eq!(taken(&mut busiest)[0].0.len(), NAME_BYTES_MAX);
    }
}
