//! Small servers, and a way to run a client to its end.

use std::future::Future;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use fullbore_load::tls::ClientTls;
use fullbore_load::{Connection, ConnectionOptions, Failure, Head, ServerEndpoint};
use reactor::{Reactor, RingOptions};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tls::client::{ClientOptions, Trust};

/// A server that does `work` with its first connection.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(work: impl FnOnce(TcpStream) + Send + 'static) -> Self {
        Self::each(1, {
            let mut work = Some(work);
            move |stream| work.take().expect("one connection")(stream)
        })
    }

    /// A server that does `work` with each of `connections`, one after the other.
    pub(crate) fn each(
        connections: usize,
        mut work: impl FnMut(TcpStream) + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            for _ in 0..connections {
                work(listener.accept().unwrap().0);
            }
        });
        Self { address, thread: Some(thread) }
    }

    /// Waits for the server's end; if it panicked, the test panics.
    pub(crate) fn join(mut self) {
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Reads a request's head.
pub(crate) fn request(stream: &mut impl Read) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        assert_eq!(stream.read(&mut byte).unwrap(), 1, "the client closed early");
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

/// Answers one request with `response`, then does `after`.
pub(crate) fn answering(
    response: impl Into<Vec<u8>>,
    after: impl FnOnce(TcpStream) + Send + 'static,
) -> Server {
    let response = response.into();
    Server::start(move |mut stream| {
        request(&mut stream);
        stream.write_all(&response).unwrap();
        after(stream);
    })
}

/// Waits until the client has closed, so that nothing is reset before the client has read everything.
pub(crate) fn linger(mut stream: impl Read) {
    let _ = stream.read_to_end(&mut Vec::new());
}

/// Bytes that differ from their neighbours, and from themselves when shifted by a record.
pub(crate) fn film(bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|index| (index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect()
}

/// A rustls configuration with a self-signed certificate for `localhost`.
pub(crate) fn rustls_config(
    version: &'static rustls::SupportedProtocolVersion,
) -> Arc<ServerConfig> {
    let dir = tempfile::tempdir().unwrap();
    let files = tls::TlsContext::load(tls::TlsOptions::new(dir.path())).unwrap().files();
    let chain = vec![CertificateDer::from_pem_file(&files[0]).unwrap()];
    let key = PrivateKeyDer::from_pem_file(&files[1]).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new().unwrap();
    Arc::new(config)
}

/// A server's TLS connection, by rustls.
pub(crate) type Secured = StreamOwned<ServerConnection, TcpStream>;

pub(crate) fn secure(config: &Arc<ServerConfig>, stream: TcpStream) -> Secured {
    StreamOwned::new(ServerConnection::new(Arc::clone(config)).unwrap(), stream)
}

pub(crate) fn anyone() -> ClientTls {
    ClientTls::load(&ClientOptions { trust: Trust::AnyCertificate, ..ClientOptions::default() })
        .unwrap()
}

pub(crate) fn endpoint(address: SocketAddr, tls: Option<ClientTls>) -> ServerEndpoint {
    ServerEndpoint { address, host: "localhost".into(), tls }
}

/// Patient enough for a busy machine, but not without end.
pub(crate) fn patient() -> ConnectionOptions {
    ConnectionOptions { patience: Duration::from_secs(60), ..ConnectionOptions::default() }
}

pub(crate) fn run<T: 'static>(client: impl Future<Output = T> + 'static) -> T {
    Reactor::new(RingOptions::default()).unwrap().run(client).unwrap()
}

pub(crate) const GET: &[u8] = b"GET /film HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Sends one request and discards the body. Returns the head, and the length of the body.
pub(crate) async fn fetch(
    endpoint: ServerEndpoint,
    options: ConnectionOptions,
) -> Result<(Head, u64), Failure> {
    let mut connection = Connection::open(&endpoint, &options).await?;
    connection.send_request(GET).await?;
    let head = connection.head().await?;
    Ok((head, discard_all(&mut connection).await?))
}

pub(crate) async fn discard_all(connection: &mut Connection) -> Result<u64, Failure> {
    let mut total = 0;
    loop {
        match connection.discard(u64::MAX).await? {
            0 => return Ok(total),
            bytes => total += bytes,
        }
    }
}

pub(crate) async fn read_all(connection: &mut Connection) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    while connection.body(&mut body).await? > 0 {}
    Ok(body)
}

/// A server's TLS connection built from our own halves, which can send what rustls never would.
pub(crate) struct Halves {
    pub(crate) stream: TcpStream,
    established: Box<tls::Established>,
}

impl Halves {
    pub(crate) fn accept(mut stream: TcpStream) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let tls = tls::TlsContext::load(tls::TlsOptions::new(dir.path())).unwrap();
        let mut handshake = tls::Handshake::new(&tls).unwrap();
        let mut held = Vec::new();
        loop {
            let mut byte = [0];
            assert_eq!(stream.read(&mut byte).unwrap(), 1, "the client closed early");
            held.push(byte[0]);
            let mut output = Vec::new();
            let (consumed, progress) = handshake.advance(&held, &mut output).unwrap();
            stream.write_all(&output).unwrap();
            held.drain(..consumed);
            if let tls::Progress::Done(established) = progress {
                return Self { stream, established };
            }
        }
    }

    /// Receives one record from the client. Returns its data, if it has any.
    pub(crate) fn receive(&mut self) -> Option<Vec<u8>> {
        let mut record = vec![0; tls::HEADER_BYTES];
        self.stream.read_exact(&mut record).unwrap();
        let body_bytes = usize::from(u16::from_be_bytes([record[3], record[4]]));
        record.resize(tls::HEADER_BYTES + body_bytes, 0);
        self.stream.read_exact(&mut record[tls::HEADER_BYTES..]).unwrap();
        match self.established.opener.open(&mut record).unwrap() {
            tls::Opened::Record { content: tls::Content::Data(range), .. } => {
                Some(record[range].to_vec())
            }
            _ => None,
        }
    }

    pub(crate) fn send(&mut self, plaintext: &[u8]) {
        let sealer = &mut self.established.sealer;
        let mut wire = vec![0; sealer.sealed_bytes(plaintext.len() as u64) as usize];
        sealer.seal(plaintext, &mut wire).unwrap();
        self.stream.write_all(&wire).unwrap();
    }

    pub(crate) fn send_alert(&mut self, alert: tls::Alert) {
        let mut wire = [0; tls::CONTROL_RECORD_BYTES_MAX];
        let bytes = self.established.sealer.seal_alert(alert, &mut wire).unwrap();
        self.stream.write_all(&wire[..bytes]).unwrap();
    }

    pub(crate) fn send_key_update(&mut self) {
        let mut wire = [0; tls::CONTROL_RECORD_BYTES_MAX];
        let bytes = self.established.sealer.seal_key_update(true, &mut wire).unwrap();
        self.stream.write_all(&wire[..bytes]).unwrap();
    }
}
