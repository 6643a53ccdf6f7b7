//! Accepts machines: TCP, then mutual TLS within bounds of time and number, then a [`Connection`] whose [`Caller`] is known.
//!
//! A client's certificate is optional here, since a box that joins has none; whatever needs one asks for [`Caller::peer`].
//! A handshake never holds up another one. Open connections of nodes are looked at twice a second: a node that was revoked,
//! or whose certificate has run out meanwhile, is cut off.

use std::fmt::{self, Display, Formatter};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use rustls::{CertificateError, Error, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::open::{Open, Place};
use crate::{
    Connection, NodeCertificate, NodeStanding, RefusalLog, RefusalReason, Register,
    now_unix_seconds,
};

/// How often open connections are looked at: revoking takes effect within this time.
const SWEEP: Duration = Duration::from_millis(500);

/// How long to wait when the system has no room for one more connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Bounds of an [`Acceptor`].
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
    /// Connections of strangers from one IPv4 address or one /64 of IPv6, handshakes included.
    pub strangers_per_source_max: u32,
    /// How long a stranger may stay: joining takes one request.
    pub stranger_max: Duration,
    /// How long nothing may move on a node's connection: it beats every 5 s.
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
    ready: mpsc::Receiver<(Connection, SocketAddr)>,
    address: SocketAddr,
    tasks: [JoinHandle<()>; 2],
}

/// What each handshake needs.
struct Shared {
    tls: TlsAcceptor,
    open: Arc<Open>,
    bounds: AcceptBounds,
    refusals: Arc<RefusalLog>,
    ready: mpsc::Sender<(Connection, SocketAddr)>,
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
        let address = listener.local_addr()?;
        let open = Open::new(bounds.clone());
        let (sender, ready) = mpsc::channel(1);
        let sweeper = tokio::spawn(sweep(Arc::clone(&open), register, Arc::clone(&refusals)));
        let shared =
            Shared { tls: TlsAcceptor::from(config), open, bounds, refusals, ready: sender };
        let acceptor = tokio::spawn(accept(listener, Arc::new(shared)));
        Ok(Self { ready, address, tasks: [sweeper, acceptor] })
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Listener for Acceptor {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        match self.ready.recv().await {
            Some(ready) => ready,
            // The accepting task ends with this object only.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
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
    match register.standing(&peer.node, &peer.serial) {
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

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let handshakes = Arc::new(Semaphore::new(shared.bounds.handshakes_max));
    loop {
        let Ok(permit) = Arc::clone(&handshakes).acquire_owned().await else { return };
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(_) => {
                sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        let Some(place) = shared.open.enter(address.ip()) else {
            shared.refusals.refuse(RefusalReason::TooManyConnections, &address);
            continue;
        };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let connection = shake_hands(&shared, stream, address, place).await;
            drop(permit);
            match connection {
                // If nobody takes it any more, the gateway is about to end.
                Ok(connection) => drop(shared.ready.send((connection, address)).await),
                Err(reason) => shared.refusals.refuse(reason, &address),
            }
        });
    }
}

async fn shake_hands(
    shared: &Shared,
    stream: TcpStream,
    address: SocketAddr,
    place: Place,
) -> Result<Connection, RefusalReason> {
    // Heartbeats are small, and wait for nothing.
    let _ = stream.set_nodelay(true);
    let stream = timeout(shared.bounds.handshake_max, shared.tls.accept(stream))
        .await
        .map_err(|_| RefusalReason::HandshakeSlow)?
        .map_err(|error| reason_of(&error))?;
    let chain = stream.get_ref().1.peer_certificates();
    let peer = match chain.and_then(<[_]>::first) {
        None => None,
        Some(own) => {
            Some(Arc::new(NodeCertificate::read(own).map_err(|_| RefusalReason::NotANode)?))
        }
    };
    Ok(Connection::new(stream, Caller { address, peer }, place, &shared.bounds))
}

fn reason_of(error: &io::Error) -> RefusalReason {
    let tls = error.get_ref().and_then(|error| error.downcast_ref::<Error>());
    let Some(Error::InvalidCertificate(wrong)) = tls else { return RefusalReason::HandshakeFailed };
    match wrong {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            RefusalReason::OtherAuthority
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => RefusalReason::Expired,
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            RefusalReason::NotANode
        }
        _ => RefusalReason::HandshakeFailed,
    }
}
