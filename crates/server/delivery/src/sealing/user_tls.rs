//! TLS in user space: reads into a buffer, seals into a send buffer in one pass, and sends.
//!
//! A window makes a `Flight`: sealed records in one send buffer. Bytes that TCP does not take at once are held for a moment. Then the buffer is taken
//! back. Only the place of its records in the response remains, and their tags in the [`Ledger`]: with these the records are made again when the
//! viewer takes bytes again. A record that comes out different is never sent.
//! The viewer's input is read between flights, and in the waits of a flight ([`crate::inbound`]).
//!
//! Buffers cannot deadlock: a session takes its read buffer first and its send buffer second. A session with a send buffer waits only for the socket,
//! and not for long.

use super::{Sealing, await_pull};
use crate::ahead::Ahead;
use crate::end::End;
use crate::inbound::Records;
use crate::link::Link;
use crate::outgoing::{Outgoing, Piece};
use crate::receive_half::ReceiveHalf;
use crate::records::{self, plaintext};
use crate::unsent::{SEALED, UnsentLimit};
use disk::Plain;
use net::Socket;
use reactor::{Buffer, yield_now};
use std::ops::Range;
use std::rc::Rc;
use tls::{Alert, CONTROL_RECORD_BYTES_MAX, Ledger, Opener, PLAINTEXT_MAX, Sealer};

/// How many extents one flight may contain; the last may be part of a file. The rest follows in the next flight.
const PIECES_MAX: usize = 4;

/// Records made here.
pub struct UserTls {
    ledger: Ledger,
    receive_half: ReceiveHalf,
    /// The part of a key update, or of a record without data, that TCP has not taken. It is sent before anything else. Boxed, because few viewers
    /// have one.
    unsent: Option<Box<Unsent>>,
}

/// A record of which TCP may have taken only a part.
struct Unsent {
    record: [u8; CONTROL_RECORD_BYTES_MAX],
    left: Range<usize>,
}

/// Sealed records being sent.
struct Flight {
    buffer: Buffer,
    filled: usize,
    sent: usize,
    made_from: Pieces,
    /// The device number of the disk that it was read from for this viewer.
    disk: Option<u64>,
}

/// The source of a connection's last records, from which they can be made again: (offset in the response, bytes), each cut into records from its
/// start.
#[derive(Clone, Copy, Default)]
struct Pieces {
    pieces: [(u64, usize); PIECES_MAX],
    count: usize,
    /// The position of the first record.
    position: u64,
}

impl UserTls {
    /// Takes over a connection after its handshake. `sealed_input` holds the bytes that arrived after the handshake's last record.
    pub(crate) fn new(sealer: Sealer, opener: Opener, sealed_input: Vec<u8>) -> Self {
        Self::of_halves(sealer, ReceiveHalf::new(opener, sealed_input))
    }

    pub(crate) fn of_halves(sealer: Sealer, receive_half: ReceiveHalf) -> Self {
        Self { ledger: Ledger::new(sealer), receive_half, unsent: None }
    }

    /// Returns true if TCP has only a part of the last record.
    pub(crate) fn is_mid_record(&self) -> bool {
        self.unsent.is_some()
    }

    /// Sends a record without data, between responses: a packet that the viewer ignores. It is not counted as part of a response.
    pub(crate) fn send_nothing(&mut self, link: &Link) {
        let mut record = [0; CONTROL_RECORD_BYTES_MAX];
        let Ok(bytes) = self.ledger.seal_nothing(&mut record) else { return };
        // If it fails, the connection is gone already.
        let taken = link.socket.send(&record[..bytes], false).unwrap_or(0);
        if taken < bytes {
            self.unsent = Some(Box::new(Unsent { record, left: taken..bytes }));
        }
    }

    /// Takes it apart between responses, but not in the middle of a record.
    pub(crate) fn into_halves(self) -> (Sealer, ReceiveHalf) {
        debug_assert!(!self.is_mid_record(), "the record before has left");
        (self.ledger.into_sealer(), self.receive_half)
    }

