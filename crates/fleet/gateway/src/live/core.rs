//! A gateway's live state, and decisions based on it. No I/O and no clock: every call gets [`Now`].

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use fleet_protocol::{
    Desired, Digest, EdgeReport, FleetSnapshot, Heartbeat, HeartbeatAnswer, HeldTitle, Inventory,
    Name, PublishedTitle, PurgeOrders, Receipt, ReceiptState, RoutesAnswer, RoutesUpdate, State,
    WatchReport,
};
use placement::popularity::{PopularityState, RegionCount};

use super::RejectedMessage;
use super::edges::{self, PurgeAtNode};
use super::failure_detector::{FailureDetector, Silence};
use super::feeds::Feeds;
use super::held_versions::HeldVersions;
use super::node::{self, LiveNode};
use super::plan_basis::{self, Absent, PlanParts};
use super::refused::TWO_MACHINES;
use super::upkeep::{self, Upkeep};
use super::view::{self, FeedView, FleetView, TitleAtNode, TitleState, TitleView};
use super::watching::{Speaker, Watching};
use super::weights;
use super::world::{WantedNode, World};
use crate::clock::Now;

/// How long a node known only from the snapshot on disk may take for its first heartbeat before it counts as silent. Agents that have lost their
/// gateway retry at least twice a minute.
const PATIENCE_AT_START: Duration = Duration::from_secs(45);

/// If the gateway itself did not run for longer than this (a suspended machine, a stopped process), that time does not count as silence.
const GAP: Duration = Duration::from_secs(3);

/// The live state of the fleet, next to its desired state.
pub struct Core {
    pub(super) gateway: Name,
    pub(super) world: Arc<World>,
    pub(super) nodes: BTreeMap<Name, LiveNode>,
    pub(super) held_versions: HeldVersions,
    pub(super) detector: FailureDetector,
    pub(super) feeds: Feeds,
    pub(super) watching: Watching,
    /// Receipts for withdrawn versions, by node.
    pub(super) receipts: HashMap<HeldTitle, BTreeMap<Name, ReceiptState>>,
    /// The list for every node without a plan.
    desired: (Arc<Desired>, Digest),
    viewer_keys: Digest,
    /// Number of the newest snapshot.
    pub(super) number: u64,
    /// Whether something has changed since that snapshot.
    is_changed: bool,
    ticked: Option<Duration>,
    lines: Vec<String>,
}

/// How much is known of titles' popularity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PopularityCounts {
    /// Counts of one title in one region.
    pub kept: usize,
    /// Counts that were merged into the rest of their regions, because there were too many.
    pub joined: u64,
    /// Counts of titles that are not published, which were merged into the rest.
    pub unknown_titles: u64,
}

impl Core {
    /// A gateway without any knowledge.
    pub fn new(gateway: Name) -> Self {
        let world = Arc::new(World::default());
        let viewer_keys = world.viewer_keys.digest();
        Self {
            gateway,
            world,
            viewer_keys,
            nodes: BTreeMap::new(),
            held_versions: HeldVersions::default(),
            detector: FailureDetector::default(),
            feeds: Feeds::default(),
            watching: Watching::default(),
            receipts: HashMap::new(),
            desired: with_digest(Desired::default()),
            number: 0,
            is_changed: false,
            ticked: None,
            lines: Vec::new(),
        }
    }

    /// Restores the state of an earlier run: an unknown state does not mean lost. Call it before the first [`set_world`](Self::set_world).
    pub fn restore(&mut self, snapshot: FleetSnapshot, now: Now) {
        self.number = snapshot.number;
        self.feeds.restore(&snapshot, now);
        for node in snapshot.nodes {
            let held = node.holds.iter().map(|place| snapshot.titles[*place as usize].held());
            let mut held: Vec<_> = held.map(|held| self.held_versions.take(held)).collect();
            held.sort_unstable();
            let name = node.name.clone();
            // A node that was lost, or had never sent a heartbeat, stays so until it sends one.
            let is_heard_of = !matches!(node.state, State::Lost | State::Joining);
            let spoke = is_heard_of.then(|| now.uptime + PATIENCE_AT_START);
            let told = Some((node.state, snapshot.made_unix_millis));
            let restored = Some(node);
            self.nodes
                .insert(name, LiveNode { restored, spoke, held, told, ..LiveNode::default() });
        }
    }

