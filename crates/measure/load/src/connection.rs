//! One measuring connection: does what a viewer does, at a fraction of a viewer's cost.
//!
//! Heads are received, decrypted and parsed. Bodies are discarded unopened ([`Connection::discard`]) or, to check them,
//! decrypted ([`Connection::body`]). Nothing is read ahead and no buffer is held while waiting, so one thread can
//! handle ten thousand connections.
//!
//! Chunked bodies are accepted only on request ([`ConnectionOptions::accept_chunks`]): finding their ends takes decryption, so measuring
//! them costs more than measuring others.
//!
//! When a body is discarded, the connection trusts the server's record headers, and assumes that the server adds no padding (none of the
//! servers measured here does). A padded body shows as [`Failure::TooLong`].
//!
//! Read `walk` for how records are skipped, `secured` for which records are opened even then.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use net::socket::DISCARD_BYTES_MAX;
use net::{ConnectOptions, Socket, connect};
use reactor::{timeout_at, yield_now};
use tls::SessionInfo;

use crate::chunked::Chunked;
use crate::failure::Failure;
use crate::head::{self, Head};
use crate::secured::{Came, Secured};
use crate::tls::ClientTls;
use crate::wait::{Readiness, readable, send_all};

/// Bytes of a plain response to read at once if the caller wants them.
const PLAIN_CHUNK_BYTES: usize = 16 << 10;

/// Bytes to wait for when discarding a body: as many as are read at once.
const WAKE_BYTES: i32 = 256 << 10;

/// How long to wait for that many. After that, a slow server's bytes are read as they come.
const WAKE_PATIENCE: Duration = Duration::from_millis(20);

/// The server to connect to.
#[derive(Clone, Debug)]
pub struct ServerEndpoint {
    /// The server's address.
    pub address: SocketAddr,
    /// Its host name without a port, which its certificate must contain.
    pub host: String,
    /// TLS options; `None` means plain HTTP.
    pub tls: Option<ClientTls>,
}

/// How to connect.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionOptions {
    /// Limit on waiting for any one thing: a connection with its handshake, a head, or more of a body.
    pub patience: Duration,
    /// Size of the kernel's receive buffer; `None` lets it grow by itself.
    pub receive_buffer_bytes: Option<usize>,
    /// The most bytes of a body to read from the socket at once, as soon as any have arrived. `None`: the amount that is cheapest for this
    /// machine, once it has arrived.
    pub read_bytes_max: Option<u64>,
    /// Resume an earlier TLS session, and keep tickets for later ones.
    pub resume: bool,
    /// The address to connect from; `None` leaves it to the kernel.
    pub source: Option<IpAddr>,
    /// Accept chunked bodies as well.
    pub accept_chunks: bool,
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(30),
            receive_buffer_bytes: None,
            read_bytes_max: None,
            resume: false,
            source: None,
            accept_chunks: false,
        }
    }
}

/// A connection, between requests or within a response.
pub struct Connection {
    socket: Socket,
    secured: Option<Box<Secured>>,
    patience: Duration,
    read_bytes_max: Option<u64>,
    body: Body,
    /// The body's first bytes, which arrived with the head. Usually empty, and then without memory. For a chunked body, the bytes not yet
    /// decoded.
    held: Vec<u8>,
    accept_chunks: bool,
    /// The last request was HEAD.
    without_body: bool,
    readiness: Readiness,
    /// The last argument of [`Socket::wake_at`].
    wakes_at_bytes: i32,
}

/// How much of the body is still to come, including held bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Body {
    Left { bytes: u64, promised_bytes: u64 },
    UntilClose,
    Chunked(Chunked),
    Over,
}

