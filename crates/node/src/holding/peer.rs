//! Another node as a source: ranges of its published files, by HTTP, as viewers get them.
//!
//! Nothing that it says is believed: it answers with the part that was asked for, or is refused. Redirects are not followed, because an address that
//! another names may be anything; no proxy is asked. What it sends is compared block by block by whoever asked for it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use catalog::{FileRecord, encode_path};
use crypt::client::Trust;
use fleet::{HeldTitle, Name, PublishedTitle, State};
use reqwest::header::{CONTENT_RANGE, RANGE};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{ClientConfig, RootCertStore};
use steering::Fleet;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::block_file::BlockBuffer;
use super::error::HoldingError;
use super::grants::Grants;
use super::origin::Origin;
use super::sources::PeerFault;

/// How long to wait for a connection.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// How long nothing may come.
const SILENT_MAX: Duration = Duration::from_secs(10);
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

/// What asks nodes.
pub(crate) struct PeerClient {
    client: Client,
    /// The copier waits for each answer: it needs no more than one thread.
    runtime: Runtime,
}

impl PeerClient {
    /// For nodes with addresses like this one. By TLS, it trusts whom this machine trusts: nodes show viewers' certificates.
    pub(crate) fn new(address: &str) -> Result<Self, String> {
        let tls = match address.starts_with("https:") {
            true => {
                crypt::client_config(&Trust::System, None).map_err(|error| error.to_string())?
            }
            false => without_tls()?,
        };
        let client = Client::builder()
            .use_preconfigured_tls(tls)
            .no_proxy()
            .redirect(Policy::none())
            .connect_timeout(CONNECT_MAX)
            .pool_max_idle_per_host(1)
            .build()
            .map_err(|error| error.to_string())?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Ok(Self { client, runtime: runtime.map_err(|error| error.to_string())? })
    }
}

/// The library wants a configuration for plain HTTP, too: it trusts nobody.
fn without_tls() -> Result<ClientConfig, String> {
    let provider = Arc::new(default_provider());
    let versions =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = versions.map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
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

/// A part of a file, or all of one whose length is not known.
enum Wanted {
    Part { from: u64, count: usize, of: u64 },
    All { bytes_max: usize },
}

impl PeerOrigin {
    fn address(&self, path: &str) -> String {
        let path = encode_path(Path::new(&format!("{}/{path}", self.title.path)));
        let path = match self.grants.token(&self.title) {
            Some(token) => token::url_path(&token, &path),
            None => format!("/{path}"),
        };
        format!("{}{path}", self.peer.base)
    }

    /// Hands over what comes, piece by piece, and refuses anything but what was asked for.
    fn fetch(
        &self,
        path: &str,
        wanted: &Wanted,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), PeerFault> {
        let request = self.client.client.get(self.address(path));
        let (request, bytes_max) = match wanted {
            Wanted::Part { from, count, .. } => {
                let last = from + *count as u64 - 1;
                (request.header(RANGE, format!("bytes={from}-{last}")), *count)
            }
            Wanted::All { bytes_max } => (request, *bytes_max),
        };
        let fetching = async {
            let sent = timeout(SILENT_MAX, request.send()).await.map_err(|_| PeerFault::Stalled)?;
            let mut response = sent.map_err(|error| fault(&error))?;
            check_head(&response, wanted)?;
            let mut left = bytes_max;
            loop {
                let chunk = timeout(SILENT_MAX, response.chunk()).await;
                let chunk =
                    chunk.map_err(|_| PeerFault::Stalled)?.map_err(|error| fault(&error))?;
                let Some(chunk) = chunk else { break };
                left = left.checked_sub(chunk.len()).ok_or(PeerFault::Length)?;
                take(&chunk);
            }
            match wanted {
                Wanted::Part { .. } if left > 0 => Err(PeerFault::Length),
                _ => Ok(()),
            }
        };
        let whole = self.client.runtime.block_on(async { timeout(BLOCK_MAX, fetching).await });
        whole.map_err(|_| PeerFault::Slow)?
    }
}

fn fault(error: &reqwest::Error) -> PeerFault {
    if error.is_connect() { PeerFault::Unreachable } else { PeerFault::Reset }
}

fn check_head(response: &Response, wanted: &Wanted) -> Result<(), PeerFault> {
    let status = response.status();
    if status.is_redirection() {
        return Err(PeerFault::Redirected);
    }
    match wanted {
        Wanted::All { .. } if status == StatusCode::OK => Ok(()),
        Wanted::Part { from, count, of } if status == StatusCode::PARTIAL_CONTENT => {
            let last = from + *count as u64 - 1;
            let said = response.headers().get(CONTENT_RANGE).map(|said| said.as_bytes());
            let is_it = said == Some(format!("bytes {from}-{last}/{of}").as_bytes());
            if is_it { Ok(()) } else { Err(PeerFault::Length) }
        }
        _ => Err(PeerFault::Status),
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
