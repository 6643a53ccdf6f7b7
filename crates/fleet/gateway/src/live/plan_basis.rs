//! The input of a plan: placement's input, from this gateway's state.

use std::sync::Arc;

use fleet_protocol::{Name, State};
use placement::popularity::{FleetPopularity, KnownTitle, PinnedIn, RegionForecast, TitleForecast};
use placement::{
    PinScope, PlacementInput, PlacementNode, PlacementTitle, RegionDemand, TitleDemand,
};
use serde::Serialize;

use super::core::Core;
use super::node::LiveNode;
use super::snapshot::{holds, places};
use super::upkeep;
use super::weights;
use super::world::{WantedNode, World};
use crate::clock::Now;

/// The complete input of a plan.
pub struct PlanBasis {
    /// Placement's input.
    pub input: PlacementInput,
    /// The forecasts behind the demand in it.
    pub forecasts: Vec<RegionForecast>,
    /// Nodes excluded from the plan.
    pub left_out: Vec<LeftOutNode>,
    /// Implausible figures of nodes that the plan caps or ignores, one sentence each.
    pub bounded: Vec<String>,
    /// When demand was last used by an applied plan, since 1970.
    pub planned_unix_seconds: Option<u64>,
}

/// Treatment of absent nodes that are in the current plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// Lost and drained nodes get no titles: for a plan that an operator requests.
    LeaveOut,
    /// They keep their titles until they have been away for too long: for plans that a gateway makes by itself.
    Keep,
}

/// A node that gets no titles in a plan made now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOutNode {
    /// Its name.
    pub node: Name,
    /// The reason.
    pub why: &'static str,
}

/// The core's part of the input. The rest takes longer, and needs no lock.
pub(super) struct PlanParts {
    world: Arc<World>,
    popularity: FleetPopularity,
    nodes: Vec<PlacementNode>,
    left_out: Vec<LeftOutNode>,
    bounded: Vec<String>,
}

pub(super) fn parts(core: &Core, absent: Absent, now: Now) -> PlanParts {
    let places = places(core);
    let (mut nodes, mut left_out) = (Vec::new(), Vec::new());
    for ((name, wanted), weight) in core.world.nodes.iter().zip(weights::of(core)) {
        let weighs = |mut node: PlacementNode| {
            node.ceiling_bits_per_second = weight.bits_per_second;
            node
        };
        match node(core, name, wanted, &places, now) {
            Ok(node) => nodes.push(weighs(node)),
            Err(_) if keeps(core, name, wanted, absent, now) => {
                nodes.extend(kept(core, name, wanted).map(weighs));
            }
            // It is gone for good, so operators need no explanation.
            Err(_) if wanted.is_revoked => {}
            Err(why) => left_out.push(LeftOutNode { node: name.clone(), why }),
        }
    }
    let sizes = |node: &PlacementNode| {
        let sizes = node.holds.iter().map(|title| core.world.titles[*title as usize].bytes);
        sizes.fold(0, u64::saturating_add)
    };
    let held: Vec<u64> = nodes.iter().map(sizes).collect();
    let bounded = weights::bound_rooms(&mut nodes, &held);
    let (world, popularity) = (Arc::clone(&core.world), core.watching.popularity.clone());
    PlanParts { world, popularity, nodes, left_out, bounded }
}

impl PlanParts {
    pub(super) fn basis(self, now: Now) -> PlanBasis {
        let forecasts = self.forecasts(now);
        let titles = &self.world.titles;
        let demand = forecasts.iter().map(|forecast| {
            let expected = forecast.titles.iter().map(|title| TitleDemand {
                title: title.title,
                starts: starts(title, titles[title.title as usize].bytes),
                bytes: title.count.bytes,
            });
            RegionDemand { region: forecast.region.clone(), titles: expected.collect() }
        });
        let placed = titles.iter().map(|title| PlacementTitle {
            path: title.path.clone(),
            bytes: title.bytes,
            pins: self.world.pins.get(&title.path).cloned().unwrap_or_default(),
        });
        let input = PlacementInput {
            titles: placed.collect(),
            demand: demand.collect(),
            nodes: self.nodes,
            policy: self.world.placement.clone(),
        };
        let placed = self.world.placed.as_ref();
        PlanBasis {
            input,
            forecasts,
            left_out: self.left_out,
            bounded: self.bounded,
            planned_unix_seconds: placed.map(|placed| placed.planned_unix_seconds),
        }
    }

    fn forecasts(&self, now: Now) -> Vec<RegionForecast> {
        let known = self.world.titles.iter().map(|title| KnownTitle {
            path: &title.path,
            published_unix_seconds: title.published_unix_seconds,
            series: self.world.series.get(&title.path).map(String::as_str),
            pinned: self.pinned_in(&title.path),
        });
        self.popularity.forecast(&known.collect::<Vec<_>>(), now.unix_seconds())
    }

