//! Another node as a source: ranges of its published files, by HTTP, as viewers get them.
//!
//! Nothing that it says is believed: it answers with the part that was asked for, or is refused. Redirects are not followed, because an address that
//! another names may be anything; no proxy is asked. What it sends is compared block by block by whoever asked for it.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use catalog::{FileRecord, encode_path};
use crypt::client::{ClientOptions, ClientTls, Trust};
use fleet::{HeldTitle, Name, PublishedTitle, State};
use steering::Fleet;

use super::block_file::BlockBuffer;
use super::error::HoldingError;
use super::grants::Grants;
use super::lock;
use super::origin::Origin;
use super::peer_head::{HEAD_BYTES_MAX, Head, Unfit, Wanted};
use super::sources::PeerFault;
use super::wire::{Deadline, Wire};

/// How long a block may take: slower than 1.1 Mb/s, and another source is better.
const BLOCK_MAX: Duration = Duration::from_secs(30);
/// So many nodes are asked in one attempt.
const PEERS_MAX: usize = 4;

/// A node that holds a title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) node: Name,
    /// `http://HOST:PORT`.
    pub(crate) base: String,
    /// It is of the same cluster.
    pub(crate) is_mate: bool,
}

/// The places in the snapshot of the nodes of `own`'s cluster, without itself.
pub(crate) fn mates(fleet: &Fleet, own: &Name) -> Vec<usize> {
    let nodes = &fleet.snapshot().nodes;
    let Some(ours) = fleet.node(own.as_str()).map(|at| &nodes[at].place) else { return Vec::new() };
    let is_mate = |at: &usize| {
        let place = &nodes[*at].place;
        nodes[*at].name != *own && (&place.site, &place.cluster) == (&ours.site, &ours.cluster)
    };
    (0..nodes.len()).filter(is_mate).collect()
}

/// A title's place in the snapshot, if that has this version.
pub(crate) fn title(fleet: &Fleet, wanted: &PublishedTitle) -> Option<usize> {
    let title = fleet.title(&wanted.path)?;
    (fleet.snapshot().titles[title].version == wanted.version).then_some(title)
}

/// Whether a node holds a title and has room for those who copy it.
pub(crate) fn is_source(fleet: &Fleet, node: usize, title: usize) -> bool {
    let one = &fleet.snapshot().nodes[node];
    one.state == State::Serving && one.not_me.is_empty() && !one.full && fleet.holds(node, title)
}

/// The nodes that a title can be copied from, those of the cluster first. Each node that asks gets another order, so that nobody is asked by all.
pub(crate) fn peers(
    fleet: &Fleet,
    mates: &[usize],
    own: &Name,
    wanted: &PublishedTitle,
) -> Vec<Peer> {
    let snapshot = fleet.snapshot();
    let Some(title) = title(fleet, wanted) else { return Vec::new() };
    let may = |at: &usize| snapshot.nodes[*at].name != *own && is_source(fleet, *at, title);
    let drawn = |at: usize| {
        let text = format!("{}\n{own}\n{}", wanted.version, snapshot.nodes[at].name);
        *fleet::Digest::of(text.as_bytes()).as_bytes()
    };
    let mut found: Vec<usize> = (0..snapshot.nodes.len()).filter(may).collect();
    found.sort_by_cached_key(|at| (!mates.contains(at), drawn(*at)));
    let policy = &snapshot.policy;
    let peer = |at: usize| Peer {
        node: snapshot.nodes[at].name.clone(),
        base: format!("{}://{}:{}", policy.scheme, snapshot.nodes[at].host, policy.port),
        is_mate: mates.contains(&at),
    };
    found.into_iter().take(PEERS_MAX).map(peer).collect()
}

/// What asks nodes. It keeps the connection to the last one.
pub(crate) struct PeerClient {
    tls: Option<ClientTls>,
    kept: Mutex<Option<(String, Wire)>>,
}

impl PeerClient {
    /// For nodes with addresses like this one. By TLS, it trusts whom this machine trusts: nodes show viewers' certificates.
    pub(crate) fn new(address: &str, trust: &Trust) -> Result<Self, String> {
        let options = ClientOptions { trust: trust.clone(), ..ClientOptions::default() };
        let tls = address.starts_with("https:").then(|| ClientTls::load(&options));
        let tls = tls.transpose().map_err(|error| error.to_string())?;
        Ok(Self { tls, kept: Mutex::default() })
    }

    /// The kept connection, if it leads there.
    fn kept(&self, base: &str) -> Option<Wire> {
        let kept = lock(&self.kept).take();
        kept.filter(|(to, _)| to == base).map(|(_, wire)| wire)
    }

    fn keep(&self, base: &str, wire: Wire) {
        *lock(&self.kept) = Some((base.to_owned(), wire));
    }