    /// Changes our keys. Call it only between flights: earlier records cannot be made again afterwards.
    async fn update_key(&mut self, link: &Link) -> Result<(), End> {
        debug_assert!(self.unsent.is_none(), "the message before has left");
        let mut record = [0; CONTROL_RECORD_BYTES_MAX];
        let bytes =
            self.ledger.seal_key_update(false, &mut record).map_err(|_| End::KeysExhausted)?;
        // No record sealed with the former keys is owed.
        self.ledger.acknowledge_below(self.ledger.position());
        // The new keys apply from here on, whether or not the message is sent now.
        self.unsent = Some(Box::new(Unsent { record, left: 0..bytes }));
        self.receive_half.owes_keys = false;
        link.resources.numbers.key_updates_sent_total.add(1);
        self.send_unsent(link).await
    }

    /// Offers TCP the unsent bytes. Returns how many it took.
    fn offer_unsent(&mut self, link: &Link) -> Result<usize, End> {
        let Some(unsent) = &mut self.unsent else { return Ok(0) };
        let taken = link.offer(&unsent.record[unsent.left.clone()], false)?;
        unsent.left.start += taken;
        if unsent.left.is_empty() {
            self.unsent = None;
        }
        Ok(taken)
    }

    async fn send_unsent(&mut self, link: &Link) -> Result<(), End> {
        link.offer_all(|| Ok((self.offer_unsent(link)?, self.unsent.is_some()))).await
    }

    /// Makes the flight that begins at `at`: bytes in memory, then at most one window of the file.
    async fn seal(
        &mut self,
        link: &Link,
        outgoing: &Outgoing,
        at: u64,
        ahead: &mut Ahead,
    ) -> Result<Flight, End> {
        let window_bytes = link.share();
        let mut made_from = Pieces { position: self.ledger.position(), ..Pieces::default() };
        let mut plain: Option<Plain> = None;
        let (mut disk, mut file_start) = (None, 0);
        let mut offset = at;
        while plain.is_none() && made_from.count < PIECES_MAX {
            let budget = window_bytes.saturating_sub((offset - at) as usize);
            let Some(piece) = outgoing.piece(offset, budget).filter(|piece| piece.bytes() > 0)
            else {
                break;
            };
            let mut bytes = piece.bytes() as usize;
            if let Piece::File(file, range) = piece {
                let end = range.start + outgoing.extent_left(offset);
                file_start = range.start;
                let read = ahead.read(&link.resources, outgoing, file, range, end).await?;
                bytes = read.len();
                disk = read.is_from_disks_node().then(|| file.stamp().device);
                plain = Some(read);
            }
            made_from.push(offset, bytes);
            offset += bytes as u64;
        }
        let buffer = link.resources.send_buffers.take().await;
        let mut flight = Flight { buffer, filled: 0, sent: 0, made_from, disk };
        for &(offset, bytes) in made_from.iter() {
            let plaintext = plaintext(outgoing, offset, bytes, plain.as_deref());
            let room = &mut flight.buffer[flight.filled..];
            let sealed = if link.resources.features.seals_in_one_pass {
                self.ledger.seal(plaintext, room)
            } else {
                self.ledger.seal_copied(plaintext, room)
            };
            flight.filled += sealed.map_err(|_| End::KeysExhausted)?;
        }
        if let Some(plain) = plain {
            let sealed = plain.len();
            ahead.keep_rest(plain, file_start, sealed);
        }
        Ok(flight)
    }

    /// Reads the viewer's input during a response.
    fn inbound<'a>(&'a mut self, input: &'a mut Vec<u8>) -> Records<'a> {
        Records::new(&mut self.receive_half, input, true)
    }

    /// Between flights: ends the connection if the viewer broke the protocol, and changes our keys if that is due.
    async fn before_flight(&mut self, link: &Link) -> Result<(), End> {
        self.receive_half.check()?;
        self.send_unsent(link).await?;
        let is_due = self.ledger.needs_key_update(link.resources.limits.key_records_max);
        if is_due || self.receive_half.owes_keys { self.update_key(link).await } else { Ok(()) }
    }

