//! Responses over our own TCP: the session lays a response out, and TCP asks for its bytes when they may be sent.
//!
//! Nothing is read or sealed here. A response is appended to the connection's stream, and suppliers produce its bytes ([`super`]). The session waits
//! until all of it was sent once, just as it waits on the other routes until the kernel has taken it, and then handles the next request. A long
//! response is laid out in parts ([`PART_BYTES`]). Bytes that the viewer sends meanwhile are read ([`crate::inbound`]), so that new keys can come
//! between two parts. What the viewer has not acknowledged by then stays in the stream, as places in files.

use super::OwnTcpSocket;
use super::stream::Stream;
use crate::carrier::Protection;
use crate::end::End;
use crate::inbound::{Inbound, Records, Unread};
use crate::link::{Link, Turn};
use crate::outgoing::Outgoing;
use crate::receive_half::ReceiveHalf;
use crate::sealing::Sealing;
use reactor::timeout_at;
use std::ops::Range;
use std::rc::Rc;
use std::time::Instant;
use tls::{Alert, Established, Ledger};

/// How much of a response is sent before its session wakes to count it: rarely enough to cost nothing, and often enough for an operator who watches
/// the rate.
const COUNTED_BYTES: u64 = 1 << 20;

/// How much of a response is laid out at once, and how much of it may still be unsent when the next part is laid out. TCP never runs dry while the
/// session wakes, and new keys that the viewer requests come after at most twice as much. A guess.
const PART_BYTES: u64 = 4 << 20;

/// How many bytes the unacknowledged responses of a viewer may hold when the next one begins: about ninety small ones, or a film, which holds next to
/// nothing. A viewer that requests many small things in a row waits for those in flight. Otherwise the memory held would grow with the window, and be
/// several times the window's content.
pub(super) const HELD_BYTES_MAX: usize = 64 << 10;

/// Records made here, or no TLS, laid out in the stream of a connection over our own TCP.
pub struct Streamed {
    /// The receiving half of TLS; `None` without TLS.
    receive_half: Option<Box<ReceiveHalf>>,
}

impl Streamed {
    /// Takes over a connection after its handshake. `sealed_input` holds the bytes that arrived after the handshake's last record.
    ///
    /// # Panics
    /// If the library would keep the connection, which the configuration excludes.
    pub(super) fn new(
        link: &Link<OwnTcpSocket>,
        protection: Protection,
        sealed_input: Vec<u8>,
    ) -> Self {
        let receive_half = match protection {
            Protection::None => None,
            Protection::Keys(established) => {
                let Established { sealer, opener, .. } = *established;
                link.socket.connection().stream.borrow_mut().protect(Ledger::new(sealer));
                Some(Box::new(ReceiveHalf::new(opener, sealed_input)))
            }
            Protection::Retained(_) => unreachable!("--off handout is refused with this route"),
        };
        Self { receive_half }
    }

    fn owes_keys(&self) -> bool {
        self.receive_half.as_ref().is_some_and(|half| half.owes_keys)
    }

    /// Returns the connection's end as an error, if it has ended.
    fn check(&self, link: &Link<OwnTcpSocket>) -> Result<(), End> {
        link.socket.connection().end().map_or(Ok(()), Err)
    }

    /// Changes our keys. Nothing waits here, so nothing can come between the keys and the message about them.
    fn update_key(&mut self, link: &Link<OwnTcpSocket>) -> Result<(), End> {
        append(link, Stream::update_key)?;
        link.resources.numbers.key_updates_sent_total.add(1);
        if let Some(half) = &mut self.receive_half {
            half.owes_keys = false;
        }
        Ok(())
    }

    /// Between parts of a response: ends the connection if the viewer broke the protocol, and changes our keys if the viewer requested that and the
    /// last change is acknowledged.
    fn before_part(&mut self, link: &Link<OwnTcpSocket>) -> Result<(), End> {
        if let Some(half) = &mut self.receive_half {
            half.check()?;
            half.allow_key_update();
        }
        if self.owes(link) { self.update_key(link) } else { Ok(()) }
    }

