//! DrawnDemand for video at one edge, drawn by seed: the reads of all viewers, in the order of time.
//!
//! A title is read in parts of half a minute, as its viewers play it. Titles are wanted by Zipf's law. Each demand adds one thing to that:
//! new titles every day, series that viewers watch on, a release that takes half of all plays, or a crawler that reads everything once.
//! Half of the viewers leave before the end, most of these in the first minutes, so beginnings are wanted more than the rest.
//!
//! The same seed draws the same reads, on machines whose mathematical functions round alike.

use std::collections::HashSet;
use std::io::{self, BufWriter, Write};
use std::str::FromStr;

use fastrand::Rng;

use crate::unknown_name::UnknownName;

/// The bytes of a part, except for the last one of a title: half a minute at 4.5 Mb/s.
pub(super) const PART_BYTES: u64 = 16 << 20;

/// How long a viewer plays a part.
pub(super) const PART_SECONDS: u32 = 30;

const DAY_SECONDS: u32 = 24 * 3600;

/// The exponent of the titles' popularity: the usual one of video on demand, as in `fullbore fleet simulate`.
const ZIPF: f64 = 0.8;

/// A new title is wanted more by this factor on its first day, and after each [`NEW_HALF_LIFE_DAYS`] by half as much.
const NEW_FACTOR: f64 = 30.0;
const NEW_HALF_LIFE_DAYS: f64 = 2.0;

/// New titles in a day of [`DrawnDemand::Churn`], in percent of all titles.
const NEW_PERCENT: u32 = 2;

/// Episodes of a series.
const EPISODES: u32 = 8;

/// The share of viewers of an episode who go on to the next one, if they saw it to the end.
const WATCHES_ON: f64 = 0.8;

/// The hours of the release and of the crawl, on the day in the middle of those that are measured.
const RELEASE_HOUR: u32 = 18;
const CRAWL_HOUR: u32 = 3;

/// The crawler is done after this time.
const CRAWL_SECONDS: u32 = 12 * 3600;

/// The wanted bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrawnDemand {
    /// The same titles every day, by Zipf's law.
    Zipf,
    /// New titles every day, which are wanted less each day.
    Churn,
    /// All titles are episodes, and viewers go on to the next one.
    Binge,
    /// As churn; on one evening a new title takes half of all plays.
    Release,
    /// As churn; on one night a crawler or a backup reads every title once.
    Scan,
}

impl DrawnDemand {
    /// All of them, with their names.
    pub const ALL: [(Self, &str); 5] = [
        (Self::Zipf, "zipf"),
        (Self::Churn, "churn"),
        (Self::Binge, "binge"),
        (Self::Release, "release"),
        (Self::Scan, "scan"),
    ];

    fn has_new_titles(self) -> bool {
        matches!(self, Self::Churn | Self::Release | Self::Scan)
    }
}

impl FromStr for DrawnDemand {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let known = Self::ALL.iter().find(|(_, known)| *known == name);
        let unknown = || UnknownName::new("demand", name, Self::ALL.map(|(_, name)| name));
        known.map(|(demand, _)| *demand).ok_or_else(unknown)
    }
}

/// How much is drawn.
#[derive(Clone, Copy, Debug)]
pub struct DrawnSize {
    /// Titles on the first day.
    pub titles: u32,
    /// Plays in a day.
    pub plays: u32,
    /// Days. The first quarter only fills the caches.
    pub days: u32,
}

/// A part of a title that a viewer begins to play.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Read {
    pub(super) second: u32,
    pub(super) title: u32,
    pub(super) part: u32,
    /// How long it is in use.
    pub(super) seconds: u32,
}

/// All reads.
#[derive(Clone, Debug, Default)]
pub(super) struct Trace {
    /// The bytes of each title.
    pub(super) titles: Vec<u64>,
    /// In the order of time.
    pub(super) reads: Vec<Read>,
    /// How many of them only fill the caches.
    pub(super) warm_up: usize,
    /// The first part's number of each title.
    first: Vec<u64>,
}

