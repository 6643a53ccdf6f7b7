//! Viewers of every kind, good and bad: each function is one connection from its first packet to its last.
//!
//! The responses are checked here: a kind that should get one fails if it does not.

use crate::films::{self, LARGE_BYTES, SMALL_BYTES};
use fullbore_tests::PATIENCE;
use fullbore_tests::tls::{self, Offer};
use rustls::client::Resumption;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, StreamOwned};
use socket2::{Domain, Socket, Type};
use std::io::{self, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// Source addresses in turn, since a single one has only some 28,000 ports, and each is unusable for a minute after use.
const SOURCES: u32 = 64;

pub(crate) type Tls = StreamOwned<ClientConnection, TcpStream>;

/// One after another, all the viewers of a thread.
pub(crate) struct Viewers {
    server: SocketAddr,
    has_tls: bool,
    /// Keeps no tickets.
    full: Arc<ClientConfig>,
    /// Keeps them, as browsers do.
    resuming: Arc<ClientConfig>,
    count: u32,
}

/// A viewer's end of a connection.
enum Stream {
    Plain(TcpStream),
    Secured(Box<Tls>),
}

/// How a connection goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Full handshake, a request, an orderly end.
    Full,
    /// The same with a ticket.
    Resumed,
    /// Several requests in one packet.
    Pipelined,
    /// A request, then the viewer's side is closed while the answer comes.
    HalfClosed,
    /// A range from the middle of a large file.
    Range,
    /// All of a large file.
    Whole,
    /// Reset in the middle of a large response.
    ResetMidResponse,
    /// Closed in the middle of a large response.
    ClosedMidResponse,
    /// A handshake and nothing else.
    Silent,
    /// An invalid request.
    BadRequest,
    /// Gone after half of a request.
    HalfRequest,
    /// A record that does not open.
    BadRecord,
    /// Gone after half of a hello.
    HalfHello,
    /// Gone after the server's flight.
    HalfHandshake,
    /// Bytes that are not TLS.
    Garbage,
    /// HTTP on the TLS port.
    PlainHttp,
    /// Connected and closed.
    Nothing,
    /// Connected and reset.
    Reset,
}

impl Kind {
    /// Every kind that TLS has, with how many of a hundred connections are of it.
    pub(crate) const MIX: [(Self, u32); 16] = [
        (Self::Full, 8),
        (Self::Resumed, 12),
        (Self::Pipelined, 2),
        (Self::HalfClosed, 2),
        (Self::Range, 1),
        (Self::ResetMidResponse, 1),
        (Self::ClosedMidResponse, 1),
        (Self::Silent, 2),
        (Self::BadRequest, 2),
        (Self::BadRecord, 1),
        (Self::HalfHello, 12),
        (Self::HalfHandshake, 4),
        (Self::Garbage, 12),
        (Self::PlainHttp, 12),
        (Self::Nothing, 14),
        (Self::Reset, 14),
    ];

    /// The kind of connection number `index`: the same for everybody, and well mixed.
    pub(crate) fn of(index: u64) -> Self {
        // 37 and 100 have no common divisor, so every hundred has each kind as often as in the table.
        let mut place = (index * 37 % 100) as u32;
        for (kind, share) in Self::MIX {
            if place < share {
                return kind;
            }
            place -= share;
        }
        unreachable!("the shares sum to a hundred")
    }

    /// The same for viewers without TLS.
    pub(crate) fn without_tls(index: u64) -> Self {
        const TURNS: [Kind; 8] = [
            Kind::Pipelined,
            Kind::Range,
            Kind::Range,
            Kind::Whole,
            Kind::ResetMidResponse,
            Kind::ClosedMidResponse,
            Kind::BadRequest,
            Kind::HalfRequest,
        ];
        TURNS[(index % 8) as usize]
    }
}

/// A viewer in the middle of a handshake.
pub(crate) struct Knock(Tls);

impl Knock {
    /// Ends the handshake, asks for the small file, and says goodbye.
    pub(crate) fn go_on(mut self) -> io::Result<()> {
        expect_small(&mut self.0)?;
        goodbye(&mut self.0)
    }
}