    /// Waits until no more than `left_max` bytes are unsent, counts what was sent, and reads what arrives meanwhile.
    async fn leave(
        &mut self,
        link: &Link<OwnTcpSocket>,
        unsent: &mut Unsent,
        left_max: u64,
        input: &mut Vec<u8>,
    ) -> Result<(), End> {
        while unsent.stream.end - unsent.stream.start > left_max {
            let offset = unsent.next_count();
            match &mut self.receive_half {
                None => await_sent_below(link, offset, &mut Unread).await?,
                Some(half) => {
                    await_sent_below(link, offset, &mut Records::new(half, input, true)).await?;
                }
            }
            unsent.count(link);
        }
        Ok(())
    }

    /// Waits until enough is acknowledged that little is held for the viewer, and gives the viewer the new keys that it requested. Only one change of
    /// keys is in flight at a time: the next one waits until the last one is acknowledged.
    async fn make_room(&mut self, link: &Link<OwnTcpSocket>) -> Result<(), End> {
        await_acknowledged(link, |stream| stream.held_bytes() <= HELD_BYTES_MAX).await?;
        if self.owes_keys() {
            await_acknowledged(link, |stream| !stream.has_former_keys()).await?;
            self.update_key(link)?;
        }
        Ok(())
    }
}

impl Sealing<OwnTcpSocket> for Streamed {
    fn open(&mut self, link: &Link<OwnTcpSocket>, input: &mut Vec<u8>) -> Result<(), End> {
        match &mut self.receive_half {
            Some(half) => Ok(half.open(input, &link.resources.numbers)?),
            None => Ok(()),
        }
    }

    fn arriving<'a>(&'a mut self, input: &'a mut Vec<u8>) -> &'a mut Vec<u8> {
        match &mut self.receive_half {
            Some(half) => &mut half.sealed,
            None => input,
        }
    }

    fn peer_finished(&self) -> bool {
        self.receive_half.as_ref().is_some_and(|half| half.peer_finished)
    }

    fn owes(&self, link: &Link<OwnTcpSocket>) -> bool {
        self.owes_keys() && !stream(link, Stream::has_former_keys)
    }

    async fn give(&mut self, link: &mut Link<OwnTcpSocket>) -> Result<(), End> {
        self.update_key(link)
    }

    async fn send(
        &mut self,
        link: &mut Link<OwnTcpSocket>,
        outgoing: &Rc<Outgoing>,
        input: &mut Vec<u8>,
    ) -> Result<(), End> {
        self.make_room(link).await?;
        let mut unsent = Unsent::behind(stream(link, Stream::end));
        let mut at = 0;
        while at < outgoing.bytes() {
            let records_max = link.resources.limits.key_records_max;
            let turn = link.take_turn(outgoing.bytes() - at);
            if link.must_wait(turn.as_ref()) {
                Box::pin(link.await_turn(turn.as_ref(), || self.check(link))).await?;
            }
            self.before_part(link)?;
            let bytes_max = turn.as_ref().map_or(PART_BYTES, Turn::bytes);
            let (end, changed_keys) =
                append(link, |stream| stream.append(outgoing, at, bytes_max, records_max))?;
            link.resources.numbers.key_updates_sent_total.add(changed_keys.into());
            unsent.append(stream(link, Stream::end), end - at);
            at = end;
            // A turn ends when all of it is sent.
            let is_last = at == outgoing.bytes();
            let left_max = if is_last || turn.is_some() { 0 } else { PART_BYTES };
            self.leave(link, &mut unsent, left_max, input).await?;
            link.end_turn(turn);
        }
        Ok(())
    }

    fn say(&mut self, link: &Link<OwnTcpSocket>, alerts: &[Alert]) {
        for alert in alerts {
            append(link, |stream| stream.alert(*alert));
        }
    }

    /// Waits, after the sending side was closed, until the viewer has everything, because the bytes exist nowhere else.
    async fn settle(&mut self, link: &Link<OwnTcpSocket>) -> Result<(), End> {
        let connection = link.socket.connection();
        loop {
            let before = connection.progress();
            let deadline = Instant::now() + link.resources.timeouts.send;
            let all = connection.changed(|| connection.is_acknowledged());
            let waited = timeout_at(deadline, all).await;
            if let Some(end) = connection.end() {
                return Err(end);
            }
            if connection.is_acknowledged() {
                return Ok(());
            }
            if waited.is_err() && connection.progress() == before {
                link.socket.reset(End::SendTimeout);
            }
        }
    }
}

