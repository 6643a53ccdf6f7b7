//! The live state of a fleet, as opposed to its desired state.
//!
//! [`Core`] makes the decisions, without I/O and without a clock. [`LiveFleet`] shares a core between threads. Nothing here is written to the store:
//! a heartbeat only uses memory. At most once a second, the gateway makes a snapshot of the state, signs it and saves it on disk.
//!
//! Read first: `node.rs` (the state of a node), then `failure_detector.rs` (when silence is inconclusive).

mod allow_list;
mod core;
mod edges;
mod failure_detector;
#[cfg(test)]
mod feed_tests;
mod feeds;
mod held_versions;
mod joined;
mod node;
mod placed;
#[cfg(test)]
mod placed_tests;
mod plan_basis;
mod refused;
mod snapshot;
#[cfg(test)]
pub(crate) mod tests;
mod upkeep;
mod view;
mod watching;
mod weights;
mod witness_reports;
mod world;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use axum::body::Bytes;
use fleet_protocol::{
    Desired, Digest, EdgeReport, ExperienceReport, FleetSnapshot, Heartbeat, HeartbeatAnswer,
    HeldTitle, Inventory, Name, OutOfBounds, PublicKey, PurgeOrders, RoutesAnswer, RoutesUpdate,
    Signed, SigningKey, SnapshotError, State, WatchReport,
};
use placement::popularity::{PopularityState, RegionCount};
use steering::Fleet;

pub use self::allow_list::{AllowList, Sifted};
pub use self::core::{Core, PopularityCounts};
pub use self::edges::{PurgeAtNode, PurgeState};
pub use self::feeds::FEED_HOLDS;
pub(crate) use self::feeds::told_refused;
pub use self::joined::JoinedNode;
pub use self::node::SILENCE_OF_DEATH;
pub use self::placed::{PlacedCopy, PlacedTitles};
pub use self::plan_basis::{Absent, LeftOutNode, PlanBasis};
pub use self::upkeep::{ABSENT_MAX, Upkeep};
pub use self::view::{
    CLOCK_OFF_MILLIS_MAX, CopyMove, FeedView, FleetView, NodeView, SiteView, TitleAtNode,
    TitleCounts, TitleState, TitleView, WhyHeld, WithdrawnState,
};
pub(crate) use self::watching::Speaker;
pub use self::world::{WantedDrain, WantedNode, World};
use crate::clock::Now;
use crate::experience::FleetExperience;

/// Why a gateway rejects a node's report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RejectedMessage {
    /// The report is about another node than the one in its certificate.
    #[error("a node may report on itself only")]
    NotItself,
    /// The fleet has no node of this name.
    #[error("the fleet has no such node: join again")]
    Unknown,
    /// The node is revoked.
    #[error("this node is revoked")]
    Revoked,
    /// The report is not newer than an earlier one.
    #[error(
        "the gateway has newer data of this node: the machine was reset to a snapshot, or a second machine uses this node's name"
    )]
    Stale,
    /// All nodes together report more than a gateway can hold.
    #[error("the gateway holds as many routes as it can: let fewer nodes feed routes")]
    NoRoom,
    /// The node claims to have sent more than its ceiling allows.
    #[error(
        "this node cannot have sent that much to viewers: its ceiling is lower, so this report does not count"
    )]
    OverCeiling,
    /// The report is invalid.
    #[error(transparent)]
    OutOfBounds(OutOfBounds),
}

impl RejectedMessage {
    /// The name of the error in metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::NotItself => "not_itself",
            Self::Unknown => "unknown",
            Self::Revoked => "revoked",
            Self::Stale => "stale",
            Self::NoRoom => "no_room",
            Self::OverCeiling => "over_ceiling",
            Self::OutOfBounds(_) => "out_of_bounds",
        }
    }
}

/// A snapshot in the forms used for answering viewers and for sending to nodes.
pub struct MadeSnapshot {
    /// Indexed for steering.
    pub fleet: Arc<Fleet>,
    /// Signed.
    pub signed: Arc<Signed>,
}

/// A [`Core`] shared between threads, and its newest snapshot.
pub struct LiveFleet {
    core: Mutex<Core>,
    /// Apart from the core, because adding up and listing sums takes longer than anything there.
    experience: Mutex<FleetExperience>,
    signing: SigningKey,
    made: RwLock<Option<Arc<MadeSnapshot>>>,
    documents: RwLock<Arc<HashMap<Digest, Bytes>>>,
}

impl LiveFleet {
    /// Wraps `core`; `signing` signs its snapshots.
    pub fn new(core: Core, signing: SigningKey) -> Self {
        let (core, made) = (Mutex::new(core), RwLock::new(None));
        let experience = Mutex::default();
        Self { core, experience, signing, made, documents: RwLock::default() }
    }

