//! A listener without TLS.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use crate::places::Places;
use crate::serving::{Accept, Accepted, Protocol};

/// How long to wait when the system is out of resources for another connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Accepts plain TCP. Callers are identified by address alone.
#[derive(Debug)]
pub struct PlainListener<C> {
    listener: TcpListener,
    places: Arc<Places>,
    caller: fn(SocketAddr) -> C,
}

impl<C> PlainListener<C> {
    /// Accepts from `listener`. `caller` turns an address into the `ConnectInfo` that handlers get.
    pub fn new(listener: TcpListener, places: Arc<Places>, caller: fn(SocketAddr) -> C) -> Self {
        Self { listener, places, caller }
    }
}

impl<C: Clone + Send + Sync + 'static> Accept for PlainListener<C> {
    type Stream = TcpStream;
    type Caller = C;

    async fn accept(&mut self) -> Accepted<TcpStream, C> {
        loop {
            let Ok((stream, address)) = self.listener.accept().await else {
                sleep(ACCEPT_AGAIN).await;
                continue;
            };
            // Without a place, dropping the stream closes it.
            let Some(place) = self.places.enter(address.ip()) else { continue };
            // Responses are small and should leave at once.
            let _ = stream.set_nodelay(true);
            let caller = (self.caller)(address);
            return Accepted { stream, caller, place, protocol: Protocol::Http1, life_max: None };
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}
