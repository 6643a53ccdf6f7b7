//! Decides which objects to evict when the cache is full: those whose bytes viewers wanted least, lately.
//!
//! An object's heat is the number of reports that it was in use, where older reports count less. Objects are ranked by heat per byte on the
//! disk, because bytes are what evicting them gains: an hour of film has the rank of ten minutes of it that were watched as often. Heat counts
//! whether the object is cached or not: evicted objects are remembered for a while, so a film that comes back keeps yesterday's popularity.
//! Objects that were never wanted before are evicted first, the oldest first. Unlike the hot set, the cache admits everything: bytes reach
//! viewers through its disk, so every requested object is fetched.
//!
//! All heats fade at the same rate, so time does not change the order of two objects. A tree keeps that order: a report or a write moves one
//! object in it, in O(log n), and an eviction takes objects from its cold end. An object takes some 140 bytes of memory.
//!
//! docs/notes/eviction.md compares this with other policies.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

/// After this time a use counts half. Of 6 to 48 hours, a day is within 1% of the fewest byte misses on the drawn demands that were tried
/// (docs/notes/eviction.md).
const HALF_LIFE: Duration = Duration::from_secs(24 * 3600);

/// Smaller objects count as this large. Each request for a small file is a use of all of it, but of a film only a second. A thumbnail that was
/// requested once would outlast films of gigabytes that were watched for hours.
const RANKED_BYTES_MIN: u64 = 16 << 20;

/// The rank of an object that was never used, as a logarithm: less than that of any that was used in the last fifty half-lives, whatever its size
/// (at most 2^44 bytes). The later one is the hotter of two.
const UNUSED: f64 = -100.0;

/// How long an object counts as in use after the server's last report. The server reports every second, and may be late.
const IN_USE: Duration = Duration::from_secs(3);

/// The number of evicted paths to remember. Each takes some 30 bytes.
const GONE_MAX: usize = 100_000;

/// The size and the heat of all objects.
pub struct CacheSpace {
    bytes_max: u64,
    objects: HashMap<u64, Warmth>,
    /// All objects, the coldest first.
    order: BTreeSet<(Rank, u64)>,
    /// The size of all objects.
    bytes: u64,
    /// The heat of evicted objects, by the hashes of their paths. Two paths with one hash would share a heat, but no bytes.
    gone: HashMap<u64, Heat>,
    /// Heats count from here.
    start: Instant,
}

struct Warmth {
    bytes: u64,
    path: u64,
    heat: Heat,
    /// Whether it was ever used, here or before it was evicted. Without a use its size does not count, or the largest films would go first after a
    /// restart.
    was_used: bool,
    used: Option<Instant>,
}

/// A heat as its binary logarithm, plus the half-lives that had passed since the start when it was as high: a number that does not change as the
/// heat fades.
#[derive(Clone, Copy, PartialEq)]
struct Heat(f64);

/// The heat per byte, in the same form.
#[derive(Clone, Copy, PartialEq)]
struct Rank(f64);

