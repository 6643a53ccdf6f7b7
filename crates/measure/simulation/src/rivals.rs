//! Two competing rules, with equal room and equal ceilings, for the same viewers. The assumptions favour both of them.
//!
//! - Plain consistent hashing: a title is at as many sites as there is room for, however popular it is. Nothing is evicted; a new title is
//!   fetched by its sites.
//! - LRU pull-through: a site is one cache with all its nodes' room, filled with the most popular titles when the day begins. A miss
//!   fetches the bytes that are watched, and no more.
//!
//! A title at a site is at all of its nodes, at no cost. The node for a play follows from title and viewer, as in steering. If that node is
//! full or lost, the play does not count as first choice, and loads no other node.

use std::collections::VecDeque;
use std::ops::Range;

use fleet_protocol::SteeringPolicy;

use crate::day::STEP_BYTES;
use crate::plays::{Play, SitePlays};
use crate::threads;
use crate::world::{VIEWER_BITS_PER_SECOND, World, drawn, sums};

/// Bytes that a rule served from the first choice, and bytes that it filled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Served {
    pub(crate) near: u64,
    pub(crate) fill: u64,
}

impl Served {
    fn add(&mut self, other: Self) {
        self.near += other.near;
        self.fill += other.fill;
    }
}

/// The results of both rules for a day.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rivals {
    pub(crate) hashing: Served,
    pub(crate) lru: Served,
}

/// Serves all plays under both rules; `lost` has the lost nodes by step.
pub(crate) fn serve(world: &World, plays: &[SitePlays], lost: &[Vec<u32>]) -> Rivals {
    let catalog: u64 = world.titles.iter().map(|title| title.bytes).sum();
    let mut most_wanted: Vec<u32> = (0..world.known as u32).collect();
    most_wanted.sort_by_key(|title| std::cmp::Reverse(world.share(*title as usize)));
    let sites: Vec<usize> = (0..plays.len()).collect();
    let by_site = threads::map(&sites, 64, |site| {
        let nodes = world.nodes_of(*site);
        let room: u64 = nodes.clone().map(|node| world.rooms[node]).sum();
        let ppm = (u128::from(room) * 1_000_000 / u128::from(catalog.max(1))) as u64;
        let hashing = Hashing { site: *site, ppm };
        let new = (world.known..world.titles.len()).filter(|title| hashing.has(*title as u32));
        let brought: u64 = new.map(|title| world.titles[title].bytes).sum();
        let mut served = Loads::new(world, nodes.clone(), lost)
            .serve(&plays[*site], |title, _| hashing.has(title));
        served.fill = brought;
        let mut cache = Cache::warm(world, room, &most_wanted);
        let lru = Loads::new(world, nodes, lost).serve(&plays[*site], |title, fill| {
            let hit = cache.play(world, title);
            *fill = !hit;
            hit
        });
        Rivals { hashing: served, lru }
    });
    let mut all = Rivals::default();
    for site in by_site {
        all.hashing.add(site.hashing);
        all.lru.add(site.lru);
    }
    all
}

/// The titles of a site under consistent hashing.
struct Hashing {
    site: usize,
    /// Millionths of the catalog that the site has room for.
    ppm: u64,
}

impl Hashing {
    fn has(&self, title: u32) -> bool {
        // Drawn from both numbers, so it never changes.
        let seed = (self.site as u64) << 32 | u64::from(title);
        fastrand::Rng::with_seed(seed).u64(..1_000_000) < self.ppm
    }
}

/// A site's nodes and their viewers under one rule.
struct Loads<'w> {
    world: &'w World,
    nodes: Range<usize>,
    lost: &'w [Vec<u32>],
    /// Sums of ceilings: nodes get viewers in proportion to their ceilings.
    ceilings: Vec<u64>,
    on: Vec<u64>,
    takes_none: Vec<bool>,
    is_full: Vec<bool>,
    /// The nodes whose viewers leave in each of the next sixteen steps.
    ends: [Vec<usize>; 16],
}

impl<'w> Loads<'w> {
    fn new(world: &'w World, nodes: Range<usize>, lost: &'w [Vec<u32>]) -> Self {
        let ceilings = sums(nodes.clone().map(|node| world.nodes[node].ceiling_bits_per_second));
        let (on, no) = (vec![0; nodes.len()], vec![false; nodes.len()]);
        let ends = Default::default();
        Self { world, nodes, lost, ceilings, on, takes_none: no.clone(), is_full: no, ends }
    }

    /// `has` returns whether the site has the title, and sets its flag if the watched bytes must be fetched.
    fn serve(mut self, plays: &SitePlays, mut has: impl FnMut(u32, &mut bool) -> bool) -> Served {
        let mut served = Served::default();
        for step in 0..plays.steps() {
            self.begin(step);
            for play in plays.of_step(step) {
                let node = self.node_of(play);
                if self.takes_none[node] {
                    continue;
                }
                let (bytes, mut fills) = (u64::from(play.length) * STEP_BYTES, false);
                if has(play.title, &mut fills) {
                    served.near += bytes;
                } else if !fills {
                    continue;
                }
                served.fill += if fills { bytes } else { 0 };
                self.on[node] += 1;
                self.ends[(step + play.length as usize) % 16].push(node);
            }
        }
        served
    }

    /// Ends films, and updates which nodes take viewers, by the same thresholds as gateways.
    fn begin(&mut self, step: usize) {
        for node in std::mem::take(&mut self.ends[step % 16]) {
            self.on[node] = self.on[node].saturating_sub(1);
        }
        let policy = SteeringPolicy::default();
        for (at, node) in self.nodes.clone().enumerate() {
            let is_lost = self.lost[step].binary_search(&(node as u32)).is_ok();
            if is_lost {
                self.on[at] = 0;
            }
            let bits = self.on[at] * VIEWER_BITS_PER_SECOND * 1000;
            let load = bits / self.world.nodes[node].ceiling_bits_per_second;
            self.is_full[at] = load >= policy.full_permille.into()
                || (self.is_full[at] && load > policy.roomy_permille.into());
            self.takes_none[at] = is_lost || self.is_full[at];
        }
    }

    fn node_of(&self, play: Play) -> usize {
        let seed = u64::from(play.title) << 32 | u64::from(play.order) << 28;
        let mut random = fastrand::Rng::with_seed(seed | self.nodes.start as u64);
        drawn(&self.ceilings, &mut random)
    }
}

/// A cache of whole titles.
struct Cache {
    free: u64,
    /// By title: when it was last watched, or 0 if it is not cached.
    last: Vec<u32>,
    /// Uses in order. Entries of titles that were used again later are skipped.
    uses: VecDeque<(u32, u32)>,
    now: u32,
}

impl Cache {
    /// A cache with as much of `most_wanted` as fits.
    fn warm(world: &World, room: u64, most_wanted: &[u32]) -> Self {
        let mut cache =
            Self { free: room, last: vec![0; world.titles.len()], uses: VecDeque::new(), now: 0 };
        let mut left = room;
        let fits = most_wanted.iter().take_while(|title| {
            let size = world.titles[**title as usize].bytes;
            left.checked_sub(size).inspect(|rest| left = *rest).is_some()
        });
        let fits = fits.count();
        // Play the most popular title last.
        for title in most_wanted[..fits].iter().rev() {
            cache.play(world, *title);
        }
        cache
    }

    /// Returns whether the title was cached. Afterwards it is, if it fits at all.
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