    fn connect(&self, base: &str, deadline: Deadline) -> Result<Wire, PeerFault> {
        let (host, port) = authority(base)
            .rsplit_once(':')
            .and_then(|(host, port)| Some((host, port.parse().ok()?)))
            .ok_or(PeerFault::Unreachable)?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Wire::connect(host, port, self.tls.as_ref(), deadline)
    }
}

/// `HOST:PORT` of `http://HOST:PORT`.
fn authority(base: &str) -> &str {
    base.split_once("://").map_or(base, |(_, authority)| authority)
}

/// One node as the source of one title.
pub(crate) struct PeerOrigin {
    pub(crate) client: Arc<PeerClient>,
    pub(crate) peer: Peer,
    pub(crate) title: HeldTitle,
    pub(crate) grants: Arc<Grants>,
}

impl From<PeerFault> for HoldingError {
    fn from(fault: PeerFault) -> Self {
        Self::Peer(fault)
    }
}

impl PeerOrigin {
    /// As it is in a request.
    fn target(&self, path: &str) -> String {
        let path = encode_path(Path::new(&format!("{}/{path}", self.title.path)));
        match self.grants.token(&self.title) {
            Some(token) => token::url_path(&token, &path),
            None => format!("/{path}"),
        }
    }

    /// Hands over what comes, piece by piece, and refuses anything but what was asked for.
    fn fetch(
        &self,
        path: &str,
        wanted: &Wanted,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), PeerFault> {
        let deadline = Deadline::after(BLOCK_MAX);
        let base = &self.peer.base;
        let mut request =
            format!("GET {} HTTP/1.1\r\nHost: {}\r\n", self.target(path), authority(base));
        if let Wanted::Part { from, count, .. } = wanted {
            let last = from + *count as u64 - 1;
            request.push_str(&format!("Range: bytes={from}-{last}\r\n"));
        }
        request.push_str("\r\n");
        let ask = |mut wire: Wire| -> Result<(Wire, Head), PeerFault> {
            wire.send(request.as_bytes())?;
            let head = read_head(&mut wire, deadline)?;
            Ok((wire, head))
        };
        let kept = self.client.kept(base).map(ask);
        let (mut wire, head) = match kept {
            // The node has closed it meanwhile.
            None | Some(Err(PeerFault::Reset)) => ask(self.client.connect(base, deadline)?)?,
            Some(asked) => asked?,
        };
        let mut left = head.check(wanted)?;
        while left > 0 {
            let chunk = wire.next(deadline)?;
            let count = chunk.len().min(left);
            take(&chunk[..count]);
            wire.take(count);
            left -= count;
        }
        if !wire.is_drained() {
            return Err(PeerFault::Length);
        }
        self.client.keep(base, wire);
        Ok(())
    }
}

impl From<Unfit> for PeerFault {
    fn from(unfit: Unfit) -> Self {
        match unfit {
            Unfit::Redirected => Self::Redirected,
            Unfit::Status => Self::Status,
            Unfit::Length => Self::Length,
        }
    }
}

/// Waits for a head. What follows stays on the wire.
fn read_head(wire: &mut Wire, deadline: Deadline) -> Result<Head, PeerFault> {
    let mut head = Vec::new();
    loop {
        let seen = head.len();
        let next = wire.next(deadline)?;
        head.extend_from_slice(&next[..next.len().min(HEAD_BYTES_MAX - seen)]);
        if let Some(end) = Head::end(&head, seen) {
            wire.take(end - seen);
            return Head::parse(&head[..end]).ok_or(PeerFault::Status);
        }
        wire.take(head.len() - seen);
        if head.len() == HEAD_BYTES_MAX {
            return Err(PeerFault::Status);
        }
    }
}

impl Origin for PeerOrigin {
    fn read(
        &self,
        file: &FileRecord,
        offset: u64,
        count: usize,
        into: &mut BlockBuffer,
    ) -> Result<(), HoldingError> {
        let mut filled = 0;
        let mut take = |chunk: &[u8]| {
            // `fetch` hands over `count` bytes at most.
            into.first_mut(count)[filled..filled + chunk.len()].copy_from_slice(chunk);
            filled += chunk.len();
        };
        let wanted = Wanted::Part { from: offset, count, of: file.bytes };
        Ok(self.fetch(&file.path, &wanted, &mut take)?)
    }

    fn small(&self, path: &str, bytes_max: u64) -> Result<Vec<u8>, HoldingError> {
        let mut bytes = Vec::new();
        let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        self.fetch(path, &Wanted::All { bytes_max }, &mut |chunk| bytes.extend_from_slice(chunk))?;
        Ok(bytes)
    }
}
