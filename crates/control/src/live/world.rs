//! What the operator wants: the store's records, put together.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fleet::{
    Desired, Gone, HeldTitle, Name, NodeKind, NodePlace, PublishedTitle, Site, SteeringPolicy,
    ViewerDigests, ViewerKeys,
};

use placement::{Pin, PlacementPolicy};

use super::allow_list::{AllowList, Sifted};
use super::joined::JoinedNode;
use super::placed::PlacedTitles;

/// The desired world. Nothing in it beats: it changes when an operator, or a machine that joins, changes it.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// Rises when a backup is restored.
    pub epoch: u64,
    /// How viewers are answered.
    pub policy: SteeringPolicy,
    /// Sites, by name. What they announce is what their files say, as far as it is believed.
    pub sites: BTreeMap<Name, Site>,
    /// What each site may announce. A site that is not here may announce nothing.
    pub allowed: BTreeMap<Name, AllowList>,
    /// What their files say and is not believed; `believed` is empty here.
    pub refused: BTreeMap<Name, Sifted>,
    /// Nodes, by name. Each is at one of the sites.
    pub nodes: BTreeMap<Name, WantedNode>,
    /// By which certificates each of them is itself.
    pub joined: BTreeMap<Name, JoinedNode>,
    /// Names of revoked nodes of which no more is known.
    pub revoked_names: BTreeSet<Name>,
    /// The store's revision at which a title or the plan last changed.
    pub titles_revision: u64,
    /// Titles, by path.
    pub titles: Vec<PublishedTitle>,
    /// Those of them that nodes bring at once, whatever their windows say.
    pub at_once: Vec<HeldTitle>,
    /// The series of titles that belong to one, by path.
    pub series: BTreeMap<String, String>,
    /// Where titles must be, whatever is watched, by path.
    pub pins: BTreeMap<String, Vec<Pin>>,
    /// How titles are placed.
    pub placement: PlacementPolicy,
    /// Which of the titles nodes hold; `None`: every node holds all of them.
    pub placed: Option<Arc<PlacedTitles>>,
    /// Versions that no node may serve, sorted.
    pub withdrawn: Vec<HeldTitle>,
    /// By what nodes check viewers' tokens.
    pub viewer_keys: Arc<ViewerKeys>,
    /// The store's revision at which one of these keys last changed.
    pub viewer_keys_revision: u64,
    /// What there is of the certificates that viewers see of nodes.
    pub certificates: BTreeMap<Name, ViewerDigests>,
    /// Where nodes reach gateways: `https://HOST:PORT`.
    pub gateways: Vec<String>,
    /// The fleet's signature of what is revoked and withdrawn ([`fleet::Gone`]).
    pub gone_signature: Vec<u8>,
    /// The store came out of a backup: nodes may know of revocations and withdrawals that it lacks.
    pub is_restored: bool,
    /// Nodes were asked for them, and had the time to answer.
    pub is_read_back: bool,
}

/// A node, as the operator wants it.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedNode {
    /// Where it is.
    pub place: NodePlace,
    /// What it is built for.
    pub kind: NodeKind,
    /// The host of its addresses.
    pub host: String,
    /// What it may carry at most, whatever it says of itself; `None`: what it says.
    pub ceiling_bits_per_second: Option<u64>,
    /// Why it is to be without viewers, if it is.
    pub drain: Option<WantedDrain>,
    /// It may not take part any more.
    pub is_revoked: bool,
}

/// Why a node is to be without viewers, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedDrain {
    /// In the operator's words.
    pub reason: String,
    /// When it comes back by itself, since 1970.
    pub returns_unix_seconds: Option<u64>,
}

impl WantedDrain {
    /// Whether it still holds.
    pub fn holds(&self, now_unix_seconds: u64) -> bool {
        self.returns_unix_seconds.is_none_or(|returns| returns > now_unix_seconds)
    }
}

impl World {
    /// What a site may announce.
    pub(super) fn allow_list(&self, site: &Name) -> Cow<'_, AllowList> {
        self.allowed.get(site).map_or_else(|| Cow::Owned(AllowList::default()), Cow::Borrowed)
    }

    /// What every node shall hold without a plan.
    pub(super) fn desired(&self) -> Desired {
        let Gone { revoked, withdrawn, .. } = self.gone();
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

    /// What a node shall hold; `everything` is what [`desired`](Self::desired) said.
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

    /// Whether a node shall hold the title at this place of [`titles`](Self::titles).
    pub(super) fn wants(&self, node: &Name, title: u32) -> bool {
        self.placed.as_ref().is_none_or(|placed| placed.copy(node, title).is_some())
    }

    /// The place of a title in [`titles`](Self::titles), if it is published.
    pub(super) fn place_of(&self, path: &str) -> Option<u32> {
        let found = self.titles.binary_search_by(|title| title.path.as_str().cmp(path)).ok()?;
        // A fleet has fewer than 2^32 titles.
        u32::try_from(found).ok()
    }

    /// What must not be forgotten.
    pub fn gone(&self) -> Gone {
        let revoked = self.nodes.iter().filter(|(_, wanted)| wanted.is_revoked);
        let revoked: BTreeSet<_> =
            revoked.map(|(name, _)| name).chain(&self.revoked_names).cloned().collect();
        Gone {
            epoch: self.epoch,
            revoked: revoked.into_iter().collect(),
            withdrawn: self.withdrawn.clone(),
        }
    }

    /// Whether nothing of `gone` is news.
    pub(crate) fn covers(&self, gone: &Gone) -> bool {
        // A name that is not known is free, and a revoked one must not be.
        let is_revoked = |name: &Name| match self.nodes.get(name) {
            Some(node) => node.is_revoked,
            None => self.revoked_names.contains(name),
        };
        gone.revoked.iter().all(is_revoked)
            && gone.withdrawn.iter().all(|held| self.withdrawn.binary_search(held).is_ok())
    }
}
