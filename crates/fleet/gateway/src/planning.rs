//! Dry runs: the changes that a new plan would make, in figures for operators.

use std::collections::BTreeMap;

use fleet_protocol::{Digest, Name};
use placement::popularity::{Prior, RegionForecast};
use placement::{ClusterManifest, PlacementError, PlacementPolicy, Plan, Why};
use serde::Serialize;

use crate::buying::{BuyHint, hints};
use crate::live::{LeftOutNode, PlanBasis};

/// The changes that a plan made now would bring about.
#[derive(Clone, Debug, Serialize)]
pub struct DryRun {
    /// When demand was last used to place titles, since 1970; `None` while every node holds every title.
    pub planned_unix_seconds: Option<u64>,
    /// The policy that it follows.
    pub policy: PlacementPolicy,
    /// Whether this plan was applied, and changed what nodes hold.
    pub is_applied: bool,
    /// Expected demand by region.
    pub regions: Vec<RegionOutlook>,
    /// Expected demand in the next 24 hours, in bytes.
    pub watched_bytes: u64,
    /// Share of it at sites that hold the title now, in thousandths; `None` if no demand is expected.
    pub near_before_permille: Option<u32>,
    /// The same share after the plan.
    pub near_after_permille: Option<u32>,
    /// Copies to fetch, by reason.
    pub moves: BTreeMap<Why, MovedSum>,
    /// Bytes to fetch in total.
    pub moved_bytes: u64,
    /// Copies that each cluster would fetch and drop.
    pub clusters: Vec<ClusterChange>,
    /// The most urgent copies to fetch.
    pub first_moves: Vec<TitleMove>,
    /// Copies that pins require and that find no room.
    pub pins_unmet: u64,
    /// Copies that the floor requires and that find no room.
    pub floors_unmet: u64,
    /// Nodes excluded from the plan.
    pub left_out: Vec<LeftOutNode>,
    /// Implausible figures of nodes that the plan caps or ignores, one sentence each.
    pub bounded: Vec<String>,
    /// Bottlenecks, and what to buy next.
    pub buy: Vec<BuyHint>,
}

/// Expected demand of a region's viewers in the next 24 hours.
#[derive(Clone, Debug, Serialize)]
pub struct RegionOutlook {
    /// The region.
    pub region: Name,
    /// Starts.
    pub starts: u64,
    /// Bytes.
    pub bytes: u64,
    /// Number of new titles, for which the demand of other new titles is assumed.
    pub new_titles: usize,
    /// Number of them that are compared with their series.
    pub new_in_series: usize,
    /// How much the demand's distribution over titles changed from the last week to the last day, in thousandths.
    pub changed_permille: u32,
    /// The coming day compared with an average one, in thousandths.
    pub day_permille: u32,
    /// When counting of its viewers began, since 1970.
    pub since_unix_seconds: u64,
}

/// A number of copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MovedSum {
    /// Number of copies.
    pub copies: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Copies that a cluster would fetch and drop.
#[derive(Clone, Debug, Serialize)]
pub struct ClusterChange {
    /// Its site.
    pub site: Name,
    /// Its name.
    pub cluster: Name,
    /// Its manifest.
    pub manifest: Digest,
    /// Titles that it would hold.
    pub titles: usize,
    /// Copies that it would fetch.
    pub brought: MovedSum,
    /// Copies that it would drop.
    pub dropped: MovedSum,
}

/// A copy to fetch.
#[derive(Clone, Debug, Serialize)]
pub struct TitleMove {
    /// The node that would fetch it.
    pub node: Name,
    /// The title.
    pub title: String,
    /// Its bytes.
    pub bytes: u64,
    /// The reason.
    pub why: Why,
    /// Expected demand at the node's site, in bytes a day.
    pub watched_bytes: u64,
}

