//! A viewer: a socket, TLS by rustls if needed, and a parser too simple to be wrong.

use fullbore_tests::tls::{self, Offer};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, ClientConnection};
use socket2::{Domain, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// The protocol over the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Plain,
    Tls12,
    Tls13,
}

impl Protocol {
    pub(crate) const ALL: [Self; 3] = [Self::Plain, Self::Tls12, Self::Tls13];
}

/// One end of a connection.
pub(crate) struct Viewer {
    pub(crate) stream: TcpStream,
    pub(crate) tls: Option<Box<ClientConnection>>,
    /// The most bytes read from the socket at once.
    pub(crate) read_bytes_max: usize,
    /// Received and not parsed yet: the beginning of the next response.
    received: Vec<u8>,
}

/// A parsed response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// A field's value; fails if it is there twice.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "{name} twice");
        value
    }

    /// Parses a head, its empty line included.
    pub(crate) fn parse_head(head: &[u8]) -> Self {
        let text = std::str::from_utf8(head).unwrap();
        let mut lines = text.strip_suffix("\r\n\r\n").unwrap().split("\r\n");
        let status = lines.next().unwrap().strip_prefix("HTTP/1.1 ").unwrap();
        let field = |line: &str| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_owned(), value.to_owned())
        };
        Self {
            status: status[..3].parse().unwrap(),
            fields: lines.map(field).collect(),
            body: Vec::new(),
        }
    }
}

impl Viewer {
    /// Connects and, with TLS, does the handshake. The receive buffer and small segments are set before the connection, so that
    /// the server's TCP sees a small window from the start and fills it in small steps.
    pub(crate) fn connect(
        address: SocketAddr,
        protocol: Protocol,
        receive_buffer_bytes: Option<usize>,
    ) -> Self {
        Self::try_connect(address, protocol, receive_buffer_bytes).unwrap()
    }

    /// As [`Self::connect`], with a server that may refuse or be ending.
    pub(crate) fn try_connect(
        address: SocketAddr,
        protocol: Protocol,
        receive_buffer_bytes: Option<usize>,
    ) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).unwrap();
        if let Some(bytes) = receive_buffer_bytes {
            socket.set_recv_buffer_size(bytes).unwrap();
            socket.set_tcp_mss(1400).unwrap();
        }
        socket.set_tcp_nodelay(true).unwrap();
        socket.connect(&address.into())?;
        Self::over(TcpStream::from(socket), protocol)
    }

    /// A viewer on a connection that is open already.
    pub(crate) fn over(stream: TcpStream, protocol: Protocol) -> io::Result<Self> {
        // A test must fail rather than hang.
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
        let tls = client_config(protocol).map(|config| Box::new(tls::client(&config, "localhost")));
        let mut viewer = Self { stream, tls, read_bytes_max: usize::MAX, received: Vec::new() };
        if let Some(tls) = &mut viewer.tls {
            while tls.is_handshaking() {
                tls.complete_io(&mut viewer.stream)?;
            }
        }
        Ok(viewer)
    }

    /// Sends all of `bytes`.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.tls {
            None => self.stream.write_all(bytes),
            Some(tls) => {
                tls.writer().write_all(bytes)?;
                self.flush()
            }
        }
    }

    /// Sends what TLS has queued.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            while tls.wants_write() {
                tls.write_tls(&mut self.stream)?;
            }
        }
        Ok(())
    }

    /// Announces that it will send no more.
    pub(crate) fn finish(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
        }
        self.flush().unwrap();
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// Closes with a reset.
    pub(crate) fn reset(self) {
        let socket = Socket::from(self.stream);
        socket.set_linger(Some(Duration::ZERO)).unwrap();
    }

    /// Reads some bytes, as they come; 0 at the end. With TLS, an end without close_notify is `UnexpectedEof`, and a bad record
    /// or an alert is `InvalidData`.
    pub(crate) fn take(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let wanted = into.len().min(self.read_bytes_max);
        let Some(tls) = &mut self.tls else { return self.stream.read(&mut into[..wanted]) };
        loop {
            match tls.reader().read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
            tls.read_tls(&mut (&self.stream).take(wanted as u64))?;
            tls.process_new_packets()
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
    }

    /// Reads up to `bytes` more of the next response, fewer if the connection ends first.
    fn fill(&mut self, bytes: usize) -> io::Result<()> {
        let mut chunk = vec![0; 64 << 10];
        while self.received.len() < bytes {
            let wanted = (bytes - self.received.len()).min(chunk.len());
            match self.take(&mut chunk[..wanted])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                taken => self.received.extend_from_slice(&chunk[..taken]),
            }
        }
        Ok(())
    }

    /// The head of the next response.
    pub(crate) fn head(&mut self) -> io::Result<Response> {
        loop {
            if let Some(end) = self.received.windows(4).position(|four| four == b"\r\n\r\n") {
                let head: Vec<u8> = self.received.drain(..end + 4).collect();
                return Ok(Response::parse_head(&head));
            }
            let mut chunk = vec![0; 4096];
            match self.take(&mut chunk)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                taken => self.received.extend_from_slice(&chunk[..taken]),
            }
        }
    }

    /// Up to `bytes` of the body, as many as arrived before the connection ended.
    pub(crate) fn body(&mut self, bytes: usize) -> (Vec<u8>, io::Result<()>) {
        let result = self.fill(bytes);
        let taken = bytes.min(self.received.len());
        (self.received.drain(..taken).collect(), result)
    }

    /// The next response; `has_body` is false after HEAD.
    pub(crate) fn response(&mut self, has_body: bool) -> io::Result<Response> {
        let mut response = self.head()?;
        let bytes = response.field("Content-Length").map_or(0, |length| length.parse().unwrap());
        if has_body {
            let (body, result) = self.body(bytes);
            result?;
            response.body = body;
        }
        Ok(response)
    }

    /// Requests `path` and returns the whole response.
    pub(crate) fn ask(&mut self, path: &str) -> Response {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()).unwrap();
        self.response(true).unwrap()
    }

    /// Reads everything until the server ends the connection; returns the bytes, and how it ended.
    pub(crate) fn rest(&mut self) -> (Vec<u8>, io::Result<()>) {
        let mut all = std::mem::take(&mut self.received);
        let mut chunk = vec![0; 64 << 10];
        loop {
            match self.take(&mut chunk) {
                Ok(0) => return (all, Ok(())),
                Ok(taken) => all.extend_from_slice(&chunk[..taken]),
                Err(error) => return (all, Err(error)),
            }
        }
    }
}

/// One configuration per version, so that later connections resume.
fn client_config(protocol: Protocol) -> Option<Arc<ClientConfig>> {
    static TLS12: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| offer(Offer::tls12()));
    static TLS13: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| offer(Offer::tls13()));
    match protocol {
        Protocol::Plain => None,
        Protocol::Tls12 => Some(Arc::clone(&TLS12)),
        Protocol::Tls13 => Some(Arc::clone(&TLS13)),
    }
}

/// With the key exchanges that browsers offer.
fn offer(offer: Offer) -> Arc<ClientConfig> {
    let groups = aws_lc_rs::DEFAULT_KX_GROUPS.iter().map(|group| group.name()).collect();
    Offer { groups, ..offer }.config()
}
