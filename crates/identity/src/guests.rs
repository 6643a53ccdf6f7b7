//! Viewers and operators at a gateway, over TLS or without. The gateway's certificate is one that browsers trust; only operators may show one of
//! their own.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::server::TlsStream;

use crate::connection::Stay;
use crate::handshakes::{Door, Handshakes};
use crate::open::{Open, Place};
use crate::{AcceptBounds, Connection, OperatorCertificate, RefusalLog, RefusalReason};

/// Who sends a request. Handlers get it as `ConnectInfo<Guest>`.
#[derive(Clone, Debug)]
pub struct Guest {
    /// Where from.
    pub address: SocketAddr,
    /// The operator's certificate, if one was shown.
    pub operator: Option<Arc<OperatorCertificate>>,
}

impl Connected<IncomingStream<'_, GuestListener>> for Guest {
    fn connect_info(stream: IncomingStream<'_, GuestListener>) -> Self {
        stream.io().caller().clone()
    }
}

/// Without TLS.
impl Connected<IncomingStream<'_, TcpListener>> for Guest {
    fn connect_info(stream: IncomingStream<'_, TcpListener>) -> Self {
        Self { address: *stream.remote_addr(), operator: None }
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

/// Gives out guests' connections whose handshake is done. For `axum::serve`.
#[derive(Debug)]
pub struct GuestListener(Handshakes<Connection<Guest>>);

impl GuestListener {
    /// Accepts from `listener`.
    ///
    /// # Errors
    /// If the listener has no address.
    pub fn start(
        listener: TcpListener,
        config: Arc<ServerConfig>,
        refusals: Arc<RefusalLog>,
        bounds: AcceptBounds,
    ) -> io::Result<Self> {
        let open = Open::new(bounds.clone());
        let wrong_purpose = RefusalReason::NotAnOperator;
        let door = Door { open, bounds, refusals, welcome, wrong_purpose };
        Handshakes::start(listener, config, door).map(Self)
    }
}

impl Listener for GuestListener {
    type Io = Connection<Guest>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection<Guest>, SocketAddr) {
        self.0.next().await
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.0.address())
    }
}

fn welcome(
    stream: TlsStream<TcpStream>,
    address: SocketAddr,
    place: Place,
    bounds: &AcceptBounds,
) -> Result<Connection<Guest>, RefusalReason> {
    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let operator = match shown {
        None => None,
        Some(own) => {
            Some(Arc::new(OperatorCertificate::read(own).ok_or(RefusalReason::NotAnOperator)?))
        }
    };
    let stay = Stay::WhileItMoves(bounds.idle_max);
    Ok(Connection::new(stream, Guest { address, operator }, place, stay))
}