    /// Adopts a new desired state, after a change by the operator or by a joining machine.
    pub fn set_world(&mut self, world: Arc<World>, now: Now) {
        self.world = world;
        self.viewer_keys = self.world.viewer_keys.digest();
        let world = Arc::clone(&self.world);
        let gone: Vec<_> =
            self.nodes.keys().filter(|name| !world.nodes.contains_key(*name)).cloned().collect();
        for name in gone {
            self.forget(&name);
        }
        for name in world.nodes.keys() {
            self.nodes.entry(name.clone()).or_default();
        }
        self.feeds.set_world(&world);
        self.watching.keep_nodes(|name| world.nodes.contains_key(name));
        self.desired = with_digest(world.desired());
        let withdrawn = &world.withdrawn;
        self.receipts.retain(|held, _| withdrawn.binary_search(held).is_ok());
        self.is_changed = true;
        self.settle_all(now);
    }

    fn forget(&mut self, name: &Name) {
        if let Some(node) = self.nodes.remove(name) {
            self.held_versions.give_up(&node.held);
        }
    }

    /// Handles a node's heartbeat.
    ///
    /// # Errors
    /// [`RejectedMessage`].
    pub fn handle_heartbeat(
        &mut self,
        from: &Name,
        beat: Heartbeat,
        now: Now,
    ) -> Result<HeartbeatAnswer, RejectedMessage> {
        beat.check().map_err(RejectedMessage::OutOfBounds)?;
        let world = Arc::clone(&self.world);
        let wanted = self.admit(&world, from, &beat.node)?;
        let node = self.nodes.get_mut(from).ok_or(RejectedMessage::Unknown)?;
        if node.is_stale(&beat, now) {
            return Err(RejectedMessage::Stale);
        }
        let wants_inventory = node.inventory != Some(beat.inventory);
        let before = (
            node.not_me().to_vec(),
            node.load_permille(wanted),
            node.ceiling_bits_per_second(wanted),
        );
        self.detector.note(from, &beat.sightings, now.uptime);
        let receipts = node.hear(beat, now);
        let after =
            (node.not_me(), node.load_permille(wanted), node.ceiling_bits_per_second(wanted));
        self.is_changed |= (before.0.as_slice(), before.1, before.2) != after;
        self.note_receipts(from, receipts);
        self.settle(from, wanted, now);
        Ok(self.answer(from, wanted, wants_inventory, now))
    }

    /// Records that a heartbeat of this node was refused, with the reason.
    pub fn note_refused(&mut self, from: &Name, text: &str, now: Now) {
        if let Some(node) = self.nodes.get_mut(from) {
            node.refused.note(text, now);
        }
    }

