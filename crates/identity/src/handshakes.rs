//! Accepting: TCP, then TLS within bounds of time and number. A handshake never holds up another one.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::{CertificateError, Error, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::acceptor::AcceptBounds;
use crate::open::{Open, Place};
use crate::{RefusalLog, RefusalReason, plain_http};

/// How long to wait when the system has no room for one more connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Who is let in at a door.
pub(crate) struct Door<T> {
    pub(crate) open: Arc<Open>,
    pub(crate) bounds: AcceptBounds,
    pub(crate) refusals: Arc<RefusalLog>,
    /// What becomes of a connection whose handshake is done.
    pub(crate) welcome: Welcome<T>,
    /// Why a certificate for another purpose is refused.
    pub(crate) wrong_purpose: RefusalReason,
}

pub(crate) type Welcome<T> =
    fn(TlsStream<TcpStream>, SocketAddr, Place, &AcceptBounds) -> Result<T, RefusalReason>;

/// Gives out connections whose handshake is done.
#[derive(Debug)]
pub(crate) struct Handshakes<T> {
    ready: mpsc::Receiver<(T, SocketAddr)>,
    address: SocketAddr,
    task: JoinHandle<()>,
}

/// What each handshake needs.
struct Shared<T> {
    tls: TlsAcceptor,
    door: Door<T>,
    ready: mpsc::Sender<(T, SocketAddr)>,
}

impl<T: Send + 'static> Handshakes<T> {
    /// Accepts from `listener`.
    ///
    /// # Errors
    /// If the listener has no address.
    pub(crate) fn start(
        listener: TcpListener,
        config: Arc<ServerConfig>,
        door: Door<T>,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (sender, ready) = mpsc::channel(1);
        let shared = Shared { tls: TlsAcceptor::from(config), door, ready: sender };
        let task = tokio::spawn(accept(listener, Arc::new(shared)));
        Ok(Self { ready, address, task })
    }

    pub(crate) async fn next(&mut self) -> (T, SocketAddr) {
        match self.ready.recv().await {
            Some(ready) => ready,
            // The accepting task ends with this object only.
            None => std::future::pending().await,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl<T> Drop for Handshakes<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept<T: Send + 'static>(listener: TcpListener, shared: Arc<Shared<T>>) {
    let handshakes = Arc::new(Semaphore::new(shared.door.bounds.handshakes_max));
    loop {
        let Ok(permit) = Arc::clone(&handshakes).acquire_owned().await else { return };
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(_) => {
                sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        let Some(place) = shared.door.open.enter(address.ip()) else {
            shared.door.refusals.refuse(RefusalReason::TooManyConnections, &address);
            continue;
        };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let connection = shake_hands(&shared, stream, address, place).await;
            drop(permit);
            match connection {
                // If nobody takes it any more, the gateway is about to end.
                Ok(connection) => drop(shared.ready.send((connection, address)).await),
                Err(reason) => shared.door.refusals.refuse(reason, &address),
            }
        });
    }
}

async fn shake_hands<T>(
    shared: &Shared<T>,
    stream: TcpStream,
    address: SocketAddr,
    place: Place,
) -> Result<T, RefusalReason> {
    let Door { bounds, welcome, wrong_purpose, .. } = &shared.door;
    // Answers are small, and wait for nothing.
    let _ = stream.set_nodelay(true);
    let handshake = async {
        if plain_http::comes(&stream).await {
            plain_http::refuse(stream).await;
            return Err(RefusalReason::PlainHttp);
        }
        shared.tls.accept(stream).await.map_err(|error| reason_of(&error, *wrong_purpose))
    };
    let stream = timeout(bounds.handshake_max, handshake)
        .await
        .map_err(|_| RefusalReason::HandshakeSlow)??;
    welcome(stream, address, place, bounds)
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