    /// Locks the core even if the mutex is poisoned: each call leaves it consistent before it calls anything else.
    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// [`Core::handle_heartbeat`].
    ///
    /// # Errors
    /// [`RejectedMessage`].
    pub fn handle_heartbeat(
        &self,
        from: &Name,
        beat: Heartbeat,
        now: Now,
    ) -> Result<HeartbeatAnswer, RejectedMessage> {
        self.core().handle_heartbeat(from, beat, now)
    }

    /// [`Core::note_refused`].
    pub fn note_refused(&self, from: &Name, text: &str, now: Now) {
        self.core().note_refused(from, text, now);
    }

    /// [`Core::handle_inventory`].
    ///
    /// # Errors
    /// [`RejectedMessage`].
    pub fn handle_inventory(
        &self,
        from: &Name,
        inventory: Inventory,
    ) -> Result<(), RejectedMessage> {
        self.core().handle_inventory(from, inventory)
    }

    /// [`Core::handle_summed_inventory`].
    ///
    /// # Errors
    /// [`RejectedMessage`].
    pub fn handle_summed_inventory(
        &self,
        from: &Name,
        inventory: Inventory,
        digest: Digest,
    ) -> Result<(), RejectedMessage> {
        self.core().handle_summed_inventory(from, inventory, digest)
    }

    /// [`Core::handle_routes`].
    ///
    /// # Errors
    /// [`RejectedMessage`].
    pub fn handle_routes(
        &self,
        from: &Name,
        update: RoutesUpdate,
        now: Now,
    ) -> Result<RoutesAnswer, RejectedMessage> {
        self.core().handle_routes(from, update, now)
    }

    /// [`Core::handle_watched`].
    ///
    /// # Errors
    /// [`RejectedMessage`].
    pub fn handle_watched(
        &self,
        from: &Name,
        report: &WatchReport,
        now: Now,
    ) -> Result<(), RejectedMessage> {
        self.core().handle_watched(from, report, now)
    }

    /// Handles a node's report of viewers' experience.
    ///
    /// # Errors
    /// [`RejectedMessage`].
    pub fn handle_experience(
        &self,
        from: &Name,
        report: &ExperienceReport,
        now: Now,
    ) -> Result<(), RejectedMessage> {
        let world = self.world();
        let speaker = self.core().speaker(&world, from, &report.node)?;
        self.experience().handle(&speaker, report, &world.titles, now)
    }

    /// Viewers' experience in the whole fleet.
    pub fn experience(&self) -> MutexGuard<'_, FleetExperience> {
        self.experience.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// [`Core::handle_edge_report`].
    ///
    /// # Errors
    /// [`RejectedMessage`].
    pub fn handle_edge_report(
        &self,
        from: &Name,
        report: EdgeReport,
    ) -> Result<PurgeOrders, RejectedMessage> {
        self.core().handle_edge_report(from, report)
    }

    /// [`Core::purge_at_nodes`].
    pub fn purge_at_nodes(&self, number: u64, now: Now) -> Option<Vec<PurgeAtNode>> {
        self.core().purge_at_nodes(number, now)
    }

    /// [`Core::popularity_state`].
    pub fn popularity_state(&self, now: Now) -> Option<PopularityState> {
        self.core().popularity_state(now)
    }

    /// [`Core::restore_popularity`].
    pub fn restore_popularity(&self, state: PopularityState, now: Now) {
        self.core().restore_popularity(state, now);
    }

    /// [`Core::popularity_counts`].
    pub fn popularity_counts(&self) -> PopularityCounts {
        self.core().popularity_counts()
    }

    /// A title's demand per day in each region.
    pub fn watched(&self, title: &str, now: Now) -> Vec<RegionCount> {
        self.core().watched(title, now)
    }

