//! The fleet as operators see it: for the page, the API and the metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use fleet_protocol::{
    FillProgress, HeldTitle, Load, Name, NodeKind, NodePlace, Prefix, PublishedTitle, ReceiptState,
    ServedAt, SheddingReason, State,
};
use placement::Why;
use serde::Serialize;
use steering::NodeWeight;

use super::core::Core;
use super::node::{self, LiveNode, SILENCE_OF_DEATH};
use super::snapshot::{self, places};
use super::weights;
use super::world::WantedNode;
use crate::clock::Now;

/// Larger clock errors are reported.
pub const CLOCK_OFF_MILLIS_MAX: u64 = 1000;

/// The fleet at one moment, from one gateway's point of view.
#[derive(Clone, Debug, Serialize)]
pub struct FleetView {
    /// The gateway.
    pub gateway: Name,
    /// When, since 1970.
    pub unix_millis: u64,
    /// Rises when a backup is restored.
    pub epoch: u64,
    /// The number of the newest snapshot.
    pub snapshot: u64,
    /// Why silent nodes are not declared lost at present, if they are not.
    pub frozen: Option<String>,
    /// Lifetime of steering answers.
    pub ttl_seconds: u32,
    /// The load from which a node is full, in thousandths.
    pub full_permille: u16,
    /// Sites, by name.
    pub sites: Vec<SiteView>,
    /// Nodes, by name.
    pub nodes: Vec<NodeView>,
    /// Numbers of titles.
    pub titles: TitleCounts,
}

/// A site.
#[derive(Clone, Debug, Serialize)]
pub struct SiteView {
    /// Its name.
    pub name: Name,
    /// Its region.
    pub region: Name,
    /// Number of prefixes it announces.
    pub prefixes: usize,
    /// Number of further prefixes in its file and its feeds that are outside its allow-list.
    pub prefixes_refused: u64,
    /// Number of nodes that feed its routers' routes.
    pub feeds: usize,
}

/// A node that feeds its router's routes.
#[derive(Clone, Debug, Serialize)]
pub struct FeedView {
    /// The node.
    pub node: Name,
    /// Number of its routes within the site's allow-list.
    pub believed: usize,
    /// Number of its routes outside it.
    pub refused: u64,
    /// The first of those.
    pub first_refused: Option<Prefix>,
    /// Time since its last update.
    pub silent_millis: u64,
}

/// Numbers of titles.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct TitleCounts {
    /// Published titles.
    pub published: usize,
    /// Versions that must not be served.
    pub withdrawn: usize,
    /// Published titles that some of their nodes do not have yet.
    pub incomplete: usize,
}

/// A node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeView {
    /// Its name.
    pub name: Name,
    /// Its place in the fleet.
    #[serde(flatten)]
    pub place: NodePlace,
    /// Its kind.
    pub kind: NodeKind,
    /// The host of its addresses.
    pub host: String,
    /// Its state, as determined by this gateway.
    pub state: State,
    /// Since when, since 1970.
    pub since_unix_millis: u64,
    /// Why, in words, plus further problems; `None` if it serves normally.
    pub reason: Option<String>,
    /// Whether an operator has drained it, also if it is lost.
    pub is_drained: bool,
    /// When it returns to service by itself after draining, since 1970.
    pub returns_unix_seconds: Option<u64>,
    /// Why it wants no new viewers.
    pub not_me: Vec<SheddingReason>,
    /// Time since its last heartbeat; `None` if there was none since this gateway started.
    pub silent_millis: Option<u64>,
    /// Its clock minus the gateway's.
    pub clock_off_millis: Option<i64>,
    /// Its load.
    #[serde(flatten)]
    pub load: Load,
    /// Load relative to the ceiling, in thousandths.
    pub load_permille: u16,
    /// Its weight relative to other nodes, for viewers and titles.
    pub weight_bits_per_second: u64,
    /// The bound on the weight, if the node's own figure doesn't count.
    pub weight_note: Option<String>,
    /// Number of published titles that it holds.
    pub titles: usize,
    /// Number of titles that it should hold and does not.
    pub missing: usize,
    /// Number of withdrawals that it has not confirmed.
    pub receipts_waiting: usize,
    /// Copies that it still has to fetch, as reported by the node.
    pub fill: Option<FillProgress>,
    /// How its server serves viewers, if that differs from the fleet's policy.
    pub served_at: Option<ServedAt>,
}

