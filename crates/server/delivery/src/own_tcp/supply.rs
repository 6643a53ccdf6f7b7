//! Suppliers: tasks that move the ranges that TCP wants from the disk to the device.
//!
//! A supplier takes a wanted range, reads the records that cover it, waits for its turn if earlier new bytes come first, seals, and hands TCP as much
//! as it may send. Nothing waits after the read, so the bytes are still in the CPU cache when the device takes them.
//!
//! There is one supplier for each read that may be in flight. Each holds a read buffer and, while it seals and sends, a send buffer. There are more
//! buffers of both kinds than suppliers, so no supplier waits for another's buffer. A device may keep buffers a little longer, until it has read
//! them.

use super::connection::OwnTcpConnection;
use super::in_hand::{Bytes, InHand};
use super::layout::{MadeFrom, Part};
use super::{Job, OwnTcp};
use crate::end::End;
use crate::outgoing::{Outgoing, Piece};
use crate::resources::Resources;
use disk::Plain;
use frames::Blocked;
use reactor::{Buffer, sleep, yield_now};
use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tcp::{ByteRequest, Withheld};
use telemetry::Family;
use tls::PLAINTEXT_MAX;

/// How many parts are prepared at once; the last may be part of a file. The rest follows with the next want.
const PARTS_MAX: usize = 4;

/// Limit on reads in flight: a fast disk's queue depth.
pub(super) const SUPPLIERS_MAX: usize = 64;

/// The most bytes kept for one connection: four records.
pub(super) const REST_BYTES_MAX: u64 = 64 << 10;

/// How long to wait for a device without room. A guess: the time of some frames on a wire of 10 Gb/s.
const DEVICE_PAUSE: Duration = Duration::from_micros(50);

/// The parts of one want, and the bytes read for it.
struct Load {
    parts: Vec<Part>,
    /// The part of the file that the last part needs.
    plain: Option<Plain>,
}

/// How many suppliers a worker has.
pub fn suppliers(resources: &Resources) -> usize {
    let buffers = resources.reader.pool().count().min(resources.send_buffers.count());
    // An eighth of a pool is reserved for reads that finish soon.
    (buffers - buffers / 8 - 1).clamp(1, SUPPLIERS_MAX)
}

impl OwnTcp {
    /// Runs one supplier: takes jobs and sends them, forever.
    pub async fn supply(self: Rc<Self>, resources: Rc<Resources>) {
        let mut in_hand = InHand::default();
        loop {
            let job = poll_fn(|cx| match self.next_job(cx.waker()) {
                Some(job) => Poll::Ready(job),
                None => Poll::Pending,
            })
            .await;
            let Job { connection, mut want, number } = job;
            // Skip the bytes that were acknowledged in the meantime.
            want.range.start = want.range.start.max(connection.progress().1).min(want.range.end);
            let turn = number.map(|number| connection.turn(number));
            // An earlier supplier may be making the record in which this want begins, and will keep the rest of that record.
            let keeps = self.rests.left_bytes() > REST_BYTES_MAX;
            let is_first = number.is_none_or(|number| connection.is_next(number));
            let from =
                if is_first || !keeps { want.range.start } else { next_record(&connection, &want) };
            let brought = self.bring(&resources, &connection, &want, from).await;
            if let Some(turn) = &turn {
                turn.come().await;
            }
            let sent = match brought {
                Ok(load) => self.send(&resources, &connection, &want, load, &mut in_hand).await,
                Err(end) => Err(end),
            };
            in_hand.clear();
            if let Err(end) = sent {
                self.end(&connection, end);
            }
            drop(turn);
            self.kick();
        }
    }

    /// Looks up the parts of a want, from an offset on, and reads the part that is in a file.
    async fn bring(
        &self,
        resources: &Rc<Resources>,
        connection: &OwnTcpConnection,
        want: &ByteRequest,
        from: u64,
    ) -> Result<Load, End> {
        let range = from..want.range.end.max(from);
        let mut load = Load { parts: load_of(resources, connection, &range), plain: None };
        resources.numbers.bypass_wants_total.add(1);
        let Some(Part { made_from, .. }) = load.parts.last() else { return Ok(load) };
        if let MadeFrom::Records(outgoing, range, _) | MadeFrom::Response(outgoing, range) =
            made_from
        {
            let bytes = (range.end - range.start) as usize;
            if let Some(Piece::File(file, of_file)) = outgoing.piece(range.start, bytes) {
                if !want.retransmission {
                    resources.reader.note_request(file, &of_file);
                }
                let plain = resources.reader.read_for(outgoing.misses(), file, of_file).await?;
                if want.retransmission {
                    resources.numbers.bypass_reread_bytes_total.add(plain.len() as u64);
                }
                load.plain = Some(plain);
            }
        }
        Ok(load)
    }

