//! The busiest titles: the workers' lists of each second, combined into rates that decay within seconds.

use crate::audience::Audience;
use crate::busiest::TitleShare;
use catalog::KnownTitles;
use serde::Serialize;
use std::collections::HashMap;
use std::sync::Arc;

/// The most titles remembered.
const TITLES_MAX: usize = 256;

/// The most titles reported.
const TITLES_TOLD: usize = 10;

/// The rate is an average with exponential decay: each such span divides the weight of bytes by e. Responses are
/// counted when they end, and players send a request every two to six seconds.
const MEMORY_SECONDS: f64 = 10.0;

/// As [`MEMORY_SECONDS`], for the average that selects titles for faster disks: long compared with a film's pauses and the time that a copy
/// takes, short compared with an evening.
const LONG_MEMORY_SECONDS: f64 = 3600.0;

/// A title in `status.json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Requested {
    title: String,
    /// Gigabits sent for it per second, averaged over the last seconds.
    gbps: f64,
    /// The same over the last hour.
    gbps_hour: f64,
    bytes: u64,
    starts: u64,
}

/// A title in the report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Title {
    /// Its name; bytes that are not UTF-8 are replaced.
    pub title: String,
    /// Gigabits sent for it per second.
    pub gbps: f64,
    /// Bytes sent for it since it was first remembered.
    pub bytes: u64,
}

#[derive(Debug, Default)]
struct Rate {
    bytes_per_second: f64,
    /// The long average.
    long_bytes_per_second: f64,
    bytes: u64,
    starts: u64,
}

/// The name of the library itself, if that is a title.
const LIBRARY: &str = "/";

/// The titles remembered.
#[derive(Debug, Default)]
pub(super) struct Popular {
    titles: HashMap<Box<[u8]>, Rate>,
    known: Arc<KnownTitles>,
}

impl Rate {
    fn add(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.starts += other.starts;
        self.bytes_per_second += other.bytes_per_second;
        self.long_bytes_per_second += other.long_bytes_per_second;
    }

    /// Large for a title that is busy now or has been for long.
    fn weight(&self) -> f64 {
        self.bytes_per_second.max(self.long_bytes_per_second)
    }
}

impl Popular {
    /// Takes over the workers' lists, `seconds` after the last call.
    pub(super) fn advance(&mut self, audiences: &[Arc<Audience>], seconds: f64) {
        let taken: Vec<_> =
            audiences.iter().map(|audience| audience.take_busiest(&self.known)).collect();
        let (shares, news): (Vec<_>, Vec<_>) = taken.into_iter().unzip();
        self.learn(news.into_iter().flatten());
        self.take_over(shares.into_iter().flatten(), seconds);
    }

    /// The folders that any worker has found to be titles.
    pub(super) fn known(&self) -> &Arc<KnownTitles> {
        &self.known
    }

    /// Learns titles. Bytes counted for a part of a title now go to the title.
    fn learn(&mut self, folders: impl Iterator<Item = Box<[u8]>>) {
        let mut folders = folders.peekable();
        if folders.peek().is_none() {
            return;
        }
        // Workers still hold the earlier set, so this copies it, at most once a second.
        let known = Arc::make_mut(&mut self.known);
        folders.for_each(|folder| known.learn(&folder));
        for (title, rate) in std::mem::take(&mut self.titles) {
            self.rate(&title).add(&rate);
        }
    }

    fn take_over(&mut self, shares: impl Iterator<Item = TitleShare>, seconds: f64) {
        let [kept, long_kept] =
            [MEMORY_SECONDS, LONG_MEMORY_SECONDS].map(|memory| (-seconds / memory).exp());
        for rate in self.titles.values_mut() {
            rate.bytes_per_second *= kept;
            rate.long_bytes_per_second *= long_kept;
        }
        for TitleShare { title, bytes, starts } in shares {
            let bytes_per_second = bytes as f64 / seconds;
            self.rate(&title).add(&Rate {
                bytes_per_second: bytes_per_second * (1.0 - kept),
                long_bytes_per_second: bytes_per_second * (1.0 - long_kept),
                bytes,
                starts,
            });
        }
        self.forget_least();
    }

    fn rate(&mut self, title: &[u8]) -> &mut Rate {
        self.titles.entry(self.known.retitle(title).into()).or_default()
    }

    fn forget_least(&mut self) {
        if self.titles.len() <= TITLES_MAX {
            return;
        }
        let mut rates: Vec<f64> = self.titles.values().map(Rate::weight).collect();
        rates.sort_by(|a, b| b.total_cmp(a));
        let bound = rates[TITLES_MAX];
        self.titles.retain(|_, rate| rate.weight() > bound);
    }

