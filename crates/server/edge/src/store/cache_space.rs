//! Decides which objects to evict when the cache is full: those that viewers wanted least, lately.
//!
//! As in the hot set, objects are ranked by how often they were wanted lately, whether they were cached or not: evicted objects are
//! remembered for a while, so a film that comes back keeps yesterday's popularity. Objects that were never wanted before are evicted first.
//! Unlike the hot set, the cache admits everything: bytes reach viewers through its disk, so every requested object is fetched.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

/// After this time a use counts half: an evening's film is cold the next day, and one that is watched every evening is not.
const HALF_LIFE: Duration = Duration::from_secs(6 * 3600);

/// How long an object counts as in use after the server's last report. The server reports every second, and may be late.
const IN_USE: Duration = Duration::from_secs(3);

/// The number of evicted paths to remember. Each takes some 40 bytes.
const GONE_MAX: usize = 100_000;

/// The size and the heat of all objects.
pub struct CacheSpace {
    bytes_max: u64,
    objects: HashMap<u64, Warmth>,
    /// The size of all objects.
    bytes: u64,
    /// The heat of evicted objects, by the hashes of their paths. Two paths with one hash would share a heat, but no bytes.
    gone: HashMap<u64, (f64, Instant)>,
}

struct Warmth {
    bytes: u64,
    path: u64,
    heat: f64,
    used: Option<Instant>,
    since: Instant,
}

impl CacheSpace {
    /// An empty cache.
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max, objects: HashMap::new(), bytes: 0, gone: HashMap::new() }
    }

    /// The size limit.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Adds a new object, or a new version of one.
    pub fn begin(&mut self, object: u64, path: &str, bytes: u64, now: Instant) {
        let path = hash(path);
        let heat = self.gone.remove(&path).map_or(0.0, |(heat, since)| left(heat, since, now));
        let new = Warmth { bytes, path, heat, used: None, since: now };
        let former = self.objects.insert(object, new);
        self.bytes = self.bytes + bytes - former.map_or(0, |former| former.bytes);
    }

    /// Adds `bytes` to the size of `object`, if it is still there.
    pub fn add(&mut self, object: u64, bytes: u64) {
        if let Some(warmth) = self.objects.get_mut(&object) {
            warmth.bytes += bytes;
            self.bytes += bytes;
        }
    }

    /// Records a use of `object`.
    pub fn use_of(&mut self, object: u64, now: Instant) {
        if let Some(warmth) = self.objects.get_mut(&object) {
            warmth.heat = warmth.heat_at(now) + 1.0;
            (warmth.used, warmth.since) = (Some(now), now);
        }
    }

    /// When `object` was last used, if that is known.
    pub(crate) fn used(&self, object: u64) -> Option<Instant> {
        self.objects.get(&object)?.used
    }

    /// Removes `object`.
    pub fn remove(&mut self, object: u64, now: Instant) {
        let Some(warmth) = self.objects.remove(&object) else { return };
        self.bytes -= warmth.bytes;
        self.gone.insert(warmth.path, (warmth.heat, warmth.since));
        if self.gone.len() > GONE_MAX {
            // Finding the coldest takes longer than remembering one, so remove half at once.
            let mut heats: Vec<f64> =
                self.gone.values().map(|(heat, since)| left(*heat, *since, now)).collect();
            let (_, bound, _) = heats.select_nth_unstable_by(GONE_MAX / 2, f64::total_cmp);
            let bound = *bound;
            self.gone.retain(|_, (heat, since)| left(*heat, *since, now) > bound);
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
        let mut cold: Vec<_> = self.objects.iter().filter(|(_, one)| !one.is_used(now)).collect();
        cold.sort_by(|(_, a), (_, b)| a.heat_at(now).total_cmp(&b.heat_at(now)));
        let (mut gone, mut lacking) = (Vec::new(), bytes);
        for (number, warmth) in cold.into_iter().filter(|(number, _)| !is_busy(**number)) {
            if lacking == 0 {
                break;
            }
            gone.push(*number);
            lacking = lacking.saturating_sub(warmth.bytes);
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
}

fn hash(path: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}

/// The rest of a heat after its decay.
fn left(heat: f64, since: Instant, now: Instant) -> f64 {
    let halves = now.saturating_duration_since(since).as_secs_f64() / HALF_LIFE.as_secs_f64();
    heat * (-halves).exp2()
}

impl Warmth {
    fn heat_at(&self, now: Instant) -> f64 {
        left(self.heat, self.since, now)
    }

    fn is_used(&self, now: Instant) -> bool {
        self.used.is_some_and(|used| now.saturating_duration_since(used) < IN_USE)
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
        space.use_of(3, at(24));
        assert_eq!(space.make(0, at(24), |_| false), Some(vec![]));
        assert_eq!(space.make(25, at(24), |_| false), Some(vec![4]), "it was never used");
        assert_eq!(space.make(26, at(24), |_| false), Some(vec![4, 2]), "four half-lives later");
        assert_eq!(space.make(76, at(24), |_| false), None, "3 is being watched");
        assert_eq!(space.make(76, at(25), |_| false), Some(vec![4, 2, 1, 3]));
        assert_eq!(space.make(76, at(25), |object| object == 1), None, "1 is being fetched");
        space.remove(4, at(24));
        assert_eq!(space.make(25, at(24), |_| false), Some(vec![]));
        assert_eq!(space.make(26, at(24), |_| false), Some(vec![2]), "no more than that");
        space.add(4, 100);
        space.begin(2, "2", 5, at(24));
        assert_eq!(space.bytes(), 55, "what is gone has no size, and what begins again has one");
    }

    #[test]
    fn what_comes_again_has_its_heat_and_passers_by_displace_each_other() {
        let start = Instant::now();
        let at = |minutes: u64| start + Duration::from_secs(minutes * 60);
        let mut space = CacheSpace::new(100);
        space.begin(1, "loved", 50, start);
        (0..8).for_each(|_| space.use_of(1, start));
        space.begin(2, "liked", 40, start);
        (0..4).for_each(|_| space.use_of(2, start));
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
        assert_eq!(space.objects[&1].heat, 2.0);
    }
}
