//! Accepts machines: TCP, then mutual TLS within bounds of time and number, then a connection whose [`Caller`] is known.
//!
//! A client's certificate is optional here, since a box that joins has none; whatever needs one asks for [`Caller::peer`].
//! Open connections of nodes are looked at twice a second: a node that was revoked,
//! or whose certificate has run out meanwhile, is cut off.

use std::fmt::{self, Display, Formatter};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use listener::{Accept, Accepted, Ender, HeldPlace, PlaceBounds, Places, RequestBounds};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};
use tokio_rustls::server::TlsStream;

use crate::handshakes::{Door, Handshakes, Welcomed};
use crate::{NodeCertificate, NodeStanding, RefusalLog, RefusalReason, Register, now_unix_seconds};

/// How often open connections are looked at: revoking takes effect within this time.
const SWEEP: Duration = Duration::from_millis(500);

/// Bounds of an [`Acceptor`] and of a [`GuestListener`](crate::GuestListener).
#[derive(Clone, Debug)]
pub struct AcceptBounds {
    /// How long a handshake may take.
    pub handshake_max: Duration,
    /// How long a handshake has before it may have to give way to others.
    pub handshake_min: Duration,
    /// Handshakes at a time. When there are more, the oldest ones give way.
    pub handshakes_max: usize,
    /// Connections in all.
    pub connections_max: usize,
    /// Connections of one node.
    pub connections_per_node_max: usize,
    /// Connections of strangers from one IPv4 address or one /64 of IPv6, handshakes included. All guests are strangers.
    pub strangers_per_source_max: usize,
    /// How long a stranger may stay: joining takes one request.
    pub stranger_max: Duration,
    /// How long the connection of a node, which beats every 5 s, or of a guest stays open without a request.
    pub idle_max: Duration,
}

impl Default for AcceptBounds {
    fn default() -> Self {
        Self {
            handshake_max: Duration::from_secs(10),
            handshake_min: Duration::from_secs(1),
            handshakes_max: 2048,
            connections_max: 20_000,
            connections_per_node_max: 8,
            strangers_per_source_max: 128,
            stranger_max: Duration::from_secs(30),
            idle_max: Duration::from_secs(60),
        }
    }
}

impl AcceptBounds {
    /// Sources of IPv6 that one /48 counts as: a site has more customers or boxes than a /64.
    const SITE_SOURCES: usize = 4;

    /// The places at such a listener.
    pub fn places(&self) -> PlaceBounds {
        PlaceBounds {
            connections_max: self.connections_max,
            fresh_max: self.handshakes_max,
            fresh_min: self.handshake_min,
            per_address_max: self.strangers_per_source_max,
            per_site_max: self.strangers_per_source_max.saturating_mul(Self::SITE_SOURCES),
        }
    }

    /// What each of its connections may do, if it takes no bodies.
    pub fn requests(&self) -> RequestBounds {
        RequestBounds { idle_max: self.idle_max, ..RequestBounds::default() }
    }
}

/// Who sends a request. Handlers get it as `ConnectInfo<Caller>`.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Where from.
    pub address: SocketAddr,
    /// The node's certificate; none for a stranger.
    pub peer: Option<Arc<NodeCertificate>>,
}

/// As it is written in logs.
impl Display for Caller {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.peer {
            Some(peer) => write!(f, "{} at {}", peer.node, self.address),
            None => write!(f, "{}", self.address),
        }
    }
}

/// Gives out connections whose handshake is done. For [`listener::serve`].
#[derive(Debug)]
pub struct Acceptor {
    handshakes: Handshakes<Caller>,
    sweeper: JoinHandle<()>,
}

/// The open connections of nodes.
#[derive(Debug, Default)]
struct OpenNodes(Mutex<Vec<(Arc<NodeCertificate>, Ender)>>);

