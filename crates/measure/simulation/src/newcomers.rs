//! What a fleet can know about titles that no one has watched yet: estimates from their series, as gateways make them, with the real
//! counts.
//!
//! Each new title continues a series of four titles that were about as popular as it will be, slightly more or less at random. These draws
//! are separate, so the same seed has the same viewers whatever the fleet knows.

use std::collections::BTreeMap;

use fastrand::Rng;
use fleet_protocol::{Name, WatchCount};
use placement::popularity::{FleetPopularity, KnownTitle, PinnedIn};

use crate::world::World;

/// Titles of a series that came out yesterday.
const SERIES_TITLES: usize = 4;

/// The titles of a series are this close in the order of popularity: within a twentieth of the catalog.
const NEAR: usize = 20;

const DAY_SECONDS: u32 = 24 * 3600;

/// When the series' titles came out. Any time would do.
const YESTERDAY: u64 = 1_800_000_000;

/// How much is known about new titles when the day is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewTitles {
    /// How often each will be watched, as for all other titles.
    Known,
    /// How often their series was watched.
    Series,
    /// Nothing.
    Unknown,
}

/// The expected demand for new titles, by region and title.
#[derive(Default)]
pub(crate) struct Newcomers {
    expected: Vec<BTreeMap<u32, WatchCount>>,
}

impl Newcomers {
    /// `day` returns how often a region of a given weight watches a title.
    pub(crate) fn by_series(
        world: &World,
        seed: u64,
        regions: &[(Name, u64)],
        day: impl Fn(u64, u32) -> WatchCount,
    ) -> Self {
        let series = series(world, seed);
        let names: Vec<String> = (0..series.len()).map(|number| number.to_string()).collect();
        let mut known = Vec::new();
        let now = YESTERDAY + u64::from(DAY_SECONDS);
        for (name, (new, members)) in names.iter().zip(&series) {
            let title = |title: &u32, published_unix_seconds| KnownTitle {
                path: &world.titles[*title as usize].path,
                published_unix_seconds,
                series: Some(name),
                pinned: PinnedIn::Regions(Vec::new()),
            };
            known.push((*new, title(new, now)));
            known.extend(members.iter().map(|member| (*member, title(member, YESTERDAY))));
        }
        let mut popularity = FleetPopularity::default();
        for (region, weight) in regions {
            let members = known.iter().filter(|(title, _)| (*title as usize) < world.known);
            let mut watched: BTreeMap<&str, WatchCount> = BTreeMap::new();
            watched.extend(members.map(|(title, known)| (known.path, day(*weight, *title))));
            popularity.add(region, watched, WatchCount::default(), DAY_SECONDS, now);
        }
        let titles: Vec<KnownTitle<'_>> = known.iter().map(|(_, title)| title.clone()).collect();
        let expected = popularity.forecast(&titles, now).into_iter().map(|forecast| {
            let titles = forecast.titles.iter().map(|one| (known[one.title as usize].0, one.count));
            titles.filter(|(title, _)| *title as usize >= world.known).collect()
        });
        Self { expected: expected.collect() }
    }

    pub(crate) fn of(&self, region: usize, title: u32) -> WatchCount {
        self.expected.get(region).and_then(|own| own.get(&title)).copied().unwrap_or_default()
    }
}

/// New titles, each with the earlier titles of its series.
fn series(world: &World, seed: u64) -> Vec<(u32, Vec<u32>)> {
    // Separate from the draws of the day.
    let mut random = Rng::with_seed(seed ^ 0x5e71_e500);
    let mut order: Vec<u32> = (0..world.known as u32).collect();
    order.sort_by_key(|title| (world.share(*title as usize), *title));
    let near = (world.known / NEAR).max(1);
    let new = (world.known..world.titles.len()).map(|new| {
        let share = world.share(new);
        let own = order.partition_point(|title| world.share(*title as usize) < share);
        let (from, to) = (own.saturating_sub(near), (own + near).min(order.len()));
        let members = (0..SERIES_TITLES).map(|_| order[random.usize(from..to)]);
        (new as u32, members.collect())
    });
    new.collect()
}
