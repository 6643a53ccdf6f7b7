//! Replays drawn reads in virtual time against the edge's eviction: the code that its helper runs, with the same reports.
//!
//! A missing part arrives at once. While a viewer plays, the file is in use. The server reports that every second and counts a file once, however
//! many viewers it has; here each report stands for half a minute, which leaves the order of the files as it is. Origins and disks are not modelled.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use ::edge::CacheSpace;

use super::demand::{PART_SECONDS, Read, Trace};

/// The overhead of a file, as in the helper.
const FILE_BYTES: u64 = 8 << 10;

/// The helper evicts more than it needs: this part of the cache at once.
const EVICTED_PART: u64 = 64;

/// How a title is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// One file, whose parts are fetched as viewers want them. It is evicted as a whole.
    Films,
    /// A file for each part, as HLS and DASH have it.
    Segments,
}

/// The bytes that viewers read after the cache had filled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Replayed {
    pub(super) read_bytes: u64,
    pub(super) missed_bytes: u64,
    /// The part of the missed bytes that did not fit, because all other files were in use.
    pub(super) refused_bytes: u64,
}

impl Replayed {
    pub(super) fn miss_ratio(&self) -> f64 {
        self.missed_bytes as f64 / self.read_bytes.max(1) as f64
    }
}

/// What became of a read.
enum Found {
    Cached,
    Fetched,
    Refused,
}

/// The cache of one replay.
struct Replay<'t> {
    trace: &'t Trace,
    form: Form,
    space: CacheSpace,
    /// Which parts of each file are cached, by its number.
    files: HashMap<u64, Vec<bool>>,
    /// Files in use, and until which second.
    used: HashMap<u64, u32>,
    start: Instant,
    second: u32,
}

/// Replays `trace` with a cache of `bytes_max`.
pub(super) fn replay(trace: &Trace, form: Form, bytes_max: u64) -> Replayed {
    let mut replay = Replay {
        trace,
        form,
        space: CacheSpace::new(bytes_max),
        files: HashMap::new(),
        used: HashMap::new(),
        start: Instant::now(),
        second: 0,
    };
    let mut replayed = Replayed::default();
    for (at, read) in trace.reads.iter().enumerate() {
        replay.pass_until(read.second);
        let found = replay.read(*read);
        if at < trace.warm_up {
            continue;
        }
        let bytes = trace.bytes(*read);
        replayed.read_bytes += bytes;
        replayed.missed_bytes += if matches!(found, Found::Cached) { 0 } else { bytes };
        replayed.refused_bytes += if matches!(found, Found::Refused) { bytes } else { 0 };
    }
    replayed
}

