//! One request: over an idle connection, or over a new one.

use super::failed::Failed;
use super::origins::Server;
use super::standing::add;
use super::tap::RECEIVE_BUFFER_BYTES;
use super::viewer::Viewer;
use load::{Connection, ConnectionOptions, Failure, Head, Url};
use player::manifest::DOCUMENT_BYTES_MAX;
use player::{PlayerRequest, RequestKind, Time};
use reactor::yield_now;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// How long a connection may be silent. The player is less patient, and closes it earlier.
const PATIENCE: Duration = Duration::from_secs(60);

/// How much of a body to read before other tasks get their turn and the player is notified.
const GULP_BYTES_MAX: u64 = 1 << 20;

/// The body of an error is read up to this length, so that its connection can be reused.
const ERROR_BYTES_MAX: u64 = 64 << 10;

/// Sends the request and reports the response to the player.
pub(crate) async fn fetch(viewer: &Rc<Viewer>, request: &PlayerRequest) -> Result<(), Failed> {
    let server = viewer.crew.shared.origins.find(request.address()).await;
    let server = server.map_err(Failed::NoAddress)?;
    if let Some(posts) = viewer.posts.as_ref().filter(|_| request.kind == RequestKind::Media) {
        posts.serve_from(request.address());
    }
    let (mut connection, head) = ask(viewer, &server, &text(request)).await?;
    viewer.tell(|player, now| player.handle_status(request.id, head.status, head.retry_after, now));
    if !matches!(head.status, 200 | 206) {
        if head.body_bytes.is_some_and(|bytes| bytes <= ERROR_BYTES_MAX) {
            while connection.discard(ERROR_BYTES_MAX).await? > 0 {}
            keep(viewer, &server, connection, &head);
        }
        return Err(Failed::Status(head.status));
    }
    if let Some(tap) = &viewer.tap {
        tap.borrow_mut().begin(viewer.now());
    }
    if let Some(bytes) = head.body_bytes {
        viewer.tell(|player, now| player.handle_length(request.id, bytes, now));
    }
    if request.kind == RequestKind::Probe {
        let is_over = probe(viewer, request, &mut connection).await?;
        if is_over {
            keep(viewer, &server, connection, &head);
        }
        viewer.tell(|player, now| player.handle_end(request.id, now));
        add(&viewer.crew.counters.requests, 1);
        return Ok(());
    }
    check(request, &head)?;
    if request.kind.is_document() {
        let document = read(viewer, request, &mut connection).await?;
        keep(viewer, &server, connection, &head);
        let document = viewer.crew.shared.documents.read(request, &document)?;
        viewer.crew.shared.succeeded();
        viewer.crew.shared.check(request.address(), &document);
        viewer.tell(|player, now| player.handle_document(request.id, document, now));
    } else {
        take(viewer, request, &mut connection).await?;
        keep(viewer, &server, connection, &head);
        viewer.tell(|player, now| player.handle_end(request.id, now));
    }
    add(&viewer.crew.counters.requests, 1);
    Ok(())
}

/// Posts events to the server of `url`.
pub(crate) async fn post(viewer: &Rc<Viewer>, url: &Url, body: &str) -> Result<(), Failed> {
    let server = viewer.crew.shared.origins.find(url).await.map_err(Failed::NoAddress)?;
    let text = format!(
        "POST /-/cmcd HTTP/1.1\r\nHost: {}\r\nUser-Agent: fullbore-swarm\r\nContent-Type: application/cmcd\r\n\
         Content-Length: {}\r\n\r\n{body}",
        url.authority(),
        body.len()
    );
    let (mut connection, head) = ask(viewer, &server, &text).await?;
    if head.body_bytes.is_some_and(|bytes| bytes <= ERROR_BYTES_MAX) {
        while connection.discard(ERROR_BYTES_MAX).await? > 0 {}
        keep(viewer, &server, connection, &head);
    }
    if head.status == 204 { Ok(()) } else { Err(Failed::Status(head.status)) }
}

