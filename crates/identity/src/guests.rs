//! Viewers and operators at a gateway, over TLS or without. The gateway's certificate is one that browsers trust; only operators may show one of
//! their own.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use listener::{Accept, Accepted, HeldPlace, Places};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::server::TlsStream;

use crate::handshakes::{Door, Handshakes, Welcomed};
use crate::{AcceptBounds, OperatorCertificate, RefusalLog, RefusalReason};

/// Who sends a request. Handlers get it as `ConnectInfo<Guest>`.
#[derive(Clone, Debug)]
pub struct Guest {
    /// Where from.
    pub address: SocketAddr,
    /// The operator's certificate, if one was shown.
    pub operator: Option<Arc<OperatorCertificate>>,
}

impl Guest {
    /// A client without TLS.
    pub fn plain(address: SocketAddr) -> Self {
        Self { address, operator: None }
    }
}

/// Bounds for guests. A thousand viewers may be behind one address, and two connections each are usual.
pub fn guest_bounds() -> AcceptBounds {
    AcceptBounds {
        handshakes_max: 8192,
        strangers_per_source_max: 2048,
        // As the box's server keeps idle connections.
        idle_max: Duration::from_secs(75),
        ..AcceptBounds::default()
    }
}

/// Gives out guests' connections whose handshake is done. For [`listener::serve`].
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
        let door = Door { places, bounds, refusals, welcome: Box::new(welcome), wrong_purpose };
        Handshakes::start(listener, config, door).map(Self)
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

fn welcome(
    stream: &TlsStream<TcpStream>,
    address: SocketAddr,
    _place: &mut HeldPlace,
) -> Result<Welcomed<Guest>, RefusalReason> {
    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let operator = match shown {
        None => None,
        Some(own) => {
            Some(Arc::new(OperatorCertificate::read(own).ok_or(RefusalReason::NotAnOperator)?))
        }
    };
    Ok(Welcomed { caller: Guest { address, operator }, life_max: None })
}
