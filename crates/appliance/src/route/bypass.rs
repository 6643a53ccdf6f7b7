//! Responses over our own TCP: what is sent is laid out, and TCP asks for it when it may go.
//!
//! Nothing is read or sealed here. A response is appended to the connection's stream, from where suppliers bring it
//! ([`crate::bypass`]); the session waits until all of it has left once, as it waits on the other routes until the kernel has
//! taken it, and goes on to the next request. What the viewer has not acknowledged by then stays in the stream, as places in
//! files.

use super::incoming::Incoming;
use super::link::Link;
use super::transport::{Protection, Transport};
use crate::bypass::Socket;
use crate::bypass::stream::Stream;
use crate::end::End;
use crate::outgoing::Outgoing;
use crypt::{Alert, Established, Ledger};
use reactor::timeout_at;
use std::rc::Rc;
use std::time::Instant;

/// How much of a response leaves before its session looks at it again, to count it: rare enough to cost nothing, and often
/// enough for who watches the rate.
const COUNTED_BYTES: u64 = 1 << 20;

/// What responses that a viewer has not acknowledged may hold when the next one is begun, in bytes: some ninety small ones, or a film, which
/// holds next to nothing. A viewer that asks for one small thing after the other waits for what is on its way; else what is held would grow with
/// the window, and be several times as large as what is in it.
pub const HELD_BYTES_MAX: usize = 64 << 10;

/// A connection over our own TCP.
pub struct Bypass {
    pub(super) link: Link<Socket>,
    /// The receiving half of TLS; none without.
    incoming: Option<Box<Incoming>>,
}

impl Bypass {
    /// Takes a connection over from its handshake; `sealed_input` is what came behind the handshake's last record.
    ///
    /// # Panics
    /// If the library that shook hands was to keep the connection: the configuration excludes that.
    pub fn new(link: Link<Socket>, protection: Protection, sealed_input: Vec<u8>) -> Self {
        let incoming = match protection {
            Protection::None => None,
            Protection::Keys(established) => {
                let Established { sealer, opener, .. } = *established;
                link.socket.connection().stream.borrow_mut().protect(Ledger::new(sealer));
                Some(Box::new(Incoming::new(opener, sealed_input)))
            }
            Protection::Retained(_) => unreachable!("--off handout is refused with this route"),
        };
        Self { link, incoming }
    }

    /// Why the connection is over, if the stack knows better than who met a broken connection.
    fn better(&self, end: End) -> End {
        match end {
            End::PeerReset => self.link.socket.connection().end().unwrap_or(end),
            _ => end,
        }
    }

    pub(super) async fn receive(&mut self, input: &mut Vec<u8>) -> Result<(), End> {
        let before = input.len();
        loop {
            let Some(incoming) = &mut self.incoming else {
                let received = self.link.receive(input).await;
                return received.map_err(|end| self.better(end));
            };
            let opened = incoming.open(input, &self.link.worker.numbers);
            let (is_finished, owes_keys) = (incoming.peer_finished, incoming.owes_keys);
            opened?;
            if owes_keys && !self.stream(Stream::has_former_keys) {
                self.update_key()?;
            }
            if input.len() > before {
                return Ok(());
            }
            if is_finished {
                return Err(End::PeerClosed);
            }
            let received = match &mut self.incoming {
                Some(incoming) => self.link.receive(&mut incoming.sealed).await,
                None => Ok(()),
            };
            received.map_err(|end| self.better(end))?;
        }
    }

    /// Lets `change` append to the stream, and tells TCP.
    fn append<R>(&self, change: impl FnOnce(&mut Stream) -> R) -> R {
        let socket = &self.link.socket;
        let mut stream = socket.connection().stream.borrow_mut();
        let end_before = stream.end();
        let result = change(&mut stream);
        drop(stream);
        socket.wrote(end_before);
        result
    }

    /// What the stream says.
    fn stream<R>(&self, ask: impl FnOnce(&Stream) -> R) -> R {
        ask(&self.link.socket.connection().stream.borrow())
    }

    /// Changes our keys. Nothing waits here, so nothing can come between the keys and the message about them.
    fn update_key(&mut self) -> Result<(), End> {
        self.append(Stream::update_key)?;
        self.link.worker.numbers.key_updates_sent_total.add(1);
        if let Some(incoming) = &mut self.incoming {
            incoming.owes_keys = false;
        }
        Ok(())
    }

