//! The handshake, fed record by record, so that rustls never sees application data.
//!
//! rustls's buffered `ServerConnection` does the work. When it is done, the traffic keys and sequence numbers are taken out, and the connection
//! object with its buffers is freed (unless it is [`Retained`]). rustls counts the tickets that it sent under the traffic keys in its sequence
//! number, so our records continue from there.
//!
//! Why the buffered API rather than `UnbufferedServerConnection`: it accepts shared slices, keeps alerts for us after
//! an error, and its own buffers live only as long as the handshake.
//!
//! Invariants: exactly the handshake's records are consumed, and the bytes after them in the same segment are left for [`crate::Opener`]. All bytes
//! of a peer's handshake together are bounded by [`HANDSHAKE_BYTES_MAX`]. A handshake that fails ends with an alert, from rustls or else from us. The
//! caller limits the time.

use std::sync::Arc;

use rustls::server::Acceptor;
use rustls::{
    CommonState, HandshakeKind, NamedGroup, ProtocolVersion, ServerConfig, ServerConnection,
};

use crate::config::{TlsContext, cipher_suites};
use crate::early_data::EarlyData;
use crate::error::{Alert, HandshakeError};
use crate::hello::{self, Hello, TLS12, TLS13};
use crate::open::Opener;
use crate::proofs::ACME_TLS;
use crate::record::{
    CONTROL_RECORD_BYTES_MAX, HEADER_BYTES, Header, PLAINTEXT_MAX, RECORD_BYTES_MAX, content_type,
    handshake_type, plain_alert,
};
use crate::retained::Retained;
use crate::seal::Sealer;
use crate::secrets::{Captured, Keys, Suite, TlsVersion};
use crate::tickets::next_viewer;

/// The most bytes that a peer may send in one handshake. No client certificate is requested, so an honest client needs two hellos of about 2 KiB and
/// a Finished; the rest is room for future extensions. rustls keeps the records of an unfinished message in a buffer of this size
/// (`DeframerVecBuffer`, 0.23), and reports one more byte as our error, so the limit must not be larger.
pub const HANDSHAKE_BYTES_MAX: usize = 0xffff;

/// The progress of a handshake.
pub enum Progress {
    /// Send the output, read more, call again.
    NeedsInput,
    /// Send the output; the connection is ready. Boxed, because it moves with the caller's future.
    Done(Box<Established>),
    /// The same, but only for a handshake begun with [`Handshake::retaining`].
    Retained(Retained),
}

/// The result of a handshake.
pub struct Established {
    /// The sending half.
    pub sealer: Sealer,
    /// The receiving half.
    pub opener: Opener,
    /// The negotiated parameters.
    pub info: SessionInfo,
}

/// The negotiated parameters, for logs and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// TLS version.
    pub version: TlsVersion,
    /// Cipher of the records.
    pub suite: Suite,
    /// Key exchange group; `None` if a TLS 1.2 session was resumed, which exchanges no keys.
    pub group: Option<Group>,
    /// The host that the client named.
    pub server_name: Option<Box<str>>,
    /// Resumed from a ticket, without certificate and signature.
    pub resumed: bool,
    /// It was for a proof ([`crate::AlpnProofs`]): close it, and take and send nothing.
    pub is_proof: bool,
    /// The number of its viewer at this server. A resumed session has the number of the session before it, because tickets carry it; any other has a
    /// new one. 0 at a client.
    pub viewer: u64,
}

/// A key exchange group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// X25519 with ML-KEM-768, safe against quantum computers.
    X25519MlKem768,
    /// X25519.
    X25519,
    /// P-256.
    Secp256r1,
    /// P-384.
    Secp384r1,
}

impl Group {
    /// The name for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::X25519MlKem768 => "x25519mlkem768",
            Self::X25519 => "x25519",
            Self::Secp256r1 => "secp256r1",
            Self::Secp384r1 => "secp384r1",
        }
    }

    pub(crate) fn from_rustls(name: NamedGroup) -> Option<Self> {
        match name {
            NamedGroup::X25519MLKEM768 => Some(Self::X25519MlKem768),
            NamedGroup::X25519 => Some(Self::X25519),
            NamedGroup::secp256r1 => Some(Self::Secp256r1),
            NamedGroup::secp384r1 => Some(Self::Secp384r1),
            _ => None,
        }
    }
}

