//! The order in which sites are considered for a viewer.
//!
//! 1. Sites that announce the viewer's address: by the longest prefix, then the shortest AS path, then the lowest MED. Among sites that routing
//!    ranks equal, the nearest to the best site comes first; the best site itself is drawn by viewer.
//! 2. The neighbours of the best site: first in its region, then by distance.
//! 3. The region of the best site, or of the gateway.
//! 4. All sites.
//!
//! A site may occur more than once.

use std::ops::ControlFlow;

use crate::geography::Neighbour;
use crate::reach::{PrefixId, Route};
use crate::{ChoiceReason, Fleet, hash};

/// A viewer's location, as far as known, and its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whence<'q> {
    pub(crate) matched: Option<PrefixId>,
    pub(crate) region: Option<&'q str>,
    pub(crate) viewer: u64,
}

/// Visits sites in order with the reason for each; return `Break` to stop.
pub(crate) trait Visit: FnMut(usize, ChoiceReason) -> ControlFlow<()> {}

impl<F: FnMut(usize, ChoiceReason) -> ControlFlow<()>> Visit for F {}

/// Visits sites, best first, until `visit` breaks or there are no more.
pub(crate) fn sites(fleet: &Fleet, whence: &Whence<'_>, mut visit: impl Visit) {
    let _ = walk(fleet, whence, &mut visit);
}

fn walk(fleet: &Fleet, whence: &Whence<'_>, visit: &mut impl Visit) -> ControlFlow<()> {
    let geography = fleet.geography();
    let mut best = None;
    for level in fleet.reach().levels(whence.matched) {
        for equals in fleet.reach().routes(level).chunk_by(Route::equals) {
            announcing(
                equals,
                whence.viewer,
                best.map(|best| geography.neighbours(best)),
                visit,
                &mut best,
            )?;
        }
    }
    for near in best.map_or(&[][..], |best| geography.neighbours(best)) {
        visit(
            near.site as usize,
            if near.km.is_some() { ChoiceReason::Near } else { ChoiceReason::Region },
        )?;
    }
    if let Some(region) = best.map(|best| geography.region_of(best)).or(whence.region) {
        each(geography.in_region(region, whence.viewer), ChoiceReason::Region, visit)?;
    }
    each(geography.anywhere(whence.viewer), ChoiceReason::Anywhere, visit)
}

/// The sites that announce a prefix and that routing ranks equal.
fn announcing(
    equals: &[Route],
    viewer: u64,
    near: Option<&[Neighbour]>,
    visit: &mut impl Visit,
    best: &mut Option<usize>,
) -> ControlFlow<()> {
    let is_among =
        |near: &&Neighbour| equals.binary_search_by_key(&near.site, |route| route.site).is_ok();
    for near in near.unwrap_or_default().iter().filter(is_among) {
        visit(near.site as usize, ChoiceReason::Prefix)?;
    }
    let first = hash::mix(!viewer) as usize % equals.len();
    for route in equals[first..].iter().chain(&equals[..first]) {
        best.get_or_insert(route.site as usize);
        visit(route.site as usize, ChoiceReason::Prefix)?;
    }
    ControlFlow::Continue(())
}

fn each(sites: &[u32], reason: ChoiceReason, visit: &mut impl Visit) -> ControlFlow<()> {
    sites.iter().try_for_each(|site| visit(*site as usize, reason))
}