    /// Makes the bytes of a load and sends as much of the want as TCP allows. Returns the rest of the want to TCP. Bytes made beyond the want, up to
    /// the end of a record, are kept for the next want, because TCP has no room for them yet.
    async fn send(
        &self,
        resources: &Rc<Resources>,
        connection: &OwnTcpConnection,
        want: &ByteRequest,
        mut load: Load,
        in_hand: &mut InHand,
    ) -> Result<(), End> {
        let is_behind_a_hole = !want.retransmission && connection.progress().0 < want.range.start;
        complete(connection, want, &mut load);
        if connection.end().is_some() || load.parts.is_empty() || is_behind_a_hole {
            resources
                .numbers
                .count(Family::Held, if is_behind_a_hole { "behind_a_hole" } else { "late" });
            self.decline(connection.id, want.range.clone());
            return Ok(());
        }
        if !self.to_completion {
            yield_now().await;
        }
        let buffer = if needs_buffer(&load) {
            if resources.send_buffers.free() == 0 {
                // The device may have read some of the buffers since the last check.
                let _ = self.flush();
            }
            Some(resources.send_buffers.take().await)
        } else {
            None
        };
        make(resources, connection, load, buffer, in_hand)?;
        if !self.to_completion {
            yield_now().await;
        }
        let mut range = in_hand.range();
        range.start = range.start.max(want.range.start);
        range.end = range.end.min(want.range.end);
        if !resources.features.rereads && !want.retransmission {
            let mut stream = connection.stream.borrow_mut();
            stream.copy(range.clone(), |uncopied| self.copy_to_keep(uncopied, in_hand));
        }
        let (start, end) = (range.start, in_hand.range().end);
        let (sent_to, held) = self.send_in_hand(connection, want, range, in_hand).await;
        if let Some(reason) = held.filter(|_| sent_to < want.range.end) {
            resources.numbers.count(Family::Held, reason);
        }
        if !want.retransmission && sent_to > start {
            self.keep_rest(connection, sent_to..end, in_hand);
        }
        in_hand.clear();
        self.decline(connection.id, sent_to..want.range.end.max(sent_to));
        Ok(())
    }

    /// Keeps what TCP held back, if it is little. Otherwise a window that ends within a record would make that record be read and sealed twice, and
    /// so would a rate that releases bytes little by little.
    fn keep_rest(&self, connection: &OwnTcpConnection, rest: Range<u64>, in_hand: &InHand) {
        let bytes = rest.end - rest.start;
        if bytes == 0 || bytes > REST_BYTES_MAX || connection.end().is_some() {
            return;
        }
        let mut stream = connection.stream.borrow_mut();
        if stream.has_rest(&rest) {
            return;
        }
        if let Some(share) = self.rests.take(bytes) {
            stream.keep_rest(rest.start, self.copy_to_keep(&rest, in_hand), share);
        }
    }

    /// Copies a range that is in hand, and counts the copied bytes.
    fn copy_to_keep(&self, range: &Range<u64>, in_hand: &InHand) -> Rc<[u8]> {
        self.kept_bytes.set(self.kept_bytes.get() + (range.end - range.start));
        in_hand.copy(range)
    }

    /// Sends as much of `range` as TCP allows now. Returns where it stopped, and why.
    async fn send_in_hand(
        &self,
        connection: &OwnTcpConnection,
        want: &ByteRequest,
        range: Range<u64>,
        in_hand: &InHand,
    ) -> (u64, Option<&'static str>) {
        let (mut at, mut held) = (range.start, None);
        while at < range.end {
            match self.transmit(Instant::now(), connection.id, at..range.end, in_hand) {
                Ok(payload) => {
                    at = payload.end;
                    if !want.retransmission {
                        connection.sent_below(at);
                    }
                }
                Err(Blocked::ByDevice) => sleep(DEVICE_PAUSE).await,
                Err(Blocked::ByTcp(Withheld::NotNeeded)) => at = range.end,
                Err(Blocked::ByTcp(reason)) => {
                    held = Some(name(reason));
                    break;
                }
            }
        }
        let _ = self.flush();
        (at, held)
    }
}

/// The start of the first record of a want, or that record's end if it begins before the want. The supplier that makes a record keeps the bytes that
/// it does not send.
fn next_record(connection: &OwnTcpConnection, want: &ByteRequest) -> u64 {
    let start = want.range.start;
    let part = connection.stream.borrow().part(&(start..start + 1), PLAINTEXT_MAX);
    part.filter(|part| part.stream.start < start).map_or(start, |part| part.stream.end)
}

