//! The TLS of one connection: the handshake, then records opened or thrown away.

use std::time::Instant;

use crypt::client::{ClientEstablished, ClientHandshake, ClientProgress, ClientTls, Tickets};
use crypt::{
    Alert, CONTROL_RECORD_BYTES_MAX, Content, HEADER_BYTES, OpenError, Opened, Opener,
    PLAINTEXT_MAX, RECORD_BYTES_MAX, Sealer, SessionInfo,
};
use net::Socket;

use super::failure::Failure;
use super::wait::{readable, send_all};
use super::walk::{Step, Walk};

/// Records up to this length are opened even where others are thrown away: alerts, key updates and tickets are shorter,
/// and in TLS 1.3 nothing but opening tells them from data. A server's last record of a body may be as short.
const OPENED_BODY_BYTES_MAX: usize = 1024;

/// RFC 8446 appendix B.1.
const APPLICATION_DATA: u8 = 23;

/// A connection after its handshake.
pub(crate) struct Secured {
    /// What was agreed.
    pub(crate) info: SessionInfo,
    /// Tickets that came, of whatever use.
    pub(crate) tickets_seen: u32,
    sealer: Sealer,
    opener: Opener,
    tickets: Option<Tickets>,
    walk: Walk,
    /// The answer to a key update, to be sent in front of the next request.
    owed: Vec<u8>,
}

/// What came of the plaintext.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// Nothing has arrived.
    Blocked,
    /// The server will send no more; `orderly` if it said so.
    Closed { orderly: bool },
    /// This many bytes, appended or thrown away; perhaps none.
    Bytes(usize),
}

impl Secured {
    /// Shakes hands.
    ///
    /// # Errors
    /// The handshake's, the socket's, and the time-out's.
    pub(crate) async fn shake_hands(
        socket: &Socket,
        tls: &ClientTls,
        host: &str,
        deadline: Instant,
    ) -> Result<Self, Failure> {
        let mut handshake = ClientHandshake::new(tls, host)?;
        let mut walk = Walk::new();
        advance(&mut handshake, &[], socket, deadline).await?;
        loop {
            match walk.step(socket, 0)? {
                // What is no record of TLS shows in its first bytes, and may be too short to be whole.
                Step::Header { .. } => {
                    advance(&mut handshake, walk.header(), socket, deadline).await?;
                    walk.collect();
                }
                Step::Whole => {
                    let record = walk.take();
                    let done = advance(&mut handshake, &record, socket, deadline).await?;
                    if let Some(established) = done {
                        return Ok(Self::new(*established, walk));
                    }
                }
                Step::Closed => return Err(Failure::ClosedEarly),
                Step::Blocked => readable(socket, deadline, "the TLS handshake").await?,
                Step::Passed(_) => unreachable!("nothing is being passed over"),
            }
        }
    }

    fn new(established: ClientEstablished, walk: Walk) -> Self {
        let ClientEstablished { sealer, opener, info, tickets } = established;
        Self { info, tickets_seen: 0, sealer, opener, tickets, walk, owed: Vec::new() }
    }

    /// Seals a request, behind what is owed.
    ///
    /// # Errors
    /// [`Failure::KeysExhausted`].
    pub(crate) fn seal(&mut self, plaintext: &[u8]) -> Result<Vec<u8>, Failure> {
        let mut wire = std::mem::take(&mut self.owed);
        let start = wire.len();
        let sealed_bytes = plaintext.len()
            + plaintext.len().div_ceil(PLAINTEXT_MAX) * self.sealer.record_overhead();
        wire.resize(start + sealed_bytes, 0);
        self.sealer.seal(plaintext, &mut wire[start..]).map_err(|_| Failure::KeysExhausted)?;
        Ok(wire)
    }

    /// The record that says goodbye.
    pub(crate) fn goodbye(&mut self) -> Vec<u8> {
        let mut wire = vec![0; CONTROL_RECORD_BYTES_MAX];
        let bytes = self.sealer.seal_alert(Alert::CloseNotify, &mut wire);
        wire.truncate(bytes.expect("the room is what an alert needs"));
        wire
    }