    /// Waits until the viewer has acknowledged so much that what is held for it is little, and gives it the new keys that it has asked for.
    /// One change of keys is on its way at a time: the next one waits until the last is acknowledged.
    async fn make_room(&mut self) -> Result<(), End> {
        self.await_acknowledged(|stream| stream.held_bytes() <= HELD_BYTES_MAX).await?;
        if self.incoming.as_ref().is_some_and(|incoming| incoming.owes_keys) {
            self.await_acknowledged(|stream| !stream.has_former_keys()).await?;
            self.update_key()?;
        }
        Ok(())
    }

    pub(super) async fn send(&mut self, outgoing: &Rc<Outgoing>) -> Result<(), End> {
        self.make_room().await?;
        let mut at = 0;
        while at < outgoing.bytes() {
            let records_max = self.link.worker.key_records_max;
            let start = self.link.socket.connection().stream.borrow().end();
            let (end, changed_keys) =
                self.append(|stream| stream.append(outgoing, at, records_max))?;
            self.link.worker.numbers.key_updates_sent_total.add(changed_keys.into());
            self.leave(start, end - at).await?;
            at = end;
        }
        Ok(())
    }

    /// Waits until all that was appended since `start` has left, and counts it as it goes: it is `plain_bytes` of a response.
    async fn leave(&self, start: u64, plain_bytes: u64) -> Result<(), End> {
        let connection = self.link.socket.connection();
        let numbers = &self.link.worker.numbers;
        let end = connection.stream.borrow().end();
        let (mut counted, mut counted_plain) = (start, 0);
        // At first one byte: how long viewers wait for it is measured.
        let mut awaited = start + 1;
        while counted < end {
            self.await_sent_below(awaited.min(end)).await?;
            let sent_below = connection.progress().0.min(end);
            self.link.count_taken((sent_below - counted) as usize);
            counted = sent_below;
            // What of it are heads and tags of records is the same everywhere, but for a byte or two.
            let part = u128::from(counted - start) * u128::from(plain_bytes);
            let plain = (part / u128::from(end - start)) as u64;
            numbers.response_sent_bytes_total.add(plain - counted_plain);
            counted_plain = plain;
            awaited = counted + COUNTED_BYTES;
        }
        Ok(())
    }

    /// Waits until everything below `offset` has left.
    ///
    /// # Errors
    /// [`End::SendTimeout`] when nothing has moved for too long.
    async fn await_sent_below(&self, offset: u64) -> Result<(), End> {
        let connection = self.link.socket.connection();
        loop {
            let before = connection.progress();
            if before.0 >= offset {
                return Ok(());
            }
            let deadline = Instant::now() + self.link.worker.timeouts.send;
            let waited = timeout_at(deadline, connection.all_sent_below(offset)).await;
            if let Some(end) = connection.end() {
                return Err(end);
            }
            if waited.is_err() && connection.progress() == before {
                return Err(End::SendTimeout);
            }
        }
    }

    /// Waits until so much is acknowledged that `is_enough`.
    ///
    /// # Errors
    /// [`End::SendTimeout`] when nothing has moved for too long.
    async fn await_acknowledged(&self, is_enough: impl Fn(&Stream) -> bool) -> Result<(), End> {
        let connection = self.link.socket.connection();
        while !self.stream(&is_enough) {
            let before = connection.progress();
            let deadline = Instant::now() + self.link.worker.timeouts.send;
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

    /// Says goodbye by `alerts`.
    pub(super) fn finish(&mut self, alerts: &[Alert]) {
        for alert in alerts {
            self.append(|stream| stream.alert(*alert));
        }
        self.link.socket.finish();
    }

    /// Waits, after the goodbye, until the viewer has everything: nothing else keeps it.
    pub(super) async fn settle(&self) -> Result<(), End> {
        let connection = self.link.socket.connection();
        loop {
            let before = connection.progress();
            let deadline = Instant::now() + self.link.worker.timeouts.send;
            let all = connection.changed(|| connection.is_acknowledged());
            let waited = timeout_at(deadline, all).await;
            if let Some(end) = connection.end() {
                return Err(end);
            }
            if connection.is_acknowledged() {
                return Ok(());
            }
            if waited.is_err() && connection.progress() == before {
                self.link.socket.reset(End::SendTimeout);
            }
        }
    }
}
