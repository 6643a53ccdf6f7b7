//! Serves a router on guarded connections.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use crate::activity::Activity;
use crate::answering::Service;
use crate::bounds::RequestBounds;
use crate::connection::Guarded;
use crate::framing::Framing;
use crate::places::HeldPlace;
use crate::refused::RefusedCounts;

/// The largest head over HTTP/2, the same as over HTTP/1.
const HEAD_BYTES_MAX: u32 = 16 << 10;

/// Hyper's buffer for each HTTP/1 connection: holds the largest head, and responses that fit.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// How much a peer may send on one HTTP/2 stream, and on a whole connection, before a handler reads.
const STREAM_WINDOW_BYTES: u32 = 128 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 256 << 10;

/// The send buffer of one stream.
const SEND_BUFFER_BYTES_MAX: usize = 64 << 10;

/// A connection's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1 or 1.0.
    Http1,
    /// HTTP/2, agreed on by ALPN.
    Http2,
}

/// A connection that has a place.
#[derive(Debug)]
pub struct Accepted<S, C> {
    /// Its stream, after any handshake.
    pub stream: S,
    /// The peer. Handlers get it as `ConnectInfo`.
    pub caller: C,
    /// Its place.
    pub place: HeldPlace,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its maximum lifetime.
    pub life_max: Option<Duration>,
}

/// A source of connections.
pub trait Accept: Send + 'static {
    /// Their streams.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// The peer's identity.
    type Caller: Clone + Send + Sync + 'static;

    /// The next connection. A peer must not be able to delay it.
    fn accept(&mut self) -> impl Future<Output = Accepted<Self::Stream, Self::Caller>> + Send;

    /// The address that it listens on.
    ///
    /// # Errors
    /// If the system can't report it.
    fn local_addr(&self) -> io::Result<SocketAddr>;
}

/// Serves `router` until `stop` is done. Then it accepts no more connections, and ends when all of them have their responses.
pub async fn serve<A: Accept>(
    mut from: A,
    router: Router,
    bounds: RequestBounds,
    counts: Arc<RefusedCounts>,
    stop: impl Future<Output = ()> + Send,
) {
    let (stopping, stopped) = watch::channel(false);
    let mut stop = pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = from.accept() => accepted,
            () = &mut stop => break,
        };
        let (router, bounds) = (router.clone(), bounds.clone());
        let (counts, stopped) = (Arc::clone(&counts), stopped.clone());
        tokio::spawn(converse(accepted, router, bounds, counts, stopped));
    }
    drop((from, stopped));
    stopping.send_replace(true);
    stopping.closed().await;
}

async fn converse<S, C>(
    accepted: Accepted<S, C>,
    router: Router,
    bounds: RequestBounds,
    counts: Arc<RefusedCounts>,
    mut stopped: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    C: Clone + Send + Sync + 'static,
{
    let Accepted { stream, caller, place, protocol, life_max } = accepted;
    let activity = Activity::new(place);
    let is_http1 = protocol == Protocol::Http1;
    let framing = is_http1.then(|| Framing::new(bounds.bodies));
    let service = Service {
        router,
        caller,
        bodies: bounds.bodies,
        protocol,
        activity: Arc::clone(&activity),
        counts: Arc::clone(&counts),
    };
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let service = service.clone();
        async move { Ok::<_, Infallible>(service.answer(request).await) }
    });
    let streams_max = bounds.streams_max;
    let io = TokioIo::new(Guarded::new(stream, framing, activity, bounds, counts, life_max));
    let stop = async move {
        // An error means that the listener is gone, which has the same effect.
        let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
        stopped
    };
    // A connection's error is the peer's, and the peer is gone: there is no one to report it to.
    if is_http1 {
        let mut http1 = http1::Builder::new();
        let connection = http1.max_buf_size(BUFFER_BYTES_MAX).serve_connection(io, service);
        let mut connection = pin!(connection);
        tokio::select! {
            _ = &mut connection => {}
            _held = stop => {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            }
        }
    } else {
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .max_concurrent_streams(streams_max)
            .max_header_list_size(HEAD_BYTES_MAX)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_send_buf_size(SEND_BUFFER_BYTES_MAX);
        let mut connection = pin!(http2.serve_connection(io, service));
        tokio::select! {
            _ = &mut connection => {}
            _held = stop => {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            }
        }
    }
}
