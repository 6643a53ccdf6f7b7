//! What operators see of the fleet: for the page, the API and the metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use fleet::{
    FillProgress, HeldTitle, Load, Name, NodeKind, NodePlace, NotMe, Prefix, PublishedTitle,
    ReceiptState, ServedAt, State,
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

/// A clock that is further off than this is told.
pub const CLOCK_OFF_MILLIS_MAX: u64 = 1000;

/// The fleet at one moment, as one gateway sees it.
#[derive(Clone, Debug, Serialize)]
pub struct FleetView {
    /// Who sees it so.
    pub gateway: Name,
    /// When, since 1970.
    pub unix_millis: u64,
    /// Rises when a backup is restored.
    pub epoch: u64,
    /// The number of the newest snapshot.
    pub snapshot: u64,
    /// Why silence is not taken for death, if it is not.
    pub frozen: Option<String>,
    /// How long steering answers hold.
    pub ttl_seconds: u32,
    /// From this load on a node is full, in thousandths.
    pub full_permille: u16,
    /// Sites, by name.
    pub sites: Vec<SiteView>,
    /// Nodes, by name.
    pub nodes: Vec<NodeView>,
    /// Titles, counted.
    pub titles: TitleCounts,
}

/// A site.
#[derive(Clone, Debug, Serialize)]
pub struct SiteView {
    /// Its name.
    pub name: Name,
    /// The region that it is in.
    pub region: Name,
    /// How many prefixes it announces.
    pub prefixes: usize,
    /// How many more its file and its feeds announce outside its allow-list.
    pub prefixes_refused: u64,
    /// How many nodes pass on what its routers say.
    pub feeds: usize,
}

/// A node that passes on what its router says.
#[derive(Clone, Debug, Serialize)]
pub struct FeedView {
    /// The node.
    pub node: Name,
    /// How many of its routes are within the site's allow-list.
    pub believed: usize,
    /// How many are not.
    pub refused: u64,
    /// The first of these.
    pub first_refused: Option<Prefix>,
    /// How long ago it spoke.
    pub silent_millis: u64,
}

/// Titles, counted.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct TitleCounts {
    /// Published.
    pub published: usize,
    /// Versions that no node may serve.
    pub withdrawn: usize,
    /// Published, but not on all nodes that shall have them.
    pub incomplete: usize,
}

/// A node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeView {
    /// Its name.
    pub name: Name,
    /// Where it is.
    #[serde(flatten)]
    pub place: NodePlace,
    /// What it is built for.
    pub kind: NodeKind,
    /// The host of its addresses.
    pub host: String,
    /// What this gateway takes it for.
    pub state: State,
    /// Since when, since 1970.
    pub since_unix_millis: u64,
    /// Why, in words, and what else is wrong with it; `None` if it just serves.
    pub reason: Option<String>,
    /// When it comes back by itself from being drained, since 1970.
    pub returns_unix_seconds: Option<u64>,
    /// Why it wants no new viewers.
    pub not_me: Vec<NotMe>,
    /// How long ago this gateway heard it; `None` if it has not since it started.
    pub silent_millis: Option<u64>,
    /// Its clock minus the gateway's.
    pub clock_off_millis: Option<i64>,
    /// What it carries.
    #[serde(flatten)]
    pub load: Load,
    /// Load beside ceiling, in thousandths.
    pub load_permille: u16,
    /// What it weighs next to others, for viewers and titles.
    pub weight_bits_per_second: u64,
    /// The bound on the weight, if the node's own figure doesn't count.
    pub weight_note: Option<String>,
    /// How many published titles it holds.
    pub titles: usize,
    /// How many it lacks of those that it shall hold.
    pub missing: usize,
    /// How many withdrawals it has not answered.
    pub receipts_waiting: usize,
    /// What it still has to bring, by its own word.
    pub fill: Option<FillProgress>,
    /// How its server serves viewers, if they are sent there otherwise.
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
    /// Whether viewers get it.
    pub state: TitleState,
    /// How many nodes hold it.
    pub holders: usize,
    /// How many shall.
    pub wanted: usize,
}

/// Whether viewers get a title.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TitleState {
    /// They do.
    Published,
    /// No node may serve it.
    Withdrawn,
}

/// Why a node shall hold a title.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WhyHeld {
    /// There is no plan: every node holds everything.
    Everything,
    /// A pin wants it there.
    Pin,
    /// It is one of the copies that every title has.
    Floor,
    /// Viewers are expected to watch it there.
    Demand,
    /// It was there, and nothing needs its room.
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

/// What becomes of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CopyMove {
    /// The node shall hold it, and does not yet.
    Comes,
    /// The plan names it for others: it goes once enough of them hold it and nobody watches it here.
    Goes,
}