impl Trace {
    pub(super) fn parts(&self, title: u32) -> u32 {
        self.titles[title as usize].div_ceil(PART_BYTES) as u32
    }

    /// The number of a part, among those of all titles.
    pub(super) fn number(&self, read: Read) -> u64 {
        self.first[read.title as usize] + u64::from(read.part)
    }

    /// The bytes of a part.
    pub(super) fn bytes(&self, read: Read) -> u64 {
        let begin = u64::from(read.part) * PART_BYTES;
        PART_BYTES.min(self.titles[read.title as usize] - begin)
    }

    /// The bytes of all parts that are read at least once.
    pub(super) fn footprint(&self) -> u64 {
        let mut seen = HashSet::new();
        let new = self.reads.iter().filter(|read| seen.insert(self.number(**read)));
        new.map(|read| self.bytes(*read)).sum()
    }

    /// Writes all reads in the form that libcachesim reads: the second, the part's number, and its size in MiB.
    pub(super) fn write(&self, to: impl Write) -> io::Result<()> {
        let mut to = BufWriter::new(to);
        for read in &self.reads {
            let mib = self.bytes(*read) >> 20;
            writeln!(to, "{},{},{mib}", read.second, self.number(*read))?;
        }
        to.flush()
    }
}

/// Draws the reads of a demand.
pub(super) fn draw(demand: DrawnDemand, size: DrawnSize, seed: u64) -> Trace {
    let mut world = World::new(demand, size, Rng::with_seed(seed));
    for hour in 0..size.days * 24 {
        let weights = world.weights(hour);
        let plays = f64::from(size.plays) * share_of_hour(hour % 24);
        // The rest of a play is one with that probability.
        let plays = plays as u32 + u32::from(world.random.f64() < plays.fract());
        for _ in 0..plays {
            let second = hour * 3600 + world.random.u32(..3600);
            world.play(hour, second, &weights);
        }
    }
    if demand == DrawnDemand::Scan {
        world.crawl();
    }
    let World { mut trace, .. } = world;
    trace.reads.retain(|read| read.second < size.days * DAY_SECONDS);
    trace.reads.sort_unstable();
    let warm = size.days * DAY_SECONDS / 4;
    trace.warm_up = trace.reads.partition_point(|read| read.second < warm);
    trace
}

/// Twenty times as many plays at 21:00 as at 05:00, in all one.
fn share_of_hour(hour: u32) -> f64 {
    let from_peak = (f64::from(hour) - 21.0) * std::f64::consts::TAU / 24.0;
    (1.05 + from_peak.cos()) / (1.05 * 24.0)
}

struct World {
    demand: DrawnDemand,
    size: DrawnSize,
    random: Rng,
    trace: Trace,
    /// By title: its share of plays when it is not new, and the hour when it came.
    titles: Vec<(f64, Option<u32>)>,
    /// The parts of all titles.
    parts: u64,
    release: Option<u32>,
}

impl World {
    fn new(demand: DrawnDemand, size: DrawnSize, random: Rng) -> Self {
        let (trace, titles) = (Trace::default(), Vec::new());
        let mut world = Self { demand, size, random, trace, titles, parts: 1, release: None };
        let mut ranks: Vec<u32> = (1..=size.titles).collect();
        world.random.shuffle(&mut ranks);
        for rank in ranks {
            world.add(rank, None);
        }
        world
    }

    /// A film of 80 to 140 minutes, an episode or a clip; an episode if viewers binge.
    fn add(&mut self, rank: u32, came: Option<u32>) {
        let kind = if self.demand == DrawnDemand::Binge { 1 } else { self.random.u32(..3) };
        let minutes = match kind {
            0 => self.random.u32(80..=140),
            1 => self.random.u32(20..=60),
            _ => self.random.u32(2..=15),
        };
        let parts = u64::from(minutes * 60 / PART_SECONDS);
        self.trace.first.push(self.parts);
        self.parts += parts;
        // In whole MiB, as blocks are.
        let missing = self.random.u64(..PART_BYTES >> 20) << 20;
        self.trace.titles.push(parts * PART_BYTES - missing);
        self.titles.push((f64::from(rank).powf(-ZIPF), came));
    }

