//! Accepting machines: TCP, then mutual TLS with limits on time and number, then a connection with a known [`Caller`].
//!
//! The client certificate is optional here, since a machine that joins has none; handlers that need one call [`Caller::peer`]. Nodes' open
//! connections are checked twice a second: they are closed once the node is revoked or its certificate has expired.

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

use crate::handshakes::{AcceptPolicy, Authorized, Handshakes};
use crate::{NodeCertificate, NodeStanding, RefusalLog, RefusalReason, Register, now_unix_seconds};

/// How often open connections are checked: a revocation takes effect within this time.
const SWEEP: Duration = Duration::from_millis(500);

/// Limits of an [`Acceptor`] and of a [`GuestListener`](crate::GuestListener).
#[derive(Clone, Debug)]
pub struct AcceptBounds {
    /// Handshake timeout.
    pub handshake_max: Duration,
    /// Time for which a handshake is protected from being dropped in favour of others.
    pub handshake_min: Duration,
    /// Most concurrent handshakes. Beyond that, the oldest ones are dropped.
    pub handshakes_max: usize,
    /// Most connections in total.
    pub connections_max: usize,
    /// Most connections per node.
    pub connections_per_node_max: usize,
    /// Most connections of strangers per IPv4 address or IPv6 /64, including handshakes. All guests are strangers.
    pub strangers_per_source_max: usize,
    /// Longest connection of a stranger: joining takes one request.
    pub stranger_max: Duration,
    /// How long a connection may be idle, of a node, which sends a heartbeat every 5 s, or of a guest.
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
    /// Number of IPv6 sources that one /48 counts as: a site has more customers or machines than a /64.
    const SITE_SOURCES: usize = 4;

    /// Connection limits for such a listener.
    pub fn places(&self) -> PlaceBounds {
        PlaceBounds {
            connections_max: self.connections_max,
            fresh_max: self.handshakes_max,
            fresh_min: self.handshake_min,
            per_address_max: self.strangers_per_source_max,
            per_site_max: self.strangers_per_source_max.saturating_mul(Self::SITE_SOURCES),
        }
    }

    /// Request limits for each of its connections, if it accepts no bodies.
    pub fn requests(&self) -> RequestBounds {
        RequestBounds { idle_max: self.idle_max, ..RequestBounds::default() }
    }
}

/// The sender of a request. Handlers get it as `ConnectInfo<Caller>`.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The remote address.
    pub address: SocketAddr,
    /// The node's certificate; `None` for a stranger.
    pub peer: Option<Arc<NodeCertificate>>,
}

/// The form for logs.
impl Display for Caller {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.peer {
            Some(peer) => write!(f, "{} at {}", peer.node, self.address),
            None => write!(f, "{}", self.address),
        }
    }
}

/// Yields connections with a completed handshake, for [`listener::serve`].
#[derive(Debug)]
pub struct Acceptor {
    handshakes: Handshakes<Caller>,
    sweeper: JoinHandle<()>,
}

/// Nodes' open connections.
#[derive(Debug, Default)]
struct OpenNodes(Mutex<Vec<(Arc<NodeCertificate>, Ender)>>);

impl Acceptor {
    /// Accepts from `listener`, within `places`.
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
        let of_authorize = bounds.clone();
        let authorize = move |stream: &TlsStream<TcpStream>, address, place: &mut HeldPlace| {
            authorize(stream, address, place, &of_authorize, &open)
        };
        let policy = AcceptPolicy {
            places,
            bounds,
            refusals,
            authorize: Box::new(authorize),
            wrong_purpose,
        };
        let handshakes = Handshakes::start(listener, config, policy)?;
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

    /// Closes the connections of nodes for which `may_stay` is false.
    fn sweep(&self, may_stay: impl Fn(&NodeCertificate) -> bool) {
        // The check may take a lock of the gateway's, so it runs without holding ours.
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

/// Why a node is refused, if it is. This is checked for each of its requests, too.
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
    /// The calling node, if it is permitted.
    ///
    /// # Errors
    /// The reason if it is not.
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

fn authorize(
    stream: &TlsStream<TcpStream>,
    address: SocketAddr,
    place: &mut HeldPlace,
    bounds: &AcceptBounds,
    open: &OpenNodes,
) -> Result<Authorized<Caller>, RefusalReason> {
    let chain = stream.get_ref().1.peer_certificates();
    let Some(own) = chain.and_then(<[_]>::first) else {
        let caller = Caller { address, peer: None };
        return Ok(Authorized { caller, life_max: Some(bounds.stranger_max) });
    };
    let peer = Arc::new(NodeCertificate::read(own).map_err(|_| RefusalReason::NotANode)?);
    place.belongs_to(peer.node.as_str(), bounds.connections_per_node_max);
    open.add(&peer, place.ender());
    Ok(Authorized { caller: Caller { address, peer: Some(peer) }, life_max: None })
}