    /// The sending node, if it may report on `named`.
    fn admit<'w>(
        &self,
        world: &'w World,
        from: &Name,
        named: &Name,
    ) -> Result<&'w WantedNode, RejectedMessage> {
        if from != named {
            return Err(RejectedMessage::NotItself);
        }
        match world.nodes.get(from) {
            None => Err(RejectedMessage::Unknown),
            Some(wanted) if wanted.is_revoked => Err(RejectedMessage::Revoked),
            Some(wanted) => Ok(wanted),
        }
    }

    /// Accepts receipts only for withdrawn versions, so that a node cannot fill the gateway's memory with others.
    fn note_receipts(&mut self, from: &Name, receipts: Vec<Receipt>) {
        for Receipt { held, state } in receipts {
            if self.world.withdrawn.binary_search(&held).is_ok() {
                self.receipts.entry(held).or_default().insert(from.clone(), state);
            }
        }
    }

    fn answer(
        &self,
        from: &Name,
        wanted: &WantedNode,
        wants_inventory: bool,
        now: Now,
    ) -> HeartbeatAnswer {
        let drain = wanted.drain.as_ref().filter(|drain| drain.holds(now.unix_seconds()));
        HeartbeatAnswer {
            now_unix_millis: now.unix_millis,
            state: self.state_of(from),
            reason: drain.map(|drain| drain.reason.clone()),
            desired: self.desired_digest(from),
            keys: self.viewer_keys,
            snapshot: self.number,
            wants_inventory,
            wants_gone: self.wants_gone(from),
            certificate: self.world.certificates.get(from).copied().unwrap_or_default(),
            asks: self.detector.asks(from, now.uptime),
        }
    }

    /// Whether a node should send its list of revocations and withdrawals: the store comes from a backup, and this gateway does not have the node's
    /// list yet.
    pub fn wants_gone(&self, name: &Name) -> bool {
        self.world.is_restored && self.nodes.get(name).is_some_and(|node| !node.gave_back)
    }

    /// Records that a node has sent its list. `count` of its entries were missing from the store, and have been added.
    pub fn handle_given_back(&mut self, name: &Name, count: usize) {
        if let Some(node) = self.nodes.get_mut(name) {
            node.gave_back = true;
        }
        if count > 0 {
            self.lines.push(format!(
                "node {name} knew of {count} revocations and withdrawals that the backup lacked: they apply again"
            ));
        }
    }

    /// Whether this gateway still waits for nodes' lists of revocations and withdrawals. Until then it does not steer, and does not tell nodes what
    /// to hold.
    pub fn reads_back(&self, now: Now) -> bool {
        let world = &self.world;
        let may_speak = |name: &Name| world.nodes.get(name).is_some_and(|node| !node.is_revoked);
        world.is_restored
            && !world.is_read_back
            && now.uptime < PATIENCE_AT_START
            && self.nodes.iter().any(|(name, node)| !node.gave_back && may_speak(name))
    }

    /// Handles a node's inventory.
    ///
    /// # Errors
    /// [`RejectedMessage`].
    pub fn handle_inventory(
        &mut self,
        from: &Name,
        inventory: Inventory,
    ) -> Result<(), RejectedMessage> {
        let digest = inventory.digest();
        self.handle_summed_inventory(from, inventory, digest)
    }

    /// Like [`handle_inventory`](Self::handle_inventory), with the digest of the received bytes.
    ///
    /// # Errors
    /// [`RejectedMessage`].
    pub fn handle_summed_inventory(
        &mut self,
        from: &Name,
        inventory: Inventory,
        digest: Digest,
    ) -> Result<(), RejectedMessage> {
        inventory.check().map_err(RejectedMessage::OutOfBounds)?;
        let world = Arc::clone(&self.world);
        self.admit(&world, from, &inventory.node)?;
        let mut held: Vec<_> =
            inventory.held.into_iter().map(|held| self.held_versions.take(held)).collect();
        held.sort_unstable();
        let node = self.nodes.get_mut(from).ok_or(RejectedMessage::Unknown)?;
        node.inventory = Some(digest);
        let before = std::mem::replace(&mut node.held, held);
        self.is_changed |= before != node.held;
        self.held_versions.give_up(&before);
        Ok(())
    }

    /// Handles routes from a node's router.
    ///
    /// # Errors
    /// [`RejectedMessage`].
    pub fn handle_routes(
        &mut self,
        from: &Name,
        update: RoutesUpdate,
        now: Now,
    ) -> Result<RoutesAnswer, RejectedMessage> {
        let world = Arc::clone(&self.world);
        let site = &self.admit(&world, from, &update.node)?.place.site;
        let allowed = world.allow_list(site);
        let (answer, is_news) = self.feeds.handle(from, site, &allowed, update, now)?;
        self.is_changed |= is_news;
        Ok(answer)
    }

    /// Handles a node's report of what viewers watched.
    ///
    /// # Errors
    /// [`RejectedMessage`].
    pub fn handle_watched(
        &mut self,
        from: &Name,
        report: &WatchReport,
        now: Now,
    ) -> Result<(), RejectedMessage> {
        let world = Arc::clone(&self.world);
        let speaker = self.speaker(&world, from, &report.node)?;
        self.watching.handle(&speaker, report, &world.titles, now)
    }

    /// The sending node of a report on viewers, if it may report on `named`.
    pub(super) fn speaker<'s>(
        &self,
        world: &'s World,
        from: &'s Name,
        named: &Name,
    ) -> Result<Speaker<'s>, RejectedMessage> {
        let wanted = self.admit(world, from, named)?;
        let live = self.nodes.get(from).ok_or(RejectedMessage::Unknown)?;
        let name = &wanted.place.site;
        let site = world.sites.get(name).ok_or(RejectedMessage::Unknown)?;
        let credible_bits_per_second = weights::credible_bits_per_second(live, wanted);
        Ok(Speaker { name: from, site: name, region: &site.region, credible_bits_per_second })
    }

    /// Handles a node's report on its edge, and returns the purges that it lacks.
    ///
    /// # Errors
    /// [`RejectedMessage`].
    pub fn handle_edge_report(
        &mut self,
        from: &Name,
        report: EdgeReport,
    ) -> Result<PurgeOrders, RejectedMessage> {
        report.check().map_err(RejectedMessage::OutOfBounds)?;
        let world = Arc::clone(&self.world);
        self.admit(&world, from, &report.node)?;
        let live = self.nodes.get_mut(from).ok_or(RejectedMessage::Unknown)?;
        Ok(live.edge.handle(report.edge, &world))
    }

    /// How far all nodes are with the purge of this number; `None` if it isn't kept.
    pub fn purge_at_nodes(&self, number: u64, now: Now) -> Option<Vec<PurgeAtNode>> {
        edges::purge_at_nodes(self, number, now)
    }

    /// Titles' popularity, to be saved; `None` if there is none. Drops titles that are no longer published, and counts that have decayed.
    pub fn popularity_state(&mut self, now: Now) -> Option<PopularityState> {
        let titles = &self.world.titles;
        let is_known =
            |path: &str| titles.binary_search_by(|title| title.path.as_str().cmp(path)).is_ok();
        let popularity = &mut self.watching.popularity;
        popularity.keep_known(is_known, now.unix_seconds());
        (!popularity.is_empty()).then(|| popularity.state(now.unix_seconds()))
    }

    /// Adds popularity from an earlier run.
    pub fn restore_popularity(&mut self, state: PopularityState, now: Now) {
        self.watching.popularity.restore(state, now.unix_seconds());
    }

    /// How much is known of titles' popularity.
    pub fn popularity_counts(&self) -> PopularityCounts {
        let Watching { popularity, unknown_titles, .. } = &self.watching;
        PopularityCounts {
            kept: popularity.counts(),
            joined: popularity.joined(),
            unknown_titles: *unknown_titles,
        }
    }

    /// A title's demand per day in each region.
    pub fn watched(&self, title: &str, now: Now) -> Vec<RegionCount> {
        self.watching.popularity.of_title(title, now.unix_seconds())
    }

    /// The core's part of the input of a plan made now.
    ///
    /// # Errors
    /// Why no plan can be made now.
    pub(super) fn plan_parts(&self, absent: Absent, now: Now) -> Result<PlanParts, &'static str> {
        if self.detector.is_held() {
            return Err(
                "many nodes fell silent at once, and this gateway may have lost its own connection: it makes no plan until it hears them again, or until you confirm \
                 that they are dead (fullbore control nodes --believe-silence)",
            );
        }
        Ok(plan_basis::parts(self, absent, now))
    }

    /// The repairs that the plan needs, if any.
    pub fn upkeep(&self, now: Now) -> Option<Upkeep> {
        upkeep::of(self, now)
    }

    /// Advances the clock.
    pub fn tick(&mut self, now: Now) {
        let gap = self.ticked.map_or(Duration::ZERO, |ticked| now.uptime.saturating_sub(ticked));
        self.ticked = Some(now.uptime);
        if gap > GAP {
            self.lines.push(format!("this gateway did not run for {} s", gap.as_secs()));
            for spoke in self.nodes.values_mut().filter_map(|node| node.spoke.as_mut()) {
                *spoke = (*spoke + gap).min(now.uptime.max(*spoke));
            }
            self.feeds.skip(gap, now);
        }
        let was_doubtful = self.detector.is_held();
        self.look(now);
        if self.detector.is_held() != was_doubtful {
            self.tell_doubt();
        }
        // If the gateway distrusts its own connection, a missing feed proves nothing either.
        if !self.detector.is_held() {
            self.is_changed |= self.feeds.tick(now, &mut self.lines);
        }
        self.settle_all(now);
    }

    fn look(&mut self, now: Now) {
        let known = self.nodes.values().zip(self.world.nodes.iter());
        let known = known.filter(|(_, (_, wanted))| !wanted.is_revoked);
        let silences = known
            .filter_map(|(live, (node, _))| Some(Silence { node, silence: live.silence(now)? }));
        for node in self.detector.look(now.uptime, silences) {
            self.lines
                .push(format!("node {node} is silent, and the other nodes don't reach it either"));
        }
    }

    /// Declares the silent nodes dead, on the operator's word.
    pub fn believe_silence(&mut self, now: Now) {
        self.detector.believe();
        self.settle_all(now);
    }

    fn tell_doubt(&mut self) {
        self.lines.push(if self.detector.is_held() {
            format!(
                "{} nodes fell silent at once: this gateway may have lost its own connection, so it keeps their states, and asks the other nodes whether they reach them",
                self.detector.count()
            )
        } else {
            "this gateway trusts its own connection to the nodes again".to_owned()
        });
    }

    /// Both maps have the same nodes, so they are walked in parallel: looking up ten thousand names four times a second would cost more than the
    /// rest.
    fn settle_all(&mut self, now: Now) {
        let Self { world, nodes, detector, lines, .. } = self;
        debug_assert!(world.nodes.is_empty() || world.nodes.len() == nodes.len());
        for ((name, wanted), node) in world.nodes.iter().zip(nodes.values_mut()) {
            if let Some(line) = settle(name, wanted, node, detector, now) {
                lines.push(line);
                self.is_changed = true;
            }
            lines.extend(node.refused.turn(now).map(|are_two| match are_two {
                true => format!("node {name}: {TWO_MACHINES}"),
                false => format!("node {name}: one machine speaks as this node again"),
            }));
        }
    }

    /// Determines the state of one node, and logs a change.
    fn settle(&mut self, name: &Name, wanted: &WantedNode, now: Now) {
        let Some(node) = self.nodes.get_mut(name) else { return };
        if let Some(line) = settle(name, wanted, node, &self.detector, now) {
            self.lines.push(line);
            self.is_changed = true;
        }
    }

    /// A node's state.
    pub fn state_of(&self, name: &Name) -> State {
        self.nodes.get(name).and_then(|node| node.told).map_or(State::Joining, |(state, _)| state)
    }

    /// The list of what a node should hold; `None` for unknown and revoked nodes.
    pub fn desired_of(&self, name: &Name) -> Option<Arc<Desired>> {
        self.world.nodes.get(name).filter(|wanted| !wanted.is_revoked)?;
        Some(self.world.desired_of(name, &self.desired.0))
    }

    /// Whether this gateway knows what a node should hold. While part of the plan is unread, it may not.
    pub fn knows_wishes_of(&self, name: &Name) -> bool {
        self.world.placed.as_ref().is_none_or(|placed| placed.knows(name))
    }

    /// With a plan, only a short text is hashed per node: a node fetches its list after each heartbeat that brings a new digest.
    fn desired_digest(&self, name: &Name) -> Digest {
        let (_, everything) = &self.desired;
        let placed = self.world.placed.as_ref();
        placed.map_or(*everything, |placed| placed.digest_of(name, everything))
    }

    /// The published title that a node should hold in this version, if it should.
    pub fn wanted_of(&self, name: &Name, held: &HeldTitle) -> Option<&PublishedTitle> {
        let world = &self.world;
        world.nodes.get(name).filter(|wanted| !wanted.is_revoked)?;
        let place = world.place_of(&held.path).filter(|place| world.wants(name, *place))?;
        world.titles.get(place as usize).filter(|title| title.version == held.version)
    }

    /// The titles among these that a node may remove: the plan does not assign them to it, and enough other nodes hold a copy that they keep.
    pub fn may_evict(&self, name: &Name, held: Vec<HeldTitle>) -> Vec<HeldTitle> {
        held.into_iter().filter(|held| upkeep::may_evict(self, name, held)).collect()
    }

    /// Whether a snapshot made now would differ from the last one.
    pub fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Log lines for the operator since the last call.
    pub fn take_lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }

    /// Makes the next snapshot.
    pub fn snapshot(&mut self, now: Now) -> FleetSnapshot {
        self.is_changed = false;
        // Numbers start at the present time instead of 1, so that they rise even if a gateway has lost its disk.
        self.number = (self.number + 1).max(if self.number == 0 { now.unix_seconds() } else { 0 });
        self.feeds.merge(&self.world);
        let weights = weights::of(self);
        for (node, weight) in self.nodes.values_mut().zip(&weights) {
            node.weight = Some(*weight);
        }
        super::snapshot::of(self, &weights, self.number, now)
    }

    /// The state for operators.
    pub fn view(&self, now: Now) -> FleetView {
        view::of(self, now)
    }

    /// Explanations of nodes' weights that differ from their own figures.
    pub fn weight_notes(&self) -> Vec<(Name, String)> {
        weights::notes(self)
    }

    /// The nodes that feed routes of a site.
    pub fn feeds(&self, site: &Name, now: Now) -> Vec<FeedView> {
        view::feeds(self, site, now)
    }

    /// The titles whose paths contain `search`, at most `limit` of them, and the total number.
    pub fn titles(&self, search: &str, limit: usize) -> (usize, Vec<TitleView>) {
        view::titles(self, search, limit)
    }

    /// The nodes with the title at `path`; `None` if it was never published.
    pub fn title_at_nodes(&self, path: &str) -> Option<(TitleState, Vec<TitleAtNode>)> {
        view::title_at_nodes(self, path)
    }
}

/// Determines the state of a node. Returns a log line if it changed.
fn settle(
    name: &Name,
    wanted: &WantedNode,
    node: &mut LiveNode,
    detector: &FailureDetector,
    now: Now,
) -> Option<String> {
    let state = node.state(wanted, now, detector.is_about(name));
    let before = node.told.map(|(state, _)| state);
    if before == Some(state) {
        return None;
    }
    node.told = Some((state, now.unix_millis));
    let why = node::why(node, state, wanted, now);
    let before = before.map_or("new", State::as_str);
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    Some(format!("node {name}: {before} -> {}{why}", state.as_str()))
}

fn with_digest(desired: Desired) -> (Arc<Desired>, Digest) {
    let digest = desired.digest();
    (Arc::new(desired), digest)
}