/// A title in a list.
#[derive(Clone, Debug, Serialize)]
pub struct TitleView {
    /// Its path.
    pub title: String,
    /// The version.
    pub digest: String,
    /// Bytes of all its files; 0 for a withdrawn version.
    pub bytes: u64,
    /// Playing time; 0 for a withdrawn version.
    pub duration_seconds: f64,
    /// Whether it is published.
    pub state: TitleState,
    /// Number of nodes that hold it.
    pub holders: usize,
    /// Number of nodes that should.
    pub wanted: usize,
}

/// Whether a title is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TitleState {
    /// Viewers get it.
    Published,
    /// It must not be served.
    Withdrawn,
}

/// Why a node should hold a title.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WhyHeld {
    /// There is no plan: every node holds every title.
    Everything,
    /// A pin requires it there.
    Pin,
    /// It is one of the copies that every title has.
    Floor,
    /// Demand is expected there.
    Demand,
    /// It was there already, and its space is not needed.
    Spare,
}

impl From<Why> for WhyHeld {
    fn from(why: Why) -> Self {
        match why {
            Why::Pin => Self::Pin,
            Why::Floor => Self::Floor,
            Why::Demand => Self::Demand,
            Why::Spare => Self::Spare,
        }
    }
}

/// A planned change of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CopyMove {
    /// The node should hold it, and does not yet.
    Comes,
    /// The plan assigns it to other nodes: it is removed once enough of them hold it and no viewer watches it here.
    Goes,
}

/// A title's status on one node.
#[derive(Clone, Debug, Serialize)]
pub struct TitleAtNode {
    /// The node.
    pub node: Name,
    /// Its site.
    pub site: Name,
    /// The node's state.
    pub state: State,
    /// Whether it holds the published version.
    pub holds: bool,
    /// Why it should, if it should.
    pub why: Option<WhyHeld>,
    /// Whether it will be fetched or removed.
    pub moves: Option<CopyMove>,
    /// Status of the withdrawn versions on it, if there are any.
    pub receipt: Option<WithdrawnState>,
}

/// Status of a withdrawn version on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WithdrawnState {
    /// The node reports that it cannot remove it.
    Failed,
    /// The node has not reported on it yet.
    Waiting,
    /// The node reports that it has removed it.
    Removed,
    /// The node reports that it never had it.
    Absent,
}

pub(super) fn of(core: &Core, now: Now) -> FleetView {
    let world = &core.world;
    let places = places(core);
    // Counts only nodes that should hold the title.
    let mut holders = vec![0_usize; world.titles.len()];
    let mut nodes = Vec::with_capacity(world.nodes.len());
    for ((name, wanted), weight) in world.nodes.iter().zip(weights::of(core)) {
        let Some(live) = core.nodes.get(name) else { continue };
        let held = snapshot::holds(live, &places);
        let mut missing = shall_hold(core, name);
        for place in &held {
            if world.wants(name, *place) {
                missing -= 1;
                holders[*place as usize] += usize::from(!wanted.is_revoked);
            }
        }
        nodes.push(node(core, name, wanted, (live, weight), (held.len(), missing), now));
    }
    let takers = takers(core).count();
    let wanted = |title: usize| match &world.placed {
        Some(placed) => placed.copies(title as u32) as usize,
        None => takers,
    };
    // A title without a place in the plan has no holder that counts, so it is incomplete.
    let is_incomplete = |title: &usize| holders[*title] < wanted(*title).max(1).min(takers);
    FleetView {
        gateway: core.gateway.clone(),
        unix_millis: now.unix_millis,
        epoch: world.epoch,
        snapshot: core.number,
        frozen: core.detector.since().map(|since| frozen(core, since, now)),
        ttl_seconds: world.policy.ttl_seconds,
        full_permille: world.policy.full_permille,
        sites: world.sites.values().map(|one| site(core, one, now)).collect(),
        nodes,
        titles: TitleCounts {
            published: world.titles.len(),
            withdrawn: world.withdrawn.len(),
            incomplete: (0..holders.len()).filter(is_incomplete).count(),
        },
    }
}

fn frozen(core: &Core, since: Duration, now: Now) -> String {
    let seconds = now.uptime.saturating_sub(since).as_secs();
    format!(
        "{} nodes fell silent at once {seconds} s ago, so this gateway may have lost its own connection and keeps their states. \
         The nodes that it still hears can reach {} of them; the others become lost as soon as those nodes report that they can't be reached. \
         If the silent nodes are really dead, confirm it: fullbore control nodes --believe-silence",
        core.detector.count(),
        core.detector.reached(now.uptime)
    )
}