    /// The input of a plan made now.
    ///
    /// # Errors
    /// Why no plan can be made now.
    pub fn plan_basis(&self, absent: Absent, now: Now) -> Result<PlanBasis, &'static str> {
        let parts = self.core().plan_parts(absent, now)?;
        Ok(parts.basis(now))
    }

    /// [`Core::upkeep`].
    pub fn upkeep(&self, now: Now) -> Option<Upkeep> {
        self.core().upkeep(now)
    }

    /// [`Core::may_evict`].
    pub fn may_evict(&self, node: &Name, held: Vec<HeldTitle>) -> Vec<HeldTitle> {
        self.core().may_evict(node, held)
    }

    /// Whether a node should hold this version of a title.
    pub fn is_wanted_of(&self, node: &Name, held: &HeldTitle) -> bool {
        self.core().wanted_of(node, held).is_some()
    }

    /// The list of what a node should hold; `None` for unknown and revoked nodes.
    pub fn desired_of(&self, node: &Name) -> Option<Arc<Desired>> {
        self.core().desired_of(node)
    }

    /// [`Core::knows_wishes_of`].
    pub fn knows_wishes_of(&self, node: &Name) -> bool {
        self.core().knows_wishes_of(node)
    }

    /// [`Core::wants_gone`].
    pub fn wants_gone(&self, node: &Name) -> bool {
        self.core().wants_gone(node)
    }

    /// [`Core::handle_given_back`].
    pub fn handle_given_back(&self, node: &Name, count: usize) {
        self.core().handle_given_back(node, count);
    }

    /// [`Core::reads_back`].
    pub fn reads_back(&self, now: Now) -> bool {
        self.core().reads_back(now)
    }

    /// Whether a node may not take part: it is revoked or unknown.
    pub fn is_revoked(&self, node: &Name) -> bool {
        self.core().world.nodes.get(node).is_none_or(|wanted| wanted.is_revoked)
    }

    fn made(&self) -> Option<Arc<MadeSnapshot>> {
        self.made.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The newest snapshot, signed.
    pub fn signed_snapshot(&self) -> Option<Arc<Signed>> {
        self.made().map(|made| Arc::clone(&made.signed))
    }

    /// The newest snapshot, indexed for steering.
    pub fn fleet(&self) -> Option<Arc<Fleet>> {
        self.made().map(|made| Arc::clone(&made.fleet))
    }

    /// The key that verifies snapshots.
    pub fn snapshot_key(&self) -> PublicKey {
        self.signing.public()
    }

    /// A published title's document.
    pub fn document(&self, sha256: &Digest) -> Option<Bytes> {
        self.documents.read().unwrap_or_else(PoisonError::into_inner).get(sha256).cloned()
    }

    /// All documents of published titles.
    pub fn documents(&self) -> Arc<HashMap<Digest, Bytes>> {
        Arc::clone(&self.documents.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the documents of published titles.
    pub fn set_documents(&self, documents: HashMap<Digest, Bytes>) {
        *self.documents.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(documents);
    }

    /// The desired state.
    pub fn world(&self) -> Arc<World> {
        Arc::clone(&self.core().world)
    }

    /// [`Core::set_world`].
    pub fn set_world(&self, world: Arc<World>, now: Now) {
        self.experience().keep_nodes(|name| world.nodes.contains_key(name));
        self.core().set_world(world, now);
    }

    /// [`Core::tick`]. Returns log lines for the operator.
    pub fn tick(&self, now: Now) -> Vec<String> {
        let mut core = self.core();
        core.tick(now);
        core.take_lines()
    }

    /// [`Core::believe_silence`].
    pub fn believe_silence(&self, now: Now) {
        self.core().believe_silence(now);
    }

    /// Makes, indexes and signs a snapshot, if something has changed since the last one.
    ///
    /// # Errors
    /// If the desired state does not fit into a snapshot.
    pub fn make_snapshot(&self, now: Now) -> Result<Option<Arc<MadeSnapshot>>, SnapshotError> {
        let snapshot = {
            let mut core = self.core();
            if !core.is_changed() || core.reads_back(now) {
                return Ok(None);
            }
            core.snapshot(now)
        };
        let before = self.made();
        let fleet = Fleet::new(snapshot, before.as_ref().map(|before| &*before.fleet))?;
        // The index has marked full nodes in this snapshot, so this version is signed instead of the original.
        let signed = self.signing.sign(FleetSnapshot::CONTEXT, fleet.snapshot().to_bytes());
        let made = Arc::new(MadeSnapshot { fleet: Arc::new(fleet), signed: Arc::new(signed) });
        *self.made.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&made));
        Ok(Some(made))
    }

    /// A node's state.
    pub fn state_of(&self, node: &Name) -> State {
        self.core().state_of(node)
    }

    /// The state for operators.
    pub fn view(&self, now: Now) -> FleetView {
        self.core().view(now)
    }

    /// [`Core::weight_notes`].
    pub fn weight_notes(&self) -> Vec<(Name, String)> {
        self.core().weight_notes()
    }

    /// The nodes that feed routes of a site.
    pub fn feeds(&self, site: &Name, now: Now) -> Vec<FeedView> {
        self.core().feeds(site, now)
    }

    /// [`Core::titles`].
    pub fn titles(&self, search: &str, limit: usize) -> (usize, Vec<TitleView>) {
        self.core().titles(search, limit)
    }

    /// [`Core::title_at_nodes`].
    pub fn title_at_nodes(&self, path: &str) -> Option<(TitleState, Vec<TitleAtNode>)> {
        self.core().title_at_nodes(path)
    }
}
