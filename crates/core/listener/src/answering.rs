//! Passes each request to the router, and decides when a connection closes.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::ConnectInfo;
use axum::http::header::{ALLOW, CONNECTION};
use axum::http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::activity::{Activity, OpenRequest};
use crate::bounds::Bodies;
use crate::framing::{HEAD_QUERY, METHOD};
use crate::refused::{ListenerRefusal, RefusedCounts};
use crate::serving::Protocol;

/// A body of up to this size is skipped if no handler reads it, so that the connection stays open: nodes whose heartbeats are refused need
/// no new handshake for each. Over HTTP/2, clients that are still sending may take the reset of a stream for an error and miss the
/// response.
const READ_PAST_BYTES_MAX: u64 = 8 << 10;

/// How long that may take.
const READ_PAST_MAX: Duration = Duration::from_secs(10);

/// Answers the requests of one connection.
#[derive(Clone)]
pub(crate) struct Service<C> {
    pub(crate) router: Router,
    pub(crate) caller: C,
    pub(crate) bodies: Bodies,
    pub(crate) protocol: Protocol,
    pub(crate) activity: Arc<Activity>,
    pub(crate) counts: Arc<RefusedCounts>,
}

impl<C: Clone + Send + Sync + 'static> Service<C> {
    pub(crate) async fn answer(self, request: Request<Incoming>) -> Response<Body> {
        let running = self.activity.begin();
        let is_http1 = self.protocol == Protocol::Http1;
        let is_small =
            request.body().size_hint().upper().is_some_and(|bytes| bytes <= READ_PAST_BYTES_MAX);
        let is_read = Arc::new(AtomicBool::new(request.body().is_end_stream()));
        let mut response = match self.refusal(&request) {
            Some(refused) => {
                let is_head =
                    *request.method() == Method::HEAD || request.uri().query() == Some(HEAD_QUERY);
                refused.response(is_head, is_http1)
            }
            None if *request.method() == Method::OPTIONS && request.uri().path() == "*" => {
                of_server(self.bodies)
            }
            None => {
                let is_read = Arc::clone(&is_read);
                let inbound = |body| Body::new(Inbound { body: Some(body), is_small, is_read });
                let mut request = request.map(inbound);
                request.extensions_mut().insert(ConnectInfo(self.caller));
                let routed = TowerToHyperService::new(self.router).call(request).await;
                routed.unwrap_or_else(|never| match never {})
            }
        };
        if is_http1 && !is_small && !is_read.load(Relaxed) {
            // Hyper closes the connection, because the next bytes are the rest of this body.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let open = running.open_request();
        response.map(|body| Body::new(Outbound { body, open }))
    }

    /// Why the request is refused, if it is. Over HTTP/1 the framing has already checked it.
    fn refusal(&self, request: &Request<Incoming>) -> Option<ListenerRefusal> {
        if self.protocol == Protocol::Http1 {
            let is_refused = request.method().as_str() == METHOD;
            let reason = ListenerRefusal::of(request.uri().path().trim_start_matches('/'));
            return is_refused.then(|| reason.unwrap_or(ListenerRefusal::Body));
        }
        let body = request.body();
        let refused = match self.bodies {
            _ if body.is_end_stream() => return None,
            Bodies::None => ListenerRefusal::Body,
            Bodies::OfKnownLength if body.size_hint().exact().is_none() => {
                ListenerRefusal::NoLength
            }
            Bodies::OfKnownLength => return None,
        };
        self.counts.add(refused);
        Some(refused)
    }
}

/// The response to `OPTIONS *`, which asks about the server as a whole (RFC 9110 section 9.3.7).
fn of_server(bodies: Bodies) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let methods = match bodies {
        Bodies::None => "GET, HEAD, OPTIONS",
        Bodies::OfKnownLength => "GET, HEAD, OPTIONS, POST, PUT",
    };
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    response
}

/// A request's body, which reports whether it was read to its end.
struct Inbound {
    /// `None` once it has been dropped.
    body: Option<Incoming>,
    is_small: bool,
    is_read: Arc<AtomicBool>,
}

impl Drop for Inbound {
    fn drop(&mut self) {
        let is_left = self.is_small && !self.is_read.load(Relaxed);
        let Some(body) = self.body.take().filter(|_| is_left) else { return };
        // No runtime: the listener has ended.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(timeout(READ_PAST_MAX, read_past(body)));
        }
    }
}

async fn read_past(mut body: Incoming) {
    while let Some(Ok(_)) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {}
}

impl HttpBody for Inbound {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let polled = Pin::new(&mut *body).poll_frame(context);
        if matches!(polled, Poll::Ready(None)) || body.is_end_stream() {
            self.is_read.store(true, Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or(SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

/// A response's body. Its connection is busy until this is dropped.
struct Outbound {
    body: Body,
    open: OpenRequest,
}

impl HttpBody for Outbound {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.open.touch();
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