impl Connection {
    /// Connects, and does the handshake if the endpoint has TLS.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn open(
        endpoint: &ServerEndpoint,
        options: &ConnectionOptions,
    ) -> Result<Self, Failure> {
        let ConnectionOptions { patience, receive_buffer_bytes, resume, source, .. } = *options;
        let deadline = Instant::now() + patience;
        let how = ConnectOptions { receive_buffer_bytes, source };
        let connecting = connect(endpoint.address, how);
        let socket = match timeout_at(deadline, connecting).await {
            Ok(connected) => connected.map_err(|error| Failure::of_connect(&error))?,
            Err(_) => return Err(Failure::ConnectTimeout),
        };
        let secured = match &endpoint.tls {
            Some(tls) => {
                let tls = tls.choose(resume);
                let shaking = Secured::shake_hands(&socket, tls, &endpoint.host, deadline);
                // Boxed: a handshake's state is large and short-lived, and this future lives as long as its connection.
                Some(Box::new(Box::pin(shaking).await?))
            }
            None => None,
        };
        Ok(Self {
            socket,
            secured,
            patience,
            read_bytes_max: options.read_bytes_max,
            body: Body::Over,
            held: Vec::new(),
            accept_chunks: options.accept_chunks,
            without_body: false,
            readiness: Readiness::Unknown,
            wakes_at_bytes: 1,
        })
    }

    /// The session that TLS negotiated; `None` for plain HTTP.
    pub fn session(&self) -> Option<&SessionInfo> {
        self.secured.as_ref().map(|secured| &secured.info)
    }

    /// Returns true if an earlier TLS session was resumed.
    pub fn is_resumed(&self) -> bool {
        self.session().is_some_and(|session| session.resumed)
    }

    /// Sends a request, given its complete head including the empty line. The last response must be over.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn send_request(&mut self, head: &[u8]) -> Result<(), Failure> {
        debug_assert!(self.body == Body::Over && self.held.is_empty(), "one response at a time");
        self.without_body = head.starts_with(b"HEAD ");
        let deadline = self.deadline();
        match &mut self.secured {
            Some(secured) => {
                let wire = secured.seal(head)?;
                send_all(&self.socket, &wire, deadline).await
            }
            None => send_all(&self.socket, head, deadline).await,
        }
    }

    /// Waits for a response's head. Its body must be discarded or read before the next request.
    ///
    /// # Errors
    /// See [`Failure`]. A status is not a failure: the caller knows which one to expect.
    pub async fn head(&mut self) -> Result<Head, Failure> {
        let deadline = self.deadline();
        let mut received = std::mem::take(&mut self.held);
        let (head, head_bytes) = loop {
            if let Some(found) = head::parse(&received, self.without_body)? {
                break found;
            }
            match self.receive(&mut received, PLAIN_CHUNK_BYTES)? {
                Came::Bytes { .. } => {}
                Came::Closed { .. } => return Err(Failure::ClosedEarly),
                Came::Blocked => {
                    self.wake_at(1)?;
                    readable(&self.socket, deadline, "the head of a response").await?;
                }
            }
        };
        self.begin_body(&head, &received[head_bytes..])?;
        Ok(head)
    }

    /// Records the start of a body, and the part of it that arrived with the head.
    fn begin_body(&mut self, head: &Head, first: &[u8]) -> Result<(), Failure> {
        self.body = match head.body_bytes {
            Some(bytes) if first.len() as u64 > bytes => {
                return Err(Failure::TooLong { promised_bytes: bytes });
            }
            Some(0) => Body::Over,
            Some(bytes) => Body::Left { bytes, promised_bytes: bytes },
            None if !head.is_chunked => Body::UntilClose,
            None if self.accept_chunks => Body::Chunked(Chunked::Size),
            None => {
                return Err(Failure::BadResponse("it is chunked; only plain bodies are measured"));
            }
        };
        self.held = first.to_vec();
        self.readiness = Readiness::Unknown;
        Ok(())
    }

    /// Waits for some of the body and discards it: at most `bytes_max` (at least 1), give or take a record of 1 KiB. Returns the number of
    /// bytes; 0 if the body is over. Other connections on this thread get their turn in between, however fast the server is.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn discard(&mut self, bytes_max: u64) -> Result<u64, Failure> {
        if let Body::Chunked(_) = self.body {
            return self.chunks(&mut Vec::new()).await.map(|bytes| bytes as u64);
        }
        let bytes_max = bytes_max.max(1);
        let held = self.drop_held(bytes_max)?;
        if held > 0 || self.body == Body::Over {
            return Ok(held);
        }
        let bytes_max = bytes_max.min(self.read_bytes_max.unwrap_or(u64::MAX));
        loop {
            match std::mem::take(&mut self.readiness) {
                Readiness::Unknown => {}
                Readiness::Drained if self.read_bytes_max.is_some() => self.wait_for_body().await?,
                Readiness::Drained => self.wait_for_much().await?,
                Readiness::More => yield_now().await,
            }
            match self.discard_some(bytes_max)? {
                Came::Bytes { bytes, readiness } => {
                    self.readiness = readiness;
                    if bytes > 0 {
                        return self.count(bytes);
                    }
                }
                Came::Closed { orderly } => return self.end(orderly).map(|()| 0),
                Came::Blocked => self.readiness = Readiness::Drained,
            }
        }
    }

    /// Returns true if the last response is over, so that another request can be sent.
    pub fn is_body_over(&self) -> bool {
        self.body == Body::Over && self.held.is_empty()
    }

    /// Waits for some of the body and appends it to `into`, decrypted. Returns the number of bytes; 0 if the body is over.
    ///
    /// # Errors
    /// See [`Failure`].
    ///
    /// # Panics
    /// If a part of this body was discarded: a body is either read or discarded.
    pub async fn body(&mut self, into: &mut Vec<u8>) -> Result<usize, Failure> {
        if let Body::Chunked(_) = self.body {
            return self.chunks(into).await;
        }
        while self.body != Body::Over {
            let came = match std::mem::take(&mut self.held) {
                held if held.is_empty() => self.receive(into, self.chunk_bytes())?,
                held => {
                    into.extend_from_slice(&held);
                    Came::Bytes { bytes: held.len(), readiness: Readiness::Unknown }
                }
            };
            match came {
                Came::Bytes { bytes: 0, .. } => {}
                Came::Bytes { bytes, .. } => {
                    self.count(bytes)?;
                    return Ok(bytes);
                }
                Came::Closed { orderly } => return self.end(orderly).map(|()| 0),
                Came::Blocked => self.wait_for_body().await?,
            }
        }
        Ok(0)
    }

    /// Waits for some of a chunked body and appends it to `into`. Returns the number of bytes; 0 if the body is over.
    async fn chunks(&mut self, into: &mut Vec<u8>) -> Result<usize, Failure> {
        let before = into.len();
        while let Body::Chunked(chunked) = &mut self.body {
            if chunked.decode(&mut self.held, into)? {
                self.body = Body::Over;
                if !self.held.is_empty() {
                    return Err(Failure::BadResponse("more follows its last chunk"));
                }
            }
            if into.len() > before || self.body == Body::Over {
                break;
            }
            let mut held = std::mem::take(&mut self.held);
            let came = self.receive(&mut held, PLAIN_CHUNK_BYTES);
            self.held = held;
            match came? {
                Came::Bytes { .. } => {}
                Came::Closed { .. } => return Err(Failure::ClosedEarly),
                Came::Blocked => self.wait_for_body().await?,
            }
        }
        Ok(into.len() - before)
    }

    /// Waits until a ticket has arrived. This is for a client that closes without sending a request, because a TLS 1.3 server sends tickets
    /// after the handshake. Returns whether one arrived within `patience`, and false at once if none can be expected.
    ///
    /// # Errors
    /// See [`Failure`]; a missing ticket is not one.
    pub async fn wait_for_ticket(&mut self, patience: Duration) -> Result<bool, Failure> {
        let deadline = Instant::now() + patience;
        loop {
            let Some(secured) = &mut self.secured else { return Ok(false) };
            if secured.tickets_seen > 0 || !secured.keeps_tickets() {
                return Ok(secured.tickets_seen > 0);
            }
            match secured.open(&self.socket, &mut self.held)? {
                Came::Bytes { bytes: 0, .. } => {}
                Came::Bytes { .. } => return Err(Failure::TooLong { promised_bytes: 0 }),
                Came::Closed { .. } => return Err(Failure::ClosedEarly),
                Came::Blocked => match readable(&self.socket, deadline, "a ticket").await {
                    Err(Failure::Timeout { .. }) => return Ok(false),
                    waited => waited?,
                },
            }
        }
    }

    /// Ends the connection as TLS and TCP require.
    pub fn close(mut self) {
        if let Some(secured) = &mut self.secured {
            // The connection ends either way, so a failure does not matter.
            let _ = self.socket.send(&secured.goodbye(), false);
        }
    }

    /// Resets the connection, like a viewer who suddenly disappears. The port is free again at once.
    pub fn abort(self) {
        self.socket.reset_on_close();
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.patience
    }

    /// Waits until [`WAKE_BYTES`] or the rest of the body have arrived, or a moment has passed. Within one machine, each wake-up also takes
    /// time on the server's core, which a network card would not.
    async fn wait_for_much(&mut self) -> Result<(), Failure> {
        if let Body::Left { bytes, .. } = self.body {
            self.wake_at(i32::try_from(bytes).unwrap_or(i32::MAX).min(WAKE_BYTES))?;
            if timeout_at(Instant::now() + WAKE_PATIENCE, self.socket.readable()).await.is_ok() {
                return Ok(());
            }
        }
        self.wait_for_body().await
    }

    fn wake_at(&mut self, bytes: i32) -> Result<(), Failure> {
        if self.wakes_at_bytes != bytes {
            self.socket.wake_at(bytes)?;
            self.wakes_at_bytes = bytes;
        }
        Ok(())
    }

    async fn wait_for_body(&mut self) -> Result<(), Failure> {
        self.wake_at(1)?;
        readable(&self.socket, self.deadline(), "more of a body").await
    }

    /// Receives plaintext: as much as is available, and no more than `plain_max` if no record limits it.
    fn receive(&mut self, into: &mut Vec<u8>, plain_max: usize) -> Result<Came, Failure> {
        if let Some(secured) = &mut self.secured {
            return secured.open(&self.socket, into);
        }
        Ok(match self.socket.receive_into(into, plain_max)? {
            None => Came::Blocked,
            Some(0) => Came::Closed { orderly: true },
            Some(bytes) => Came::Bytes { bytes, readiness: Readiness::Unknown },
        })
    }

    fn discard_some(&mut self, bytes_max: u64) -> Result<Came, Failure> {
        if let Some(secured) = &mut self.secured {
            let body_left = match self.body {
                Body::Left { bytes, .. } => Some(bytes),
                Body::UntilClose | Body::Chunked(_) | Body::Over => None,
            };
            return secured.discard(&self.socket, bytes_max, body_left);
        }
        let room_bytes = self.at_most_left(bytes_max).min(DISCARD_BYTES_MAX as u64) as usize;
        Ok(match self.socket.discard(room_bytes)? {
            None => Came::Blocked,
            Some(0) => Came::Closed { orderly: true },
            Some(bytes) => Came::Bytes {
                bytes,
                readiness: Readiness::after(bytes, room_bytes, DISCARD_BYTES_MAX),
            },
        })
    }

    fn at_most_left(&self, bytes_max: u64) -> u64 {
        match self.body {
            Body::Left { bytes, .. } => bytes.min(bytes_max),
            Body::UntilClose | Body::Chunked(_) => bytes_max,
            Body::Over => 0,
        }
    }

    fn chunk_bytes(&self) -> usize {
        self.at_most_left(PLAIN_CHUNK_BYTES as u64) as usize
    }

    /// Discards held bytes, at most `bytes_max`.
    fn drop_held(&mut self, bytes_max: u64) -> Result<u64, Failure> {
        let bytes = usize::try_from(bytes_max).unwrap_or(usize::MAX).min(self.held.len());
        if bytes == self.held.len() {
            self.held = Vec::new();
        } else {
            self.held.drain(..bytes);
        }
        self.count(bytes)
    }

    /// Counts `bytes` of the body.
    fn count(&mut self, bytes: usize) -> Result<u64, Failure> {
        let counted = bytes as u64;
        let Body::Left { bytes: left, promised_bytes } = self.body else { return Ok(counted) };
        let left = left.checked_sub(counted).ok_or(Failure::TooLong { promised_bytes })?;
        self.body = if left == 0 { Body::Over } else { Body::Left { bytes: left, promised_bytes } };
        let within = self.secured.as_ref().is_some_and(|secured| secured.is_within_record());
        if left == 0 && within {
            // The record continues, but the body is over.
            return Err(Failure::TooLong { promised_bytes });
        }
        Ok(counted)
    }

    /// The server has closed: the body is either over or cut short.
    fn end(&mut self, orderly: bool) -> Result<(), Failure> {
        match std::mem::replace(&mut self.body, Body::Over) {
            Body::Left { bytes, promised_bytes } => {
                Err(Failure::Short { received_bytes: promised_bytes - bytes, promised_bytes })
            }
            Body::UntilClose if !orderly => Err(Failure::ClosedEarly),
            Body::UntilClose | Body::Chunked(_) | Body::Over => Ok(()),
        }
    }
}
