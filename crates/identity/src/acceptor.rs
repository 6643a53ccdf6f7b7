//! Accepts machines: TCP, then mutual TLS within bounds of time and number, then a [`Connection`] whose [`Caller`] is known.
//!
//! A client's certificate is optional here, since a box that joins has none; whatever needs one asks for [`Caller::peer`].
//! Open connections of nodes are looked at twice a second: a node that was revoked,
//! or whose certificate has run out meanwhile, is cut off.

use std::fmt::{self, Display, Formatter};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};
use tokio_rustls::server::TlsStream;

use crate::connection::Stay;
use crate::handshakes::{Door, Handshakes};
use crate::open::{Open, Place};
use crate::{
    Connection, NodeCertificate, NodeStanding, RefusalLog, RefusalReason, Register,
    now_unix_seconds,
};

/// How often open connections are looked at: revoking takes effect within this time.
const SWEEP: Duration = Duration::from_millis(500);

/// Bounds of an [`Acceptor`] and of a [`GuestListener`](crate::GuestListener).
#[derive(Clone, Debug)]
pub struct AcceptBounds {
    /// How long a handshake may take.
    pub handshake_max: Duration,
    /// Handshakes at a time. Further ones wait in the kernel's queue.
    pub handshakes_max: usize,
    /// Connections in all.
    pub connections_max: usize,
    /// Connections of one node.
    pub connections_per_node_max: usize,
    /// Connections of strangers from one IPv4 address or one /64 of IPv6, handshakes included. All guests are strangers.
    pub strangers_per_source_max: u32,
    /// How long a stranger may stay: joining takes one request.
    pub stranger_max: Duration,
    /// How long nothing may move on the connection of a node, which beats every 5 s, or of a guest.
    pub idle_max: Duration,
}

impl Default for AcceptBounds {
    fn default() -> Self {
        Self {
            handshake_max: Duration::from_secs(10),
            handshakes_max: 2048,
            connections_max: 20_000,
            connections_per_node_max: 8,
            strangers_per_source_max: 128,
            stranger_max: Duration::from_secs(30),
            idle_max: Duration::from_secs(60),
        }
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

impl Connected<IncomingStream<'_, Acceptor>> for Caller {
    fn connect_info(stream: IncomingStream<'_, Acceptor>) -> Self {
        stream.io().caller().clone()
    }
}

/// Gives out connections whose handshake is done. For `axum::serve`.
#[derive(Debug)]
pub struct Acceptor {
    handshakes: Handshakes<Connection>,
    sweeper: JoinHandle<()>,
}

impl Acceptor {
    /// Accepts from `listener`.
    ///
    /// # Errors
    /// If the listener has no address.
    pub fn start(
        listener: TcpListener,
        config: Arc<ServerConfig>,
        register: Arc<dyn Register>,
        refusals: Arc<RefusalLog>,
        bounds: AcceptBounds,
    ) -> io::Result<Self> {
        let open = Open::new(bounds.clone());
        let sweeper = sweep(Arc::clone(&open), register, Arc::clone(&refusals));
        let wrong_purpose = RefusalReason::NotANode;
        let door = Door { open, bounds, refusals, welcome, wrong_purpose };
        let handshakes = Handshakes::start(listener, config, door)?;
        Ok(Self { handshakes, sweeper: tokio::spawn(sweeper) })
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.sweeper.abort();
    }
}

impl Listener for Acceptor {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        self.handshakes.next().await
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.handshakes.address())
    }
}

async fn sweep(open: Arc<Open>, register: Arc<dyn Register>, refusals: Arc<RefusalLog>) {
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
    stream: TlsStream<TcpStream>,
    address: SocketAddr,
    mut place: Place,
    bounds: &AcceptBounds,
) -> Result<Connection, RefusalReason> {
    let chain = stream.get_ref().1.peer_certificates();
    let peer = match chain.and_then(<[_]>::first) {
        None => None,
        Some(own) => {
            Some(Arc::new(NodeCertificate::read(own).map_err(|_| RefusalReason::NotANode)?))
        }
    };
    let stay = match &peer {
        None => Stay::AtMost(bounds.stranger_max),
        Some(peer) => {
            place.is_node(peer);
            Stay::WhileItMoves(bounds.idle_max)
        }
    };
    Ok(Connection::new(stream, Caller { address, peer }, place, stay))
}