    /// The regions of a title's pins.
    fn pinned_in(&self, path: &str) -> PinnedIn {
        let mut regions = Vec::new();
        for pin in self.world.pins.get(path).into_iter().flatten() {
            match &pin.scope {
                PinScope::Everywhere => return PinnedIn::Everywhere,
                PinScope::Region(region) => regions.push(region.clone()),
                PinScope::Site(site) => {
                    regions.extend(self.world.sites.get(site).map(|site| site.region.clone()));
                }
            }
        }
        PinnedIn::Regions(regions)
    }
}

/// Players of titles with one file per segment open no file that counts as a start. But a viewer who takes all bytes of a title has certainly
/// started it.
fn starts(forecast: &TitleForecast, title_bytes: u64) -> u64 {
    forecast.count.starts.max(forecast.count.bytes / title_bytes.max(1))
}

/// Checks that a node can be part of a plan made now; the error is the reason why it can't.
pub(super) fn is_ready<'c>(
    core: &'c Core,
    name: &Name,
    wanted: &WantedNode,
    now: Now,
) -> Result<&'c LiveNode, &'static str> {
    let live = core.nodes.get(name).ok_or("it is not known yet")?;
    match core.state_of(name) {
        State::Revoked => return Err("it is revoked"),
        State::Lost => return Err("it is lost"),
        State::Joining => return Err("it has not reported yet that it serves"),
        State::Serving => {}
        State::Draining | State::Drained if is_drained_for_good(wanted, now) => {
            return Err("it is drained without an end");
        }
        // A node that returns by itself keeps its titles.
        State::Draining | State::Drained => {}
    }
    live.heard.as_ref().map(|_| live).ok_or("it has not reported its free space yet")
}

fn is_drained_for_good(wanted: &WantedNode, now: Now) -> bool {
    let drain = wanted.drain.as_ref().filter(|drain| drain.holds(now.unix_seconds()));
    drain.is_some_and(|drain| drain.returns_unix_seconds.is_none())
}

/// Whether a node is out of service: it is lost, or drained without an end.
pub(super) fn is_absent(core: &Core, name: &Name, wanted: &WantedNode, now: Now) -> bool {
    core.state_of(name) == State::Lost || is_drained_for_good(wanted, now)
}

/// Whether a node that is not ready keeps its part of the current plan. Nodes that are restarting, or have not reported to this gateway yet, do.
fn keeps(core: &Core, name: &Name, wanted: &WantedNode, absent: Absent, now: Now) -> bool {
    let is_placed = core.world.placed.as_ref().is_some_and(|placed| placed.has(name));
    let is_away = match absent {
        Absent::LeaveOut => is_absent(core, name, wanted, now),
        Absent::Keep => upkeep::is_gone(core, name, now),
    };
    is_placed && !wanted.is_revoked && !is_away
}

/// A node that keeps its part of the current plan, and gets nothing more.
fn kept(core: &Core, name: &Name, wanted: &WantedNode) -> Option<PlacementNode> {
    let copies = core.world.placed.as_ref()?.of(name);
    let holds: Vec<u32> = copies.iter().map(|copy| copy.title).collect();
    let bytes = holds.iter().map(|title| core.world.titles[*title as usize].bytes);
    let room_bytes = bytes.fold(0, u64::saturating_add);
    placed_node(core, name, wanted, room_bytes, holds)
}

/// The node in placement's form, or why it can't be part of a plan.
fn node(
    core: &Core,
    name: &Name,
    wanted: &WantedNode,
    places: &[u32],
    now: Now,
) -> Result<PlacementNode, &'static str> {
    let live = is_ready(core, name, wanted, now)?;
    let free_bytes = live.heard.as_ref().map_or(0, |heard| heard.load.free_bytes);
    let held = holds(live, places);
    let bytes = held.iter().map(|title| core.world.titles[*title as usize].bytes);
    // Titles that the plan no longer assigns are removed when their space is needed.
    let room_bytes = bytes.fold(free_bytes, u64::saturating_add);
    let placed = core.world.placed.as_ref().filter(|placed| placed.has(name));
    let holds = placed.map(|placed| placed.of(name).iter().map(|copy| copy.title).collect());
    placed_node(core, name, wanted, room_bytes, holds.unwrap_or(held)).ok_or("its site is unknown")
}

fn placed_node(
    core: &Core,
    name: &Name,
    wanted: &WantedNode,
    room_bytes: u64,
    holds: Vec<u32>,
) -> Option<PlacementNode> {
    let site = core.world.sites.get(&wanted.place.site)?;
    let live = core.nodes.get(name)?;
    // The caller sets its weight.
    Some(PlacementNode {
        name: name.clone(),
        place: wanted.place.clone(),
        region: site.region.clone(),
        kind: wanted.kind,
        room_bytes,
        ceiling_bits_per_second: 0,
        fill_bytes_max: live.heard.as_ref().and_then(|heard| heard.fill_bytes_per_day),
        holds,
    })
}