impl Viewers {
    /// Viewers of `server`.
    pub(crate) fn new(server: SocketAddr) -> Self {
        // One key share, a cheap one: the viewers share the machine with the server.
        let resuming = Offer { alpn: Vec::new(), ..Offer::default() }.config();
        let mut full = ClientConfig::clone(&resuming);
        full.resumption = Resumption::disabled();
        Self { server, has_tls: true, full: Arc::new(full), resuming, count: 0 }
    }

    /// Viewers of `server` who speak plain HTTP.
    pub(crate) fn without_tls(server: SocketAddr) -> Self {
        Self { has_tls: false, ..Self::new(server) }
    }

    /// One connection.
    pub(crate) fn visit(&mut self, kind: Kind) -> io::Result<()> {
        match kind {
            Kind::Full => self.full().map(drop),
            Kind::Resumed => self.resumed(),
            Kind::Pipelined => self.pipelined(),
            Kind::HalfClosed => self.half_closed(),
            Kind::Range => self.range(),
            Kind::Whole => self.whole(),
            Kind::ResetMidResponse => reset(self.amid_response()?.into_socket()),
            Kind::ClosedMidResponse => self.amid_response().map(drop),
            Kind::Silent => self.silent(),
            Kind::BadRequest => self.bad_request(),
            Kind::HalfRequest => self.open()?.write_all(b"GET /"),
            Kind::BadRecord => self.bad_record(),
            Kind::HalfHello => self.half_hello(),
            Kind::HalfHandshake => self.half_handshake(),
            Kind::Garbage => self.garbage(),
            Kind::PlainHttp => self.plain_http(),
            Kind::Nothing => self.connect().map(drop),
            Kind::Reset => reset(self.connect()?),
        }
    }

    /// A keep-alive connection after one response: only its socket remains here.
    pub(crate) fn idle(&mut self) -> io::Result<TcpStream> {
        let mut stream = self.tls(&Arc::clone(&self.full))?;
        expect_small(&mut stream)?;
        Ok(stream.sock)
    }

    /// As [`Self::idle`], for a viewer that may send another request ([`Self::again`]).
    pub(crate) fn stay(&mut self) -> io::Result<Tls> {
        let mut stream = self.tls(&Arc::clone(&self.full))?;
        expect_small(&mut stream)?;
        Ok(stream)
    }

    /// Another request of a viewer that stayed.
    pub(crate) fn again(stream: &mut Tls) -> io::Result<()> {
        expect_small(stream)
    }

    /// A viewer that sends its hello, and waits after the beginning of the answer has arrived.
    pub(crate) fn knock(&mut self) -> io::Result<Knock> {
        let mut socket = self.connect()?;
        let mut connection = tls::client(&self.full, "localhost");
        connection.write_tls(&mut socket)?;
        let mut beginning = [0; 100];
        socket.read_exact(&mut beginning)?;
        connection.read_tls(&mut beginning.as_slice())?;
        Ok(Knock(StreamOwned::new(connection, socket)))
    }

    /// The same, but the viewer then sends the longest possible record except its end, so that the server has to keep it.
    pub(crate) fn knock_hard(&mut self) -> io::Result<Knock> {
        const RECORD_BYTES: u16 = 16_640;
        let mut knock = self.knock()?;
        let socket = &mut knock.0.sock;
        socket.write_all(&[23, 3, 3])?;
        socket.write_all(&RECORD_BYTES.to_be_bytes())?;
        socket.write_all(&[7; RECORD_BYTES as usize - 1])?;
        Ok(knock)
    }

    /// A viewer that reads all of the large file, some megabytes at a time, and pauses after each for longer than the server holds
    /// a buffer for a viewer.
    pub(crate) fn slow(&mut self) -> io::Result<()> {
        const REST: Duration = Duration::from_millis(400);
        let mut stream = self.open()?;
        stream.write_all(&request(films::LARGE, ""))?;
        let (status, length) = read_head(&mut stream)?;
        expect(status == 200 && length == LARGE_BYTES, "a large response")?;
        let mut chunk = vec![0; 3 << 20];
        let mut offset = 0;
        while offset < LARGE_BYTES {
            std::thread::sleep(REST);
            let part = chunk.len().min((LARGE_BYTES - offset) as usize);
            stream.read_exact(&mut chunk[..part])?;
            expect(films::is_part(offset, &chunk[..part]), "the file's bytes")?;
            offset += part as u64;
        }
        // A server that was asked to stop may be gone by now.
        stream.goodbye().or_else(gone)
    }

