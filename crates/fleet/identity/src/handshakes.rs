//! Accepting connections: TCP, then TLS with limits on time and number. A handshake never blocks another one.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use listener::{Accepted, HeldPlace, Places, Protocol};
use rustls::{CertificateError, Error, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::acceptor::AcceptBounds;
use crate::{RefusalLog, RefusalReason, plain_http};

/// Pause before the next attempt if the system cannot accept another connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Admission rules of a listener.
pub(crate) struct AcceptPolicy<C> {
    pub(crate) places: Arc<Places>,
    pub(crate) bounds: AcceptBounds,
    pub(crate) refusals: Arc<RefusalLog>,
    /// Identifies the peer of a connection with a completed handshake.
    pub(crate) authorize: Authorize<C>,
    /// The refusal reason of a certificate for another purpose.
    pub(crate) wrong_purpose: RefusalReason,
}

/// The peer, and the longest duration of its connection.
pub(crate) struct Authorized<C> {
    pub(crate) caller: C,
    pub(crate) life_max: Option<Duration>,
}

pub(crate) type Authorize<C> = Box<
    dyn Fn(
            &TlsStream<TcpStream>,
            SocketAddr,
            &mut HeldPlace,
        ) -> Result<Authorized<C>, RefusalReason>
        + Send
        + Sync,
>;

type Ready<C> = Accepted<TlsStream<TcpStream>, C>;

/// Yields connections with a completed handshake.
#[derive(Debug)]
pub(crate) struct Handshakes<C> {
    ready: mpsc::Receiver<Ready<C>>,
    address: SocketAddr,
    task: JoinHandle<()>,
}

/// State shared by all handshakes.
struct Shared<C> {
    tls: TlsAcceptor,
    policy: AcceptPolicy<C>,
    ready: mpsc::Sender<Ready<C>>,
}

impl<C: Send + 'static> Handshakes<C> {
    /// Accepts from `listener`.
    ///
    /// # Errors
    /// If the listener has no address.
    pub(crate) fn start(
        listener: TcpListener,
        config: Arc<ServerConfig>,
        policy: AcceptPolicy<C>,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (sender, ready) = mpsc::channel(1);
        let shared = Shared { tls: TlsAcceptor::from(config), policy, ready: sender };
        let task = tokio::spawn(accept(listener, Arc::new(shared)));
        Ok(Self { ready, address, task })
    }

    pub(crate) async fn next(&mut self) -> Ready<C> {
        match self.ready.recv().await {
            Some(ready) => ready,
            // The accepting task lives as long as this object.
            None => std::future::pending().await,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl<C> Drop for Handshakes<C> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Handshakes count as connections without a request: when there are too many, the oldest are dropped, and accepting never waits.
async fn accept<C: Send + 'static>(listener: TcpListener, shared: Arc<Shared<C>>) {
    loop {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(_) => {
                sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        let Some(place) = shared.policy.places.enter(address.ip()) else {
            shared.policy.refusals.refuse(RefusalReason::TooManyConnections, &address);
            continue;
        };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            match shake_hands(&shared, stream, address, place).await {
                // A closed receiver means that the gateway is about to stop.
                Ok(connection) => drop(shared.ready.send(connection).await),
                Err(reason) => shared.policy.refusals.refuse(reason, &address),
            }
        });
    }
}

async fn shake_hands<C>(
    shared: &Shared<C>,
    stream: TcpStream,
    address: SocketAddr,
    mut place: HeldPlace,
) -> Result<Ready<C>, RefusalReason> {
    let AcceptPolicy { bounds, authorize, wrong_purpose, .. } = &shared.policy;
    // Answers are small, and must not be delayed.
    let _ = stream.set_nodelay(true);
    let handshake = async {
        if plain_http::comes(&stream).await {
            plain_http::refuse(stream).await;
            return Err(RefusalReason::PlainHttp);
        }
        shared.tls.accept(stream).await.map_err(|error| reason_of(&error, *wrong_purpose))
    };
    let stream = tokio::select! {
        done = timeout(bounds.handshake_max, handshake) => {
            done.map_err(|_| RefusalReason::HandshakeSlow)??
        }
        () = place.ended() => return Err(RefusalReason::TooManyConnections),
    };
    let Authorized { caller, life_max } = authorize(&stream, address, &mut place)?;
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let protocol = if is_http2 { Protocol::Http2 } else { Protocol::Http1 };
    Ok(Accepted { stream, caller, place, protocol, life_max })
}

fn reason_of(error: &io::Error, wrong_purpose: RefusalReason) -> RefusalReason {
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
            wrong_purpose
        }
        _ => RefusalReason::HandshakeFailed,
    }
}
