//! Viewers and operators at a gateway, with or without TLS. Browsers trust the gateway's certificate; only operators may use a client certificate.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use listener::{Accept, Accepted, HeldPlace, Places};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::server::TlsStream;

use crate::handshakes::{AcceptPolicy, Authorized, Handshakes};
use crate::{AcceptBounds, OperatorCertificate, RefusalLog, RefusalReason};

/// The sender of a request. Handlers get it as `ConnectInfo<Guest>`.
#[derive(Clone, Debug)]
pub struct Guest {
    /// The remote address.
    pub address: SocketAddr,
    /// The operator's certificate, if the client sent one.
    pub operator: Option<Arc<OperatorCertificate>>,
}

impl Guest {
    /// A client without TLS.
    pub fn plain(address: SocketAddr) -> Self {
        Self { address, operator: None }
    }
}

/// Limits for guests. A thousand viewers may share one address, and two connections each are usual.
pub fn guest_bounds() -> AcceptBounds {
    AcceptBounds {
        handshakes_max: 8192,
        strangers_per_source_max: 2048,
        // The same as the video server's for idle connections.
        idle_max: Duration::from_secs(75),
        ..AcceptBounds::default()
    }
}

/// Yields guests' connections with a completed handshake, for [`listener::serve`].
#[derive(Debug)]
pub struct GuestListener(Handshakes<Guest>);

impl GuestListener {
    /// Accepts from `listener`.
    ///
    /// # Errors
    /// If the listener has no address.
    pub fn start(
        listener: TcpListener,
        config: Arc<ServerConfig>,
        refusals: Arc<RefusalLog>,
        places: Arc<Places>,
        bounds: AcceptBounds,
    ) -> io::Result<Self> {
        let wrong_purpose = RefusalReason::NotAnOperator;
        let policy = AcceptPolicy {
            places,
            bounds,
            refusals,
            authorize: Box::new(authorize),
            wrong_purpose,
        };
        Handshakes::start(listener, config, policy).map(Self)
    }
}

impl Accept for GuestListener {
    type Stream = TlsStream<TcpStream>;
    type Caller = Guest;

    async fn accept(&mut self) -> Accepted<TlsStream<TcpStream>, Guest> {
        self.0.next().await
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.0.address())
    }
}

fn authorize(
    stream: &TlsStream<TcpStream>,
    address: SocketAddr,
    _place: &mut HeldPlace,
) -> Result<Authorized<Guest>, RefusalReason> {
    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let operator = match shown {
        None => None,
        Some(own) => {
            Some(Arc::new(OperatorCertificate::read(own).ok_or(RefusalReason::NotAnOperator)?))
        }
    };
    Ok(Authorized { caller: Guest { address, operator }, life_max: None })
}
