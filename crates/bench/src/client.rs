//! A cheap client: handshakes with rustls, then counts bytes without decrypting them.
//!
//! Each connection first asks for a file's head and one checked range, decrypting both, and from then on for the whole
//! file, again and again. Since the length of an answer is known by then, walking over record headers tells where it
//! ends.

use crate::workload::{byte_at, file_name};
use net::Socket;
use reactor::timeout_at;
use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Nothing on this machine takes longer to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes taken from a socket at once.
const CHUNK_BYTES: usize = 256 << 10;

/// Bytes of the range that is checked.
const CHECKED_BYTES: u64 = 100_000;

/// A record's header.
const HEADER_BYTES: usize = 5;

/// What TLS 1.3 adds to a record's plaintext: content type and tag.
const RECORD_EXTRA_BYTES: u64 = 17;

/// What one connection is to do.
pub(crate) struct Task {
    /// The server.
    pub(crate) address: SocketAddr,
    /// How to shake hands; none is plain HTTP.
    pub(crate) tls: Option<Arc<rustls::ClientConfig>>,
    /// Which file.
    pub(crate) file: usize,
    /// Its size.
    pub(crate) file_bytes: u64,
    /// Until when.
    pub(crate) until: Instant,
}

/// Counts what arrives on all connections of a thread.
#[derive(Default)]
pub(crate) struct Count {
    /// Bytes of bodies, finished or not.
    pub(crate) body_bytes: std::cell::Cell<u64>,
}

struct Connection {
    socket: Socket,
    tls: Option<ClientConnection>,
    chunk: Vec<u8>,
}

/// Connects, shakes hands and fetches a little of the first file.
///
/// # Errors
/// As [`work`].
pub(crate) async fn first_byte(
    address: SocketAddr,
    tls: Arc<rustls::ClientConfig>,
) -> io::Result<()> {
    let mut connection = Connection::open(address, Some(&tls))?;
    connection.request("GET", &file_name(0), "Range: bytes=0-9\r\n").await?;
    let (head, _) = connection.head().await?;
    expect(head.starts_with("HTTP/1.1 206"), || format!("a range was answered with {head:?}"))
}

/// Does one connection's task.
///
/// # Errors
/// Whatever is not as it should be: a byte, a status, a length, the connection.
pub(crate) async fn work(task: Task, count: Rc<Count>) -> io::Result<()> {
    let mut connection = Connection::open(task.address, task.tls.as_ref())?;
    let path = file_name(task.file);
    connection.check(&path, task.file, task.file_bytes).await?;
    let head_bytes = connection.head_bytes(&path, task.file_bytes).await?;
    while Instant::now() < task.until {
        connection.request("GET", &path, "").await?;
        connection.discard(head_bytes, task.file_bytes, &task, &count).await?;
    }
    Ok(())
}

