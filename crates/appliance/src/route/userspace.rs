//! TLS in user space: read into a buffer, seal from where the bytes lie into a send buffer in one pass, send.
//!
//! A window makes a `Flight`: sealed records in one send buffer. What TCP does not take of it at once is held for a
//! moment. Then the buffer is taken back; what remains is a list of `OwedRecord`s, each with its tag, and the records
//! are made again when the viewer pulls again (a record that comes out different is never sent: ARCHITECTURE.md, "Two rules").
//!
//! No deadlock over buffers: a session takes its read buffer first and its send buffer second, and who holds a send
//! buffer waits for nothing but the socket, and for that not long.

use super::ahead::Ahead;
use super::incoming::Incoming;
use super::link::Link;
use crate::end::End;
use crate::outgoing::{Outgoing, Piece};
use crypt::{
    Alert, CONTROL_RECORD_BYTES_MAX, Established, PLAINTEXT_MAX, ResealError, Sealer, TAG_BYTES,
};
use disk::Plain;
use reactor::{Buffer, yield_now};
use std::ops::Range;

/// Extents that one flight may begin with; the last may be of a file. More go in the next flight.
const PIECES_MAX: usize = 4;

/// A connection with TLS whose records are made here.
pub struct Userspace {
    pub(super) link: Link,
    sealer: Sealer,
    incoming: Incoming,
    /// What TCP has not taken of a key update: it goes before anything else. Boxed, since hardly anybody has one.
    unsent: Option<Box<Unsent>>,
}

/// A record of which TCP has taken a part, at most.
struct Unsent {
    record: [u8; CONTROL_RECORD_BYTES_MAX],
    left: Range<usize>,
}

/// Sealed records on their way.
struct Flight {
    buffer: Buffer,
    filled: usize,
    sent: usize,
    /// The position of the first record.
    position: u64,
    /// What the records were made from: (offset in the response, bytes), each cut into records from its start.
    pieces: [(u64, usize); PIECES_MAX],
    pieces_count: usize,
}

/// A record that was sealed, not wholly sent, and whose bytes are gone.
struct OwedRecord {
    position: u64,
    /// Its plaintext, in the response.
    offset: u64,
    bytes: usize,
    tag: [u8; TAG_BYTES],
}

/// What a viewer is owed after a take-back.
struct Owed {
    records: Vec<OwedRecord>,
    /// Wire bytes of the first record that were sent.
    sent_of_first: usize,
}

impl Userspace {
    /// Takes a connection over from its handshake; `sealed_input` is what came behind the handshake's last record.
    pub fn new(link: Link, established: Established, sealed_input: Vec<u8>) -> Self {
        let Established { sealer, opener, .. } = established;
        Self { link, sealer, incoming: Incoming::new(opener, sealed_input), unsent: None }
    }

    pub(super) async fn receive(&mut self, input: &mut Vec<u8>) -> Result<(), End> {
        let before = input.len();
        loop {
            self.open_input(input)?;
            if self.owes_keys() {
                // Boxed: hardly anybody asks for this, and everybody waits in this future for a request.
                Box::pin(self.give_keys()).await?;
            }
            if input.len() > before {
                return Ok(());
            }
            if self.incoming.peer_finished {
                return Err(End::PeerClosed);
            }
            self.link.receive(&mut self.incoming.sealed).await?;
        }
    }

    /// Opens all that has arrived.
    fn open_input(&mut self, input: &mut Vec<u8>) -> Result<(), End> {
        Ok(self.incoming.open(input, &self.link.worker.numbers)?)
    }

    /// Whether new keys of ours, or the rest of the message about them, go before anything else.
    fn owes_keys(&self) -> bool {
        self.incoming.owes_keys || self.unsent.is_some()
    }

    /// Gives the viewer what it is owed. Whoever waits for this may lose patience at any time: nothing is lost by that, and nothing done
    /// twice.
    async fn give_keys(&mut self) -> Result<(), End> {
        self.send_unsent().await?;
        if self.incoming.owes_keys { self.update_key().await } else { Ok(()) }
    }

    /// Changes our keys. Only between flights: what was sealed before cannot be made again afterwards.
    async fn update_key(&mut self) -> Result<(), End> {
        debug_assert!(self.unsent.is_none(), "the message before has left");
        let mut record = [0; CONTROL_RECORD_BYTES_MAX];
        let bytes =
            self.sealer.seal_key_update(false, &mut record).map_err(|_| End::KeysExhausted)?;
        // From here on the keys are others, whether or not the message leaves now.
        self.unsent = Some(Box::new(Unsent { record, left: 0..bytes }));
        self.incoming.owes_keys = false;
        self.link.worker.numbers.key_updates_sent_total.add(1);
        self.send_unsent().await
    }

