//! The desired state of the fleet: the store's records, combined.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fleet_protocol::{
    Desired, FleetTombstones, HeldTitle, Name, NodeKind, NodePlace, PublishedTitle, Site,
    SteeringPolicy, ViewerDigests, ViewerKeys,
};

use placement::{Pin, PlacementPolicy};
use store::records::{PurgesRecord, SnoozesRecord};

use super::allow_list::{AllowList, Sifted};
use super::joined::JoinedNode;
use super::placed::PlacedTitles;

/// The desired state. It has no heartbeats: it changes only when an operator or a joining machine changes it.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// Rises when a backup is restored.
    pub epoch: u64,
    /// How viewers are steered.
    pub policy: SteeringPolicy,
    /// Sites, by name. Their announcements are those in their files that the allow-lists accept.
    pub sites: BTreeMap<Name, Site>,
    /// Each site's allow-list. A site that is missing here may announce nothing.
    pub allowed: BTreeMap<Name, AllowList>,
    /// Announcements in their files that were refused; `believed` is empty here.
    pub refused: BTreeMap<Name, Sifted>,
    /// Nodes, by name. Each is at one of the sites.
    pub nodes: BTreeMap<Name, WantedNode>,
    /// Each node's own certificates.
    pub joined: BTreeMap<Name, JoinedNode>,
    /// Names of revoked nodes about which nothing else is known.
    pub revoked_names: BTreeSet<Name>,
    /// The store's revision at which a title or the plan last changed.
    pub titles_revision: u64,
    /// Titles, by path.
    pub titles: Vec<PublishedTitle>,
    /// Titles that nodes fetch immediately, even outside their windows.
    pub at_once: Vec<HeldTitle>,
    /// The series of titles that belong to one, by path.
    pub series: BTreeMap<String, String>,
    /// Where titles must be, regardless of demand, by path.
    pub pins: BTreeMap<String, Vec<Pin>>,
    /// The placement policy.
    pub placement: PlacementPolicy,
    /// The titles that nodes hold by the plan; `None`: every node holds every title.
    pub placed: Option<Arc<PlacedTitles>>,
    /// Versions that must not be served, sorted.
    pub withdrawn: Vec<HeldTitle>,
    /// The keys with which nodes verify viewers' tokens.
    pub viewer_keys: Arc<ViewerKeys>,
    /// The store's revision of the last change of these keys.
    pub viewer_keys_revision: u64,
    /// Digests of nodes' certificates for viewers, and of the requests for them.
    pub certificates: BTreeMap<Name, ViewerDigests>,
    /// Where nodes reach gateways: `https://HOST:PORT`.
    pub gateways: Vec<String>,
    /// The latest purges that the fleet's edges carry out.
    pub purges: Arc<PurgesRecord>,
    /// The issues that operators have snoozed.
    pub snoozes: Arc<SnoozesRecord>,
    /// The fleet's signature of what is revoked and withdrawn ([`fleet_protocol::FleetTombstones`]).
    pub gone_signature: Vec<u8>,
    /// The store comes from a backup: nodes may know of revocations and withdrawals that it lacks.
    pub is_restored: bool,
    /// Nodes have been asked for them, and have had the time to answer.
    pub is_read_back: bool,
}

/// The desired state of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedNode {
    /// Its place in the fleet.
    pub place: NodePlace,
    /// Its kind.
    pub kind: NodeKind,
    /// The host of its addresses.
    pub host: String,
    /// The operator's limit on its capacity, which takes precedence over its own figure; `None`: its own figure counts.
    pub ceiling_bits_per_second: Option<u64>,
    /// Why it should have no viewers, if it should not.
    pub drain: Option<WantedDrain>,
    /// It is revoked.
    pub is_revoked: bool,
}

/// Why a node should have no viewers, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedDrain {
    /// In the operator's words.
    pub reason: String,
    /// When it returns to service by itself, since 1970.
    pub returns_unix_seconds: Option<u64>,
}

impl WantedDrain {
    /// Whether it is still in force.
    pub fn holds(&self, now_unix_seconds: u64) -> bool {
        self.returns_unix_seconds.is_none_or(|returns| returns > now_unix_seconds)
    }
}

impl World {
    /// The prefixes that a site may announce.
    pub(super) fn allow_list(&self, site: &Name) -> Cow<'_, AllowList> {
        self.allowed.get(site).map_or_else(|| Cow::Owned(AllowList::default()), Cow::Borrowed)
    }

    /// The list for every node without a plan.
    pub(super) fn desired(&self) -> Desired {
        let FleetTombstones { revoked, withdrawn, .. } = self.gone();
        Desired {
            epoch: self.epoch,
            revision: self.titles_revision,
            titles: self.titles.clone(),
            at_once: self.at_once.clone(),
            withdrawn,
            revoked,
            signature: self.gone_signature.clone(),
        }
    }

    /// The list for a node; `everything` is the result of [`desired`](Self::desired).
    pub(super) fn desired_of(&self, node: &Name, everything: &Arc<Desired>) -> Arc<Desired> {
        let Some(placed) = &self.placed else { return Arc::clone(everything) };
        let is_placed = |held: &HeldTitle| {
            let place = self.place_of(&held.path);
            place.is_some_and(|place| placed.copy(node, place).is_some())
        };
        let titles = placed.of(node).iter().map(|copy| self.titles[copy.title as usize].clone());
        let at_once = everything.at_once.iter().filter(|held| is_placed(held)).cloned();
        Arc::new(Desired {
            epoch: everything.epoch,
            revision: everything.revision,
            titles: titles.collect(),
            at_once: at_once.collect(),
            withdrawn: everything.withdrawn.clone(),
            revoked: everything.revoked.clone(),
            signature: everything.signature.clone(),
        })
    }

    /// Whether a node should hold the title at this index of [`titles`](Self::titles).
    pub(super) fn wants(&self, node: &Name, title: u32) -> bool {
        self.placed.as_ref().is_none_or(|placed| placed.copy(node, title).is_some())
    }

    /// The index of a title in [`titles`](Self::titles), if it is published.
    pub(super) fn place_of(&self, path: &str) -> Option<u32> {
        let found = self.titles.binary_search_by(|title| title.path.as_str().cmp(path)).ok()?;
        // A fleet has fewer than 2^32 titles.
        u32::try_from(found).ok()
    }

    /// The facts that no restore may undo: revocations and withdrawals.
    pub fn gone(&self) -> FleetTombstones {
        let revoked = self.nodes.iter().filter(|(_, wanted)| wanted.is_revoked);
        let revoked: BTreeSet<_> =
            revoked.map(|(name, _)| name).chain(&self.revoked_names).cloned().collect();
        FleetTombstones {
            epoch: self.epoch,
            revoked: revoked.into_iter().collect(),
            withdrawn: self.withdrawn.clone(),
        }
    }

    /// Whether everything in `gone` is known already.
    pub(crate) fn covers(&self, gone: &FleetTombstones) -> bool {
        // An unknown name could be used again, which must not happen for a revoked one.
        let is_revoked = |name: &Name| match self.nodes.get(name) {
            Some(node) => node.is_revoked,
            None => self.revoked_names.contains(name),
        };
        gone.revoked.iter().all(is_revoked)
            && gone.withdrawn.iter().all(|held| self.withdrawn.binary_search(held).is_ok())
    }
}
