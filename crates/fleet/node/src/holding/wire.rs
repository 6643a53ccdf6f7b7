//! A connection to another node: returns the received bytes piece by piece, with or without TLS.
//!
//! The agent's other connections use a library. This one carries the whole fill rate, so records are decrypted directly from the receive
//! buffer into the block to be verified and written; without TLS the kernel puts the bytes there itself. It blocks, because the copier has
//! nothing else to do meanwhile.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::ops::Range;
use std::time::{Duration, Instant};

use tls::client::{ClientHandshake, ClientProgress, ClientTls};
use tls::{
    CONTROL_RECORD_BYTES_MAX, Content, OPENED_BYTES_MAX, Opened, Opener, PLAINTEXT_MAX,
    RECORD_BYTES_MAX, Sealer,
};

use super::sources::PeerFault;

/// The connect timeout.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// The longest silence.
const SILENT_MAX: Duration = Duration::from_secs(10);
/// The most bytes to receive in one call.
const BUFFER_BYTES: usize = 512 << 10;
const _: () = assert!(BUFFER_BYTES > 2 * RECORD_BYTES_MAX);

/// Decrypts and encrypts a connection's records.
struct Ends {
    sealer: Sealer,
    opener: Opener,
}

/// The connection.
pub(crate) struct Wire {
    stream: TcpStream,
    ends: Option<Box<Ends>>,
    buffer: Vec<u8>,
    /// Received and not yet decrypted, in the buffer.
    raw: Range<usize>,
    /// Decrypted and not yet taken, before that.
    ready: Range<usize>,
}

/// When an operation times out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    pub(crate) fn after(time: Duration) -> Self {
        Self(Instant::now() + time)
    }

    /// How long to wait for the next bytes; `None` if the deadline has passed.
    fn patience(self) -> Option<Duration> {
        let left = self.0.saturating_duration_since(Instant::now());
        (!left.is_zero()).then(|| left.clamp(Duration::from_millis(1), SILENT_MAX))
    }
}

impl Wire {
    /// Connects to `host`, over TLS if `tls` is given. A node with an untrusted certificate counts as unreachable.
    pub(crate) fn connect(
        host: &str,
        port: u16,
        tls: Option<&ClientTls>,
        deadline: Deadline,
    ) -> Result<Self, PeerFault> {
        let mut addresses = (host, port).to_socket_addrs().map_err(|_| PeerFault::Unreachable)?;
        let stream = addresses.find_map(|at| {
            let patience = deadline.patience()?.min(CONNECT_MAX);
            TcpStream::connect_timeout(&at, patience).ok()
        });
        let stream = stream.ok_or(PeerFault::Unreachable)?;
        let options =
            stream.set_nodelay(true).and_then(|()| stream.set_write_timeout(Some(SILENT_MAX)));
        options.map_err(|_| PeerFault::Unreachable)?;
        let buffer = vec![0; BUFFER_BYTES];
        let mut own = Self { stream, ends: None, buffer, raw: 0..0, ready: 0..0 };
        if let Some(tls) = tls {
            own.ends = Some(Box::new(own.shake_hands(tls, host, deadline)?));
        }
        Ok(own)
    }

    fn shake_hands(
        &mut self,
        tls: &ClientTls,
        host: &str,
        deadline: Deadline,
    ) -> Result<Ends, PeerFault> {
        let refused = |_| PeerFault::Unreachable;
        let mut handshake = ClientHandshake::new(tls, host).map_err(refused)?;
        let mut output = Vec::new();
        loop {
            let advanced = handshake.advance(&self.buffer[self.raw.clone()], &mut output);
            // Send an alert first, if there is one: it says why the handshake failed.
            let sent = self.stream.write_all(&output);
            let (consumed, progress) = advanced.map_err(refused)?;
            sent.map_err(|_| PeerFault::Reset)?;
            output.clear();
            self.raw.start += consumed;
            match progress {
                ClientProgress::NeedsInput => self.receive(deadline)?,
                ClientProgress::Done(done) => {
                    return Ok(Ends { sealer: done.sealer, opener: done.opener });
                }
            }
        }
    }

