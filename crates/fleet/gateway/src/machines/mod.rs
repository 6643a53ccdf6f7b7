//! The machines' API: nodes' requests to a gateway, over mutual TLS.
//!
//! | request | body | answer |
//! |---|---|---|
//! | `POST /machine/v1/join` | [`fleet_protocol::JoinRequest`], 16 KiB | [`fleet_protocol::JoinAnswer`] |
//! | `POST /machine/v1/renew` | [`fleet_protocol::RenewRequest`], 16 KiB | [`fleet_protocol::RenewAnswer`] |
//! | `POST /machine/v1/heartbeat` | [`fleet_protocol::Heartbeat`], 64 KiB | [`fleet_protocol::HeartbeatAnswer`] |
//! | `PUT /machine/v1/inventory` | [`fleet_protocol::Inventory`], 16 MiB | nothing |
//! | `PUT /machine/v1/gone` | [`fleet_protocol::ReturnedTombstones`] or null, 16 MiB | nothing |
//! | `POST /machine/v1/routes` | [`fleet_protocol::RoutesUpdate`], 16 MiB | [`fleet_protocol::RoutesAnswer`] |
//! | `POST /machine/v1/grant` | [`fleet_protocol::FillGrantRequest`], 64 KiB | [`fleet_protocol::FillGrant`] |
//! | `PUT /machine/v1/watched` | [`fleet_protocol::WatchReport`], 4 MiB | nothing |
//! | `PUT /machine/v1/experience` | [`fleet_protocol::ExperienceReport`], 8 MiB | nothing |
//! | `POST /machine/v1/purges` | [`fleet_protocol::EdgeReport`], 64 KiB | [`fleet_protocol::PurgeOrders`] |
//! | `PUT /machine/v1/certificate-request` | [`fleet_protocol::ViewerRequest`], 16 KiB | nothing |
//! | `GET /machine/v1/certificate` | | [`fleet_protocol::ViewerChain`] |
//! | `GET /machine/v1/desired` | | [`fleet_protocol::Desired`] |
//! | `GET /machine/v1/keys` | | [`fleet_protocol::Keys`] |
//! | `GET /machine/v1/copy-keys` | | [`fleet_protocol::CopyKeys`] |
//! | `GET /machine/v1/snapshot` | | the newest snapshot, its signature in [`SIGNATURE`] |
//! | `GET /machine/v1/document/DIGEST` | | a title's document |
//!
//! Only joining works without a certificate. A node may report on itself only: its certificate identifies it. Bodies have a Content-Length, and are
//! bounded in size, time and memory; large ones are read one at a time per node. Requests are rate-limited. Each refusal is counted by its
//! [reason](identity::RefusalReason) and logged. The node gets `{"version":1,"error":SENTENCE,"reason":REASON}`.

mod body;
mod body_permits;
mod certifying;
mod copy_keys;
mod flood;
mod giving_back;
mod hosts;
mod joining;
mod purging;
mod refusal;
mod speaking;

use std::future::{Future, pending};
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::{get, post, put};
use fleet_protocol::{Digest, Keys, Name, PublicKey};
use identity::{
    AcceptBounds, Acceptor, Authority, Caller, GatewayTls, NodeCertificate, NodeStanding,
    RefusalLog, RefusalReason, Register,
};
use listener::{Bodies, Places, RequestBounds};
use tokio::net::TcpListener;

use self::body_permits::BodyPermits;
use self::flood::Floods;
pub use self::refusal::MachineRefusal;
use crate::clock::Clock;
use crate::live::{LiveFleet, World};
use store::Engine;

/// The header with a snapshot's signature, in hex digits.
pub const SIGNATURE: &str = "fullbore-signature";