    fn full(&mut self) -> io::Result<Tls> {
        let mut stream = self.tls(&Arc::clone(&self.full))?;
        expect_small(&mut stream)?;
        expect(stream.conn.handshake_kind() == Some(HandshakeKind::Full), "a full handshake")?;
        goodbye(&mut stream)?;
        Ok(stream)
    }

    fn resumed(&mut self) -> io::Result<()> {
        let mut stream = self.tls(&Arc::clone(&self.resuming))?;
        expect_small(&mut stream)?;
        goodbye(&mut stream)
    }

    fn pipelined(&mut self) -> io::Result<()> {
        const COUNT: usize = 5;
        let mut stream = self.open()?;
        stream.write_all(&request(films::SMALL, "").repeat(COUNT))?;
        let mut reader = BufReader::new(&mut stream);
        (0..COUNT).try_for_each(|_| expect_response(&mut reader, 200, 0..SMALL_BYTES))?;
        stream.goodbye()
    }

    fn half_closed(&mut self) -> io::Result<()> {
        let mut stream = self.tls(&Arc::clone(&self.resuming))?;
        stream.write_all(&request(films::SMALL, ""))?;
        stream.sock.shutdown(Shutdown::Write)?;
        expect_response(&mut BufReader::new(&mut stream), 200, 0..SMALL_BYTES)?;
        stream.sock.read_to_end(&mut Vec::new()).map(drop)
    }

    fn range(&mut self) -> io::Result<()> {
        // Several windows if no cipher slows the viewer down.
        let bytes = if self.has_tls { 70_001 } else { 800_001 };
        let start = u64::from(self.count).wrapping_mul(104_729) % (LARGE_BYTES - bytes);
        let end = start + bytes;
        let mut stream = self.open()?;
        let field = format!("Range: bytes={start}-{}\r\n", end - 1);
        stream.write_all(&request(films::LARGE, &field))?;
        expect_response(&mut BufReader::new(&mut stream), 206, start..end)?;
        stream.goodbye()
    }

    fn whole(&mut self) -> io::Result<()> {
        let mut stream = self.open()?;
        stream.write_all(&request(films::LARGE, ""))?;
        expect_response(&mut BufReader::new(&mut stream), 200, 0..LARGE_BYTES)?;
        stream.goodbye()
    }

    fn amid_response(&mut self) -> io::Result<Stream> {
        let mut stream = self.open()?;
        stream.write_all(&request(films::LARGE, ""))?;
        let mut reader = BufReader::new(&mut stream);
        let (status, length) = read_head(&mut reader)?;
        expect(status == 200 && length == LARGE_BYTES, "a large response")?;
        let mut beginning = [0; 10_000];
        reader.read_exact(&mut beginning)?;
        expect(films::is_part(0, &beginning), "the file's bytes")?;
        Ok(stream)
    }

    fn silent(&mut self) -> io::Result<()> {
        let mut stream = self.tls(&Arc::clone(&self.resuming))?;
        stream.conn.complete_io(&mut stream.sock).map(drop)
    }

    fn bad_request(&mut self) -> io::Result<()> {
        let mut stream = self.open()?;
        stream.write_all(b"GET\r\n\r\n")?;
        let (status, _) = read_head(&mut BufReader::new(&mut stream))?;
        expect(status == 400, "400 for a bad request")?;
        match stream {
            Stream::Plain(mut socket) => {
                socket.read_to_end(&mut Vec::new()).map(drop).or_else(gone)
            }
            Stream::Secured(_) => Ok(()),
        }
    }

    fn bad_record(&mut self) -> io::Result<()> {
        let mut stream = self.tls(&Arc::clone(&self.resuming))?;
        expect_small(&mut stream)?;
        stream.sock.write_all(&[23, 3, 3, 0, 20])?;
        stream.sock.write_all(&[7; 20])?;
        stream.sock.read_to_end(&mut Vec::new()).map(drop).or_else(gone)
    }

    fn half_hello(&mut self) -> io::Result<()> {
        let hello = self.hello()?;
        self.connect()?.write_all(&hello[..hello.len() / 2])
    }