    /// Opens the next record and appends its data to `into`.
    ///
    /// # Errors
    /// The socket's, the records', alerts.
    ///
    /// # Panics
    /// If a record was half thrown away: who throws a body away cannot read its rest.
    pub(crate) fn open(&mut self, socket: &Socket, into: &mut Vec<u8>) -> Result<Came, Failure> {
        assert!(!self.walk.is_passing(), "a body is either read or thrown away");
        loop {
            match self.walk.step(socket, 0)? {
                Step::Header { .. } => self.walk.collect(),
                Step::Whole => return self.open_whole(into),
                Step::Blocked => return Ok(Came::Blocked),
                Step::Closed => return Ok(Came::Closed { orderly: false }),
                Step::Passed(_) => unreachable!("nothing is being passed over"),
            }
        }
    }

    /// Throws away at most `plaintext_max` (at least 1) of the data that has arrived, from one record. Short records are
    /// opened; what they hold is counted whole.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn discard(
        &mut self,
        socket: &Socket,
        plaintext_max: usize,
    ) -> Result<Came, Failure> {
        loop {
            match self.walk.step(socket, plaintext_max)? {
                Step::Header { content_type, body_bytes }
                    if content_type == APPLICATION_DATA && body_bytes > OPENED_BODY_BYTES_MAX =>
                {
                    if HEADER_BYTES + body_bytes > RECORD_BYTES_MAX {
                        return Err(OpenError::Oversized.into());
                    }
                    self.walk.pass(self.opener.body_overhead());
                    self.opener.skip(1);
                }
                Step::Header { .. } => self.walk.collect(),
                Step::Whole => return self.open_whole(&mut Vec::new()),
                Step::Passed(bytes) => return Ok(Came::Bytes(bytes)),
                Step::Blocked => return Ok(Came::Blocked),
                Step::Closed => return Ok(Came::Closed { orderly: false }),
            }
        }
    }

    /// Whether this connection's tickets are wanted, and still to come.
    pub(crate) fn keeps_tickets(&self) -> bool {
        self.tickets.is_some()
    }

    /// Whether a record is half thrown away.
    pub(crate) fn is_within_record(&self) -> bool {
        self.walk.is_passing()
    }

    fn open_whole(&mut self, into: &mut Vec<u8>) -> Result<Came, Failure> {
        let mut record = self.walk.take();
        let Opened::Record { content, .. } = self.opener.open(&mut record)? else {
            unreachable!("the record is whole")
        };
        match content {
            Content::Data(range) => {
                into.extend_from_slice(&record[range.clone()]);
                return Ok(Came::Bytes(range.len()));
            }
            Content::CloseNotify => return Ok(Came::Closed { orderly: true }),
            Content::Alert { fatal: true, description } => return Err(Failure::Alert(description)),
            Content::KeyUpdate { peer_requests_answer: true } => self.owe_key_update(),
            Content::Tickets(range) => {
                self.tickets_seen += 1;
                if let Some(tickets) = &mut self.tickets {
                    tickets.keep(&record[range])?;
                }
            }
            Content::KeyUpdate { .. } | Content::Alert { .. } | Content::Ignored => {}
        }
        Ok(Came::Bytes(0))
    }

    /// One answer serves all requests that came before it.
    fn owe_key_update(&mut self) {
        if self.owed.is_empty() {
            let mut wire = vec![0; CONTROL_RECORD_BYTES_MAX];
            let bytes = self.sealer.seal_key_update(false, &mut wire);
            wire.truncate(
                bytes.expect("who sent a key update speaks TLS 1.3, and the room is enough"),
            );
            self.owed = wire;
        }
    }
}

/// Hands bytes to the handshake and sends what it answers, an alert if it fails.
async fn advance(
    handshake: &mut ClientHandshake,
    input: &[u8],
    socket: &Socket,
    deadline: Instant,
) -> Result<Option<Box<ClientEstablished>>, Failure> {
    let mut output = Vec::new();
    let step = handshake.advance(input, &mut output);
    let sent = send_all(socket, &output, deadline).await;
    let (_, progress) = step?;
    sent?;
    Ok(match progress {
        ClientProgress::Done(established) => Some(established),
        ClientProgress::NeedsInput => None,
    })
}