    /// Offers TCP what is unsent; returns the bytes that it took.
    fn offer_unsent(&mut self) -> Result<usize, End> {
        let Some(unsent) = &mut self.unsent else { return Ok(0) };
        let taken = self.link.offer(&unsent.record[unsent.left.clone()], false)?;
        unsent.left.start += taken;
        if unsent.left.is_empty() {
            self.unsent = None;
        }
        Ok(taken)
    }

    async fn send_unsent(&mut self) -> Result<(), End> {
        while self.unsent.is_some() {
            if self.offer_unsent()? == 0 && self.link.socket.is_writable() {
                self.link.back_off().await?;
            } else if self.unsent.is_some() {
                self.link.pull().await?;
            }
        }
        Ok(())
    }

    /// Says goodbye by `alerts`, if TCP takes them: nobody waits for a viewer who is leaving.
    pub(super) fn finish(&mut self, alerts: &[Alert]) {
        // Behind a part of a record, an alert would be taken for its rest.
        let is_clear = self.offer_unsent().is_ok() && self.unsent.is_none();
        for alert in alerts.iter().filter(|_| is_clear) {
            let mut record = [0; CONTROL_RECORD_BYTES_MAX];
            if let Ok(bytes) = self.sealer.seal_alert(*alert, &mut record) {
                // In one packet with the end of the connection, which follows at once.
                let _ = self.link.offer(&record[..bytes], true);
            }
        }
        self.link.socket.finish();
    }

    pub(super) async fn send(&mut self, outgoing: &Outgoing) -> Result<(), End> {
        if self.owes_keys() {
            self.give_keys().await?;
        }
        let mut ahead = Ahead::default();
        let mut at = 0;
        while at < outgoing.bytes() {
            if self.sealer.needs_key_update(self.link.worker.key_records_max) {
                self.update_key().await?;
            }
            if !self.link.pulls_soon().await {
                ahead.give_up();
                self.link.pull().await?;
            }
            let flight = self.seal(outgoing, at, &mut ahead).await?;
            let bytes = flight.plain_bytes();
            self.deliver(outgoing, flight, &mut ahead).await?;
            at += bytes;
            self.link.worker.numbers.windows_total.add(1);
            self.link.worker.numbers.response_sent_bytes_total.add(bytes);
            yield_now().await;
        }
        Ok(())
    }

    /// Makes the flight that begins at `at`: bytes in memory, then at most one window of the file.
    async fn seal(
        &mut self,
        outgoing: &Outgoing,
        at: u64,
        ahead: &mut Ahead,
    ) -> Result<Flight, End> {
        let window_bytes = self.link.window.bytes();
        let mut pieces = [(0, 0); PIECES_MAX];
        let mut pieces_count = 0;
        let mut plain: Option<Plain> = None;
        let mut offset = at;
        while plain.is_none() && pieces_count < PIECES_MAX {
            let budget = window_bytes.saturating_sub((offset - at) as usize);
            let Some(piece) = outgoing.piece(offset, budget).filter(|piece| piece.bytes() > 0)
            else {
                break;
            };
            let mut bytes = piece.bytes() as usize;
            if let Piece::File(file, range) = piece {
                let end = range.start + outgoing.extent_left(offset);
                let read = ahead.read(&self.link.worker, file, range, end).await?;
                bytes = read.len();
                plain = Some(read);
            }
            pieces[pieces_count] = (offset, bytes);
            pieces_count += 1;
            offset += bytes as u64;
        }
        let buffer = self.link.worker.send_buffers.take().await;
        let position = self.sealer.position();
        let mut flight = Flight { buffer, filled: 0, sent: 0, position, pieces, pieces_count };
        for &(offset, bytes) in &pieces[..pieces_count] {
            let plaintext = plaintext(outgoing, offset, bytes, plain.as_deref());
            let room = &mut flight.buffer[flight.filled..];
            let sealed = if self.link.worker.seals_in_one_pass {
                self.sealer.seal(plaintext, room)
            } else {
                self.sealer.seal_copied(plaintext, room)
            };
            flight.filled += sealed.map_err(|_| End::KeysExhausted)?;
        }
        Ok(flight)
    }

    async fn deliver(
        &mut self,
        outgoing: &Outgoing,
        mut flight: Flight,
        ahead: &mut Ahead,
    ) -> Result<(), End> {
        flight.sent += self.link.offer(&flight.buffer[..flight.filled], false)?;
        if flight.sent == flight.filled {
            self.link.window.taken_whole();
            return Ok(());
        }
        self.link.worker.numbers.windows_taken_in_part_total.add(1);
        self.link.window.taken_in_part(flight.sent);
        ahead.give_up();
        while flight.sent < flight.filled {
            let patience = self.link.worker.hold_patience();
            if patience.is_zero() || !self.link.holds(patience).await {
                let owed = self.take_back(flight);
                self.link.pull().await?;
                flight = self.make_again(outgoing, &owed).await?;
            }
            let taken = self.link.offer(&flight.buffer[flight.sent..flight.filled], false)?;
            flight.sent += taken;
            if taken == 0 {
                self.link.back_off().await?;
            }
        }
        Ok(())
    }