impl CacheSpace {
    /// An empty cache.
    pub fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            objects: HashMap::new(),
            order: BTreeSet::new(),
            bytes: 0,
            gone: HashMap::new(),
            start: Instant::now(),
        }
    }

    /// The size limit.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Adds a new object, or a new version of one.
    pub fn begin(&mut self, object: u64, path: &str, bytes: u64, now: Instant) {
        let (path, unused) = (hash(path), Heat(self.half_lives(now) + UNUSED));
        let former = self.gone.remove(&path);
        let (heat, was_used) = (former.unwrap_or(unused), former.is_some());
        let new = Warmth { bytes, path, heat, was_used, used: None };
        let rank = new.rank();
        if let Some(former) = self.objects.insert(object, new) {
            self.order.remove(&(former.rank(), object));
            self.bytes -= former.bytes;
        }
        self.order.insert((rank, object));
        self.bytes += bytes;
    }

    /// Adds `bytes` to the size of `object`, if it is still there.
    pub fn add(&mut self, object: u64, bytes: u64) {
        if self.change(object, |warmth| warmth.bytes += bytes) {
            self.bytes += bytes;
        }
    }

    /// Records a use of `object`.
    pub fn use_of(&mut self, object: u64, now: Instant) {
        let half_lives = self.half_lives(now);
        self.change(object, |warmth| {
            warmth.heat = warmth.heat.after_use(half_lives);
            warmth.was_used = true;
            warmth.used = Some(now);
        });
    }

    /// Changes an object and its place in the order. Returns whether there is such an object.
    fn change(&mut self, object: u64, change: impl FnOnce(&mut Warmth)) -> bool {
        let Some(warmth) = self.objects.get_mut(&object) else { return false };
        self.order.remove(&(warmth.rank(), object));
        change(warmth);
        self.order.insert((warmth.rank(), object));
        true
    }

    /// When `object` was last used, if that is known.
    pub(crate) fn used(&self, object: u64) -> Option<Instant> {
        self.objects.get(&object)?.used
    }

    /// Removes `object`.
    pub fn remove(&mut self, object: u64, _now: Instant) {
        let Some(warmth) = self.objects.remove(&object) else { return };
        self.order.remove(&(warmth.rank(), object));
        self.bytes -= warmth.bytes;
        if warmth.was_used {
            self.gone.insert(warmth.path, warmth.heat);
        }
        if self.gone.len() > GONE_MAX {
            // Finding the coldest takes longer than remembering one, so remove half at once.
            let mut heats: Vec<f64> = self.gone.values().map(|heat| heat.0).collect();
            let (_, bound, _) = heats.select_nth_unstable_by(GONE_MAX / 2, f64::total_cmp);
            let bound = *bound;
            self.gone.retain(|_, heat| heat.0 > bound);
        }
    }

    /// The size of all objects.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The coldest objects that together have `bytes`, except those that are busy or in use, and the number of bytes that are lacking if
    /// those do not suffice.
    pub fn coldest(
        &self,
        bytes: u64,
        now: Instant,
        is_busy: impl Fn(u64) -> bool,
    ) -> (Vec<u64>, u64) {
        let (mut gone, mut lacking) = (Vec::new(), bytes);
        for (_, number) in &self.order {
            if lacking == 0 {
                break;
            }
            let warmth = &self.objects[number];
            if !warmth.is_used(now) && !is_busy(*number) {
                gone.push(*number);
                lacking = lacking.saturating_sub(warmth.bytes);
            }
        }
        (gone, lacking)
    }

    /// The coldest objects to evict so that `bytes` more fit, except those that are busy or in use. `None` if that is not enough.
    pub fn make(
        &self,
        bytes: u64,
        now: Instant,
        is_busy: impl Fn(u64) -> bool,
    ) -> Option<Vec<u64>> {
        let over = (self.bytes() + bytes).saturating_sub(self.bytes_max);
        if over == 0 {
            return Some(Vec::new());
        }
        let (gone, lacking) = self.coldest(over, now, is_busy);
        (lacking == 0).then_some(gone)
    }

    /// How many half-lives have passed.
    fn half_lives(&self, now: Instant) -> f64 {
        now.saturating_duration_since(self.start).as_secs_f64() / HALF_LIFE.as_secs_f64()
    }
}

fn hash(path: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}

impl Heat {
    fn after_use(self, half_lives: f64) -> Self {
        let left = (self.0 - half_lives).exp2();
        Self(half_lives + (left + 1.0).log2())
    }
}

impl Warmth {
    fn rank(&self) -> Rank {
        match self.was_used {
            true => Rank(self.heat.0 - (self.bytes.max(RANKED_BYTES_MIN) as f64).log2()),
            false => Rank(self.heat.0),
        }
    }

    fn is_used(&self, now: Instant) -> bool {
        self.used.is_some_and(|used| now.saturating_duration_since(used) < IN_USE)
    }
}

