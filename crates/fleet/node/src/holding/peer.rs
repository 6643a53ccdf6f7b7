//! Another node as a source: fetches ranges of its published files over HTTP, as viewers do.

use std::path::Path;
use std::sync::Arc;

use catalog::encode_path;
use fleet_protocol::{HeldTitle, Name, PublishedTitle, State};
use steering::Fleet;

use super::copies::CopyProofs;
use super::error::HoldingError;
use super::grants::Grants;
use super::http_client::{Asked, BodyBuffer, HttpClient, OverHttp};
use super::http_head::Wanted;
use super::sources::PeerFault;
use crate::joining::now_unix_millis;

/// The most nodes to ask in one attempt.
const PEERS_MAX: usize = 4;

/// A node that holds a title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) node: Name,
    /// `http://HOST:PORT`.
    pub(crate) base: String,
    /// It is in the same cluster.
    pub(crate) is_cluster_peer: bool,
}

/// The positions in the snapshot of the other nodes of `own`'s cluster.
pub(crate) fn cluster_peers(fleet: &Fleet, own: &Name) -> Vec<usize> {
    let nodes = &fleet.snapshot().nodes;
    let Some(ours) = fleet.node(own.as_str()).map(|at| &nodes[at].place) else { return Vec::new() };
    let is_cluster_peer = |at: &usize| {
        let place = &nodes[*at].place;
        nodes[*at].name != *own && (&place.site, &place.cluster) == (&ours.site, &ours.cluster)
    };
    (0..nodes.len()).filter(is_cluster_peer).collect()
}

/// The position of a title in the snapshot, if that has this version.
pub(crate) fn title(fleet: &Fleet, wanted: &PublishedTitle) -> Option<usize> {
    let title = fleet.title(&wanted.path)?;
    (fleet.snapshot().titles[title].version == wanted.version).then_some(title)
}

/// Whether a node holds a title and has capacity to spare for copies.
pub(crate) fn is_source(fleet: &Fleet, node: usize, title: usize) -> bool {
    let one = &fleet.snapshot().nodes[node];
    one.state == State::Serving && one.not_me.is_empty() && !one.full && fleet.holds(node, title)
}

/// The nodes to copy a title from, those of the cluster first. Each asking node gets a different order, which spreads the load.
pub(crate) fn peers(
    fleet: &Fleet,
    cluster_peers: &[usize],
    own: &Name,
    wanted: &PublishedTitle,
) -> Vec<Peer> {
    let snapshot = fleet.snapshot();
    let Some(title) = title(fleet, wanted) else { return Vec::new() };
    let may = |at: &usize| snapshot.nodes[*at].name != *own && is_source(fleet, *at, title);
    let drawn = |at: usize| {
        let text = format!("{}\n{own}\n{}", wanted.version, snapshot.nodes[at].name);
        *fleet_protocol::Digest::of(text.as_bytes()).as_bytes()
    };
    let mut found: Vec<usize> = (0..snapshot.nodes.len()).filter(may).collect();
    found.sort_by_cached_key(|at| (!cluster_peers.contains(at), drawn(*at)));
    let policy = &snapshot.policy;
    let peer = |at: usize| Peer {
        node: snapshot.nodes[at].name.clone(),
        base: format!("{}://{}:{}", policy.scheme, snapshot.nodes[at].host, policy.port),
        is_cluster_peer: cluster_peers.contains(&at),
    };
    found.into_iter().take(PEERS_MAX).map(peer).collect()
}

/// One node as the source of one title.
pub(crate) struct PeerOrigin {
    pub(crate) client: Arc<HttpClient>,
    pub(crate) peer: Peer,
    pub(crate) title: HeldTitle,
    pub(crate) grants: Arc<Grants>,
    pub(crate) copies: Arc<CopyProofs>,
}

impl From<PeerFault> for HoldingError {
    fn from(fault: PeerFault) -> Self {
        Self::Peer(fault)
    }
}

impl PeerOrigin {
    /// The request target.
    fn target(&self, path: &str) -> String {
        let path = encode_path(Path::new(&format!("{}/{path}", self.title.path)));
        match self.grants.token(&self.title) {
            Some(token) => token::url_path(&token, &path),
            None => format!("/{path}"),
        }
    }
}

impl OverHttp for PeerOrigin {
    fn fetch(
        &self,
        path: &str,
        wanted: &Wanted,
        into: &mut BodyBuffer<'_>,
    ) -> Result<(), HoldingError> {
        // Only nodes get the proof, not origins.
        let now = u64::try_from(now_unix_millis()).unwrap_or_default() / 1000;
        let proof = self.copies.of(&format!("{}/{path}", self.title.path), now);
        let asked = Asked { target: &self.target(path), proof: proof.as_deref() };
        Ok(self.client.fetch(&self.peer.base, &asked, wanted, into)?)
    }
}