    /// Gives TCP a flight. An error in what arrives meanwhile counts after the flight, because the viewer could not recognise an alert in the middle
    /// of a record.
    async fn deliver(
        &mut self,
        link: &mut Link,
        outgoing: &Outgoing,
        input: &mut Vec<u8>,
        mut flight: Flight,
        ahead: &mut Ahead,
        limit: &mut UnsentLimit,
    ) -> Result<(), End> {
        flight.sent += link.offer(&flight.buffer[..flight.filled], false)?;
        if flight.sent == flight.filled {
            link.window.taken_whole();
            return Ok(());
        }
        link.resources.numbers.windows_taken_in_part_total.add(1);
        link.window.taken_in_part(flight.sent);
        ahead.taken_in_part();
        while flight.sent < flight.filled {
            let timeout = link.resources.hold_timeout();
            if timeout.is_zero() || !link.holds(timeout, &mut self.inbound(input)).await? {
                ahead.give_up();
                let (owed, sent) = self.take_back(link, flight);
                link.pull_reading(&mut self.inbound(input)).await?;
                flight = self.make_again(link, outgoing, owed).await?;
                flight.sent = sent;
            }
            limit.woken(link);
            let taken = link.offer(&flight.buffer[flight.sent..flight.filled], false)?;
            flight.sent += taken;
            if taken == 0 {
                link.back_off().await?;
            }
        }
        self.ledger.acknowledge_below(self.ledger.position());
        Ok(())
    }

    /// Takes a stalled viewer's buffer away. Returns the source of its unsent records, and how many bytes of the first one were sent.
    fn take_back(&mut self, link: &Link, flight: Flight) -> (Pieces, usize) {
        link.resources.numbers.take_backs_total.add(1);
        let overhead = self.ledger.record_overhead();
        let (mut sent_records, mut start) = (0, 0);
        for bytes in flight.made_from.records() {
            let end = start + bytes + overhead;
            if end > flight.sent {
                break;
            }
            (sent_records, start) = (sent_records + 1, end);
        }
        let owed = flight.made_from.without_first(sent_records);
        let mut rest = &flight.buffer[start..flight.filled];
        self.ledger.take_back(owed.records().map(|bytes| {
            let (record, behind) = rest.split_at(bytes + overhead);
            rest = behind;
            record
        }));
        (owed, flight.sent - start)
    }

    /// Makes the owed records again.
    async fn make_again(
        &mut self,
        link: &Link,
        outgoing: &Outgoing,
        owed: Pieces,
    ) -> Result<Flight, End> {
        let mut plain: Option<Plain> = None;
        if let Some(&(offset, bytes)) = owed.iter().last() {
            if let Some(Piece::File(file, range)) = outgoing.piece(offset, bytes) {
                let reader = &link.resources.reader;
                plain = Some(reader.read_for(outgoing.misses(), file, range).await?);
            }
        }
        let buffer = link.resources.send_buffers.take().await;
        let mut flight = Flight { buffer, filled: 0, sent: 0, made_from: owed, disk: None };
        let mut position = owed.position;
        for &(offset, bytes) in owed.iter() {
            let range = offset..offset + bytes as u64;
            let room = &mut flight.buffer[flight.filled..];
            let made =
                records::make(&mut self.ledger, outgoing, range, position, plain.as_deref(), room)?;
            position += bytes.div_ceil(PLAINTEXT_MAX) as u64;
            flight.filled += made.bytes;
            link.resources.numbers.records_made_again_total.add(made.again);
        }
        Ok(flight)
    }
}

impl Sealing<Socket> for UserTls {
    fn open(&mut self, link: &Link, input: &mut Vec<u8>) -> Result<(), End> {
        Ok(self.receive_half.open(input, &link.resources.numbers)?)
    }

    fn arriving<'a>(&'a mut self, _input: &'a mut Vec<u8>) -> &'a mut Vec<u8> {
        &mut self.receive_half.sealed
    }

    fn peer_finished(&self) -> bool {
        self.receive_half.peer_finished
    }

    /// Returns true if new keys of ours are due, or the rest of the message about them.
    fn owes(&self, _link: &Link) -> bool {
        self.receive_half.owes_keys || self.unsent.is_some()
    }

    async fn give(&mut self, link: &mut Link) -> Result<(), End> {
        self.send_unsent(link).await?;
        if self.receive_half.owes_keys { self.update_key(link).await } else { Ok(()) }
    }

