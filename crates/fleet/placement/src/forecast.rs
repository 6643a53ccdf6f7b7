//! The expected views at each site.

use crate::input::{PlacementInput, TitleDemand};
use crate::topology::FleetTopology;

/// The expected views of a region.
#[derive(Debug)]
struct Region {
    /// By title.
    bytes: Vec<u64>,
    /// Titles with any demand, sorted by bytes watched per byte held, highest first.
    order: Vec<u32>,
}

#[derive(Debug)]
pub(crate) struct Forecast {
    regions: Vec<Region>,
    sizes: Vec<u64>,
    /// By site: its share of its region's views, as a fraction of 2^64, rounded up. A division for each site and title would take half the
    /// time of a plan.
    parts: Vec<u128>,
    further_permille: u64,
}

/// The number of fractional bits of a score.
const SCORE_BITS: u32 = 20;

impl Forecast {
    pub(crate) fn new(input: &PlacementInput, topology: &FleetTopology) -> Self {
        let sizes: Vec<u64> = input.titles.iter().map(|title| title.bytes.max(1)).collect();
        let everywhere = input.demand.iter().flat_map(|region| &region.titles);
        let (starts, bytes) = summed(sizes.len(), everywhere);
        // A title's weight among the rest of a region: its views in the whole fleet, if there are enough of them to be more than chance.
        let prior = known_or_even(&starts, &bytes, input.policy.starts_min);
        let mut by_region = vec![vec![0u128; sizes.len()]; topology.regions.len()];
        for region in &input.demand {
            let (starts, bytes) = summed(sizes.len(), region.titles.iter());
            let smooth = with_rest(&starts, &bytes, &prior, input.policy.starts_min);
            match topology.region(&region.region) {
                Some(at) => add(&mut by_region[at], &smooth, 1, 1),
                // The region has no nodes: steering spreads its viewers over all sites by their ceilings.
                None => {
                    let all: u128 = topology.region_weight.iter().sum();
                    for (at, weight) in topology.region_weight.iter().enumerate() {
                        add(&mut by_region[at], &smooth, *weight, all);
                    }
                }
            }
        }
        let region = |bytes: Vec<u128>| {
            let bytes: Vec<u64> =
                bytes.into_iter().map(|bytes| bytes.min(1 << 62) as u64).collect();
            let score = |title: u32| score(bytes[title as usize].into(), sizes[title as usize]);
            let mut order: Vec<u32> = (0..sizes.len() as u32).collect();
            order.retain(|title| bytes[*title as usize] > 0);
            order.sort_by_cached_key(|title| (std::cmp::Reverse(score(*title)), *title));
            Region { bytes, order }
        };
        let regions = by_region.into_iter().map(region).collect();
        let part = |site: usize| {
            let all = topology.region_weight[topology.region_of[site] as usize].max(1);
            (u128::from(topology.site_weight[site]) << 64).div_ceil(all)
        };
        let parts = (0..topology.sites()).map(part).collect();
        Self { regions, sizes, parts, further_permille: input.policy.further_permille.into() }
    }

    /// The titles wanted by a site's viewers, most wanted per byte first. All sites of a region share one list.
    pub(crate) fn order<'f>(&'f self, topology: &FleetTopology, site: usize) -> &'f [u32] {
        &self.regions[topology.region_of[site] as usize].order
    }

    /// The bytes that a site's viewers are expected to watch of a title in a day.
    pub(crate) fn bytes(&self, topology: &FleetTopology, site: usize, title: u32) -> u64 {
        let region = topology.region_of[site] as usize;
        let bytes = u128::from(self.regions[region].bytes[title as usize]);
        // At most 62 bits times 65.
        ((bytes * self.parts[site]) >> 64) as u64
    }

    /// The value of the n-th copy at a site, in bytes a day. `copy` counts from 1.
    pub(crate) fn worth(
        &self,
        topology: &FleetTopology,
        site: usize,
        title: u32,
        copy: u16,
    ) -> u64 {
        let bytes = self.bytes(topology, site, title);
        if copy <= 1 {
            return bytes;
        }
        let parts = 1000 * u64::from(copy);
        match bytes.checked_mul(self.further_permille) {
            Some(product) => product / parts,
            None => {
                (u128::from(bytes) * u128::from(self.further_permille) / u128::from(parts)) as u64
            }
        }
    }

    /// Its value per byte held.
    pub(crate) fn score(
        &self,
        topology: &FleetTopology,
        site: usize,
        title: u32,
        copy: u16,
    ) -> u64 {
        score(self.worth(topology, site, title, copy).into(), self.size(title))
    }

    /// Whether a copy with this value, in bytes a day, is worth its own bytes.
    pub(crate) fn is_worth(&self, worth: u64, title: u32, worth_permille: u32) -> bool {
        let wanted = u128::from(self.size(title)) * u128::from(worth_permille);
        worth > 0 && u128::from(worth) * 1000 >= wanted
    }

    pub(crate) fn size(&self, title: u32) -> u64 {
        self.sizes[title as usize]
    }
}

fn score(worth: u128, size: u64) -> u64 {
    // A 64-bit division takes a quarter of the time.
    match u64::try_from(worth << SCORE_BITS) {
        Ok(worth) => worth / size,
        Err(_) => ((worth << SCORE_BITS) / u128::from(size)).min(u64::MAX.into()) as u64,
    }
}

fn summed<'d>(
    titles: usize,
    demand: impl Iterator<Item = &'d TitleDemand>,
) -> (Vec<u64>, Vec<u128>) {
    let (mut starts, mut bytes) = (vec![0u64; titles], vec![0u128; titles]);
    for one in demand {
        let at = one.title as usize;
        starts[at] = starts[at].saturating_add(one.starts);
        bytes[at] += u128::from(one.bytes);
    }
    (starts, bytes)
}

/// Titles with too few starts share the views of all of them evenly.
fn known_or_even(starts: &[u64], bytes: &[u128], starts_min: u64) -> Vec<u128> {
    with_rest(starts, bytes, &vec![1; starts.len()], starts_min)
}

/// Titles with too few starts share the views of all of them in proportion to `prior`.
fn with_rest(starts: &[u64], bytes: &[u128], prior: &[u128], starts_min: u64) -> Vec<u128> {
    let rest = || (0..starts.len()).filter(|title| starts[*title] < starts_min);
    let watched: u128 = rest().map(|title| bytes[title]).sum();
    // At most 64 bits each, so that products stay below 128.
    let prior = |title: usize| prior[title].min(u64::MAX.into()) >> 8;
    let all: u128 = rest().map(prior).sum();
    let mut smooth = bytes.to_vec();
    for title in rest() {
        let part = watched.min(u64::MAX.into()) * prior(title);
        smooth[title] = part.checked_div(all).unwrap_or(0);
    }
    if all == 0 {
        // They have no views in the whole fleet either.
        let count = rest().count().max(1) as u128;
        rest().for_each(|title| smooth[title] = watched / count);
    }
    smooth
}

fn add(sum: &mut [u128], bytes: &[u128], part: u128, of: u128) {
    for (sum, bytes) in sum.iter_mut().zip(bytes) {
        *sum += (*bytes).min(u64::MAX.into()) * part.min(u64::MAX.into()) / of.max(1);
    }
}
