//! What a plan would do: placement's answer to what this gateway knows, in figures for operators.

use std::collections::BTreeMap;

use fleet::{Digest, Name};
use placement::{ClusterManifest, PlacementError, PlacementPolicy, Plan, Why};
use popularity::{Prior, RegionForecast};
use serde::Serialize;

use crate::buying::{BuyHint, hints};
use crate::live::{LeftOutNode, PlanBasis};

/// What would move if the plan were made now.
#[derive(Clone, Debug, Serialize)]
pub struct DryRun {
    /// When titles were last placed by a plan that was carried out, since 1970; `None` while nodes hold everything.
    pub planned_unix_seconds: Option<u64>,
    /// By which bounds it was made.
    pub policy: PlacementPolicy,
    /// Whether this plan is carried out: nodes are told something new.
    pub is_applied: bool,
    /// What is expected in each region.
    pub regions: Vec<RegionOutlook>,
    /// Bytes that viewers are expected to watch in the coming day.
    pub watched_bytes: u64,
    /// How much of that is at sites that hold the title now, in thousandths; `None` if nothing is expected.
    pub near_before_permille: Option<u32>,
    /// How much of it would be.
    pub near_after_permille: Option<u32>,
    /// Copies to bring, by why.
    pub moves: BTreeMap<Why, MovedSum>,
    /// Bytes to bring in all.
    pub moved_bytes: u64,
    /// What each cluster would bring and drop.
    pub clusters: Vec<ClusterChange>,
    /// The most urgent copies to bring.
    pub first_moves: Vec<TitleMove>,
    /// Copies that pins want and that find no room.
    pub pins_unmet: u64,
    /// Copies that the floor wants and that find no room.
    pub floors_unmet: u64,
    /// Nodes that are no part of the plan.
    pub left_out: Vec<LeftOutNode>,
    /// Figures reported by nodes that the plan leaves out, a sentence each.
    pub bounded: Vec<String>,
    /// What binds, and what to buy next.
    pub buy: Vec<BuyHint>,
}

/// What viewers of a region are expected to watch in the coming day.
#[derive(Clone, Debug, Serialize)]
pub struct RegionOutlook {
    /// The region.
    pub region: Name,
    /// Starts.
    pub starts: u64,
    /// Bytes.
    pub bytes: u64,
    /// How many titles are new, and expected to be watched as others that were new.
    pub new_titles: usize,
    /// How many of them are compared with their series.
    pub new_in_series: usize,
    /// How much of what is watched has changed from the last week to the last day, in thousandths.
    pub changed_permille: u32,
    /// The coming day beside an average one, in thousandths.
    pub day_permille: u32,
    /// Since when its viewers are counted, since 1970.
    pub since_unix_seconds: u64,
}

/// Some copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MovedSum {
    /// How many.
    pub copies: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What a cluster would bring and drop.
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
    /// What it would bring.
    pub brought: MovedSum,
    /// What it would no longer hold.
    pub dropped: MovedSum,
}

/// A copy to bring.
#[derive(Clone, Debug, Serialize)]
pub struct TitleMove {
    /// The node that would bring it.
    pub node: Name,
    /// The title.
    pub title: String,
    /// Its bytes.
    pub bytes: u64,
    /// Why.
    pub why: Why,
    /// What viewers of the node's site are expected to watch of it in a day.
    pub watched_bytes: u64,
}

impl MovedSum {
    fn add(&mut self, bytes: u64) {
        self.copies += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// Plans, and says what would move: in all, by cluster, and the first so many moves. Also returns the manifests.
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