/// A handshake in progress.
pub struct Handshake {
    /// Boxed: this moves with its caller's future. `None` once over.
    connection: Option<Box<ServerConnection>>,
    captured: Captured,
    consumed_bytes: usize,
    /// rustls keeps the connection.
    retains: bool,
    /// The configuration to continue with if the client speaks TLS 1.2.
    tls12: Option<Arc<ServerConfig>>,
    /// The highest version that is offered.
    highest_version: u16,
    first_hello: FirstHello,
    /// Present while early data may arrive.
    early_data: Option<EarlyData>,
    /// A TLS 1.2 client has announced that its next record is protected.
    has_changed_cipher: bool,
}

/// A connection's first ClientHello, which may come in several records.
enum FirstHello {
    /// The part that has arrived, if it did not come in one record.
    Arriving(Vec<u8>),
    Read(Hello),
}

impl Handshake {
    /// Begins a handshake with a client that has just connected.
    ///
    /// # Errors
    /// [`HandshakeError::Internal`] if rustls refuses its own configuration.
    pub fn new(tls: &TlsContext) -> Result<Self, HandshakeError> {
        let connection =
            ServerConnection::new(Arc::clone(tls.config())).map_err(HandshakeError::from_rustls)?;
        Ok(Self {
            connection: Some(Box::new(connection)),
            captured: Captured::default(),
            consumed_bytes: 0,
            retains: false,
            tls12: None,
            highest_version: if tls.offers_tls13() { TLS13 } else { TLS12 },
            first_hello: FirstHello::Arriving(Vec::new()),
            early_data: None,
            has_changed_cipher: false,
        })
    }

    /// As [`Self::new`], for a connection that rustls keeps: it ends in [`Progress::Retained`].
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn retaining(tls: &TlsContext) -> Result<Self, HandshakeError> {
        Self::new(tls).map(|handshake| Self { retains: true, ..handshake })
    }

    /// The same, but a client that speaks TLS 1.2 gets that, even if it prefers 1.3. Only with [`crate::TlsVersions::Card`].
    pub fn preferring_tls12(self, tls: &TlsContext) -> Self {
        Self { tls12: tls.tls12().cloned(), ..self }
    }

