//! The TLS of one connection: the handshake, then records that are opened or discarded.

use std::cell::RefCell;
use std::time::Instant;

use net::Socket;
use tls::client::{ClientEstablished, ClientHandshake, ClientProgress, ClientTls, Tickets};
use tls::{
    Alert, CONTROL_RECORD_BYTES_MAX, Content, HEADER_BYTES, OpenRecordError, Opened, Opener,
    PLAINTEXT_MAX, RECORD_BYTES_MAX, Sealer, SessionInfo,
};

use crate::failure::Failure;
use crate::wait::{Readiness, readable, send_all};
use crate::walk::{Chunk, Step, Walk};

/// Records up to this length are opened even if others are discarded. Alerts, key updates and tickets are shorter, and in TLS 1.3 only
/// opening a record tells them from data. The last record of a body may be as short.
const OPENED_BODY_BYTES_MAX: usize = 1024;

/// How many bytes to receive at once when discarding: many records, but no more than a second-level cache holds.
const SCRATCH_BYTES: usize = 256 << 10;

thread_local! {
    /// Buffer for discarded bytes. Borrowed only within one call.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; SCRATCH_BYTES]);
}

/// RFC 8446 appendix B.1.
const APPLICATION_DATA: u8 = 23;

/// A connection after its handshake.
pub(crate) struct Secured {
    /// The negotiated session.
    pub(crate) info: SessionInfo,
    /// Tickets received, useful or not.
    pub(crate) tickets_seen: u32,
    sealer: Sealer,
    opener: Opener,
    tickets: Option<Tickets>,
    walk: Walk,
    /// The server has sent close_notify.
    said_goodbye: bool,
    /// A pending answer to a key update, sent before the next request.
    owed: Vec<u8>,
}

/// The result of receiving.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// Nothing has arrived.
    Blocked,
    /// The server will send no more; `orderly` if it announced that.
    Closed { orderly: bool },
    /// Something arrived.
    Bytes {
        /// Bytes of plaintext, appended or discarded; may be zero.
        bytes: usize,
        /// Whether more can be expected at once.
        readiness: Readiness,
    },
}

impl Secured {
    /// Does the handshake.
    ///
    /// # Errors
    /// If the handshake or the socket fails, or the time is up.
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
            match walk.step(socket)? {
                // Data that is not a TLS record shows that in its first bytes, and may be too short to be complete.
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
        let (tickets_seen, said_goodbye, owed) = (0, false, Vec::new());
        Self { info, tickets_seen, sealer, opener, tickets, walk, said_goodbye, owed }
    }

    /// Encrypts a request, after any pending answer.
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

    /// Builds the record with close_notify.
    pub(crate) fn goodbye(&mut self) -> Vec<u8> {
        let mut wire = vec![0; CONTROL_RECORD_BYTES_MAX];
        let bytes = self.sealer.seal_alert(Alert::CloseNotify, &mut wire);
        wire.truncate(bytes.expect("the room is what an alert needs"));
        wire
    }

    /// Opens the next record and appends its data to `into`.
    ///
    /// # Errors
    /// If the socket fails, a record is bad, or an alert arrives.
    ///
    /// # Panics
    /// If a record was half discarded: after discarding, the rest of a body cannot be read.
    pub(crate) fn open(&mut self, socket: &Socket, into: &mut Vec<u8>) -> Result<Came, Failure> {
        assert!(!self.walk.is_passing(), "a body is either read or thrown away");
        if self.said_goodbye {
            return Ok(Came::Closed { orderly: true });
        }
        loop {
            match self.walk.step(socket)? {
                Step::Header { .. } => self.walk.collect(),
                Step::Whole => {
                    let bytes = self.open_whole(into)?;
                    return Ok(Came::Bytes { bytes, readiness: Readiness::Unknown });
                }
                Step::Blocked => return Ok(Came::Blocked),
                Step::Closed => return Ok(Came::Closed { orderly: false }),
                Step::Passed(_) => unreachable!("nothing is being passed over"),
            }
        }
    }