    fn half_handshake(&mut self) -> io::Result<()> {
        let hello = self.hello()?;
        let mut socket = self.connect()?;
        socket.write_all(&hello)?;
        socket.read_exact(&mut [0; 100])
    }

    fn garbage(&mut self) -> io::Result<()> {
        let mut socket = self.connect()?;
        socket.write_all(&[0xa5; 300])?;
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).map(drop).or_else(gone)?;
        expect(answer.first() == Some(&21), "an alert")
    }

    fn plain_http(&mut self) -> io::Result<()> {
        let mut socket = self.connect()?;
        socket.write_all(&request(films::SMALL, ""))?;
        let (status, _) = read_head(&mut BufReader::new(&mut socket))?;
        expect(status == 400, "400 for HTTP on the TLS port")
    }

    fn hello(&self) -> io::Result<Vec<u8>> {
        let mut hello = Vec::new();
        let mut connection = tls::client(&self.full, "localhost");
        connection.write_tls(&mut hello)?;
        Ok(hello)
    }

    fn open(&mut self) -> io::Result<Stream> {
        if self.has_tls {
            return Ok(Stream::Secured(Box::new(self.tls(&Arc::clone(&self.resuming))?)));
        }
        self.connect().map(Stream::Plain)
    }

    fn tls(&mut self, config: &Arc<ClientConfig>) -> io::Result<Tls> {
        let socket = self.connect()?;
        Ok(StreamOwned::new(tls::client(config, "localhost"), socket))
    }

    fn connect(&mut self) -> io::Result<TcpStream> {
        self.count = self.count.wrapping_add(1);
        connect(self.server, self.count)
    }
}

impl Stream {
    fn into_socket(self) -> TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Secured(tls) => tls.sock,
        }
    }

    /// Ends the connection in order, as its protocol requires.
    fn goodbye(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Secured(tls) => goodbye(tls),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(into),
            Self::Secured(tls) => tls.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Secured(tls) => tls.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Secured(tls) => tls.flush(),
        }
    }
}

/// Opens a viewer's connection number `count`.
fn connect(server: SocketAddr, count: u32) -> io::Result<TcpStream> {
    let source = Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 0, 1, 0)) + count % SOURCES);
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((source, 0)).into())?;
    socket.set_tcp_nodelay(true)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.connect(&server.into())?;
    Ok(socket.into())
}

fn request(path: &str, fields: &str) -> Vec<u8> {
    format!("GET /{path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n").into_bytes()
}

fn expect_small(stream: &mut Tls) -> io::Result<()> {
    stream.write_all(&request(films::SMALL, ""))?;
    expect_response(&mut BufReader::new(stream), 200, 0..SMALL_BYTES)
}

fn expect_response(
    from: &mut impl Read,
    status: u16,
    range: std::ops::Range<u64>,
) -> io::Result<()> {
    let (got, length) = read_head(from)?;
    expect(got == status && length == range.end - range.start, "the status and length asked for")?;
    let mut body = vec![0; length as usize];
    from.read_exact(&mut body)?;
    expect(films::is_part(range.start, &body), "the file's bytes")
}

/// A response's status and `Content-Length`.
fn read_head(from: &mut impl Read) -> io::Result<(u16, u64)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        from.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    status
        .zip(length.and_then(|length| length.parse().ok()))
        .ok_or_else(|| io::Error::other(format!("not a response head: {head}")))
}

/// Says that this side is done, and waits until the other is.
fn goodbye(stream: &mut Tls) -> io::Result<()> {
    stream.conn.send_close_notify();
    stream.flush()?;
    stream.read_to_end(&mut Vec::new()).map(drop)
}

/// Ends a connection by a reset.
fn reset(socket: TcpStream) -> io::Result<()> {
    Socket::from(socket).set_linger(Some(Duration::ZERO))
}

/// A server that ends the connection may reset it. That loses earlier data, which is acceptable here.
fn gone(error: io::Error) -> io::Result<()> {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    if [BrokenPipe, ConnectionReset].contains(&error.kind()) { Ok(()) } else { Err(error) }
}

fn expect(holds: bool, what: &str) -> io::Result<()> {
    if holds { Ok(()) } else { Err(io::Error::other(format!("expected {what}"))) }
}