fn keep(viewer: &Viewer, server: &Server, connection: Connection, head: &Head) {
    if !head.closes {
        viewer.connections.borrow_mut().keep(server.number, connection);
    }
}

/// Sends the request and waits for the head of its response.
async fn ask(viewer: &Viewer, server: &Server, text: &str) -> Result<(Connection, Head), Failed> {
    let used = viewer.connections.borrow_mut().take(server.number);
    if let Some(mut connection) = used {
        match exchange(viewer, &mut connection, text).await {
            // The server may close an idle connection at the very moment it is used again. A client then retries over a new one (RFC 9112
            // section 9.3.1).
            Err(Failure::ClosedEarly | Failure::Reset) => {}
            exchanged => return Ok((connection, exchanged?)),
        }
    }
    let mut connection = open(viewer, server).await?;
    let head = exchange(viewer, &mut connection, text).await?;
    Ok((connection, head))
}

async fn exchange(
    viewer: &Viewer,
    connection: &mut Connection,
    text: &str,
) -> Result<Head, Failure> {
    travel(viewer, 1).await;
    connection.send_request(text.as_bytes()).await?;
    connection.head().await
}

/// Waits for the time of this many round trips through the viewer's network.
async fn travel(viewer: &Viewer, times: u32) {
    let Some(tap) = &viewer.tap else { return };
    let round_trip = tap.borrow().round_trip();
    viewer.sleep_until(viewer.now() + round_trip * times).await;
}

async fn open(viewer: &Viewer, server: &Server) -> Result<Connection, Failure> {
    let shared = &viewer.crew.shared;
    let options = &shared.options;
    let how = ConnectionOptions {
        patience: PATIENCE,
        receive_buffer_bytes: viewer.tap.is_some().then_some(RECEIVE_BUFFER_BYTES),
        // A slow network's bytes are read as they come.
        read_bytes_max: viewer.tap.is_some().then_some(GULP_BYTES_MAX),
        resume: options.resume,
        // An address of the other IP version cannot be used.
        source: options
            .sources
            .map(|sources| sources.address(viewer.who.number))
            .filter(|source| source.is_ipv4() == server.endpoint.address.is_ipv4()),
        // Servers that generate manifests on the fly do not know their lengths.
        accept_chunks: true,
    };
    let is_tls = server.endpoint.tls.is_some();
    // One round trip for TCP's handshake, and one for TLS 1.3's.
    travel(viewer, if is_tls { 2 } else { 1 }).await;
    let connection = Connection::open(&server.endpoint, &how).await?;
    let counters = &viewer.crew.counters;
    add(&counters.connections_opened, 1);
    if is_tls {
        add(&counters.handshakes, 1);
        add(&counters.resumed, connection.is_resumed().into());
    }
    Ok(connection)
}