    /// Sends all of `bytes`.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), PeerFault> {
        let sent = match &mut self.ends {
            None => self.stream.write_all(bytes),
            Some(ends) => {
                let records = bytes.len().div_ceil(PLAINTEXT_MAX);
                let mut sealed = vec![0; bytes.len() + records * ends.sealer.record_overhead()];
                let count = ends.sealer.seal(bytes, &mut sealed).map_err(|_| PeerFault::Reset)?;
                self.stream.write_all(&sealed[..count])
            }
        };
        sent.map_err(|_| PeerFault::Reset)
    }

    /// The next received bytes: at least one. They stay until they are [taken](Self::take).
    pub(crate) fn next(&mut self, deadline: Deadline) -> Result<&[u8], PeerFault> {
        while self.ready.is_empty() {
            if self.open(&mut [])?.is_none() {
                self.receive(deadline)?;
            }
        }
        Ok(&self.buffer[self.ready.clone()])
    }

    /// Consumes `count` bytes of what [`Self::next`] returned.
    pub(crate) fn take(&mut self, count: usize) {
        self.ready.start = self.ready.end.min(self.ready.start + count);
    }

    /// Fills all of `into` with the next bytes.
    pub(crate) fn fill(&mut self, into: &mut [u8], deadline: Deadline) -> Result<(), PeerFault> {
        let mut filled = 0;
        while filled < into.len() {
            let room = &mut into[filled..];
            if !self.ready.is_empty() {
                let count = room.len().min(self.ready.len());
                room[..count].copy_from_slice(&self.buffer[self.ready.clone()][..count]);
                self.take(count);
                filled += count;
            } else if self.ends.is_none() && self.raw.is_empty() {
                filled += receive(&mut self.stream, room, deadline)?;
            } else {
                match self.open(room)? {
                    Some(count) => filled += count,
                    None => self.receive(deadline)?,
                }
            }
        }
        Ok(())
    }

    /// Whether all received bytes have been taken.
    pub(crate) fn is_drained(&self) -> bool {
        self.ready.is_empty() && self.raw.is_empty()
    }

    /// Decrypts a record, if a complete one is there. Its content goes to `into` if that has room for any record, and otherwise becomes
    /// ready in the buffer. Returns the number of bytes written to `into`, or `None` if there was no complete record.
    fn open(&mut self, into: &mut [u8]) -> Result<Option<usize>, PeerFault> {
        let Some(ends) = &mut self.ends else {
            self.ready = self.raw.clone();
            self.raw = self.raw.end..self.raw.end;
            return Ok((!self.ready.is_empty()).then_some(0));
        };
        let at = self.raw.start;
        let record = &mut self.buffer[self.raw.clone()];
        let is_apart = into.len() >= OPENED_BYTES_MAX;
        let opened =
            if is_apart { ends.opener.open_to(record, into) } else { ends.opener.open(record) };
        let Opened::Record { consumed_bytes, content } = opened.map_err(|_| PeerFault::Reset)?
        else {
            return Ok(None);
        };
        self.raw.start += consumed_bytes;
        match content {
            Content::Data(data) if is_apart => return Ok(Some(data.len())),
            Content::Data(data) => self.ready = at + data.start..at + data.end,
            Content::CloseNotify | Content::Alert { .. } => return Err(PeerFault::Reset),
            Content::KeyUpdate { peer_requests_answer: true } => {
                let mut answer = [0; CONTROL_RECORD_BYTES_MAX];
                let count = ends.sealer.seal_key_update(false, &mut answer);
                let count = count.map_err(|_| PeerFault::Reset)?;
                self.stream.write_all(&answer[..count]).map_err(|_| PeerFault::Reset)?;
            }
            Content::KeyUpdate { .. } | Content::Tickets(_) | Content::Ignored => {}
        }
        Ok(Some(0))
    }

    /// Waits for more bytes.
    fn receive(&mut self, deadline: Deadline) -> Result<(), PeerFault> {
        // Moves at most a partial record.
        self.buffer.copy_within(self.raw.clone(), 0);
        self.raw = 0..self.raw.len();
        self.raw.end += receive(&mut self.stream, &mut self.buffer[self.raw.end..], deadline)?;
        Ok(())
    }
}

/// Waits for bytes, and puts them into `room`. Returns how many there were.
fn receive(
    stream: &mut TcpStream,
    room: &mut [u8],
    deadline: Deadline,
) -> Result<usize, PeerFault> {
    loop {
        let patience = deadline.patience().ok_or(PeerFault::Slow)?;
        stream.set_read_timeout(Some(patience)).map_err(|_| PeerFault::Reset)?;
        match stream.read(room) {
            Ok(0) => return Err(PeerFault::Reset),
            Ok(count) => return Ok(count),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                let is_over = deadline.patience().is_none();
                return Err(if is_over { PeerFault::Slow } else { PeerFault::Stalled });
            }
            Err(_) => return Err(PeerFault::Reset),
        }
    }
}
