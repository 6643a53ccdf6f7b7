//! Two other rules, of equal room, on the same viewers. Both get the better of what may be assumed about them.
//!
//! - Plain consistent hashing: a title is at so many sites as there is room for, whatever is watched of it. Nothing is evicted; a new title is
//!   brought to its sites.
//! - LRU pull-through: a site is one cache of all its nodes' room, full of what is watched most when the day begins. A miss brings what is watched,
//!   and no more.

use std::collections::VecDeque;

use crate::world::World;

/// What a rule has served, and brought for it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Served {
    pub(crate) near: u64,
    pub(crate) fill: u64,
}

pub(crate) struct Rivals {
    /// By site: thousandths of thousandths of the catalog that it has room for.
    hashing_ppm: Vec<u64>,
    caches: Vec<Cache>,
    pub(crate) hashing: Served,
    pub(crate) lru: Served,
}

/// A cache of whole titles.
struct Cache {
    free: u64,
    /// By title: when it was last watched, and 0 if it is not there.
    last: Vec<u32>,
    /// Uses in their order; what was used again since is passed over.
    uses: VecDeque<(u32, u32)>,
    now: u32,
}

impl Cache {
    fn new(room: u64, titles: usize) -> Self {
        Self { free: room, last: vec![0; titles], uses: VecDeque::new(), now: 0 }
    }

    /// Whether the title was there. It is there afterwards, if it fits at all.
    fn play(&mut self, world: &World, title: u32) -> bool {
        let was_there = self.last[title as usize] > 0;
        let size = world.titles[title as usize].bytes;
        while !was_there && self.free < size {
            let Some((oldest, used)) = self.uses.pop_front() else { return false };
            if self.last[oldest as usize] == used {
                self.last[oldest as usize] = 0;
                self.free += world.titles[oldest as usize].bytes;
            }
        }
        if !was_there {
            self.free -= size;
        }
        self.now += 1;
        self.last[title as usize] = self.now;
        self.uses.push_back((title, self.now));
        was_there
    }
}

impl Rivals {
    pub(crate) fn new(world: &World) -> Self {
        let known = world.known;
        let catalog: u64 = world.titles.iter().map(|title| title.bytes).sum();
        let mut most_wanted: Vec<u32> = (0..known as u32).collect();
        most_wanted.sort_by_key(|title| std::cmp::Reverse(world.share(*title as usize)));
        let room = |site: &fleet::Site| -> u64 {
            let own = world.nodes.iter().zip(&world.rooms);
            own.filter(|(node, _)| node.place.site == site.name).map(|(_, room)| room).sum()
        };
        let rooms: Vec<u64> = world.sites.iter().map(room).collect();
        let cache = |room: &u64| {
            let mut cache = Cache::new(*room, world.titles.len());
            let mut left = *room;
            let fits = most_wanted.iter().take_while(|title| {
                let size = world.titles[**title as usize].bytes;
                left.checked_sub(size).inspect(|rest| left = *rest).is_some()
            });
            let fits: Vec<u32> = fits.copied().collect();
            // The most wanted was watched last.
            for title in fits.into_iter().rev() {
                cache.play(world, title);
            }
            cache
        };
        let ppm = |room: &u64| (u128::from(*room) * 1_000_000 / u128::from(catalog.max(1))) as u64;
        let hashing_ppm: Vec<u64> = rooms.iter().map(ppm).collect();
        let caches = rooms.iter().map(cache).collect();
        let mut rivals =
            Self { hashing_ppm, caches, hashing: Served::default(), lru: Served::default() };
        for title in known..world.titles.len() {
            let sites = (0..rooms.len()).filter(|site| rivals.is_hashed(*site, title as u32));
            rivals.hashing.fill += world.titles[title].bytes * sites.count() as u64;
        }
        rivals
    }

    fn is_hashed(&self, site: usize, title: u32) -> bool {
        // Drawn by both numbers, the same for ever.
        let seed = (site as u64) << 32 | u64::from(title);
        fastrand::Rng::with_seed(seed).u64(..1_000_000) < self.hashing_ppm[site]
    }

    pub(crate) fn play(&mut self, world: &World, site: usize, title: u32, bytes: u64) {
        if self.is_hashed(site, title) {
            self.hashing.near += bytes;
        }
        if self.caches[site].play(world, title) {
            self.lru.near += bytes;
        } else {
            self.lru.fill += bytes;
        }
    }
}