    /// Consumes whole records of the handshake from the front of `input` and appends the bytes to send to `output`. Returns the bytes consumed. Once
    /// the handshake is done, the rest of `input` is for the opener. An input buffer of [`RECORD_BYTES_MAX`] always has room for a whole record.
    ///
    /// # Errors
    /// See [`HandshakeError`]. `output` then ends with the alert for the peer, if one is due; send it
    /// and close.
    ///
    /// # Panics
    /// If called again after it is done, or after an error.
    pub fn advance(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<(usize, Progress), HandshakeError> {
        let mut connection = self.connection.take().expect("not called after Done or an error");
        let mut consumed = 0;
        while connection.is_handshaking() {
            let output_start = output.len();
            match self.feed_next(&mut connection, &input[consumed..], output) {
                Ok(0) => {
                    self.connection = Some(connection);
                    return Ok((consumed, Progress::NeedsInput));
                }
                Ok(record_bytes) => consumed += record_bytes,
                Err(error) => {
                    // rustls leaves some errors without an alert.
                    if output.len() == output_start {
                        self.say(error, &connection, output);
                    }
                    return Err(error);
                }
            }
        }
        let progress = if self.retains {
            retain(connection, self.captured.viewer)?
        } else {
            Progress::Done(Box::new(self.hand_over(*connection)?))
        };
        Ok((consumed, progress))
    }

    /// Passes the record at the front of `input` to rustls, and appends its answer to `output`. Returns the record's length; 0 while it is
    /// incomplete.
    fn feed_next(
        &mut self,
        connection: &mut ServerConnection,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<usize, HandshakeError> {
        let body_bytes_max = match connection.protocol_version() {
            // Nothing can be protected before the first hello, so nothing expands.
            None => PLAINTEXT_MAX,
            Some(_) => RECORD_BYTES_MAX - HEADER_BYTES,
        };
        let record = match self.next_record(input, body_bytes_max) {
            Ok(None) => return Ok(0),
            Ok(Some(record)) => record,
            Err(error) => {
                if Writing::of(connection, &self.captured) == Writing::RustlsKeys {
                    // Only rustls has the keys for an alert. It sends one when it sees the header.
                    let _ = self.feed(connection, &input[..HEADER_BYTES]);
                    flush(connection, output)?;
                }
                return Err(error);
            }
        };
        self.look_at_hello(record)?;
        self.check_cipher_change(connection, record)?;
        if self.is_early_data(connection, record) {
            return Ok(record.len());
        }
        let fed = self.feed(connection, record);
        let predates_tls12 =
            matches!(self.first_hello, FirstHello::Read(Hello { predates_tls12: true, .. }));
        if fed == Err(HandshakeError::Incompatible) && predates_tls12 {
            // rustls checks signature_algorithms, which such clients do not send, before it checks the version. Its handshake_failure is never taken
            // out; ours is protocol_version (RFC 5246 appendix E.1).
            return Err(HandshakeError::UnsupportedVersion);
        }
        flush(connection, output)?;
        fed.map(|()| record.len())
    }

    /// Reads the first ClientHello once it is whole. Nothing else may come first, however long it is.
    fn look_at_hello(&mut self, record: &[u8]) -> Result<(), HandshakeError> {
        let FirstHello::Arriving(arrived) = &mut self.first_hello else { return Ok(()) };
        let (header, body) = record.split_at(HEADER_BYTES);
        if header[0] != content_type::HANDSHAKE {
            return Ok(());
        }
        if arrived.is_empty() && body[0] != handshake_type::CLIENT_HELLO {
            return Err(HandshakeError::Misbehaved);
        }
        let message = if arrived.is_empty() {
            body
        } else {
            arrived.extend_from_slice(body);
            &arrived[..]
        };
        let whole = hello::message_bytes(message).and_then(|bytes| message.get(..bytes));
        match whole {
            Some(whole) => {
                let hello = Hello::read(whole, self.highest_version)?;
                self.early_data = hello.brings_early_data.then(EarlyData::default);
                self.first_hello = FirstHello::Read(hello);
            }
            // All records of a handshake together are bounded, so this is too.
            None if arrived.is_empty() => arrived.extend_from_slice(body),
            None => {}
        }
        Ok(())
    }

    /// A client of TLS 1.2 changes its cipher once. rustls would try to open a second such message.
    fn check_cipher_change(
        &mut self,
        connection: &ServerConnection,
        record: &[u8],
    ) -> Result<(), HandshakeError> {
        let is_tls12 = connection.protocol_version() == Some(ProtocolVersion::TLSv1_2);
        if !is_tls12 || record[0] != content_type::CHANGE_CIPHER_SPEC {
            return Ok(());
        }
        let again = std::mem::replace(&mut self.has_changed_cipher, true);
        // Where only rustls has the keys for an alert, it chooses the alert.
        match Writing::of(connection, &self.captured) {
            Writing::InClear if again => Err(HandshakeError::Misbehaved),
            _ => Ok(()),
        }
    }

    /// Returns true if the record is early data, which is skipped (RFC 8446 section 4.2.10).
    fn is_early_data(&mut self, connection: &ServerConnection, record: &[u8]) -> bool {
        let is_tls13 = connection.protocol_version() == Some(ProtocolVersion::TLSv1_3);
        if !is_tls13 || record[0] != content_type::APPLICATION_DATA {
            return false;
        }
        let Some(early_data) = &mut self.early_data else { return false };
        let suite = connection.negotiated_cipher_suite().map(|suite| suite.suite());
        let is_early =
            early_data.has(record, suite.and_then(Suite::from_rustls), &mut self.captured);
        if !is_early {
            self.early_data = None;
        }
        is_early
    }

    /// The whole record at the front of `input`, if there is one. Bytes that cannot be a record are refused here.
    fn next_record<'a>(
        &mut self,
        input: &'a [u8],
        body_bytes_max: usize,
    ) -> Result<Option<&'a [u8]>, HandshakeError> {
        let Some(header) = Header::read(input) else { return Ok(None) };
        if self.consumed_bytes == 0 && looks_like_http(input) {
            return Err(HandshakeError::PlainHttp);
        }
        if !header.is_tls() {
            return Err(HandshakeError::Garbage);
        }
        // A handshake has no records without content (RFC 8446 sections 5.1 and 5.4).
        if !header.has_known_type() || header.body_bytes == 0 {
            return Err(HandshakeError::Misbehaved);
        }
        if header.body_bytes > body_bytes_max {
            return Err(HandshakeError::OversizedRecord);
        }
        let record = input.get(..header.record_bytes());
        self.consumed_bytes += record.map_or(0, <[u8]>::len);
        if self.consumed_bytes > HANDSHAKE_BYTES_MAX {
            Err(HandshakeError::TooLong)
        } else {
            Ok(record)
        }
    }