    /// Takes a stalled viewer's buffer away and keeps what is needed to make its bytes again.
    fn take_back(&self, flight: Flight) -> Owed {
        self.link.worker.numbers.take_backs_total.add(1);
        let overhead = self.sealer.record_overhead();
        let mut owed = Owed { records: Vec::new(), sent_of_first: 0 };
        let mut wire_start = 0;
        for (position, (offset, bytes)) in (flight.position..).zip(flight.records()) {
            let wire_end = wire_start + bytes + overhead;
            if wire_end > flight.sent {
                if owed.records.is_empty() {
                    owed.sent_of_first = flight.sent - wire_start;
                }
                let tag = crypt::tag(&flight.buffer[wire_start..wire_end]);
                owed.records.push(OwedRecord { position, offset, bytes, tag });
            }
            wire_start = wire_end;
        }
        owed
    }

    /// Makes the owed records again.
    async fn make_again(&mut self, outgoing: &Outgoing, owed: &Owed) -> Result<Flight, End> {
        let worker = &self.link.worker;
        let (first, last) = match owed.records.as_slice() {
            [first, .., last] => (first, last),
            [only] => (only, only),
            [] => unreachable!("something was left unsent"),
        };
        let mut plain: Option<Plain> = None;
        let mut offset = first.offset;
        let end = last.offset + last.bytes as u64;
        while let Some(piece) =
            outgoing.piece(offset, (end - offset) as usize).filter(|piece| piece.bytes() > 0)
        {
            offset += piece.bytes();
            if let Piece::File(file, range) = piece {
                plain = Some(worker.reader.read(file, range).await?);
            }
        }
        let file_start = plain.as_ref().map_or(end, |plain| end - plain.len() as u64);
        let mut flight = Flight::empty(worker.send_buffers.take().await, first.position);
        for record in &owed.records {
            let of_file = plain.as_deref().and_then(|plain| {
                let start = record.offset.checked_sub(file_start)? as usize;
                Some(&plain[start..start + record.bytes])
            });
            let plaintext = plaintext(outgoing, record.offset, record.bytes, of_file);
            let room = &mut flight.buffer[flight.filled..];
            let made = self.sealer.reseal(record.position, plaintext, room, &record.tag);
            flight.filled += made.map_err(|error| match error {
                ResealError::ChangedUnderUs => End::ChangedUnderUs,
                ResealError::OutOfReach | ResealError::BufferTooSmall => {
                    unreachable!("keys do not change during a flight, and it fitted before")
                }
            })?;
        }
        worker.numbers.records_made_again_total.add(owed.records.len() as u64);
        flight.adopt(&owed.records);
        flight.sent = owed.sent_of_first;
        Ok(flight)
    }
}

impl Flight {
    fn empty(buffer: Buffer, position: u64) -> Self {
        Self { buffer, filled: 0, sent: 0, position, pieces: [(0, 0); PIECES_MAX], pieces_count: 0 }
    }

    /// Takes records over that were made one by one.
    fn adopt(&mut self, records: &[OwedRecord]) {
        for record in records {
            match self.pieces[..self.pieces_count].last_mut() {
                Some((offset, bytes))
                    if *offset + *bytes as u64 == record.offset && *bytes % PLAINTEXT_MAX == 0 =>
                {
                    *bytes += record.bytes;
                }
                _ => {
                    self.pieces[self.pieces_count] = (record.offset, record.bytes);
                    self.pieces_count += 1;
                }
            }
        }
    }

    fn plain_bytes(&self) -> u64 {
        self.pieces[..self.pieces_count].iter().map(|(_, bytes)| *bytes as u64).sum()
    }

    /// Its records in order: where their plaintext lies in the response, and how long it is.
    fn records(&self) -> impl Iterator<Item = (u64, usize)> {
        self.pieces[..self.pieces_count].iter().flat_map(|&(offset, bytes)| {
            (0..bytes)
                .step_by(PLAINTEXT_MAX)
                .map(move |start| (offset + start as u64, PLAINTEXT_MAX.min(bytes - start)))
        })
    }
}

/// The plaintext at `offset`: in memory, or else what was read of the file.
fn plaintext<'a>(
    outgoing: &'a Outgoing,
    offset: u64,
    bytes: usize,
    of_file: Option<&'a [u8]>,
) -> &'a [u8] {
    match outgoing.piece(offset, bytes) {
        Some(Piece::Bytes(in_memory)) => in_memory,
        _ => of_file.expect("a file piece was read before it is sealed"),
    }
}
