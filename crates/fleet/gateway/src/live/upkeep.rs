//! Maintaining a plan between two plans: repairs, and permission to remove copies.
//!
//! The plan becomes incomplete when a title is published, when a node joins or returns, and when a node is gone. The leading gateway then plans
//! again, without moving anything for demand, so that only pins and floors are restored.

use std::time::Duration;

use fleet_protocol::{Digest, HeldTitle, Name, State};

use super::core::Core;
use super::placed::PlacedTitles;
use super::plan_basis::{is_absent, is_ready};
use super::view::holds;
use crate::clock::Now;

/// A node that is away for longer than this loses its part of the plan, unless an operator makes a plan without it earlier. Most machines restart
/// within this time; copying the titles of one takes hours.
pub const ABSENT_MAX: Duration = Duration::from_secs(600);

/// A needed repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upkeep {
    /// The reason, for the audit log.
    pub why: String,
    /// Changes when the reason does.
    pub key: Digest,
}

pub(super) fn of(core: &Core, now: Now) -> Option<Upkeep> {
    let placed = core.world.placed.as_ref().filter(|placed| placed.is_whole())?;
    if core.detector.is_held() {
        return None;
    }
    let world = &core.world;
    let titles: Vec<&str> =
        placed.unplaced().map(|title| world.titles[title as usize].path.as_str()).collect();
    let ready = world
        .nodes
        .iter()
        .filter(|(name, wanted)| !placed.has(name) && is_ready(core, name, wanted, now).is_ok());
    let new: Vec<&str> = ready.map(|(name, _)| name.as_str()).collect();
    let gone: Vec<&str> =
        placed.nodes().filter(|name| is_gone(core, name, now)).map(Name::as_str).collect();
    if titles.is_empty() && new.is_empty() && gone.is_empty() {
        return None;
    }
    let why = format!(
        "{} titles without a place, {} new nodes, {} nodes gone",
        titles.len(),
        new.len(),
        gone.len()
    );
    let key = [titles.join("\n"), new.join("\n"), gone.join("\n")].join("\n\n");
    Some(Upkeep { why, key: Digest::of(key.as_bytes()) })
}

/// Whether a node in the plan has been away for too long.
pub(super) fn is_gone(core: &Core, name: &Name, now: Now) -> bool {
    let Some(wanted) = core.world.nodes.get(name).filter(|wanted| !wanted.is_revoked) else {
        return true;
    };
    let since = core.nodes.get(name).and_then(|live| live.told).map(|(_, since)| since);
    let away = since.map_or(0, |since| now.unix_millis.saturating_sub(since));
    is_absent(core, name, wanted, now) && u128::from(away) >= ABSENT_MAX.as_millis()
}

/// Whether a node may remove a title. The floor must hold without it: as many nodes as the floor requires, or as the plan names, must serve, hold
/// the published version and be meant to keep it. If the plan names nodes at the node's own site, one of them must already hold it.
pub(super) fn may_evict(core: &Core, name: &Name, held: &HeldTitle) -> bool {
    let world = &core.world;
    let Some(placed) = world.placed.as_ref().filter(|placed| placed.is_whole()) else {
        return false;
    };
    let Some(title) = world.place_of(&held.path) else { return false };
    let Some(node) = world.nodes.get(name).filter(|_| placed.has(name)) else { return false };
    if placed.copy(name, title).is_some() || core.detector.is_held() {
        return false;
    }
    let published = world.titles[title as usize].held();
    let is_there =
        |holder: &&Name| core.state_of(holder) == State::Serving && holds(core, holder, &published);
    let holders: Vec<&Name> = placed.holders(title).collect();
    let there: Vec<&Name> = holders.iter().copied().filter(is_there).collect();
    let is_near = |holder: &&Name| {
        world.nodes.get(*holder).is_some_and(|other| other.place.site == node.place.site)
    };
    let wants_near = holders.iter().any(is_near);
    let kept = copies_kept(placed, title, world.placement.floor_copies);
    there.len() as u32 >= kept && (!wants_near || there.iter().any(is_near))
}

/// How many copies must exist before another one may be removed. At least one: a title that found no room in the plan stays where it is.
fn copies_kept(placed: &PlacedTitles, title: u32, floor_copies: u16) -> u32 {
    placed.copies(title).min(floor_copies.into()).max(1)
}
