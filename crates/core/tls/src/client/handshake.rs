//! A client's handshake, fed record by record, so that rustls never sees application data.
//!
//! The unbuffered rustls connection does the work, because only that one still keeps tickets after the keys are taken out: a TLS 1.3 server issues
//! tickets after the handshake, when this crate has the keys. The state needed for that, [`Tickets`], is kept only by clients that resume.
//!
//! Invariants: the same as for [`crate::Handshake`]. Exactly the handshake's records are consumed, all bytes of a
//! server's handshake together are bounded by [`HANDSHAKE_BYTES_MAX`], and the caller limits the time.

use std::sync::Arc;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::kernel::KernelConnection;
use rustls::pki_types::ServerName;
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, UnbufferedStatus};

use super::config::ClientTls;
use crate::error::{HandshakeError, OpenRecordError};
use crate::handshake::{Facts, HANDSHAKE_BYTES_MAX, SessionInfo};
use crate::open::{Messages, Opener};
use crate::record::{Header, RECORD_BYTES_MAX};
use crate::seal::Sealer;
use crate::secrets::{Captured, Keys};

/// The progress of a client's handshake.
pub enum ClientProgress {
    /// Send the output, read more, call again.
    NeedsInput,
    /// Send the output; the connection is ready.
    Done(Box<ClientEstablished>),
}

/// The result of a client's handshake.
pub struct ClientEstablished {
    /// The sending half.
    pub sealer: Sealer,
    /// The receiving half. Pass the ranges that it reports as [`crate::Content::Tickets`] to `tickets`, or ignore them.
    pub opener: Opener,
    /// The negotiated parameters.
    pub info: SessionInfo,
    /// Keeps the tickets of this connection; `None` if [`ClientTls`] does not resume, or with TLS 1.2, where the ticket
    /// came with the handshake.
    pub tickets: Option<Tickets>,
}

/// Stores the tickets of a TLS 1.3 connection for later handshakes of the same [`ClientTls`].
pub struct Tickets(Box<KernelConnection<ClientConnectionData>>);

impl Tickets {
    /// Keeps the tickets in `messages`, a range that [`Opener::open`] reported.
    ///
    /// # Errors
    /// [`OpenRecordError::Malformed`] if one cannot be parsed.
    pub fn keep(&mut self, messages: &[u8]) -> Result<(), OpenRecordError> {
        for (_, ticket) in Messages(messages) {
            self.0.handle_new_session_ticket(ticket).map_err(|_| OpenRecordError::Malformed)?;
        }
        Ok(())
    }
}

/// A client's handshake in progress.
pub struct ClientHandshake {
    /// Boxed: this moves with its caller's future. `None` once over.
    connection: Option<Box<UnbufferedClientConnection>>,
    captured: Captured,
    /// Records with the beginning of a message whose end has not arrived yet.
    held: Vec<u8>,
    consumed_bytes: usize,
    server_name: Box<str>,
    resumes: bool,
}

impl ClientHandshake {
    /// Begins a handshake with the server `server_name`, a DNS name or an IP address. The server's certificate must
    /// contain the same name. The first [`Self::advance`], without input, writes the hello.
    ///
    /// # Errors
    /// [`HandshakeError::CertificateWrongName`] if no certificate can contain `server_name`,
    /// [`HandshakeError::Internal`] if rustls refuses its own configuration.
    pub fn new(tls: &ClientTls, server_name: &str) -> Result<Self, HandshakeError> {
        let name = ServerName::try_from(server_name.to_owned())
            .map_err(|_| HandshakeError::CertificateWrongName)?;
        let connection = UnbufferedClientConnection::new(Arc::clone(tls.config()), name)
            .map_err(HandshakeError::of_server)?;
        Ok(Self {
            connection: Some(Box::new(connection)),
            captured: Captured::default(),
            held: Vec::new(),
            consumed_bytes: 0,
            server_name: server_name.into(),
            resumes: tls.resumes(),
        })
    }

