//! What a plan is made from: placement's input, as this gateway knows it.

use std::sync::Arc;

use fleet::{Name, State};
use placement::{PlacementInput, PlacementNode, PlacementTitle, RegionDemand, TitleDemand};
use popularity::{FleetPopularity, KnownTitle, RegionForecast, TitleForecast};
use serde::Serialize;

use super::core::Core;
use super::snapshot::{holds, places};
use super::world::{WantedNode, World};
use crate::clock::Now;

/// All that a plan is made from.
pub struct PlanBasis {
    /// For placement.
    pub input: PlacementInput,
    /// What the demand in it follows from.
    pub forecasts: Vec<RegionForecast>,
    /// Nodes that are no part of the plan.
    pub left_out: Vec<LeftOutNode>,
}

/// A node that gets nothing by a plan that is made now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOutNode {
    /// Its name.
    pub node: Name,
    /// Why.
    pub why: &'static str,
}

/// What of it the core has to say. The rest takes longer, and needs no lock.
pub(super) struct PlanParts {
    world: Arc<World>,
    popularity: FleetPopularity,
    nodes: Vec<PlacementNode>,
    left_out: Vec<LeftOutNode>,
}

pub(super) fn parts(core: &Core, now: Now) -> PlanParts {
    let places = places(core);
    let (mut nodes, mut left_out) = (Vec::new(), Vec::new());
    for (name, wanted) in &core.world.nodes {
        match node(core, name, wanted, &places, now) {
            Ok(node) => nodes.push(node),
            // It is gone for good, and nobody wonders where it is.
            Err(_) if wanted.is_revoked => {}
            Err(why) => left_out.push(LeftOutNode { node: name.clone(), why }),
        }
    }
    let (world, popularity) = (Arc::clone(&core.world), core.watching.popularity.clone());
    PlanParts { world, popularity, nodes, left_out }
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
            ..PlacementInput::default()
        };
        PlanBasis { input, forecasts, left_out: self.left_out }
    }

    fn forecasts(&self, now: Now) -> Vec<RegionForecast> {
        let known = self.world.titles.iter().map(|title| KnownTitle {
            path: &title.path,
            published_unix_seconds: title.published_unix_seconds,
            is_pinned: self.world.pins.contains_key(&title.path),
        });
        self.popularity.forecast(&known.collect::<Vec<_>>(), now.unix_seconds())
    }
}

/// Players of titles whose segments are files of their own open nothing that counts as a start. Whoever takes as much as all of a title has started
/// it, though.
fn starts(forecast: &TitleForecast, title_bytes: u64) -> u64 {
    forecast.count.starts.max(forecast.count.bytes / title_bytes.max(1))
}

/// The node as placement sees it, or why it is no part of a plan.
fn node(
    core: &Core,
    name: &Name,
    wanted: &WantedNode,
    places: &[u32],
    now: Now,
) -> Result<PlacementNode, &'static str> {
    let live = core.nodes.get(name).ok_or("it is not known yet")?;
    match core.state_of(name) {
        State::Revoked => return Err("it is revoked"),
        State::Lost => return Err("it is lost"),
        State::Joining => return Err("it has not said yet that it serves"),
        State::Serving => {}
        // Who comes back by itself keeps what it holds.
        State::Draining | State::Drained => {
            let drain = wanted.drain.as_ref().filter(|drain| drain.holds(now.unix_seconds()));
            if drain.is_some_and(|drain| drain.returns_unix_seconds.is_none()) {
                return Err("it is drained, and nobody has said until when");
            }
        }
    }
    let heard = live.heard.as_ref().ok_or("it has not said yet what room it has")?;
    let holds = holds(live, places);
    let held = holds.iter().map(|title| core.world.titles[*title as usize].bytes);
    let room = held.fold(heard.load.free_bytes, u64::saturating_add);
    let site = core.world.sites.get(&wanted.place.site).ok_or("its site is not known")?;
    Ok(PlacementNode {
        name: name.clone(),
        place: wanted.place.clone(),
        region: site.region.clone(),
        kind: wanted.kind,
        room_bytes: room,
        ceiling_bits_per_second: live.ceiling_bits_per_second(wanted),
        fill_bytes_max: None,
        holds,
    })
}