fn site(core: &Core, site: &fleet_protocol::Site, now: Now) -> SiteView {
    let of_file = core.world.refused.get(&site.name).map_or(0, |sifted| sifted.refused);
    let of_feeds = core.feeds.of_site(&site.name, now).map(|(_, feed, _)| feed.sifted.refused);
    SiteView {
        name: site.name.clone(),
        region: site.region.clone(),
        prefixes: core.feeds.announced(site).len(),
        prefixes_refused: of_file + of_feeds.sum::<u64>(),
        feeds: core.feeds.of_site(&site.name, now).count(),
    }
}

pub(super) fn feeds(core: &Core, site: &Name, now: Now) -> Vec<FeedView> {
    let feeds = core.feeds.of_site(site, now);
    let view = feeds.map(|(node, feed, silence)| FeedView {
        node: node.clone(),
        believed: feed.sifted.believed.len(),
        refused: feed.sifted.refused,
        first_refused: feed.sifted.first_refused,
        silent_millis: silence.as_millis() as u64,
    });
    view.collect()
}

/// Number of titles that a node should hold.
fn shall_hold(core: &Core, name: &Name) -> usize {
    let world = &core.world;
    world.placed.as_ref().map_or(world.titles.len(), |placed| placed.of(name).len())
}

/// `titles`: the number that it holds, and the number that it lacks.
fn node(
    core: &Core,
    name: &Name,
    wanted: &WantedNode,
    (live, weight): (&LiveNode, NodeWeight),
    (titles, missing): (usize, usize),
    now: Now,
) -> NodeView {
    let (state, since_unix_millis) = live.told.unwrap_or((State::Joining, now.unix_millis));
    let drain = wanted.drain.as_ref().filter(|drain| drain.holds(now.unix_seconds()));
    let heard = live.heard.as_ref();
    let silence = live.silence(now);
    let waits = |held: &&HeldTitle| receipt(core, name, held) == WithdrawnState::Waiting;
    NodeView {
        name: name.clone(),
        place: wanted.place.clone(),
        kind: wanted.kind,
        host: wanted.host.clone(),
        state,
        since_unix_millis,
        reason: node::why(live, state, wanted, now),
        is_drained: drain.is_some(),
        returns_unix_seconds: drain.and_then(|drain| drain.returns_unix_seconds),
        not_me: live.not_me().to_vec(),
        silent_millis: heard.and(silence).map(|silence| silence.as_millis() as u64),
        clock_off_millis: heard.map(|heard| heard.clock_ahead_millis),
        load: load(live, wanted, silence),
        load_permille: match carries_unknown(silence) {
            true => 0,
            false => live.load_permille(wanted),
        },
        weight_bits_per_second: weight.bits_per_second,
        weight_note: weights::note(live, wanted, weight),
        titles,
        missing: match wanted.is_revoked {
            true => 0,
            false => missing,
        },
        receipts_waiting: match wanted.is_revoked {
            true => 0,
            false => core.world.withdrawn.iter().filter(waits).count(),
        },
        fill: heard.and_then(|heard| heard.fill.clone()),
        // The policy may have changed since the heartbeat.
        served_at: heard
            .and_then(|heard| heard.served_at.clone())
            .filter(|own| *own != core.world.policy.served_at()),
    }
}

/// Whether a node has been silent for so long that its reported viewers are out of date, whatever its state.
fn carries_unknown(silence: Option<Duration>) -> bool {
    silence.is_some_and(|silence| silence >= SILENCE_OF_DEATH)
}

/// A node's load. For a silent node, only the machine's own properties remain valid: its ceiling and its disks.
fn load(live: &LiveNode, wanted: &WantedNode, silence: Option<Duration>) -> Load {
    let said = live.heard.as_ref().map(|heard| heard.load).unwrap_or_default();
    let ceiling_bits_per_second = live.ceiling_bits_per_second(wanted);
    match carries_unknown(silence) {
        true => Load { ceiling_bits_per_second, free_bytes: said.free_bytes, ..Load::default() },
        false => Load { ceiling_bits_per_second, ..said },
    }
}

/// The nodes that may hold published titles.
fn takers(core: &Core) -> impl Iterator<Item = (&Name, &WantedNode)> {
    core.world.nodes.iter().filter(|(_, wanted)| !wanted.is_revoked)
}

/// Whether a node holds a version, by its inventory.
pub(super) fn holds(core: &Core, name: &Name, held: &HeldTitle) -> bool {
    let number = core.held_versions.number(held);
    let live = core.nodes.get(name);
    number.zip(live).is_some_and(|(number, live)| live.held.binary_search(&number).is_ok())
}