/// A title beside one node.
#[derive(Clone, Debug, Serialize)]
pub struct TitleAtNode {
    /// The node.
    pub node: Name,
    /// Its site.
    pub site: Name,
    /// What the gateway takes the node for.
    pub state: State,
    /// Whether it holds the published version.
    pub holds: bool,
    /// Why it shall, if it shall.
    pub why: Option<WhyHeld>,
    /// Whether it is to come or to go.
    pub moves: Option<CopyMove>,
    /// What became of the withdrawn versions on it, if there are any.
    pub receipt: Option<WithdrawnState>,
}

/// What became of a withdrawn version on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WithdrawnState {
    /// It says that it cannot remove it.
    Failed,
    /// It has not said anything about it yet.
    Waiting,
    /// It says that it has removed it.
    Removed,
    /// It says that it never had it.
    Absent,
}

pub(super) fn of(core: &Core, now: Now) -> FleetView {
    let world = &core.world;
    let places = places(core);
    // Of nodes that shall hold it.
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
    // What has no place yet is held by nobody who shall.
    let is_incomplete = |title: &usize| holders[*title] < wanted(*title).max(1).min(takers);
    FleetView {
        gateway: core.gateway.clone(),
        unix_millis: now.unix_millis,
        epoch: world.epoch,
        snapshot: core.number,
        frozen: core.doubt.since().map(|since| frozen(core, since, now)),
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
        "{} nodes fell silent at once {seconds} s ago, so this gateway doubts its own hearing and keeps their states. \
         The nodes that it hears reach {} of them; those that they don't reach are lost as soon as they say so. \
         If the silent nodes are really dead, say so: fullbore control nodes --believe-silence",
        core.doubt.count(),
        core.doubt.reached(now.uptime)
    )
}

fn site(core: &Core, site: &fleet::Site, now: Now) -> SiteView {
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

/// How many titles a node shall hold.
fn shall_hold(core: &Core, name: &Name) -> usize {
    let world = &core.world;
    world.placed.as_ref().map_or(world.titles.len(), |placed| placed.of(name).len())
}

/// `titles`: how many it holds, and how many it lacks.
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
        // The policy may have changed since.
        served_at: heard
            .and_then(|heard| heard.served_at.clone())
            .filter(|own| *own != core.world.policy.served_at()),
    }
}

/// Whether a node has been silent for so long that what it said of its viewers is no longer so, whatever it is taken for.
fn carries_unknown(silence: Option<Duration>) -> bool {
    silence.is_some_and(|silence| silence >= SILENCE_OF_DEATH)
}

/// What a node carries. Of one that is silent, only what its machine is stays true: its ceiling and its disks.
fn load(live: &LiveNode, wanted: &WantedNode, silence: Option<Duration>) -> Load {
    let said = live.heard.as_ref().map(|heard| heard.load).unwrap_or_default();
    let ceiling_bits_per_second = live.ceiling_bits_per_second(wanted);
    match carries_unknown(silence) {
        true => Load { ceiling_bits_per_second, free_bytes: said.free_bytes, ..Load::default() },
        false => Load { ceiling_bits_per_second, ..said },
    }
}

/// The nodes that may hold what is published.
fn takers(core: &Core) -> impl Iterator<Item = (&Name, &WantedNode)> {
    core.world.nodes.iter().filter(|(_, wanted)| !wanted.is_revoked)
}

/// Whether a node holds a version, as its inventory says.
pub(super) fn holds(core: &Core, name: &Name, held: &HeldTitle) -> bool {
    let number = core.shelf.number(held);
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

/// The titles whose paths contain `search`, at most `limit` of them, and how many there are in all.
pub(super) fn titles(core: &Core, search: &str, limit: usize) -> (usize, Vec<TitleView>) {
    let world = &core.world;
    let published = world.titles.iter().filter(|title| title.path.contains(search));
    let is_published =
        |path: &str| world.titles.binary_search_by(|title| title.path.as_str().cmp(path)).is_ok();
    let withdrawn = world.withdrawn.iter().filter(|held| held.path.contains(search));
    let withdrawn = withdrawn.filter(|held| !is_published(&held.path));
    // Several versions of a title may be withdrawn.
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

/// Why a node shall hold the published title at `path`, if it shall.
fn why(core: &Core, name: &Name, path: &str) -> Option<WhyHeld> {
    let title = core.world.place_of(path)?;
    match &core.world.placed {
        None => Some(WhyHeld::Everything),
        Some(placed) => placed.copy(name, title).map(|copy| copy.why.into()),
    }
}

/// Whether a copy comes or goes. A node that the plan does not have yet keeps what it holds, and so does every node what has no place in the plan.
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

/// Where the title at `path` is; `None` if it was never published.
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