/// The request's head as it is sent.
fn text(request: &PlayerRequest) -> String {
    let url = request.url();
    let range = match &request.range {
        Some(range) => format!("Range: bytes={}-{}\r\n", range.start, range.end.saturating_sub(1)),
        None => String::new(),
    };
    format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: fullbore-swarm\r\nAccept: */*\r\n{range}\r\n",
        url.path_and_query(),
        url.authority()
    )
}

/// Checks that the response matches the request.
fn check(request: &PlayerRequest, head: &Head) -> Result<(), Failed> {
    let whole = head.content_range.as_ref().and_then(|(_, whole)| *whole);
    if let Some(asked) = &request.range {
        // The end of a range may be beyond the end of the file.
        let end = whole.map_or(asked.end, |whole| asked.end.min(whole));
        let came = match &head.content_range {
            Some((range, _)) => Some(range.clone()),
            None => whole_file(asked, head),
        };
        if came != Some(asked.start..end) {
            return Err(Failed::OtherRange { asked: asked.clone(), came });
        }
    }
    match (request.expected_bytes, head.body_bytes) {
        (Some(expected_bytes), Some(came_bytes)) if expected_bytes != came_bytes => {
            Err(Failed::WrongLength { expected_bytes, came_bytes })
        }
        _ => Ok(()),
    }
}

/// The range of a response without Content-Range: correct if the whole file was requested.
fn whole_file(asked: &Range<u64>, head: &Head) -> Option<Range<u64>> {
    let bytes = head.body_bytes.filter(|bytes| *asked == (0..*bytes))?;
    Some(0..bytes)
}

/// Receives a whole document.
async fn read(
    viewer: &Rc<Viewer>,
    request: &PlayerRequest,
    connection: &mut Connection,
) -> Result<Vec<u8>, Failed> {
    let mut document = Vec::new();
    loop {
        let bytes = connection.body(&mut document).await?;
        if bytes == 0 {
            return Ok(document);
        }
        if document.len() > DOCUMENT_BYTES_MAX {
            return Err(Failed::TooLong);
        }
        add(&viewer.crew.counters.body_bytes, bytes as u64);
        match arrival(viewer, bytes as u64) {
            Some(at) => viewer.sleep_until(at).await,
            // Reading a body does not yield to others by itself.
            None => yield_now().await,
        }
        viewer.tell(|player, now| player.handle_bytes(request.id, bytes as u64, now));
    }
}

/// Receives and discards a body, and reports each part of it to the player.
async fn take(
    viewer: &Rc<Viewer>,
    request: &PlayerRequest,
    connection: &mut Connection,
) -> Result<(), Failed> {
    let mut received = 0;
    loop {
        let bytes = sip(viewer, request, connection, GULP_BYTES_MAX).await?;
        if bytes == 0 {
            break;
        }
        received += bytes;
    }
    match request.expected_bytes {
        Some(expected_bytes) if expected_bytes != received => {
            Err(Failed::WrongLength { expected_bytes, came_bytes: received })
        }
        _ => Ok(()),
    }
}

/// Receives as much as the player needs to measure a server. It accepts any body: the segment may be shorter, and the server may not
/// support ranges. Returns whether the body is over.
async fn probe(
    viewer: &Rc<Viewer>,
    request: &PlayerRequest,
    connection: &mut Connection,
) -> Result<bool, Failed> {
    let mut left = request.expected_bytes.unwrap_or(GULP_BYTES_MAX);
    while left > 0 {
        let bytes = sip(viewer, request, connection, left).await?;
        if bytes == 0 {
            return Ok(true);
        }
        left = left.saturating_sub(bytes);
    }
    Ok(connection.is_body_over())
}

/// Receives and discards at most `bytes_max` of a body, give or take a small TLS record, and reports them to the player. Returns the number
/// of bytes; 0 if the body is over.
async fn sip(
    viewer: &Rc<Viewer>,
    request: &PlayerRequest,
    connection: &mut Connection,
    bytes_max: u64,
) -> Result<u64, Failed> {
    let network = viewer.tap.as_ref().map(|tap| tap.borrow_mut().sip_bytes(viewer.now()));
    let bytes = connection.discard(network.unwrap_or(GULP_BYTES_MAX).min(bytes_max)).await?;
    if bytes == 0 {
        return Ok(0);
    }
    add(&viewer.crew.counters.body_bytes, bytes);
    if let Some(at) = arrival(viewer, bytes) {
        viewer.sleep_until(at).await;
    }
    viewer.crew.shared.succeeded();
    viewer.tell(|player, now| player.handle_bytes(request.id, bytes, now));
    Ok(bytes)
}

/// When the viewer's network will have delivered these bytes; `None` without a network.
fn arrival(viewer: &Viewer, bytes: u64) -> Option<Time> {
    viewer.tap.as_ref().map(|tap| tap.borrow_mut().arrival(bytes, viewer.now()))
}