fn receipt(core: &Core, name: &Name, held: &HeldTitle) -> WithdrawnState {
    match core.receipts.get(held).and_then(|said| said.get(name)) {
        Some(ReceiptState::Removed) => WithdrawnState::Removed,
        Some(ReceiptState::Absent) => WithdrawnState::Absent,
        Some(ReceiptState::Failed) => WithdrawnState::Failed,
        None => WithdrawnState::Waiting,
    }
}

/// The titles whose paths contain `search`, at most `limit` of them, and the total number.
pub(super) fn titles(core: &Core, search: &str, limit: usize) -> (usize, Vec<TitleView>) {
    let world = &core.world;
    let published = world.titles.iter().filter(|title| title.path.contains(search));
    let is_published =
        |path: &str| world.titles.binary_search_by(|title| title.path.as_str().cmp(path)).is_ok();
    let withdrawn = world.withdrawn.iter().filter(|held| held.path.contains(search));
    let withdrawn = withdrawn.filter(|held| !is_published(&held.path));
    // One row per title, even if several of its versions are withdrawn.
    let withdrawn: BTreeMap<_, _> = withdrawn.map(|held| (held.path.as_str(), held)).collect();
    let total = published.clone().count() + withdrawn.len();
    let views = published.map(|title| published_view(core, title));
    let views = views.chain(withdrawn.into_values().map(|held| withdrawn_view(core, held)));
    (total, views.take(limit).collect())
}

fn published_view(core: &Core, title: &PublishedTitle) -> TitleView {
    let held = title.held();
    let shall = |name: &Name| why(core, name, &title.path).is_some();
    TitleView {
        title: title.path.clone(),
        digest: title.version.to_string(),
        bytes: title.bytes,
        duration_seconds: title.duration_seconds,
        state: TitleState::Published,
        holders: takers(core).filter(|(name, _)| holds(core, name, &held)).count(),
        wanted: takers(core).filter(|(name, _)| shall(name)).count(),
    }
}

fn withdrawn_view(core: &Core, held: &HeldTitle) -> TitleView {
    TitleView {
        title: held.path.clone(),
        digest: held.version.to_string(),
        bytes: 0,
        duration_seconds: 0.0,
        state: TitleState::Withdrawn,
        holders: takers(core).filter(|(name, _)| holds(core, name, held)).count(),
        wanted: 0,
    }
}

/// Why a node should hold the published title at `path`, if it should.
fn why(core: &Core, name: &Name, path: &str) -> Option<WhyHeld> {
    let title = core.world.place_of(path)?;
    match &core.world.placed {
        None => Some(WhyHeld::Everything),
        Some(placed) => placed.copy(name, title).map(|copy| copy.why.into()),
    }
}

/// The planned change of a copy. A node outside the plan keeps what it holds, and so does every node for titles without a place in the plan.
fn moves(core: &Core, name: &Name, path: &str, is_held: bool) -> Option<CopyMove> {
    match (why(core, name, path), is_held) {
        (Some(_), false) => Some(CopyMove::Comes),
        (None, true) => {
            let placed = core.world.placed.as_ref().filter(|placed| placed.has(name))?;
            let title = core.world.place_of(path)?;
            (placed.copies(title) > 0).then_some(CopyMove::Goes)
        }
        _ => None,
    }
}

/// The nodes with the title at `path`; `None` if it was never published.
pub(super) fn title_at_nodes(core: &Core, path: &str) -> Option<(TitleState, Vec<TitleAtNode>)> {
    let world = &core.world;
    let published = world.titles.iter().find(|title| title.path == path).map(PublishedTitle::held);
    let withdrawn: Vec<_> = world.withdrawn.iter().filter(|held| held.path == path).collect();
    let state = match (&published, withdrawn.is_empty()) {
        (Some(_), _) => TitleState::Published,
        (None, false) => TitleState::Withdrawn,
        (None, true) => return None,
    };
    let at_node = |(name, wanted): (&Name, &WantedNode)| {
        let is_held = published.as_ref().is_some_and(|held| holds(core, name, held));
        TitleAtNode {
            node: name.clone(),
            site: wanted.place.site.clone(),
            state: core.state_of(name),
            holds: is_held,
            why: why(core, name, path),
            moves: moves(core, name, path, is_held),
            receipt: withdrawn
                .iter()
                .map(|held| receipt(core, name, held))
                .min_by_key(|state| *state as u8),
        }
    };
    Some((state, takers(core).map(at_node).collect()))
}