    /// How much each title is wanted in this hour, summed up. New titles come at midnight.
    fn weights(&mut self, hour: u32) -> Vec<f64> {
        if self.demand.has_new_titles() && hour % 24 == 0 {
            for _ in 0..self.size.titles * NEW_PERCENT / 100 {
                let rank = self.random.u32(1..=self.size.titles);
                self.add(rank, Some(hour));
            }
        }
        if self.demand == DrawnDemand::Release && hour == self.middle_day() * 24 + RELEASE_HOUR {
            self.release = Some(self.titles.len() as u32);
            // Its share is drawn apart.
            self.add(1, None);
        }
        let mut sum = 0.0;
        let weight = |(weight, came): &(f64, Option<u32>)| {
            let days = came.map(|came| f64::from(hour - came) / 24.0);
            let new = days.map_or(0.0, |days| NEW_FACTOR * (-days / NEW_HALF_LIFE_DAYS).exp2());
            sum += weight * (1.0 + new);
            sum
        };
        self.titles.iter().map(weight).collect()
    }

    fn middle_day(&self) -> u32 {
        self.size.days * 5 / 8
    }

    fn play(&mut self, hour: u32, second: u32, weights: &[f64]) {
        let at = self.random.f64() * weights.last().copied().unwrap_or_default();
        let mut title = weights.partition_point(|sum| *sum <= at).min(weights.len() - 1) as u32;
        if let Some(release) = self.release {
            // Half of all plays on the first evening, and a quarter a day later.
            let days = f64::from(hour - self.middle_day() * 24 - RELEASE_HOUR) / 24.0;
            if self.random.f64() < 0.5 * (-days).exp2() {
                title = release;
            }
        }
        let (mut second, mut is_seen) = self.watch(title, second);
        while is_seen && self.has_next(title) && self.random.f64() < WATCHES_ON {
            title += 1;
            (second, is_seen) = self.watch(title, second);
        }
    }

    /// Whether the next title is the next episode.
    fn has_next(&self, title: u32) -> bool {
        self.demand == DrawnDemand::Binge
            && title + 1 < self.size.titles
            && (title + 1) % EPISODES != 0
    }

    /// Reads a title from `second` on. Returns when the viewer stops, and whether at the end.
    fn watch(&mut self, title: u32, mut second: u32) -> (u32, bool) {
        let parts = self.trace.parts(title);
        // One in ten goes on where they left off another day.
        let first = if self.random.u32(..10) == 0 { self.random.u32(..parts) } else { 0 };
        let end = match self.random.u32(..10) {
            // Leaves within some minutes.
            0..=2 => first + 1 + (-self.random.f64().max(1e-9).ln() * 5.0) as u32,
            // Leaves at any time.
            3 | 4 => first + 1 + self.random.u32(..parts),
            _ => parts,
        };
        let end = end.min(parts);
        for part in first..end {
            let seconds = PART_SECONDS;
            self.trace.reads.push(Read { second, title, part, seconds });
            second += seconds;
        }
        (second, end == parts)
    }

