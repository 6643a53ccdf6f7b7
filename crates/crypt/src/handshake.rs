//! The handshake, fed record by record, so that rustls never sees application data.
//!
//! rustls's buffered `ServerConnection` does the work. When it is done the traffic keys and sequence
//! numbers are taken out, and the connection object with its buffers is freed (unless it was to be
//! [`Retained`]). Tickets
//! that rustls sent under the traffic keys are in its sequence number, so our records follow on.
//!
//! The buffered API rather than `UnbufferedServerConnection`: it accepts shared slices, keeps alerts for us
//! after an error, and its own buffers live only as long as the handshake.
//!
//! Invariants: exactly the handshake's records are consumed, whatever follows them in the same segment is
//! left for [`crate::Opener`]; and all of a peer's handshake together is bounded by
//! [`HANDSHAKE_BYTES_MAX`]. Time is the caller's to bound.

use std::sync::Arc;

use rustls::{CommonState, HandshakeKind, NamedGroup, ServerConnection};

use crate::config::Tls;
use crate::error::HandshakeError;
use crate::open::Opener;
use crate::record::{HEADER_BYTES, Header, RECORD_BYTES_MAX, plain_alert};
use crate::retained::Retained;
use crate::seal::Sealer;
use crate::secrets::{Captured, Keys, Suite, Version};

/// Bytes that a peer may send in one handshake. We ask for no certificate, so an honest client needs two
/// hellos of about 2 KiB and a Finished; the rest is room for what is invented next.
pub const HANDSHAKE_BYTES_MAX: usize = 64 * 1024;

/// How far a handshake has come.
pub enum Progress {
    /// Send the output, read more, call again.
    NeedsInput,
    /// Send the output; the connection is ready. Boxed since it moves with the caller's future.
    Done(Box<Established>),
    /// The same for a handshake that was begun with [`Handshake::retaining`], and only for that.
    Retained(Retained),
}

/// What a handshake leaves behind.
pub struct Established {
    /// The sending half.
    pub sealer: Sealer,
    /// The receiving half.
    pub opener: Opener,
    /// What was agreed.
    pub info: SessionInfo,
}

/// What was agreed, for logs and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// TLS version.
    pub version: Version,
    /// Cipher of the records.
    pub suite: Suite,
    /// Key exchange group; `None` when a TLS 1.2 session was resumed, which exchanges no keys.
    pub group: Option<Group>,
    /// The host that the client named.
    pub server_name: Option<Box<str>>,
    /// Taken up from a ticket, without certificate and signature.
    pub resumed: bool,
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

/// A handshake under way.
pub struct Handshake {
    /// Boxed: this moves with its caller's future. `None` once over.
    connection: Option<Box<ServerConnection>>,
    captured: Captured,
    consumed_bytes: usize,
    /// Something was sent, so keys may be in use.
    answered: bool,
    /// rustls keeps the connection.
    retains: bool,
}

impl Handshake {
    /// Begins a handshake with a client that has just connected.
    ///
    /// # Errors
    /// [`HandshakeError::Internal`] if rustls refuses its own configuration.
    pub fn new(tls: &Tls) -> Result<Self, HandshakeError> {
        let connection =
            ServerConnection::new(Arc::clone(tls.config())).map_err(HandshakeError::from_rustls)?;
        Ok(Self {
            connection: Some(Box::new(connection)),
            captured: Captured::default(),
            consumed_bytes: 0,
            answered: false,
            retains: false,
        })
    }

    /// As [`Self::new`], for a connection that stays rustls's: it ends in [`Progress::Retained`].
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn retaining(tls: &Tls) -> Result<Self, HandshakeError> {
        Self::new(tls).map(|handshake| Self { retains: true, ..handshake })
    }