/// Appends to the stream by `change`, and reports the new length to TCP.
fn append<R>(link: &Link<OwnTcpSocket>, change: impl FnOnce(&mut Stream) -> R) -> R {
    let mut stream = link.socket.connection().stream.borrow_mut();
    let end_before = stream.end();
    let result = change(&mut stream);
    drop(stream);
    link.socket.wrote(end_before);
    result
}

/// Passes the stream to `ask`.
fn stream<R>(link: &Link<OwnTcpSocket>, ask: impl FnOnce(&Stream) -> R) -> R {
    ask(&link.socket.connection().stream.borrow())
}

/// The part of a response that is laid out and not yet counted as sent.
struct Unsent {
    /// Where it is in the stream.
    stream: Range<u64>,
    /// Its length in bytes of the response, before sealing.
    plain_bytes: u64,
    /// Set once some of the response was sent.
    has_begun: bool,
}

impl Unsent {
    /// For a response that is appended at `offset` of the stream.
    fn behind(offset: u64) -> Self {
        Self { stream: offset..offset, plain_bytes: 0, has_begun: false }
    }

    /// Records that `plain_bytes` of the response were appended. The stream now ends at `end`.
    fn append(&mut self, end: u64, plain_bytes: u64) {
        self.stream.end = end;
        self.plain_bytes += plain_bytes;
    }

    /// The offset at which to count next: everything below it was sent. The first time it is one byte, to measure how long viewers wait for it.
    fn next_count(&self) -> u64 {
        let bytes = if self.has_begun { COUNTED_BYTES } else { 1 };
        self.stream.end.min(self.stream.start + bytes)
    }

    /// Counts the sent bytes.
    fn count(&mut self, link: &Link<OwnTcpSocket>) {
        let Range { start, end } = self.stream;
        let sent_below = link.socket.connection().progress().0.clamp(start, end);
        if sent_below == start {
            return;
        }
        self.has_begun = true;
        link.count_taken((sent_below - start) as usize);
        self.stream.start = sent_below;
        // Record headers and tags take the same share throughout, except for a byte or two.
        let part = u128::from(sent_below - start) * u128::from(self.plain_bytes);
        let plain_bytes = (part / u128::from(end - start)) as u64;
        link.resources.numbers.response_sent_bytes_total.add(plain_bytes);
        self.plain_bytes -= plain_bytes;
    }
}

/// Waits until everything below `offset` was sent, and reads what arrives meanwhile.
///
/// # Errors
/// [`End::SendTimeout`] if there was no progress for too long; those of `inbound`.
async fn await_sent_below(
    link: &Link<OwnTcpSocket>,
    offset: u64,
    inbound: &mut impl Inbound<OwnTcpSocket>,
) -> Result<(), End> {
    let connection = link.socket.connection();
    let mut progress = connection.progress();
    let mut deadline = Instant::now() + link.resources.timeouts.send;
    while progress.0 < offset {
        let reads = inbound.reads();
        let waited = timeout_at(deadline, connection.all_sent_below(offset, reads)).await;
        if let Some(end) = connection.end() {
            return Err(end);
        }
        if reads && connection.is_readable() {
            inbound.read(link)?;
        }
        // Bytes from the viewer are no progress.
        if connection.progress() != progress {
            progress = connection.progress();
            deadline = Instant::now() + link.resources.timeouts.send;
        } else if waited.is_err() {
            return Err(End::SendTimeout);
        }
    }
    Ok(())
}

/// Waits until the acknowledged bytes satisfy `is_enough`.
///
/// # Errors
/// [`End::SendTimeout`] if there was no progress for too long.
async fn await_acknowledged(
    link: &Link<OwnTcpSocket>,
    is_enough: impl Fn(&Stream) -> bool,
) -> Result<(), End> {
    let connection = link.socket.connection();
    while !stream(link, &is_enough) {
        let before = connection.progress();
        let deadline = Instant::now() + link.resources.timeouts.send;
        let waited = timeout_at(deadline, connection.acknowledged_until(&is_enough)).await;
        if let Some(end) = connection.end() {
            return Err(end);
        }
        if waited.is_err() && connection.progress() == before {
            return Err(End::SendTimeout);
        }
    }
    Ok(())
}