    /// Reads all parts of all titles, at an even pace.
    fn crawl(&mut self) {
        let begin = self.middle_day() * DAY_SECONDS + CRAWL_HOUR * 3600;
        let there = |came: Option<u32>| came.is_none_or(|came| came * 3600 < begin);
        let titles: Vec<u32> =
            (0..self.titles.len() as u32).filter(|at| there(self.titles[*at as usize].1)).collect();
        let parts_of = |title: u32| (0..self.trace.parts(title)).map(move |part| (title, part));
        let parts: Vec<(u32, u32)> = titles.into_iter().flat_map(parts_of).collect();
        let pace = f64::from(CRAWL_SECONDS) / parts.len() as f64;
        let read = |(at, (title, part)): (usize, (u32, u32))| Read {
            second: begin + (at as f64 * pace) as u32,
            title,
            part,
            seconds: 1,
        };
        self.trace.reads.extend(parts.into_iter().enumerate().map(read));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: DrawnSize = DrawnSize { titles: 100, plays: 200, days: 4 };

    #[test]
    fn a_seed_draws_the_same_reads_in_the_order_of_time() {
        for (demand, name) in DrawnDemand::ALL {
            let trace = draw(demand, SIZE, 7);
            assert!(trace.reads.is_sorted() && trace.warm_up > 0, "{name}");
            assert_eq!(trace.reads, draw(demand, SIZE, 7).reads);
            assert_ne!(trace.reads, draw(demand, SIZE, 8).reads);
            assert!(trace.reads.iter().all(|read| read.part < trace.parts(read.title)));
        }
    }

    #[test]
    fn beginnings_are_read_more_than_ends() {
        let trace = draw(DrawnDemand::Zipf, SIZE, 1);
        let count = |is: fn(&Trace, &Read) -> bool| {
            trace.reads.iter().filter(|read| is(&trace, read)).count()
        };
        let first = count(|_, read| read.part == 0);
        let last = count(|trace, read| read.part + 1 == trace.parts(read.title));
        assert!(first * 2 > last * 3, "{first} first parts, {last} last ones");
    }

    #[test]
    fn a_release_takes_half_of_the_plays_on_its_first_evening() {
        let trace = draw(DrawnDemand::Release, SIZE, 1);
        let hour = SIZE.days * 5 / 8 * 24 + RELEASE_HOUR;
        let evening = hour * 3600..(hour + 4) * 3600;
        let begun =
            trace.reads.iter().filter(|read| read.part == 0 && evening.contains(&read.second));
        let begun: Vec<u32> = begun.map(|read| read.title).collect();
        let most = begun.iter().map(|title| begun.iter().filter(|one| *one == title).count()).max();
        let share = most.unwrap_or_default() as f64 / begun.len() as f64;
        assert!((0.3..0.6).contains(&share), "{share} of {}", begun.len());
    }

    #[test]
    fn a_crawler_reads_every_title_and_viewers_of_a_series_watch_on() {
        let (churn, scan) = (draw(DrawnDemand::Churn, SIZE, 1), draw(DrawnDemand::Scan, SIZE, 1));
        assert!(scan.reads.len() > churn.reads.len() && scan.footprint() > churn.footprint());
        let crawled = scan.reads.iter().filter(|read| read.seconds == 1);
        let titles: HashSet<u32> = crawled.map(|read| read.title).collect();
        assert!((0..SIZE.titles).all(|title| titles.contains(&title)));
        let binge = draw(DrawnDemand::Binge, SIZE, 1);
        let ends: HashSet<(u32, u32)> =
            binge.reads.iter().map(|read| (read.title, read.second)).collect();
        let next = |read: &&Read| {
            read.part == 0 && read.title > 0 && {
                ends.contains(&(read.title - 1, read.second - PART_SECONDS.min(read.second)))
            }
        };
        let begun = binge.reads.iter().filter(|read| read.part == 0).count();
        let watched_on = binge.reads.iter().filter(next).count();
        assert!(watched_on * 4 > begun, "{watched_on} of {begun}");
    }

    #[test]
    fn a_trace_has_a_line_for_each_read() {
        let (trace, mut text) = (draw(DrawnDemand::Zipf, SIZE, 1), Vec::new());
        trace.write(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text.lines().count(), trace.reads.len());
        let fields: Vec<u64> =
            text.lines().next().unwrap().split(',').map(|at| at.parse().unwrap()).collect();
        let read = trace.reads[0];
        assert_eq!(fields, [read.second.into(), trace.number(read), trace.bytes(read) >> 20]);
    }
}