impl MovedSum {
    fn add(&mut self, bytes: u64) {
        self.copies += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// Makes a plan and summarizes its moves: in total, by cluster, and the first `moves_max` one by one. Also returns the manifests.
///
/// # Errors
/// Those of placement.
pub fn dry_run(
    basis: PlanBasis,
    moves_max: usize,
) -> Result<(DryRun, Vec<ClusterManifest>), PlacementError> {
    let PlanBasis { input, forecasts, left_out, bounded, planned_unix_seconds } = basis;
    let bytes: BTreeMap<String, u64> =
        input.titles.iter().map(|title| (title.path.clone(), title.bytes)).collect();
    let policy = input.policy.clone();
    let plan = placement::plan(input)?;
    let mut moves: BTreeMap<Why, MovedSum> = BTreeMap::new();
    plan.moves().for_each(|step| moves.entry(step.why).or_default().add(step.bytes));
    let manifests: Vec<ClusterManifest> = plan.manifests().collect();
    let told = DryRun {
        planned_unix_seconds,
        policy,
        is_applied: false,
        regions: forecasts.iter().map(outlook).collect(),
        watched_bytes: small(plan.watched_bytes),
        near_before_permille: share(plan.near_before_bytes, plan.watched_bytes),
        near_after_permille: share(plan.near_after_bytes, plan.watched_bytes),
        moves,
        moved_bytes: small(plan.moved_bytes()),
        clusters: clusters(&plan, &manifests, &bytes),
        first_moves: first_moves(&plan, moves_max),
        pins_unmet: plan.pins_unmet,
        floors_unmet: plan.floors_unmet,
        left_out,
        bounded,
        buy: hints(&plan),
    };
    Ok((told, manifests))
}

fn small(bytes: u128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

fn share(part: u128, of: u128) -> Option<u32> {
    (part * 1000).checked_div(of).and_then(|share| u32::try_from(share).ok())
}

fn outlook(forecast: &RegionForecast) -> RegionOutlook {
    let counts = || forecast.titles.iter().map(|title| title.count);
    RegionOutlook {
        region: forecast.region.clone(),
        starts: counts().fold(0, |sum, one| sum.saturating_add(one.starts)),
        bytes: counts().fold(0, |sum, one| sum.saturating_add(one.bytes)),
        new_titles: forecast.titles.iter().filter(|title| title.prior.is_some()).count(),
        new_in_series: forecast
            .titles
            .iter()
            .filter(|title| title.prior == Some(Prior::Series))
            .count(),
        changed_permille: forecast.changed_permille,
        day_permille: forecast.day_permille,
        since_unix_seconds: forecast.since_unix_seconds,
    }
}

fn clusters(
    plan: &Plan,
    manifests: &[ClusterManifest],
    bytes: &BTreeMap<String, u64>,
) -> Vec<ClusterChange> {
    let titles: Vec<&str> = plan.titles().collect();
    let places: BTreeMap<&Name, usize> =
        plan.nodes().enumerate().map(|(at, node)| (node, at)).collect();
    let mut brought = vec![MovedSum::default(); places.len()];
    plan.moves().for_each(|step| brought[step.node].add(step.bytes));
    let change = |manifest: &ClusterManifest| {
        let mut change = ClusterChange {
            manifest: manifest.digest(),
            site: manifest.site.clone(),
            cluster: manifest.cluster.clone(),
            titles: manifest.titles.len(),
            brought: MovedSum::default(),
            dropped: MovedSum::default(),
        };
        for node in manifest.nodes.iter().filter_map(|node| places.get(node).copied()) {
            change.brought.copies += brought[node].copies;
            change.brought.bytes = change.brought.bytes.saturating_add(brought[node].bytes);
            plan.dropped(node).for_each(|title| {
                change.dropped.add(bytes.get(titles[title as usize]).copied().unwrap_or(0));
            });
        }
        change
    };
    manifests.iter().map(change).collect()
}

fn first_moves(plan: &Plan, moves_max: usize) -> Vec<TitleMove> {
    let nodes: Vec<&Name> = plan.nodes().collect();
    let titles: Vec<&str> = plan.titles().collect();
    let told = |step: placement::PlannedMove| TitleMove {
        node: nodes[step.node].clone(),
        title: titles[step.title].to_owned(),
        bytes: step.bytes,
        why: step.why,
        watched_bytes: step.watched_bytes,
    };
    plan.moves().take(moves_max).map(told).collect()
}