    /// Receives some of a body with `body_left` bytes to come (`None`: until the end), at most `bytes_max` on the wire, and skips it. Short
    /// records are opened; their content counts once they are complete.
    ///
    /// The data is copied from the kernel into memory that all connections of a thread share, and processed there. Letting the kernel
    /// discard it (`MSG_TRUNC`) takes two calls per record, which cost more than copying 16 KiB: 0.10 to 0.16 CPU seconds per GB instead of
    /// 0.08 (Zen 4, Linux 6.18, loopback).
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn discard(
        &mut self,
        socket: &Socket,
        bytes_max: u64,
        body_left: Option<u64>,
    ) -> Result<Came, Failure> {
        if self.said_goodbye {
            return Ok(Came::Closed { orderly: true });
        }
        let overhead = self.opener.body_overhead();
        let certain = body_left.map_or(u64::MAX, |left| self.walk.bytes_certain(left, overhead));
        SCRATCH.with_borrow_mut(|scratch| {
            let room_bytes = certain.min(bytes_max).min(SCRATCH_BYTES as u64) as usize;
            match socket.receive(&mut scratch[..room_bytes])? {
                None => Ok(Came::Blocked),
                Some(0) => Ok(Came::Closed { orderly: false }),
                Some(bytes) => {
                    let passed = self.pass_over(&scratch[..bytes])?;
                    let readiness = match self.said_goodbye {
                        // The end is known, so there is nothing to wait for.
                        true => Readiness::Unknown,
                        false => Readiness::after(bytes, room_bytes, SCRATCH_BYTES),
                    };
                    Ok(Came::Bytes { bytes: passed, readiness })
                }
            }
        })
    }

    /// Processes bytes from the wire. Returns how much plaintext they contained.
    fn pass_over(&mut self, wire: &[u8]) -> Result<usize, Failure> {
        let chunk = Chunk::new(wire);
        let mut passed = 0;
        loop {
            match self.walk.step(&chunk)? {
                Step::Header { content_type, body_bytes }
                    if content_type == APPLICATION_DATA && body_bytes > OPENED_BODY_BYTES_MAX =>
                {
                    if HEADER_BYTES + body_bytes > RECORD_BYTES_MAX {
                        return Err(OpenRecordError::Oversized.into());
                    }
                    self.walk.pass(self.opener.body_overhead());
                    self.opener.skip(1);
                }
                Step::Header { .. } => self.walk.collect(),
                Step::Whole => passed += self.open_whole(&mut Vec::new())?,
                Step::Passed(bytes) => passed += bytes,
                Step::Blocked | Step::Closed => return Ok(passed),
            }
        }
    }

    /// Returns true if this connection's tickets are wanted and still to come.
    pub(crate) fn keeps_tickets(&self) -> bool {
        self.tickets.is_some()
    }

    /// Returns true if a record is half discarded.
    pub(crate) fn is_within_record(&self) -> bool {
        self.walk.is_passing()
    }

    /// Opens the complete record, handles anything but data, and appends data. Returns its length.
    fn open_whole(&mut self, into: &mut Vec<u8>) -> Result<usize, Failure> {
        let mut record = self.walk.take();
        let Opened::Record { content, .. } = self.opener.open(&mut record)? else {
            unreachable!("the record is whole")
        };
        match content {
            Content::Data(range) => {
                into.extend_from_slice(&record[range.clone()]);
                return Ok(range.len());
            }
            Content::CloseNotify => self.said_goodbye = true,
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
        Ok(0)
    }

    /// One answer is enough for all key updates before it.
    fn owe_key_update(&mut self) {
        if self.owed.is_empty() {
            let mut wire = vec![0; CONTROL_RECORD_BYTES_MAX];
            let bytes = self.sealer.seal_key_update(false, &mut wire);
            wire.truncate(
                bytes.expect(
                    "a peer that sends a key update uses TLS 1.3, and there is enough room",
                ),
            );
            self.owed = wire;
        }
    }
}

/// Passes bytes to the handshake and sends its answer, or an alert if it fails.
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