impl Acceptor {
    /// Accepts from `listener`, which has `places`.
    ///
    /// # Errors
    /// If the listener has no address.
    pub fn start(
        listener: TcpListener,
        config: Arc<ServerConfig>,
        register: Arc<dyn Register>,
        refusals: Arc<RefusalLog>,
        places: Arc<Places>,
        bounds: AcceptBounds,
    ) -> io::Result<Self> {
        let open = Arc::new(OpenNodes::default());
        let sweeper = sweep(Arc::clone(&open), register, Arc::clone(&refusals));
        let wrong_purpose = RefusalReason::NotANode;
        let of_welcome = bounds.clone();
        let welcome = move |stream: &TlsStream<TcpStream>, address, place: &mut HeldPlace| {
            welcome(stream, address, place, &of_welcome, &open)
        };
        let door = Door { places, bounds, refusals, welcome: Box::new(welcome), wrong_purpose };
        let handshakes = Handshakes::start(listener, config, door)?;
        Ok(Self { handshakes, sweeper: tokio::spawn(sweeper) })
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.sweeper.abort();
    }
}

impl Accept for Acceptor {
    type Stream = TlsStream<TcpStream>;
    type Caller = Caller;

    async fn accept(&mut self) -> Accepted<TlsStream<TcpStream>, Caller> {
        self.handshakes.next().await
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.handshakes.address())
    }
}

impl OpenNodes {
    fn add(&self, peer: &Arc<NodeCertificate>, ender: Ender) {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.push((Arc::clone(peer), ender));
    }

    /// Ends the connections of nodes that `may_stay` does not hold for.
    fn sweep(&self, may_stay: impl Fn(&NodeCertificate) -> bool) {
        // Asking may take a lock of the gateway's, so it does not happen under ours.
        let open = {
            let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            open.retain(|(_, ender)| !ender.is_closed());
            open.clone()
        };
        for (peer, ender) in open {
            if !may_stay(&peer) {
                ender.end();
            }
        }
    }
}

async fn sweep(open: Arc<OpenNodes>, register: Arc<dyn Register>, refusals: Arc<RefusalLog>) {
    let mut ticks = interval(SWEEP);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let now = now_unix_seconds();
        open.sweep(|peer| match refused(peer, &*register, now) {
            None => true,
            Some(reason) => {
                refusals.refuse(reason, &format_args!("{} (connection closed)", peer.node));
                false
            }
        });
    }
}

/// Why a node may not speak, if it may not. Asked for each of its requests, too.
pub(crate) fn refused(
    peer: &NodeCertificate,
    register: &(impl Register + ?Sized),
    now_unix_seconds: u64,
) -> Option<RefusalReason> {
    if now_unix_seconds >= peer.expires_unix_seconds {
        return Some(RefusalReason::Expired);
    }
    match register.standing(peer) {
        NodeStanding::Good => None,
        NodeStanding::Revoked => Some(RefusalReason::Revoked),
        NodeStanding::Unknown => Some(RefusalReason::UnknownNode),
    }
}

impl Caller {
    /// The node that speaks, if it may.
    ///
    /// # Errors
    /// Why not.
    pub fn node(
        &self,
        register: &(impl Register + ?Sized),
    ) -> Result<&Arc<NodeCertificate>, RefusalReason> {
        let peer = self.peer.as_ref().ok_or(RefusalReason::NoCertificate)?;
        match refused(peer, register, now_unix_seconds()) {
            None => Ok(peer),
            Some(reason) => Err(reason),
        }
    }
}

fn welcome(
    stream: &TlsStream<TcpStream>,
    address: SocketAddr,
    place: &mut HeldPlace,
    bounds: &AcceptBounds,
    open: &OpenNodes,
) -> Result<Welcomed<Caller>, RefusalReason> {
    let chain = stream.get_ref().1.peer_certificates();
    let Some(own) = chain.and_then(<[_]>::first) else {
        let caller = Caller { address, peer: None };
        return Ok(Welcomed { caller, life_max: Some(bounds.stranger_max) });
    };
    let peer = Arc::new(NodeCertificate::read(own).map_err(|_| RefusalReason::NotANode)?);
    place.belongs_to(peer.node.as_str(), bounds.connections_per_node_max);
    open.add(&peer, place.ender());
    Ok(Welcomed { caller: Caller { address, peer: Some(peer) }, life_max: None })
}