impl Eq for Rank {}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coldest_goes_first_and_what_is_watched_stays() {
        let start = Instant::now();
        let at = |hours: u64| start + Duration::from_secs(hours * 3600);
        let mut space = CacheSpace::new(100);
        for object in 1..=4 {
            space.begin(object, &object.to_string(), 20, start);
            space.add(object, 5);
        }
        (0..9).for_each(|_| space.use_of(1, at(0)));
        (0..3).for_each(|_| space.use_of(2, at(0)));
        space.use_of(3, at(96));
        assert_eq!(space.make(0, at(96), |_| false), Some(vec![]));
        assert_eq!(space.make(25, at(96), |_| false), Some(vec![4]), "it was never used");
        assert_eq!(space.make(26, at(96), |_| false), Some(vec![4, 2]), "four half-lives later");
        assert_eq!(space.make(76, at(96), |_| false), None, "3 is being watched");
        assert_eq!(space.make(76, at(97), |_| false), Some(vec![4, 2, 1, 3]));
        assert_eq!(space.make(76, at(97), |object| object == 1), None, "1 is being fetched");
        space.remove(4, at(96));
        assert_eq!(space.make(25, at(96), |_| false), Some(vec![]));
        assert_eq!(space.make(26, at(96), |_| false), Some(vec![2]), "no more than that");
        space.add(4, 100);
        space.begin(2, "2", 5, at(96));
        assert_eq!(space.bytes(), 55, "what is gone has no size, and what begins again has one");
    }

    #[test]
    fn what_comes_again_has_its_heat_and_passers_by_displace_each_other() {
        let start = Instant::now();
        let at = |minutes: u64| start + Duration::from_secs(minutes * 60);
        let mut space = CacheSpace::new(100);
        space.begin(1, "loved", 50, start);
        (0..80).for_each(|_| space.use_of(1, start));
        space.begin(2, "liked", 40, start);
        (0..40).for_each(|_| space.use_of(2, start));
        // It is replaced, or its bytes were wrong.
        space.remove(2, at(1));
        space.begin(3, "liked", 40, at(2));
        for passer in 10..200 {
            let now = at(passer);
            let gone = space.make(10, now, |_| false).expect("there is room");
            assert!(gone.iter().all(|object| *object >= 10), "{passer} displaces {gone:?}");
            gone.into_iter().for_each(|object| space.remove(object, now));
            space.begin(passer, &format!("passer {passer}"), 10, now);
            space.use_of(passer, now);
        }
    }

    #[test]
    fn a_bounded_number_of_paths_is_remembered_the_warmest() {
        let start = Instant::now();
        let mut space = CacheSpace::new(1);
        for object in 0..=GONE_MAX as u64 {
            space.begin(object, &object.to_string(), 1, start);
            space.use_of(object, start);
            if object == 7 {
                space.use_of(object, start);
            }
            space.remove(object, start);
        }
        assert!(space.gone.len() <= GONE_MAX / 2);
        space.begin(1, "7", 1, start);
        let heat = space.objects[&1].heat.0.exp2();
        assert!((heat - 2.0).abs() < 1e-9, "{heat}");
    }

    #[test]
    fn a_long_film_needs_more_uses_than_a_short_one_to_stay() {
        let start = Instant::now();
        let later = start + Duration::from_secs(10);
        let mut space = CacheSpace::new(1000 * RANKED_BYTES_MIN);
        space.begin(1, "long", 8 * RANKED_BYTES_MIN, start);
        space.begin(2, "short", 8 * RANKED_BYTES_MIN, start);
        (0..5).for_each(|_| space.use_of(1, start));
        (0..3).for_each(|_| space.use_of(2, start));
        assert_eq!(space.coldest(1, later, |_| false), (vec![2], 0), "as long as both are short");
        space.add(1, 92 * RANKED_BYTES_MIN);
        assert_eq!(space.coldest(1, later, |_| false), (vec![1], 0), "5 in 100, against 3 in 8");
        (0..100).for_each(|_| space.use_of(1, start));
        assert_eq!(space.coldest(1, later, |_| false), (vec![2], 0));
    }

    #[test]
    fn thumbnails_that_were_requested_once_do_not_displace_a_film_that_was_watched() {
        let at = |seconds: u64| Instant::now() + Duration::from_secs(seconds);
        let (film, thumbnail) = (4 << 30, 28 << 10);
        let mut space = CacheSpace::new(film + 10 * thumbnail);
        space.begin(0, "film", film, at(0));
        (0..1800).for_each(|second| space.use_of(0, at(second)));
        for object in 1..1000 {
            let now = at(3600 + object);
            let gone = space.make(thumbnail, now, |_| false).expect("there is room");
            assert!(!gone.contains(&0), "thumbnail {object} displaces the film");
            gone.into_iter().for_each(|object| space.remove(object, now));
            space.begin(object, &object.to_string(), thumbnail, now);
            space.use_of(object, now);
        }
    }

    #[test]
    fn of_objects_that_were_never_used_the_oldest_goes_first_whatever_its_size() {
        let start = Instant::now();
        let mut space = CacheSpace::new(1 << 40);
        for (object, bytes) in [(3, 10), (1, 1 << 39), (2, 1000)] {
            let path = object.to_string();
            space.begin(object, &path, bytes, start + Duration::from_secs(9 - object));
        }
        space.begin(4, "4", 1 << 38, start);
        space.use_of(4, start);
        let later = start + 50 * HALF_LIFE;
        space.begin(5, "5", 1, later);
        assert_eq!(space.coldest(u64::MAX, later, |_| false).0, [3, 2, 1, 5, 4]);
    }

    /// What an object in [`drawn_changes_keep_the_order`] has: bytes, heat, and the second of the last use.
    type Simple = (u64, f64, u64);

    #[test]
    fn drawn_changes_keep_the_order() {
        let mut random = fastrand::Rng::with_seed(1);
        let start = Instant::now();
        let mut space = CacheSpace::new(u64::MAX);
        let mut simple: HashMap<u64, Simple> = HashMap::new();
        let mut second = 0;
        let left = |(bytes, heat, since): Simple, second: u64| {
            let half_lives = (second - since) as f64 / HALF_LIFE.as_secs_f64();
            heat * (-half_lives).exp2() / bytes as f64
        };
        for step in 0..20_000 {
            second += random.u64(..3600);
            let now = start + Duration::from_secs(second);
            let (object, bytes) = (random.u64(..50), random.u64(1..1000) * RANKED_BYTES_MIN);
            match random.u32(..4) {
                0 if !simple.contains_key(&object) => {
                    // Under a new path, so that it has no former heat.
                    space.begin(object, &step.to_string(), bytes, now);
                    space.use_of(object, now);
                    simple.insert(object, (bytes, 1.0, second));
                }
                1 if random.u32(..4) == 0 => {
                    space.remove(object, now);
                    simple.remove(&object);
                }
                2 => {
                    space.add(object, bytes);
                    simple.entry(object).and_modify(|one| one.0 += bytes);
                }
                _ => {
                    space.use_of(object, now);
                    let size = simple.get(&object).map_or(1, |one| one.0);
                    let used = |one: &mut Simple| {
                        *one = (size, left((1, one.1, one.2), second) + 1.0, second);
                    };
                    simple.entry(object).and_modify(used);
                }
            }
            assert_eq!(space.bytes(), simple.values().map(|one| one.0).sum::<u64>());
            let order = space.coldest(u64::MAX, now + IN_USE, |_| false).0;
            assert_eq!(order.len(), simple.len());
            let ranks: Vec<f64> = order.iter().map(|one| left(simple[one], second)).collect();
            let is_sorted = ranks.is_sorted_by(|a, b| *a <= b * (1.0 + 1e-6));
            assert!(is_sorted, "{step}: {ranks:?}");
        }
    }
}