impl Replay<'_> {
    fn now(&self) -> Instant {
        self.start + Duration::from_secs(self.second.into())
    }

    /// Reports the files in use until then.
    fn pass_until(&mut self, second: u32) {
        while self.second < second && !self.used.is_empty() {
            if self.second % PART_SECONDS == 0 {
                let now = self.now();
                self.used.keys().for_each(|file| self.space.use_of(*file, now));
            }
            self.second += 1;
            self.used.retain(|_, until| *until > self.second);
        }
        self.second = second;
    }

    fn read(&mut self, read: Read) -> Found {
        let (file, part, parts) = match self.form {
            Form::Films => (read.title.into(), read.part, self.trace.parts(read.title)),
            Form::Segments => (self.trace.number(read), 0, 1),
        };
        let found = self.fetched(file, part, parts, self.trace.bytes(read));
        match (self.form, &found) {
            (_, Found::Refused) => {}
            // A player has a segment long before it has played it.
            (Form::Segments, _) => self.space.use_of(file, self.now()),
            (Form::Films, _) => {
                let until = self.used.entry(file).or_default();
                *until = (*until).max(read.second + read.seconds);
            }
        }
        found
    }

    /// Fetches a part that is not cached.
    fn fetched(&mut self, file: u64, part: u32, parts: u32, bytes: u64) -> Found {
        if self.files.get(&file).is_some_and(|cached| cached[part as usize]) {
            return Found::Cached;
        }
        let is_new = !self.files.contains_key(&file);
        if !self.make_room(file, bytes + if is_new { FILE_BYTES } else { 0 }) {
            return Found::Refused;
        }
        if is_new {
            self.space.begin(file, &format!("/{file}"), FILE_BYTES, self.now());
        }
        self.space.add(file, bytes);
        let cached = self.files.entry(file).or_insert_with(|| vec![false; parts as usize]);
        cached[part as usize] = true;
        Found::Fetched
    }

    /// Evicts other files, as the helper does. Returns whether there is room now.
    fn make_room(&mut self, own: u64, bytes: u64) -> bool {
        let now = self.now();
        let is_busy = |file| file == own || self.used.contains_key(&file);
        let more = bytes + self.space.bytes_max() / EVICTED_PART;
        let gone = match self.space.make(bytes, now, is_busy) {
            None => return false,
            Some(none) if none.is_empty() => none,
            Some(few) => self.space.make(more, now, is_busy).unwrap_or(few),
        };
        for file in gone {
            self.space.remove(file, now);
            self.files.remove(&file);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::demand::{DrawnDemand, DrawnSize, draw};
    use super::*;

    const SIZE: DrawnSize = DrawnSize { titles: 60, plays: 120, days: 4 };

    /// What a cache of segments misses that evicts the least recently used one.
    fn missed_by_lru(trace: &Trace, bytes_max: u64) -> u64 {
        let (mut last, mut order) = (HashMap::new(), std::collections::BTreeMap::new());
        let (mut bytes, mut missed) = (0, 0);
        for (at, read) in trace.reads.iter().enumerate() {
            let (number, size) = (trace.number(*read), trace.bytes(*read));
            match last.insert(number, at) {
                Some(before) => drop(order.remove(&before)),
                None => {
                    bytes += size;
                    missed += if at >= trace.warm_up { size } else { 0 };
                }
            }
            order.insert(at, (number, size));
            while bytes > bytes_max {
                let (_, (gone, size)) = order.pop_first().expect("there are bytes");
                last.remove(&gone);
                bytes -= size;
            }
        }
        missed
    }

    #[test]
    fn of_each_demand_the_edge_misses_less_than_a_cache_of_the_least_recently_used() {
        for (demand, name) in DrawnDemand::ALL {
            let trace = draw(demand, SIZE, 1);
            let bytes_max = trace.footprint() / 10;
            let lru = missed_by_lru(&trace, bytes_max);
            let ours = replay(&trace, Form::Segments, bytes_max);
            assert!(ours.missed_bytes < lru, "{name}: {} and {lru}", ours.missed_bytes);
        }
    }

    #[test]
    fn a_cache_with_room_for_all_misses_only_what_is_read_for_the_first_time() {
        let trace = draw(DrawnDemand::Churn, SIZE, 1);
        let mut seen = std::collections::HashSet::new();
        let is_new: Vec<bool> =
            trace.reads.iter().map(|read| seen.insert(trace.number(*read))).collect();
        let later = trace.reads.iter().zip(is_new).skip(trace.warm_up);
        let first: u64 = later.filter(|(_, is)| *is).map(|(read, _)| trace.bytes(*read)).sum();
        for form in [Form::Films, Form::Segments] {
            let replayed = replay(&trace, form, u64::MAX);
            assert_eq!((replayed.missed_bytes, replayed.refused_bytes), (first, 0), "{form:?}");
        }
    }

    #[test]
    fn files_in_use_are_not_evicted_so_a_tiny_cache_refuses_some() {
        let trace = draw(DrawnDemand::Zipf, SIZE, 1);
        let replayed = replay(&trace, Form::Films, trace.footprint() / 200);
        assert!(replayed.refused_bytes > 0 && replayed.refused_bytes < replayed.missed_bytes);
    }
}