impl Connection {
    fn open(address: SocketAddr, tls: Option<&Arc<rustls::ClientConfig>>) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("localhost").expect("localhost is a name");
        let client = tls.map(|config| ClientConnection::new(Arc::clone(config), name));
        Ok(Self {
            socket: Socket::from(std::os::fd::OwnedFd::from(stream)),
            tls: client.transpose().map_err(io::Error::other)?,
            chunk: vec![0; CHUNK_BYTES],
        })
    }

    /// Fetches a range and compares every byte.
    async fn check(&mut self, path: &str, file: usize, file_bytes: u64) -> io::Result<()> {
        let start = file_bytes / 3;
        let end = (start + CHECKED_BYTES).min(file_bytes);
        self.request("GET", path, &format!("Range: bytes={start}-{}\r\n", end - 1)).await?;
        let (head, mut body) = self.head().await?;
        expect(head.starts_with("HTTP/1.1 206"), || format!("a range was answered with {head:?}"))?;
        while (body.len() as u64) < end - start {
            self.receive_plain(&mut body).await?;
        }
        let right =
            body.iter().zip(start..end).all(|(byte, offset)| *byte == byte_at(file, offset));
        expect(right && body.len() as u64 == end - start, || "wrong bytes".into())
    }

    /// How long the head of the whole file's answer is: HEAD's is the same.
    async fn head_bytes(&mut self, path: &str, file_bytes: u64) -> io::Result<u64> {
        self.request("HEAD", path, "").await?;
        let (head, _) = self.head().await?;
        let length = format!("content-length: {file_bytes}\r\n");
        let right = head.starts_with("HTTP/1.1 200") && head.to_lowercase().contains(&length);
        expect(right, || format!("HEAD was answered with {head:?}"))?;
        Ok(head.len() as u64)
    }

    async fn request(&mut self, method: &str, path: &str, fields: &str) -> io::Result<()> {
        let request = format!("{method} /{path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
        match &mut self.tls {
            Some(tls) => tls.writer().write_all(request.as_bytes())?,
            None => return self.send_all(request.as_bytes()).await,
        }
        self.flush().await
    }

    /// Sends what rustls has to say.
    async fn flush(&mut self) -> io::Result<()> {
        let mut sealed = Vec::new();
        while let Some(tls) = self.tls.as_mut().filter(|tls| tls.wants_write()) {
            tls.write_tls(&mut sealed)?;
        }
        self.send_all(&sealed).await
    }

    async fn send_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.socket.send(bytes, false)? {
                0 => self.socket.writable().await,
                sent => bytes = &bytes[sent..],
            }
        }
        Ok(())
    }

    /// Receives a head, and whatever of the body came with it.
    async fn head(&mut self) -> io::Result<(String, Vec<u8>)> {
        let mut received = Vec::new();
        loop {
            if let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") {
                let body = received.split_off(end + 4);
                return Ok((String::from_utf8_lossy(&received).into_owned(), body));
            }
            self.receive_plain(&mut received).await?;
        }
    }

    /// Receives decrypted bytes; the handshake is done on the way.
    async fn receive_plain(&mut self, into: &mut Vec<u8>) -> io::Result<()> {
        let before = into.len();
        while into.len() == before {
            let bytes = self.receive().await?;
            let Some(tls) = &mut self.tls else {
                into.extend_from_slice(&self.chunk[..bytes]);
                return Ok(());
            };
            let mut sealed = &self.chunk[..bytes];
            while !sealed.is_empty() {
                tls.read_tls(&mut sealed)?;
                tls.process_new_packets().map_err(io::Error::other)?;
                match tls.reader().read_to_end(into) {
                    Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                    _ => {}
                }
            }
            self.flush().await?;
        }
        Ok(())
    }

    /// Receives raw bytes into the chunk.
    async fn receive(&mut self) -> io::Result<usize> {
        loop {
            match self.socket.receive(&mut self.chunk)? {
                Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Some(bytes) => return Ok(bytes),
                None => {
                    let waiting = timeout_at(Instant::now() + PATIENCE, self.socket.readable());
                    waiting.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
                }
            }
        }
    }

    /// Receives a whole answer without looking at it; stops early when the time is over.
    async fn discard(
        &mut self,
        head_bytes: u64,
        body_bytes: u64,
        task: &Task,
        count: &Count,
    ) -> io::Result<()> {
        let mut walk = Walk { is_sealed: self.tls.is_some(), ..Walk::default() };
        while walk.plain_bytes < head_bytes + body_bytes {
            let received = self.receive().await?;
            let before = walk.plain_bytes;
            walk.over(&self.chunk[..received])?;
            count.body_bytes.set(count.body_bytes.get() + walk.plain_bytes - before);
            if Instant::now() >= task.until {
                return Ok(());
            }
        }
        expect(walk.plain_bytes == head_bytes + body_bytes, || {
            "more bytes than the answer has".into()
        })
    }
}

/// A walk over records, header by header.
#[derive(Default)]
struct Walk {
    is_sealed: bool,
    header: Vec<u8>,
    record_left: usize,
    plain_bytes: u64,
}

impl Walk {
    fn over(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if !self.is_sealed {
            self.plain_bytes += bytes.len() as u64;
            return Ok(());
        }
        while !bytes.is_empty() {
            if self.record_left > 0 {
                let step = self.record_left.min(bytes.len());
                self.record_left -= step;
                bytes = &bytes[step..];
                continue;
            }
            let step = (HEADER_BYTES - self.header.len()).min(bytes.len());
            self.header.extend_from_slice(&bytes[..step]);
            bytes = &bytes[step..];
            if self.header.len() == HEADER_BYTES {
                self.record_left =
                    usize::from(u16::from_be_bytes([self.header[3], self.header[4]]));
                let plain = (self.record_left as u64).checked_sub(RECORD_EXTRA_BYTES);
                expect(self.header[0] == 23 && plain.is_some(), || {
                    "the server sent an alert".into()
                })?;
                self.plain_bytes += plain.unwrap_or(0);
                self.header.clear();
            }
        }
        Ok(())
    }
}

fn expect(right: bool, what: impl FnOnce() -> String) -> io::Result<()> {
    if right { Ok(()) } else { Err(io::Error::new(io::ErrorKind::InvalidData, what())) }
}