    async fn send(
        &mut self,
        link: &mut Link,
        outgoing: &Rc<Outgoing>,
        input: &mut Vec<u8>,
    ) -> Result<(), End> {
        let mut ahead = Ahead::default();
        let mut limit = UnsentLimit::new(link, SEALED);
        let mut at = 0;
        while at < outgoing.bytes() {
            await_pull(link, &mut limit, &mut ahead, &mut self.inbound(input)).await?;
            self.before_flight(link).await?;
            let turn = link.take_turn((outgoing.bytes() - at).min(link.share() as u64));
            if link.must_wait(turn.as_ref()) {
                ahead.give_up();
                // Boxed, because without a total rate no connection waits here.
                Box::pin(link.await_turn(turn.as_ref(), || Ok(()))).await?;
            }
            let flight = self.seal(link, outgoing, at, &mut ahead).await?;
            let (bytes, disk) = (flight.made_from.bytes(), flight.disk);
            self.deliver(link, outgoing, input, flight, &mut ahead, &mut limit).await?;
            self.receive_half.allow_key_update();
            link.end_turn(turn);
            at += bytes;
            link.count_window(bytes, disk);
            yield_now().await;
        }
        limit.end(link);
        Ok(())
    }

    fn say(&mut self, link: &Link, alerts: &[Alert]) {
        // After a part of a record, the viewer would take an alert for the rest of it.
        let is_clear = self.offer_unsent(link).is_ok() && self.unsent.is_none();
        for alert in alerts.iter().filter(|_| is_clear) {
            let mut record = [0; CONTROL_RECORD_BYTES_MAX];
            if let Ok(bytes) = self.ledger.seal_alert(*alert, &mut record) {
                // In one packet with the end of the connection, which follows at once.
                link.offer_last(|| link.offer(&record[..bytes], true));
            }
        }
    }
}

impl Pieces {
    fn push(&mut self, offset: u64, bytes: usize) {
        self.pieces[self.count] = (offset, bytes);
        self.count += 1;
    }

    fn iter(&self) -> std::slice::Iter<'_, (u64, usize)> {
        self.pieces[..self.count].iter()
    }

    fn bytes(&self) -> u64 {
        self.iter().map(|(_, bytes)| *bytes as u64).sum()
    }

    /// The plaintext length of each of its records.
    fn records(&self) -> impl Iterator<Item = usize> {
        self.iter().flat_map(|&(_, bytes)| {
            (0..bytes).step_by(PLAINTEXT_MAX).map(move |start| PLAINTEXT_MAX.min(bytes - start))
        })
    }

    /// The same without the first `records` records.
    fn without_first(&self, records: u64) -> Self {
        let mut left = Self { position: self.position + records, ..Self::default() };
        let mut skip_records = records;
        for &(offset, bytes) in self.iter() {
            let skipped = skip_records.min(bytes.div_ceil(PLAINTEXT_MAX) as u64);
            skip_records -= skipped;
            let skip = bytes.min(skipped as usize * PLAINTEXT_MAX);
            if skip < bytes {
                left.push(offset + skip as u64, bytes - skip);
            }
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(all: &[(u64, usize)]) -> Pieces {
        let mut pieces = Pieces { position: 7, ..Pieces::default() };
        all.iter().for_each(|&(offset, bytes)| pieces.push(offset, bytes));
        pieces
    }

    #[test]
    fn what_is_owed_begins_with_the_first_record_that_was_not_sent() {
        let record = PLAINTEXT_MAX;
        let all = pieces(&[(0, 100), (100, 2 * record + 5)]);
        assert_eq!(all.records().collect::<Vec<_>>(), [100, record, record, 5]);
        let expected = [
            pieces(&[(0, 100), (100, 2 * record + 5)]),
            pieces(&[(100, 2 * record + 5)]),
            pieces(&[(100 + record as u64, record + 5)]),
            pieces(&[(100 + 2 * record as u64, 5)]),
            pieces(&[]),
        ];
        for (sent, expected) in (0..).zip(expected) {
            let owed = all.without_first(sent);
            assert!(owed.iter().eq(expected.iter()), "after {sent} records");
            assert_eq!(owed.position, 7 + sent);
        }
    }
}