    /// All titles remembered, the busiest of the last hour first. A rate below a byte per second is 0: the last request was minutes ago.
    pub(super) fn requested(&self) -> Vec<Requested> {
        let mut all: Vec<_> = self.titles.iter().collect();
        all.sort_by(|(_, a), (_, b)| b.long_bytes_per_second.total_cmp(&a.long_bytes_per_second));
        let gbps = |bytes_per_second: f64| match bytes_per_second >= 1.0 {
            true => super::snapshot::rounded(bytes_per_second * 8.0 / 1e9),
            false => 0.0,
        };
        all.into_iter()
            .map(|(title, rate)| Requested {
                title: name(title),
                gbps: gbps(rate.bytes_per_second),
                gbps_hour: gbps(rate.long_bytes_per_second),
                bytes: rate.bytes,
                starts: rate.starts,
            })
            .collect()
    }

    /// The busiest titles, the busiest first.
    pub(super) fn busiest(&self) -> Vec<Title> {
        let mut all: Vec<_> =
            self.titles.iter().filter(|(_, rate)| rate.bytes_per_second >= 1.0).collect();
        all.sort_by(|(_, a), (_, b)| b.bytes_per_second.total_cmp(&a.bytes_per_second));
        let told = all.into_iter().take(TITLES_TOLD);
        told.map(|(title, rate)| Title {
            title: name(title),
            gbps: super::snapshot::rounded(rate.bytes_per_second * 8.0 / 1e9),
            bytes: rate.bytes,
        })
        .collect()
    }
}

fn name(title: &[u8]) -> String {
    if title.is_empty() { LIBRARY.into() } else { String::from_utf8_lossy(title).into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(title: &str, bytes: u64) -> TitleShare {
        TitleShare { title: title.as_bytes().into(), bytes, starts: 1 }
    }

    #[test]
    fn a_steady_title_comes_to_its_rate_and_goes_when_it_ends() {
        let mut popular = Popular::default();
        for _ in 0..60 {
            popular.take_over([share("steady", 125_000_000)].into_iter(), 1.0);
        }
        let [title] = &popular.busiest()[..] else { panic!() };
        assert!((title.gbps - 1.0).abs() < 0.01, "{title:?}");
        assert_eq!(title.bytes, 60 * 125_000_000);
        let [title] = &popular.requested()[..] else { panic!() };
        assert!((title.gbps_hour - 1.0 / 60.0).abs() < 0.001, "a minute of an hour: {title:?}");
        for _ in 0..200 {
            popular.take_over([].into_iter(), 1.0);
        }
        assert!(popular.busiest().is_empty());
        let [title] = &popular.requested()[..] else { panic!() };
        assert!(title.gbps == 0.0 && title.gbps_hour > 0.015, "remembered for longer: {title:?}");
    }

    #[test]
    fn what_was_counted_before_the_manifest_was_seen_goes_to_the_title() {
        let worker = Arc::new(Audience::default());
        let workers = [Arc::clone(&worker)];
        let mut popular = Popular::default();
        worker.count_title(b"films/a/1080p/1.m4s", 2000, false);
        worker.count_title(b"films/b/1.m4s", 1000, false);
        popular.advance(&workers, 1.0);
        assert_eq!(popular.busiest()[0].title, "films/a/1080p");
        worker.count_title(b"films/a/1080p/2.ts", 100, false);
        worker.count_title(b"films/a/master.m3u8", 1, false);
        worker.count_title(b"index.html", 100, false);
        for _ in 0..2 {
            popular.advance(&workers, 1.0);
            worker.count_title(b"films/a/720p/2.ts", 10_000, false);
        }
        popular.advance(&workers, 1.0);
        let told = popular.busiest();
        let told: Vec<_> = told.iter().map(|title| (&*title.title, title.bytes)).collect();
        assert_eq!(told, [("films/a", 22_101), ("films/b", 1000), ("/", 100)]);
    }

    #[test]
    fn many_titles_are_bounded_and_the_busiest_are_told_in_order() {
        let mut popular = Popular::default();
        let shares = (0..5000_u64).map(|index| share(&format!("title-{index}"), 1000 + index));
        popular.take_over(shares, 1.0);
        assert!(popular.titles.len() <= TITLES_MAX);
        let told = popular.busiest();
        assert_eq!(told.len(), TITLES_TOLD);
        assert_eq!((&*told[0].title, &*told[1].title), ("title-4999", "title-4998"));
    }
}