    fn feed(
        &mut self,
        connection: &mut ServerConnection,
        mut record: &[u8],
    ) -> Result<(), HandshakeError> {
        if let Some(config) = self.tls12.take().filter(|_| speaks_tls12(record)) {
            *connection = ServerConnection::new(config).map_err(HandshakeError::from_rustls)?;
        }
        while !record.is_empty() {
            // This fails if the buffer is full: the peer has sent too much.
            connection.read_tls(&mut record).map_err(|_| HandshakeError::TooLong)?;
        }
        let state = self
            .captured
            .during(|| connection.process_new_packets())
            .map_err(HandshakeError::from_rustls)?;
        if state.peer_has_closed() { Err(HandshakeError::PeerClosed) } else { Ok(()) }
    }

    /// Appends the alert that answers `error`, protected as our next record must be.
    fn say(&mut self, error: HandshakeError, connection: &ServerConnection, output: &mut Vec<u8>) {
        let Some(alert) = error.alert() else { return };
        match Writing::of(connection, &self.captured) {
            Writing::InClear => output.extend_from_slice(&plain_alert(alert)),
            Writing::TrafficKeys => {
                let sealed = self.sealed_alert(alert, connection);
                output.extend_from_slice(sealed.as_deref().unwrap_or_default());
            }
            Writing::RustlsKeys => {}
        }
    }

    /// An alert as the first record under the server's traffic keys.
    fn sealed_alert(&mut self, alert: Alert, connection: &ServerConnection) -> Option<Vec<u8>> {
        let suite = Suite::from_rustls(connection.negotiated_cipher_suite()?.suite())?;
        let keys = Keys::of_secret(suite, self.captured.server.take()?);
        let mut record = vec![0; CONTROL_RECORD_BYTES_MAX];
        let bytes = Sealer::new(keys, 0).seal_alert(alert, &mut record).ok()?;
        record.truncate(bytes);
        Some(record)
    }

    /// Takes keys and facts out of `connection` and drops the rest of it.
    fn hand_over(&mut self, connection: ServerConnection) -> Result<Established, HandshakeError> {
        let facts = Facts::of(&connection, connection.server_name(), self.captured.viewer);
        let secrets =
            connection.dangerous_extract_secrets().map_err(HandshakeError::from_rustls)?;
        let Captured { server, client, .. } = std::mem::take(&mut self.captured);
        let sending = Keys::from_rustls(&secrets.tx.1, server).ok_or(HandshakeError::Internal)?;
        let receiving = Keys::from_rustls(&secrets.rx.1, client).ok_or(HandshakeError::Internal)?;
        let info = facts.with(sending.version(), sending.suite());
        let (sealer, opener) =
            (Sealer::new(sending, secrets.tx.0), Opener::new(receiving, secrets.rx.0));
        Ok(Established { sealer, opener, info })
    }
}

