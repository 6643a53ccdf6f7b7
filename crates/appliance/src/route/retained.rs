//! TLS as a library is ordinarily used: rustls keeps the connection and seals into memory of its own (`--off handout`).
//!
//! It is what [`super::userspace`] is measured against, and no more than that. Its price: the handshake's state stays
//! with each viewer; each record is copied into a block of memory of its own; and since no record can be made again,
//! what was sealed stays in memory until the viewer has taken it, however slow it is: up to a window for each viewer,
//! outside the buffers that the configuration bounds.

use super::ahead::Ahead;
use super::link::Link;
use crate::end::End;
use crate::outgoing::{Outgoing, Piece};
use crypt::{Alert, RetainedError};
use reactor::yield_now;
use std::io::{self, IoSlice, Write};

/// A connection with TLS that rustls seals and opens.
pub struct Retained {
    pub(super) link: Link,
    tls: crypt::Retained,
    /// Received and not opened yet.
    sealed_input: Vec<u8>,
    /// The viewer has said close_notify.
    peer_finished: bool,
}

/// The socket, as rustls writes to it.
struct Sink<'a> {
    link: &'a Link,
    /// Why the socket took nothing, if it is broken.
    end: Option<End>,
}

impl Sink<'_> {
    fn taken(&mut self, taken: Result<usize, End>) -> io::Result<usize> {
        match taken {
            Ok(0) => Err(io::ErrorKind::WouldBlock.into()),
            Ok(bytes) => Ok(bytes),
            Err(end) => {
                self.end = Some(end);
                Err(io::ErrorKind::BrokenPipe.into())
            }
        }
    }
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.link.offer(bytes, false);
        self.taken(taken)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let taken = self.link.offer_parts(parts);
        self.taken(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Retained {
    /// Takes a connection over from its handshake; `sealed_input` is what came behind the handshake's last record.
    pub fn new(link: Link, tls: crypt::Retained, sealed_input: Vec<u8>) -> Self {
        Self { link, tls, sealed_input, peer_finished: false }
    }

    pub(super) async fn receive(&mut self, input: &mut Vec<u8>) -> Result<(), End> {
        let before = input.len();
        loop {
            self.open_input(input)?;
            if self.tls.owes() {
                // Boxed: hardly anybody is owed an answer, and everybody waits in this future for a request.
                Box::pin(self.send_owed()).await?;
            }
            if input.len() > before {
                return Ok(());
            }
            if self.peer_finished {
                return Err(End::PeerClosed);
            }
            self.link.receive(&mut self.sealed_input).await?;
        }
    }

    /// Opens all that has arrived.
    fn open_input(&mut self, input: &mut Vec<u8>) -> Result<(), End> {
        let sealed = std::mem::take(&mut self.sealed_input);
        match self.tls.open(&sealed, input) {
            Ok(peer_finished) => {
                self.peer_finished = peer_finished;
                Ok(())
            }
            Err(RetainedError::Record(error)) => Err(End::Record(error)),
            Err(RetainedError::PeerAlert) => Err(End::PeerAlert),
        }
    }

    /// Offers TCP what was sealed and not sent yet; returns the bytes that it took.
    fn offer_owed(&mut self) -> Result<usize, End> {
        let mut sink = Sink { link: &self.link, end: None };
        let mut taken = 0;
        while self.tls.owes() {
            match self.tls.write_to(&mut sink) {
                Ok(bytes) => taken += bytes,
                Err(_) => return sink.end.map_or(Ok(taken), Err),
            }
        }
        Ok(taken)
    }

    /// Sends all that was sealed, as fast as the viewer takes it.
    async fn send_owed(&mut self) -> Result<(), End> {
        while self.tls.owes() {
            if self.offer_owed()? == 0 && self.link.socket.is_writable() {
                self.link.back_off().await?;
            } else if self.tls.owes() {
                self.link.pull().await?;
            }
        }
        Ok(())
    }

    /// Says goodbye by `alerts`, if TCP takes them: nobody waits for a viewer who is leaving. What answers an error
    /// rustls has sealed by itself.
    pub(super) fn finish(&mut self, alerts: &[Alert]) {
        if alerts.contains(&Alert::CloseNotify) {
            self.tls.seal_close_notify();
        }
        let _ = self.offer_owed();
        self.link.socket.finish();
    }

    pub(super) async fn send(&mut self, outgoing: &Outgoing) -> Result<(), End> {
        let mut ahead = Ahead::default();
        let mut at = 0;
        while at < outgoing.bytes() {
            if !self.link.pulls_soon().await {
                ahead.give_up();
                self.link.pull().await?;
            }
            let bytes = self.seal(outgoing, at, &mut ahead).await?;
            self.deliver(&mut ahead).await?;
            at += bytes;
            self.link.worker.numbers.windows_total.add(1);
            self.link.worker.numbers.response_sent_bytes_total.add(bytes);
            yield_now().await;
        }
        Ok(())
    }

    /// Seals what begins at `at`: bytes in memory, then at most one window of the file. Returns the bytes of it.
    async fn seal(&mut self, outgoing: &Outgoing, at: u64, ahead: &mut Ahead) -> Result<u64, End> {
        let window_bytes = self.link.window.bytes();
        let mut bytes = 0;
        while let Some(piece) = outgoing
            .piece(at + bytes, window_bytes.saturating_sub(bytes as usize))
            .filter(|piece| piece.bytes() > 0)
        {
            match piece {
                Piece::Bytes(in_memory) => {
                    self.tls.seal(in_memory);
                    bytes += in_memory.len() as u64;
                }
                Piece::File(file, range) => {
                    let end = range.start + outgoing.extent_left(at + bytes);
                    let plain = ahead.read(&self.link.worker, file, range, end).await?;
                    self.tls.seal(&plain);
                    return Ok(bytes + plain.len() as u64);
                }
            }
        }
        Ok(bytes)
    }

    async fn deliver(&mut self, ahead: &mut Ahead) -> Result<(), End> {
        let taken = self.offer_owed()?;
        if !self.tls.owes() {
            self.link.window.taken_whole();
            return Ok(());
        }
        self.link.worker.numbers.windows_taken_in_part_total.add(1);
        self.link.window.taken_in_part(taken);
        ahead.give_up();
        self.send_owed().await
    }
}
