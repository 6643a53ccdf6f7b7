//! Responses over our own TCP: a response is laid out, and TCP asks for its bytes when they may be sent.
//!
//! Nothing is read or sealed here. A response is appended to the connection's stream, and suppliers bring its bytes
//! ([`super`]). The session waits until all of it was sent once, just as it waits on the other routes until the kernel
//! has taken it, and then handles the next request. What the viewer has not acknowledged by then stays in the stream,
//! as places in files.

use super::Socket;
use super::stream::Stream;
use crate::carrier::Protection;
use crate::end::End;
use crate::link::{Link, Turn};
use crate::outgoing::Outgoing;
use crate::receive_half::ReceiveHalf;
use crate::sealing::Sealing;
use crypt::{Alert, Established, Ledger};
use reactor::timeout_at;
use std::rc::Rc;
use std::time::Instant;

/// How much of a response is sent before its session wakes to count it: rarely enough to cost nothing, and often enough
/// for an operator who watches the rate.
const COUNTED_BYTES: u64 = 1 << 20;

/// How many bytes the unacknowledged responses of a viewer may hold when the next one begins: about ninety small ones,
/// or a film, which holds next to nothing. A viewer that asks for many small things in a row waits for those on their
/// way. Otherwise the memory held would grow with the window, and be several times the window's content.
pub(super) const HELD_BYTES_MAX: usize = 64 << 10;

/// Records made here, or no TLS, laid out in the stream of a connection over our own TCP.
pub struct Streamed {
    /// The receiving half of TLS; `None` without TLS.
    receive_half: Option<Box<ReceiveHalf>>,
}

impl Streamed {
    /// Takes a connection over after its handshake. `sealed_input` is what arrived after the handshake's last record.
    ///
    /// # Panics
    /// If the library was to keep the connection, which the configuration excludes.
    pub(super) fn new(link: &Link<Socket>, protection: Protection, sealed_input: Vec<u8>) -> Self {
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

    /// Whether the connection is still there.
    fn check(&self, link: &Link<Socket>) -> Result<(), End> {
        link.socket.connection().end().map_or(Ok(()), Err)
    }

    /// Changes our keys. Nothing waits here, so nothing can come between the keys and the message about them.
    fn update_key(&mut self, link: &Link<Socket>) -> Result<(), End> {
        append(link, Stream::update_key)?;
        link.resources.numbers.key_updates_sent_total.add(1);
        if let Some(half) = &mut self.receive_half {
            half.owes_keys = false;
        }
        Ok(())
    }

    /// Waits until enough is acknowledged that little is held for the viewer, and gives the viewer the new keys that it
    /// asked for. Only one change of keys is in flight at a time: the next one waits until the last one is
    /// acknowledged.
    async fn make_room(&mut self, link: &Link<Socket>) -> Result<(), End> {
        await_acknowledged(link, |stream| stream.held_bytes() <= HELD_BYTES_MAX).await?;
        if self.owes_keys() {
            await_acknowledged(link, |stream| !stream.has_former_keys()).await?;
            self.update_key(link)?;
        }
        Ok(())
    }
}

impl Sealing<Socket> for Streamed {
    fn open(&mut self, link: &Link<Socket>, input: &mut Vec<u8>) -> Result<(), End> {
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

    fn owes(&self, link: &Link<Socket>) -> bool {
        self.owes_keys() && !stream(link, Stream::has_former_keys)
    }

    async fn give(&mut self, link: &mut Link<Socket>) -> Result<(), End> {
        self.update_key(link)
    }

    async fn send(&mut self, link: &mut Link<Socket>, outgoing: &Rc<Outgoing>) -> Result<(), End> {
        self.make_room(link).await?;
        let mut at = 0;
        while at < outgoing.bytes() {
            let records_max = link.resources.limits.key_records_max;
            let turn = link.take_turn(outgoing.bytes() - at);
            if link.must_wait(turn.as_ref()) {
                Box::pin(link.await_turn(turn.as_ref(), || self.check(link))).await?;
            }
            let bytes_max = turn.as_ref().map_or(u64::MAX, Turn::bytes);
            let start = stream(link, Stream::end);
            let (end, changed_keys) =
                append(link, |stream| stream.append(outgoing, at, bytes_max, records_max))?;
            link.resources.numbers.key_updates_sent_total.add(changed_keys.into());
            leave(link, start, end - at).await?;
            link.end_turn(turn);
            at = end;
        }
        Ok(())
    }

    fn say(&mut self, link: &Link<Socket>, alerts: &[Alert]) {
        for alert in alerts {
            append(link, |stream| stream.alert(*alert));
        }
    }

    /// Waits, after the goodbye, until the viewer has everything, because nothing else keeps the bytes.
    async fn settle(&mut self, link: &Link<Socket>) -> Result<(), End> {
        let connection = link.socket.connection();
        loop {
            let before = connection.progress();
            let deadline = Instant::now() + link.resources.patience.send;
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

/// Lets `change` append to the stream, and tells TCP.
fn append<R>(link: &Link<Socket>, change: impl FnOnce(&mut Stream) -> R) -> R {
    let mut stream = link.socket.connection().stream.borrow_mut();
    let end_before = stream.end();
    let result = change(&mut stream);
    drop(stream);
    link.socket.wrote(end_before);
    result
}

/// Passes the stream to `ask`.
fn stream<R>(link: &Link<Socket>, ask: impl FnOnce(&Stream) -> R) -> R {
    ask(&link.socket.connection().stream.borrow())
}

/// Waits until everything appended since `start` was sent, and counts it on the way as `plain_bytes` of a response.
async fn leave(link: &Link<Socket>, start: u64, plain_bytes: u64) -> Result<(), End> {
    let connection = link.socket.connection();
    let numbers = &link.resources.numbers;
    let end = connection.stream.borrow().end();
    let (mut counted, mut counted_plain) = (start, 0);
    // One byte first, to measure how long viewers wait for it.
    let mut awaited = start + 1;
    while counted < end {
        await_sent_below(link, awaited.min(end)).await?;
        let sent_below = connection.progress().0.min(end);
        link.count_taken((sent_below - counted) as usize);
        counted = sent_below;
        // The share of record headers and tags is the same throughout, except for a byte or two.
        let part = u128::from(counted - start) * u128::from(plain_bytes);
        let plain = (part / u128::from(end - start)) as u64;
        numbers.response_sent_bytes_total.add(plain - counted_plain);
        counted_plain = plain;
        awaited = counted + COUNTED_BYTES;
    }
    Ok(())
}

/// Waits until everything below `offset` was sent.
///
/// # Errors
/// [`End::SendTimeout`] if there was no progress for too long.
async fn await_sent_below(link: &Link<Socket>, offset: u64) -> Result<(), End> {
    let connection = link.socket.connection();
    loop {
        let before = connection.progress();
        if before.0 >= offset {
            return Ok(());
        }
        let deadline = Instant::now() + link.resources.patience.send;
        let waited = timeout_at(deadline, connection.all_sent_below(offset)).await;
        if let Some(end) = connection.end() {
            return Err(end);
        }
        if waited.is_err() && connection.progress() == before {
            return Err(End::SendTimeout);
        }
    }
}

/// Waits until `is_enough` is satisfied by what is acknowledged.
///
/// # Errors
/// [`End::SendTimeout`] if there was no progress for too long.
async fn await_acknowledged(
    link: &Link<Socket>,
    is_enough: impl Fn(&Stream) -> bool,
) -> Result<(), End> {
    let connection = link.socket.connection();
    while !stream(link, &is_enough) {
        let before = connection.progress();
        let deadline = Instant::now() + link.resources.patience.send;
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