/// Puts the kept bytes of the previous record before the parts that were read. If they were not kept, nothing remains to send.
fn complete(connection: &OwnTcpConnection, want: &ByteRequest, load: &mut Load) {
    let start = want.range.start;
    if load.parts.first().is_some_and(|first| first.stream.start <= start) {
        return;
    }
    let kept = connection.stream.borrow().at_hand(start);
    let fits =
        |kept: &Part| load.parts.first().is_none_or(|first| first.stream.start == kept.stream.end);
    match kept.filter(fits) {
        Some(kept) => load.parts.insert(0, kept),
        None => load.parts.clear(),
    }
}

/// The parts that make the bytes of a range: at most one from a file, which comes last, and no more than a buffer holds.
fn load_of(resources: &Resources, connection: &OwnTcpConnection, range: &Range<u64>) -> Vec<Part> {
    let stream = connection.stream.borrow();
    let mut parts: Vec<Part> = Vec::new();
    let mut room = resources.reader.window_bytes_max();
    let mut start = range.start;
    while start < range.end && parts.len() < PARTS_MAX {
        if !parts.is_empty() && room < PLAINTEXT_MAX {
            break;
        }
        let Some(part) = stream.part(&(start..range.end), room) else { break };
        // A copy may end within a record, but records are made whole: this record goes with the next want.
        if parts.last().is_some_and(|last| last.stream.end != part.stream.start) {
            break;
        }
        start = part.stream.end;
        let is_last = match &part.made_from {
            MadeFrom::Kept(_) => false,
            MadeFrom::Records(outgoing, range, _) | MadeFrom::Response(outgoing, range) => {
                room = room.saturating_sub((range.end - range.start) as usize);
                matches!(outgoing.piece(range.start, 1), Some(Piece::File(..)))
            }
        };
        parts.push(part);
        if is_last {
            break;
        }
    }
    parts
}

/// The counter's label.
fn name(reason: Withheld) -> &'static str {
    match reason {
        Withheld::NotNeeded => "not_needed",
        Withheld::NotYet => "not_yet",
        Withheld::TooFew => "too_few",
        Withheld::OutOfOrder => "out_of_order",
        Withheld::Gone => "gone",
    }
}

fn needs_buffer(load: &Load) -> bool {
    load.parts.iter().any(|part| matches!(part.made_from, MadeFrom::Records(..)))
}

/// Makes the bytes of every part. Records are sealed into `buffer`; everything else stays in place.
fn make(
    resources: &Resources,
    connection: &OwnTcpConnection,
    load: Load,
    mut buffer: Option<Buffer>,
    in_hand: &mut InHand,
) -> Result<(), End> {
    let Load { parts, mut plain } = load;
    let mut filled = 0;
    let mut sealed: Vec<(Range<u64>, usize)> = Vec::new();
    for part in &parts {
        let (MadeFrom::Records(outgoing, range, position), Some(buffer)) =
            (&part.made_from, &mut buffer)
        else {
            continue;
        };
        let of_file = plain.as_deref().filter(|_| is_of_file(outgoing, range));
        let room = &mut buffer[filled..];
        let made = connection.stream.borrow_mut().seal(
            outgoing,
            range.clone(),
            *position,
            of_file,
            room,
        )?;
        resources.numbers.records_made_again_total.add(made.again);
        let start = part.stream.start + made.left_out_bytes as u64;
        sealed.push((start..part.stream.end, filled + made.left_out_bytes));
        filled += made.bytes;
    }
    let buffer = buffer.map(Rc::new);
    let mut sealed = sealed.into_iter();
    for Part { stream, made_from } in parts {
        match made_from {
            MadeFrom::Kept(bytes) => in_hand.push(stream, Bytes::Kept(bytes)),
            MadeFrom::Records(..) => {
                let ((stream, start), buffer) = sealed
                    .next()
                    .zip(buffer.clone())
                    .expect("records were sealed into the buffer above");
                in_hand.push(stream, Bytes::Sealed(buffer, start));
            }
            MadeFrom::Response(outgoing, range) => {
                let bytes = match plain.take() {
                    Some(plain) if is_of_file(&outgoing, &range) => Bytes::Read(plain),
                    other => {
                        plain = other;
                        Bytes::Response(outgoing, range.start)
                    }
                };
                in_hand.push(stream, bytes);
            }
        }
    }
    Ok(())
}

fn is_of_file(outgoing: &Outgoing, range: &Range<u64>) -> bool {
    matches!(outgoing.piece(range.start, 1), Some(Piece::File(..)))
}