    /// Consumes whole records of the handshake from the front of `input` and appends what must be sent to
    /// `output`. Returns the bytes consumed; once done, what is left of `input` is for the
    /// opener. An input buffer of [`RECORD_BYTES_MAX`] always holds a whole record.
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
        let output_start = output.len();
        let step = self.step(input, output);
        let silent = output.len() == output_start;
        if let Err(error) = &step {
            // rustls leaves some errors without an alert. Before our first answer it can go out as it is.
            if let (true, false, Some(alert)) = (silent, self.answered, error.plain_alert()) {
                output.extend_from_slice(&plain_alert(alert));
            }
        }
        self.answered |= !silent;
        step
    }

    fn step(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<(usize, Progress), HandshakeError> {
        let mut connection = self.connection.take().expect("not called after Done or an error");
        let mut consumed = 0;
        while connection.is_handshaking() {
            let Some(record) = self.next_record(&input[consumed..])? else {
                self.connection = Some(connection);
                return Ok((consumed, Progress::NeedsInput));
            };
            let fed = self.feed(&mut connection, record);
            flush(&mut connection, output)?;
            fed?;
            consumed += record.len();
        }
        let progress = if self.retains {
            retain(connection)?
        } else {
            Progress::Done(Box::new(self.hand_over(*connection)?))
        };
        Ok((consumed, progress))
    }

    /// The whole record at the front of `input`, if there is one. What cannot be a record is refused here,
    /// or, once keys may be in use, handed out as a bare header: rustls then refuses it under those keys.
    fn next_record<'a>(&mut self, input: &'a [u8]) -> Result<Option<&'a [u8]>, HandshakeError> {
        let Some(header) = Header::read(input) else { return Ok(None) };
        if self.consumed_bytes == 0 && looks_like_http(input) {
            return Err(HandshakeError::PlainHttp);
        }
        let broken = match (header.is_tls(), header.record_bytes() > RECORD_BYTES_MAX) {
            (false, _) => Some(HandshakeError::Garbage),
            (true, true) => Some(HandshakeError::OversizedRecord),
            (true, false) => None,
        };
        match broken {
            Some(error) if !self.answered => return Err(error),
            Some(_) => return Ok(Some(&input[..HEADER_BYTES])),
            None => {}
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
        while !record.is_empty() {
            connection.read_tls(&mut record).map_err(|_| HandshakeError::Internal)?;
        }
        let state = self
            .captured
            .during(|| connection.process_new_packets())
            .map_err(HandshakeError::from_rustls)?;
        if state.peer_has_closed() { Err(HandshakeError::PeerClosed) } else { Ok(()) }
    }

    /// Takes keys and facts out of `connection` and drops the rest of it.
    fn hand_over(&mut self, connection: ServerConnection) -> Result<Established, HandshakeError> {
        let facts = Facts::of(&connection, connection.server_name());
        let secrets =
            connection.dangerous_extract_secrets().map_err(HandshakeError::from_rustls)?;
        let Captured { server, client } = std::mem::take(&mut self.captured);
        let sending = Keys::from_rustls(&secrets.tx.1, server).ok_or(HandshakeError::Internal)?;
        let receiving = Keys::from_rustls(&secrets.rx.1, client).ok_or(HandshakeError::Internal)?;
        let info = facts.with(sending.version(), sending.suite());
        let (sealer, opener) =
            (Sealer::new(sending, secrets.tx.0), Opener::new(receiving, secrets.rx.0));
        Ok(Established { sealer, opener, info })
    }
}

/// Leaves `connection` as it is.
fn retain(connection: Box<ServerConnection>) -> Result<Progress, HandshakeError> {
    let suite = connection.negotiated_cipher_suite().ok_or(HandshakeError::Internal)?;
    let version = if suite.tls13().is_some() { Version::Tls13 } else { Version::Tls12 };
    let suite = Suite::from_rustls(suite.suite()).ok_or(HandshakeError::Internal)?;
    let info = Facts::of(&connection, connection.server_name()).with(version, suite);
    Ok(Progress::Retained(Retained::new(connection, info)))
}

/// What rustls knows of a session beside its keys.
pub(crate) struct Facts {
    group: Option<Group>,
    server_name: Option<Box<str>>,
    resumed: bool,
}

impl Facts {
    pub(crate) fn of(connection: &CommonState, server_name: Option<&str>) -> Self {
        let group = connection.negotiated_key_exchange_group();
        Self {
            group: group.and_then(|group| Group::from_rustls(group.name())),
            server_name: server_name.map(Into::into),
            resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
        }
    }

    pub(crate) fn with(self, version: Version, suite: Suite) -> SessionInfo {
        let Self { group, server_name, resumed } = self;
        SessionInfo { version, suite, group, server_name, resumed }
    }
}

/// Writing into a vector cannot fail; the error is mapped all the same.
fn flush(connection: &mut ServerConnection, output: &mut Vec<u8>) -> Result<(), HandshakeError> {
    while connection.wants_write() {
        connection.write_tls(output).map_err(|_| HandshakeError::Internal)?;
    }
    Ok(())
}

/// Does a request line begin here? Five bytes tell the methods from each other and from any record.
fn looks_like_http(input: &[u8]) -> bool {
    const BEGINNINGS: [&[u8]; 9] =
        [b"GET ", b"HEAD ", b"POST ", b"PUT ", b"DELET", b"OPTIO", b"CONNE", b"PATCH", b"TRACE"];
    BEGINNINGS.iter().any(|beginning| input.starts_with(beginning))
}