/// Updates [`LiveFleet`] from the store, because a machine may have joined a moment ago through another gateway.
pub trait Reread: Send + Sync {
    /// Reads the store, if it has changed. If it cannot be read, this does nothing.
    fn reread(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// Signs an address below a title until a time, in seconds since 1970; `None` if the fleet does not sign addresses.
pub type SignAddress = Arc<dyn Fn(&str, u64) -> Option<String> + Send + Sync>;

/// The state behind the machines' API.
pub struct Machines {
    /// The live state of the gateway's nodes.
    pub live: Arc<LiveFleet>,
    /// The gateway's clock.
    pub clock: Clock,
    /// The store. Only joining, renewing, requests for viewers' certificates, and lists that nodes give back after a restore are written to it.
    pub engine: Arc<dyn Engine>,
    /// Updates `live` from the store.
    pub store: Arc<dyn Reread>,
    /// The fleet's certificate authority.
    pub authority: Arc<Authority>,
    /// This gateway's name.
    pub gateway: Name,
    /// Hosts of the gateway, for its certificate.
    pub hosts: Vec<String>,
    /// The gateway's host for viewers, if it differs. No machine may join with the host of a gateway.
    pub public_host: Option<String>,
    /// The key that signs snapshots.
    pub snapshot_key: PublicKey,
    /// The log of refusals.
    pub refusals: Arc<RefusalLog>,
    /// How long a node's certificate is valid.
    pub node_lifetime: Duration,
    /// Signs addresses for grants.
    pub sign: SignAddress,
}

/// State shared by the handlers.
struct MachineApi {
    machines: Machines,
    nodes: Floods<Name>,
    strangers: Floods<IpAddr>,
    /// Rate limits of certificates for machines, and of requests for viewers' certificates.
    certificates: Floods<Name>,
    viewer_requests: Floods<Name>,
    large: Arc<BodyPermits>,
    /// The digest of the public keys for nodes, and the world that it was computed from.
    keys: Mutex<Option<(Arc<World>, Digest)>>,
}

/// Identifies nodes by name and by when they joined. A name is never reused, so a revoked node's certificates are useless. If a lost store has
/// freed a name, certificates from before its next holder joined are useless, too.
struct KnownNodes(Arc<LiveFleet>);

impl Register for KnownNodes {
    fn standing(&self, certificate: &NodeCertificate) -> NodeStanding {
        let (world, node) = (self.0.world(), &certificate.node);
        let is_own = || world.joined.get(node).is_some_and(|joined| joined.owns(certificate));
        match world.nodes.get(node) {
            None if world.revoked_names.contains(node) => NodeStanding::Revoked,
            None => NodeStanding::Unknown,
            Some(wanted) if wanted.is_revoked || !is_own() => NodeStanding::Revoked,
            Some(_) => NodeStanding::Good,
        }
    }
}

/// Serves machines on `listener`, within `places`, until it is dropped.
///
/// # Errors
/// If the gateway's certificate cannot be created, or the listener cannot be used.
pub async fn serve(
    listener: TcpListener,
    machines: Machines,
    places: Arc<Places>,
    bounds: AcceptBounds,
) -> io::Result<()> {
    let tls = GatewayTls::new(
        Arc::clone(&machines.authority),
        machines.gateway.clone(),
        machines.hosts.clone(),
        identity::NODE_LIFETIME,
    );
    let config = tls.map(Arc::new).and_then(GatewayTls::server_config).map_err(io::Error::other)?;
    let register = Arc::new(KnownNodes(Arc::clone(&machines.live)));
    let refusals = Arc::clone(&machines.refusals);
    let requests = RequestBounds { bodies: Bodies::OfKnownLength, ..bounds.requests() };
    let counts = Arc::clone(places.counts());
    let acceptor = Acceptor::start(listener, config, register, refusals, places, bounds)?;
    listener::serve(acceptor, router(machines), requests, counts, pending()).await;
    Ok(())
}

fn router(machines: Machines) -> Router {
    let lifetime = machines.node_lifetime;
    let api = MachineApi {
        machines,
        certificates: Floods::of_certificates(lifetime),
        viewer_requests: Floods::of_certificates(lifetime),
        nodes: Floods::of_nodes(),
        strangers: Floods::of_strangers(),
        large: Arc::default(),
        keys: Mutex::default(),
    };
    Router::new()
        .route("/machine/v1/join", post(joining::join))
        .route("/machine/v1/renew", post(joining::renew))
        .route("/machine/v1/heartbeat", post(speaking::heartbeat))
        .route("/machine/v1/inventory", put(speaking::inventory))
        .route("/machine/v1/gone", put(giving_back::gone))
        .route("/machine/v1/routes", post(speaking::routes))
        .route("/machine/v1/grant", post(speaking::grant))
        .route("/machine/v1/evictions", post(speaking::evictions))
        .route("/machine/v1/watched", put(speaking::watched))
        .route("/machine/v1/experience", put(speaking::experience))
        .route("/machine/v1/purges", post(purging::purges))
        .route("/machine/v1/certificate-request", put(certifying::request))
        .route("/machine/v1/certificate", get(certifying::chain))
        .route("/machine/v1/desired", get(speaking::desired))
        .route("/machine/v1/keys", get(speaking::keys))
        .route("/machine/v1/copy-keys", get(copy_keys::copy_keys))
        .route("/machine/v1/snapshot", get(speaking::snapshot))
        .route("/machine/v1/document/{digest}", get(speaking::document))
        .fallback(speaking::nothing)
        .method_not_allowed_fallback(speaking::nothing)
        .with_state(Arc::new(api))
}

impl MachineApi {
    /// The node that sent a request, if it is permitted and within its rate limit.
    async fn node<'c>(
        &self,
        caller: &'c Caller,
    ) -> Result<&'c Arc<NodeCertificate>, MachineRefusal> {
        let known = KnownNodes(Arc::clone(&self.machines.live));
        let is_too_many = |peer: &Arc<NodeCertificate>| !self.nodes.may(&peer.node, Instant::now());
        if caller.peer.as_ref().is_some_and(is_too_many) {
            return Err(RefusalReason::Flood.into());
        }
        match caller.node(&known) {
            // The fleet issued its certificate, so it may have joined since the store was last read.
            Err(RefusalReason::UnknownNode) => {
                self.machines.store.reread().await;
                Ok(caller.node(&known)?)
            }
            node => Ok(node?),
        }
    }

    /// The keys that every node gets.
    fn keys(&self) -> Keys {
        let world = self.machines.live.world();
        Keys {
            version: 1,
            epoch: world.epoch,
            revision: world.viewer_keys_revision,
            snapshots: vec![self.machines.snapshot_key],
            tokens: world.viewer_keys.text.clone(),
            gateways: world.gateways.clone(),
        }
    }

    /// Their digest. It is in the answer to every heartbeat, so it is cached until they change.
    fn keys_digest(&self) -> Digest {
        let world = self.machines.live.world();
        let mut summed = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        match &*summed {
            Some((of, digest)) if Arc::ptr_eq(of, &world) => *digest,
            _ => summed.insert((world, self.keys().digest())).1,
        }
    }
}