/// Returns true if the client's first record shows that it speaks TLS 1.2, because it offers a cipher of 1.2. A hello in several records counts as
/// one that does not, which costs only the NIC's help.
fn speaks_tls12(mut record: &[u8]) -> bool {
    let mut acceptor = Acceptor::default();
    if acceptor.read_tls(&mut record).is_err() {
        return false;
    }
    let Ok(Some(accepted)) = acceptor.accept() else { return false };
    let hello = accepted.client_hello();
    let offered = hello.cipher_suites();
    cipher_suites(true)
        .iter()
        .any(|suite| suite.tls13().is_none() && offered.contains(&suite.suite()))
}

/// How our next record is protected while the handshake is not complete.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writing {
    /// Not at all: TLS 1.2 before our Finished, TLS 1.3 before our ServerHello.
    InClear,
    /// TLS 1.3 after our Finished. These keys have sealed nothing yet: tickets wait for the client's Finished.
    TrafficKeys,
    /// A resumed TLS 1.2 handshake: our Finished comes first, and rustls keeps the keys to itself.
    RustlsKeys,
}

impl Writing {
    fn of(connection: &ServerConnection, captured: &Captured) -> Self {
        let is_resumed = connection.handshake_kind() == Some(HandshakeKind::Resumed);
        match connection.protocol_version() {
            // Our flight is one piece: once it has been written, the secret is there.
            Some(ProtocolVersion::TLSv1_3) if captured.server.is_some() => Self::TrafficKeys,
            Some(ProtocolVersion::TLSv1_2) if is_resumed => Self::RustlsKeys,
            _ => Self::InClear,
        }
    }
}

/// Leaves `connection` as it is.
fn retain(
    connection: Box<ServerConnection>,
    viewer: Option<u64>,
) -> Result<Progress, HandshakeError> {
    let suite = connection.negotiated_cipher_suite().ok_or(HandshakeError::Internal)?;
    let version = if suite.tls13().is_some() { TlsVersion::Tls13 } else { TlsVersion::Tls12 };
    let suite = Suite::from_rustls(suite.suite()).ok_or(HandshakeError::Internal)?;
    let info = Facts::of(&connection, connection.server_name(), viewer).with(version, suite);
    Ok(Progress::Retained(Retained::new(connection, info)))
}

/// The facts that rustls knows about a session, apart from its keys.
pub(crate) struct Facts {
    group: Option<Group>,
    server_name: Option<Box<str>>,
    resumed: bool,
    is_proof: bool,
    viewer: u64,
}

impl Facts {
    /// The `viewer` is the number from a ticket.
    pub(crate) fn of(
        connection: &CommonState,
        server_name: Option<&str>,
        viewer: Option<u64>,
    ) -> Self {
        let group = connection.negotiated_key_exchange_group();
        Self {
            group: group.and_then(|group| Group::from_rustls(group.name())),
            server_name: server_name.map(Into::into),
            resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
            is_proof: connection.alpn_protocol() == Some(ACME_TLS),
            viewer: viewer.unwrap_or_else(next_viewer),
        }
    }

    pub(crate) fn with(self, version: TlsVersion, suite: Suite) -> SessionInfo {
        let Self { group, server_name, resumed, is_proof, viewer } = self;
        SessionInfo { version, suite, group, server_name, resumed, is_proof, viewer }
    }
}

/// Writing to a vector cannot fail, but the error is mapped anyway.
fn flush(connection: &mut ServerConnection, output: &mut Vec<u8>) -> Result<(), HandshakeError> {
    while connection.wants_write() {
        connection.write_tls(output).map_err(|_| HandshakeError::Internal)?;
    }
    Ok(())
}

/// Returns true if a request line begins here. Five bytes distinguish every method from the others and from any record.
fn looks_like_http(input: &[u8]) -> bool {
    const BEGINNINGS: [&[u8]; 9] =
        [b"GET ", b"HEAD ", b"POST ", b"PUT ", b"DELET", b"OPTIO", b"CONNE", b"PATCH", b"TRACE"];
    BEGINNINGS.iter().any(|beginning| input.starts_with(beginning))
}