    /// Consumes whole records of the handshake from the front of `input` and appends the bytes to send to `output`. Returns the bytes consumed. Once
    /// the handshake is done, the rest of `input` is for the opener. An input buffer of [`RECORD_BYTES_MAX`] always has room for a whole record.
    ///
    /// # Errors
    /// See [`HandshakeError`]. `output` then ends with the alert for the server, if one is due; send it and close.
    ///
    /// # Panics
    /// If called again after it is done, or after an error.
    pub fn advance(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> Result<(usize, ClientProgress), HandshakeError> {
        let mut connection = self.connection.take().expect("not called after Done or an error");
        let mut consumed = 0;
        while !self.drive(&mut connection, output)? {
            let Some(record) = self.next_record(&input[consumed..])? else {
                self.connection = Some(connection);
                return Ok((consumed, ClientProgress::NeedsInput));
            };
            self.held.extend_from_slice(record);
            consumed += record.len();
        }
        let established = self.hand_over(*connection)?;
        Ok((consumed, ClientProgress::Done(Box::new(established))))
    }

    /// The whole record at the front of `input`, if there is one.
    fn next_record<'a>(&mut self, input: &'a [u8]) -> Result<Option<&'a [u8]>, HandshakeError> {
        let Some(header) = Header::read(input) else { return Ok(None) };
        if self.consumed_bytes == 0 && input.starts_with(b"HTTP/") {
            return Err(HandshakeError::PlainHttp);
        }
        if !header.is_tls() || !header.has_known_type() {
            return Err(HandshakeError::Garbage);
        }
        if header.record_bytes() > RECORD_BYTES_MAX {
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

    /// Lets rustls process the held records. Returns whether the handshake is done.
    fn drive(
        &mut self,
        connection: &mut UnbufferedClientConnection,
        output: &mut Vec<u8>,
    ) -> Result<bool, HandshakeError> {
        loop {
            let held = &mut self.held;
            let UnbufferedStatus { discard, state } =
                self.captured.during(|| connection.process_tls_records(held));
            let failed = state.is_err();
            let step = match state {
                Ok(state) => step(state, output),
                Err(error) => Err(HandshakeError::of_server(error)),
            };
            self.held.drain(..discard);
            if failed {
                write_alert(connection, output);
            }
            match step? {
                Step::Again => {}
                Step::Blocked => return Ok(false),
                Step::Done => return Ok(true),
            }
        }
    }

    /// Takes keys and facts out of `connection`, and drops the rest unless tickets are wanted.
    fn hand_over(
        &mut self,
        connection: UnbufferedClientConnection,
    ) -> Result<ClientEstablished, HandshakeError> {
        let facts = Facts::of(&connection, Some(&self.server_name), Some(0));
        let (secrets, kernel) =
            connection.dangerous_into_kernel_connection().map_err(HandshakeError::of_server)?;
        let Captured { server, client, .. } = std::mem::take(&mut self.captured);
        let sending = Keys::from_rustls(&secrets.tx.1, client).ok_or(HandshakeError::Internal)?;
        let receiving = Keys::from_rustls(&secrets.rx.1, server).ok_or(HandshakeError::Internal)?;
        let info = facts.with(sending.version(), sending.suite());
        let keeps = self.resumes && info.version == crate::TlsVersion::Tls13;
        Ok(ClientEstablished {
            sealer: Sealer::new(sending, secrets.tx.0),
            opener: Opener::of_server(receiving, secrets.rx.0),
            info,
            tickets: keeps.then(|| Tickets(Box::new(kernel))),
        })
    }
}

/// The action after a step of rustls.
enum Step {
    Again,
    Blocked,
    Done,
}

fn step(
    state: ConnectionState<'_, '_, ClientConnectionData>,
    output: &mut Vec<u8>,
) -> Result<Step, HandshakeError> {
    match state {
        ConnectionState::EncodeTlsData(mut flight) => {
            encode(&mut flight, output)?;
            Ok(Step::Again)
        }
        ConnectionState::TransmitTlsData(flight) => {
            flight.done();
            Ok(Step::Again)
        }
        ConnectionState::BlockedHandshake => Ok(Step::Blocked),
        ConnectionState::WriteTraffic(_) => Ok(Step::Done),
        ConnectionState::PeerClosed | ConnectionState::Closed => Err(HandshakeError::PeerClosed),
        _ => Err(HandshakeError::Misbehaved),
    }
}

/// Appends the bytes that rustls wants to send, after asking for their length.
fn encode(
    flight: &mut EncodeTlsData<'_, ClientConnectionData>,
    output: &mut Vec<u8>,
) -> Result<(), HandshakeError> {
    let start = output.len();
    let bytes = match flight.encode(&mut []) {
        Err(EncodeError::InsufficientSize(size)) => size.required_size,
        _ => return Err(HandshakeError::Internal),
    };
    output.resize(start + bytes, 0);
    let written = flight.encode(&mut output[start..]).map_err(|_| HandshakeError::Internal)?;
    output.truncate(start + written);
    Ok(())
}

/// After an error, the alert that rustls has ready for the server.
fn write_alert(connection: &mut UnbufferedClientConnection, output: &mut Vec<u8>) {
    let status = connection.process_tls_records(&mut []);
    if let Ok(ConnectionState::EncodeTlsData(mut alert)) = status.state {
        // The handshake's error is reported; a missing alert does not change it.
        let _ = encode(&mut alert, output);
    }
}
