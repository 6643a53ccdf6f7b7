//! Guarded listeners over real sockets: the answers to slow, silent and malformed clients, while others are served.

mod http2;

use std::future::{Future, pending};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::routing::{get, post};
use fullbore_listener::{
    Accept, Accepted, Bodies, BodyBounds, BodyBudget, BodyFault, Descriptors, ListenerRefusal,
    PlaceBounds, Places, PlainListener, Protocol, RefusedCounts, RequestBounds, read_body, serve,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

/// The limit for every wait here: this catches hanging tests, not slow machines.
const PATIENCE: Duration = Duration::from_secs(60);

struct Server {
    address: SocketAddr,
    counts: Arc<RefusedCounts>,
    /// Whether the body of `/large` was abandoned or sent.
    is_large_over: Arc<AtomicBool>,
}

/// Short times, for tests that wait until they expire. A client has `head_max` from the start of its connection to send a request, and must manage
/// that on a busy machine.
fn brief(bodies: Bodies) -> RequestBounds {
    RequestBounds {
        head_max: Duration::from_secs(2),
        idle_max: Duration::from_secs(3),
        bodies,
        ..RequestBounds::default()
    }
}

fn patient(bodies: Bodies) -> RequestBounds {
    RequestBounds { bodies, ..RequestBounds::default() }
}

/// Plain connections that speak HTTP/2 from the first byte.
struct Http2(PlainListener<SocketAddr>);

impl Accept for Http2 {
    type Stream = TcpStream;
    type Caller = SocketAddr;

    async fn accept(&mut self) -> Accepted<TcpStream, SocketAddr> {
        Accepted { protocol: Protocol::Http2, ..self.0.accept().await }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// Reports when it is dropped.
struct Flag(Arc<AtomicBool>);

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// A response that is larger than all buffers on its way.
fn large(is_over: &Arc<AtomicBool>) -> Body {
    let flag = Flag(Arc::clone(is_over));
    let pieces = futures_util::stream::unfold((0, flag), |(count, flag)| async move {
        let piece = Ok::<_, io::Error>(Bytes::from(vec![b'x'; 64 << 10]));
        (count < 4096).then_some((piece, (count + 1, flag)))
    });
    Body::from_stream(pieces)
}

async fn take(body: Body, budget: &Arc<BodyBudget>) -> (StatusCode, String) {
    match read_body(body, BodyBounds::small(64 << 10), budget).await {
        Ok(read) => (StatusCode::OK, format!("{} bytes", read.len())),
        Err(BodyFault::TooLarge) => (StatusCode::PAYLOAD_TOO_LARGE, String::new()),
        Err(fault) => (StatusCode::SERVICE_UNAVAILABLE, format!("{fault:?}")),
    }
}

impl Server {
    async fn start(bounds: RequestBounds) -> Self {
        Self::of(bounds, PlaceBounds::default(), Protocol::Http1).await
    }

    async fn of(bounds: RequestBounds, places: PlaceBounds, protocol: Protocol) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let counts = Arc::new(RefusedCounts::default());
        let share = Descriptors::of_limit(4096).share(0);
        let places = Places::new(places, share, Arc::clone(&counts));
        let is_large_over = Arc::new(AtomicBool::new(false));
        let (of_large, budget) = (Arc::clone(&is_large_over), BodyBudget::new(1 << 20));
        let routes = Router::new()
            .route("/", get(|| async { "hello\n" }))
            .route("/large", get(move || async move { large(&of_large) }))
            .route("/take", post(move |body: Body| async move { take(body, &budget).await }))
            .route("/refuse", post(|| async { StatusCode::UNAUTHORIZED }));
        let plain = PlainListener::new(listener, places, |address: SocketAddr| address);
        let of_counts = Arc::clone(&counts);
        match protocol {
            Protocol::Http1 => {
                tokio::spawn(serve(plain, routes, bounds, of_counts, pending()));
            }
            Protocol::Http2 => {
                tokio::spawn(serve(Http2(plain), routes, bounds, of_counts, pending()));
            }
        }
        Self { address, counts, is_large_over }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// The whole answer to `bytes`, until the server closes.
    async fn answer(&self, bytes: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(bytes.as_bytes()).await.unwrap();
        rest(&mut stream).await
    }

    async fn is_well(&self) -> bool {
        let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        self.answer(request).await.ends_with("\r\n\r\nhello\n")
    }
}

/// Everything that the server still sends before it closes. A reset ends it, too.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = stream.read_to_end(&mut bytes);
    let _ = timeout(PATIENCE, read).await.expect("the server closes");
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn eventually(mut holds: impl AsyncFnMut() -> bool) {
    let looks = async {
        while !holds().await {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, looks).await.expect("it comes to hold");
}

/// The status line of a response, and whether it has `Connection: close`.
fn status(answer: &str) -> (&str, bool) {
    let closes = answer.to_ascii_lowercase().contains("\r\nconnection: close\r\n");
    (answer.lines().next().unwrap_or_default(), closes)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_sent_head_is_answered_408_and_others_are_served_meanwhile() {
    let server = Server::start(brief(Bodies::None)).await;
    let mut halves = Vec::new();
    for _ in 0..100 {
        let mut half = server.connect().await;
        half.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n").await.unwrap();
        halves.push(half);
    }
    assert!(server.is_well().await);
    for half in &mut halves {
        let answer = rest(half).await;
        assert_eq!(status(&answer), ("HTTP/1.1 408 Request Timeout", true), "{answer}");
    }
    assert_eq!(server.counts.count(ListenerRefusal::HeadSlow), 100);
}

/// The client never stops, so only the server can end this.
#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_trickles_and_one_that_never_begins_are_given_up() {
    let server = Server::start(brief(Bodies::None)).await;
    let mut silent = server.connect().await;
    let (mut reads, mut writes) = server.connect().await.into_split();
    writes.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nX: ").await.unwrap();
    let trickle = tokio::spawn(async move {
        while writes.write_all(b"x").await.is_ok() {
            sleep(Duration::from_millis(20)).await;
        }
    });
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, reads.read_to_end(&mut answer)).await.expect("it is closed");
    assert!(answer.starts_with(b"HTTP/1.1 408 "), "{answer:?}");
    timeout(PATIENCE, trickle).await.expect("writing fails").unwrap();
    assert_eq!(rest(&mut silent).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_is_closed_and_a_second_request_has_its_time() {
    let server = Server::start(brief(Bodies::None)).await;
    let mut stream = server.connect().await;
    let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = vec![0; 4096];
    let count = stream.read(&mut answer).await.unwrap();
    assert!(answer[..count].starts_with(b"HTTP/1.1 200 "));
    stream.write_all(&request[..10]).await.unwrap();
    let answer = rest(&mut stream).await;
    // On a slow machine, it may already have been idle for too long.
    assert!(answer.is_empty() || status(&answer).0.contains("408"), "{answer}");
    assert!(server.is_well().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_nothing_is_given_up_over_both_protocols() {
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let server = Server::of(brief(Bodies::None), PlaceBounds::default(), protocol).await;
        let mut stream = server.connect().await;
        let request = match protocol {
            Protocol::Http1 => b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(),
            Protocol::Http2 => http2::get("/large"),
        };
        stream.write_all(&request).await.unwrap();
        eventually(async || server.is_large_over.load(SeqCst)).await;
        drop(stream);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_full_of_half_sent_heads_and_idle_connections_answers_newcomers() {
    let few = PlaceBounds {
        connections_max: 20,
        fresh_max: 10,
        fresh_min: Duration::ZERO,
        per_address_max: 20,
        per_site_max: 20,
    };
    let server = Server::of(patient(Bodies::None), few, Protocol::Http1).await;
    let mut idle = Vec::new();
    for _ in 0..10 {
        let mut stream = server.connect().await;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        stream.read_exact(&mut [0; 12]).await.unwrap();
        idle.push(stream);
    }
    let mut halves = Vec::new();
    for _ in 0..50 {
        let mut half = server.connect().await;
        let _ = half.write_all(b"GET / HTTP/1.1\r\n").await;
        halves.push(half);
    }
    for _ in 0..10 {
        assert!(server.is_well().await);
    }
    assert!(server.counts.count(ListenerRefusal::GaveWay) >= 40, "{:?}", server.counts);
    assert_eq!(server.counts.count(ListenerRefusal::NoPlace), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_is_hidden_in_another_ones_body() {
    let hidden = "POST /take HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\nGET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let server = Server::start(patient(Bodies::OfKnownLength)).await;
    let answer = server.answer(hidden).await;
    assert_eq!(status(&answer), ("HTTP/1.1 411 Length Required", true), "{answer}");
    assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
    let first = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let answer = server.answer(&[first, hidden].concat()).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("HTTP/1.1 411"), "{answer}");
    assert_eq!(answer.matches("HTTP/1.1").count(), 2, "{answer}");
    assert_eq!(server.counts.count(ListenerRefusal::NoLength), 2);
    let server = Server::start(patient(Bodies::None)).await;
    assert_eq!(status(&server.answer(hidden).await), ("HTTP/1.1 405 Method Not Allowed", true));
    let of_get = hidden.replace("POST /take", "GET /");
    assert_eq!(status(&server.answer(&of_get).await), ("HTTP/1.1 413 Payload Too Large", true));
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_heads_are_refused_and_the_connection_closes() {
    let server = Server::start(patient(Bodies::None)).await;
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(9000));
    let large = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(400_000));
    let method = format!("{} / HTTP/1.1\r\nHost: a\r\n\r\n", "X".repeat(100_000));
    for (request, expected) in [
        ("GET / HTTP/1.1\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400"),
        ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", "400"),
        ("GET * HTTP/1.1\r\nHost: a\r\n\r\n", "400"),
        ("GET / HTTP/1.1\nHost: a\n\n", "400"),
        ("CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n", "501"),
        ("REFUSED /bad_host HTTP/1.1\r\nHost: a\r\n\r\n", "501"),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", "505"),
        (&long, "414"),
        (&large, "431"),
        (&method, "501"),
    ] {
        let answer = server.answer(request).await;
        let (line, closes) = status(&answer);
        let shown = &request[..request.len().min(60)];
        assert!(
            line.starts_with(&format!("HTTP/1.1 {expected} ")) && closes,
            "{shown:?}: {answer}"
        );
    }
    let head = server.answer("HEAD / HTTP/1.1\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 400") && head.ends_with("\r\n\r\n"), "{head}");
    assert!(server.is_well().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_but_valid_requests_are_answered() {
    let server = Server::start(patient(Bodies::None)).await;
    let end = "Host: a\r\nConnection: close\r\n\r\n";
    for (line, expected) in [
        ("GET / HTTP/1.2\r\n", "HTTP/1.1 200 OK"),
        ("GET http://b.example/ HTTP/1.1\r\n", "HTTP/1.1 200 OK"),
        ("\r\nGET / HTTP/1.1\r\n", "HTTP/1.1 200 OK"),
        ("OPTIONS * HTTP/1.1\r\n", "HTTP/1.1 204 No Content"),
        ("POST / HTTP/1.1\r\nContent-Length: 0\r\n", "HTTP/1.1 405 Method Not Allowed"),
    ] {
        let answer = server.answer(&[line, end].concat()).await;
        assert_eq!(status(&answer).0, expected, "{line:?}: {answer}");
    }
    let old = server.answer("GET / HTTP/1.0\r\n\r\n").await;
    assert!(old.contains(" 200 OK\r\n") && old.ends_with("hello\n"), "{old}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_does_not_read_a_body_answers_at_once_and_the_connection_closes() {
    let server = Server::start(patient(Bodies::OfKnownLength)).await;
    // The body never arrives.
    let request = "POST /refuse HTTP/1.1\r\nHost: a\r\nContent-Length: 33554432\r\n\r\n";
    assert_eq!(status(&server.answer(request).await), ("HTTP/1.1 401 Unauthorized", true));
    let request = request.replace("/refuse", "/take");
    assert_eq!(status(&server.answer(&request).await), ("HTTP/1.1 413 Payload Too Large", true));
    // A client that sends all of it gets the answer, too.
    let whole = request.replace("33554432", "4194304") + &"x".repeat(4 << 20);
    let (mut reads, mut writes) = server.connect().await.into_split();
    let sends = tokio::spawn(async move { writes.write_all(whole.as_bytes()).await });
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, reads.read_to_end(&mut answer)).await.expect("it is closed");
    assert!(answer.starts_with(b"HTTP/1.1 413 "), "{}", String::from_utf8_lossy(&answer));
    let _ = sends.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_body_that_no_handler_reads_is_read_past_and_the_connection_stays() {
    let server = Server::start(patient(Bodies::OfKnownLength)).await;
    let mut stream = server.connect().await;
    stream
        .write_all(b"POST /refuse HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n")
        .await
        .unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 401");
    // The body arrives late, and the next request after it.
    let next = b"abcdeGET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    stream.write_all(next).await.unwrap();
    let rest = rest(&mut stream).await;
    assert!(rest.ends_with("hello\n"), "{rest}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_known_length_are_read_and_the_connection_stays() {
    let server = Server::start(patient(Bodies::OfKnownLength)).await;
    let one = "POST /take HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcde";
    let last = "POST /take HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx";
    let answer = server.answer(&[one, one, last].concat()).await;
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 3, "{answer}");
    assert_eq!(answer.matches("5 bytes").count(), 2, "{answer}");
    // A client that waits for `100 Continue`.
    let waits = "POST /take HTTP/1.1\r\nHost: a\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
    let mut stream = server.connect().await;
    stream.write_all(waits.as_bytes()).await.unwrap();
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).await.unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"abc").await.unwrap();
    assert!(rest(&mut stream).await.ends_with("3 bytes"));
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_takes_a_few_streams_and_bodies_of_known_length_only() {
    let places = PlaceBounds::default();
    let server = Server::of(patient(Bodies::OfKnownLength), places, Protocol::Http2).await;
    let mut stream = server.connect().await;
    stream.write_all(&http2::post("/take", b"abc")).await.unwrap();
    let frames = http2::until_status(&mut stream).await;
    assert_eq!(frames.streams_max, Some(RequestBounds::default().streams_max));
    assert_eq!(frames.status, 411);
    assert_eq!(server.counts.count(ListenerRefusal::NoLength), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_lets_responses_end() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let counts = Arc::new(RefusedCounts::default());
    let share = Descriptors::of_limit(4096).share(0);
    let places = Places::new(PlaceBounds::default(), share, Arc::clone(&counts));
    let plain = PlainListener::new(listener, places, |address: SocketAddr| address);
    let (begun, mut has_begun) = tokio::sync::mpsc::channel(1);
    let (go, may_go) = tokio::sync::watch::channel(false);
    let handler = move || async move {
        begun.send(()).await.unwrap();
        let _ = may_go.clone().wait_for(|may| *may).await;
        "late\n"
    };
    let routes = Router::new().route("/", get(handler));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let stop_here: std::pin::Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
        let _ = stopped.await;
    });
    let bounds = RequestBounds::default();
    let serving = tokio::spawn(serve(plain, routes, bounds, counts, stop_here));
    let mut idle = TcpStream::connect(address).await.unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    has_begun.recv().await.unwrap();
    stop.send(()).unwrap();
    assert_eq!(rest(&mut idle).await, "");
    assert!(!serving.is_finished());
    go.send(true).unwrap();
    assert!(rest(&mut stream).await.ends_with("late\n"));
    timeout(PATIENCE, serving).await.expect("it ends").unwrap();
}
