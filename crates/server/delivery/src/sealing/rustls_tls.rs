//! TLS as libraries usually do it: rustls keeps the connection and seals into its own memory (`--off handout`).
//!
//! It exists only for comparison with [`super::UserTls`]. Its costs: the handshake's state stays with each viewer, and each record is copied into a
//! memory block of its own. No record can be made again, so sealed bytes stay in memory until the viewer has taken them, however slow it is: up to a
//! window for each viewer, outside the buffers that the configuration bounds.

use super::{Sealing, await_pull};
use crate::ahead::Ahead;
use crate::end::End;
use crate::inbound::{Inbound, has_room};
use crate::link::Link;
use crate::outgoing::{Outgoing, Piece};
use crate::unsent::{SEALED, UnsentLimit};
use net::Socket;
use reactor::yield_now;
use std::io::{self, IoSlice, Write};
use std::rc::Rc;
use tls::{Alert, RetainedError};

/// Records made and opened by rustls.
pub struct RustlsTls {
    tls: tls::Retained,
    /// Received and not opened yet.
    sealed_input: Vec<u8>,
    /// The viewer has sent close_notify.
    peer_finished: bool,
    /// Set when nothing more will arrive.
    has_ended: bool,
    /// A record was wrong. rustls has queued the alert after the records it has sealed.
    failed: Option<End>,
}

/// Reads the viewer's input during a response.
struct Opening<'a> {
    rustls_tls: &'a mut RustlsTls,
    input: &'a mut Vec<u8>,
}

impl Inbound<Socket> for Opening<'_> {
    fn reads(&self) -> bool {
        let RustlsTls { peer_finished, has_ended, failed, .. } = *self.rustls_tls;
        !peer_finished && !has_ended && failed.is_none() && has_room(self.input)
    }

    fn read(&mut self, link: &Link) -> Result<(), End> {
        match link.receive_now(&mut self.rustls_tls.sealed_input)? {
            None => Ok(()),
            Some(0) => {
                self.rustls_tls.has_ended = true;
                Ok(())
            }
            Some(_) => match self.rustls_tls.open(link, self.input) {
                Err(End::PeerAlert) => Err(End::PeerAlert),
                // `failed` keeps the error too.
                Ok(()) | Err(_) => Ok(()),
            },
        }
    }

    fn interrupts(&self) -> bool {
        self.rustls_tls.failed.is_some()
    }
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

impl RustlsTls {
    /// Takes over a connection after its handshake. `sealed_input` holds the bytes that arrived after the handshake's last record.
    pub(crate) fn new(tls: tls::Retained, sealed_input: Vec<u8>) -> Self {
        Self { tls, sealed_input, peer_finished: false, has_ended: false, failed: None }
    }

    /// Returns the first error in the records opened so far.
    fn check(&self) -> Result<(), End> {
        self.failed.map_or(Ok(()), Err)
    }

    /// Offers TCP the sealed bytes that are not sent yet. Returns how many it took.
    fn offer_owed(&mut self, link: &Link) -> Result<usize, End> {
        let mut sink = Sink { link, end: None };
        let mut taken = 0;
        while self.tls.owes() {
            match self.tls.write_to(&mut sink) {
                Ok(bytes) => taken += bytes,
                Err(_) => return sink.end.map_or(Ok(taken), Err),
            }
        }
        Ok(taken)
    }

    /// Sends all sealed bytes, as fast as the viewer takes them.
    async fn send_owed(&mut self, link: &Link) -> Result<(), End> {
        link.offer_all(|| Ok((self.offer_owed(link)?, self.tls.owes()))).await
    }

    /// Seals what begins at `at`: bytes in memory, then at most one window of the file. Returns the number of bytes.
    async fn seal(
        &mut self,
        link: &Link,
        outgoing: &Outgoing,
        at: u64,
        ahead: &mut Ahead,
    ) -> Result<(u64, Option<u64>), End> {
        let window_bytes = link.share();
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
                    let start = range.start;
                    let plain = ahead.read(&link.resources, outgoing, file, range, end).await?;
                    self.tls.seal(&plain);
                    let disk = plain.is_from_disks_node().then(|| file.stamp().device);
                    let sealed = plain.len();
                    ahead.keep_rest(plain, start, sealed);
                    return Ok((bytes + sealed as u64, disk));
                }
            }
        }
        Ok((bytes, None))
    }

    /// As [`Self::send_owed`], during a response: reads what the viewer sends meanwhile.
    async fn send_owed_reading(&mut self, link: &Link, input: &mut Vec<u8>) -> Result<(), End> {
        while self.tls.owes() {
            if self.offer_owed(link)? == 0 && link.socket.is_writable() {
                link.back_off().await?;
            } else {
                link.pull_reading(&mut Opening { rustls_tls: self, input }).await?;
            }
        }
        Ok(())
    }

    async fn deliver(
        &mut self,
        link: &mut Link,
        ahead: &mut Ahead,
        input: &mut Vec<u8>,
    ) -> Result<(), End> {
        let taken = self.offer_owed(link)?;
        if !self.tls.owes() {
            link.window.taken_whole();
            return Ok(());
        }
        link.resources.numbers.windows_taken_in_part_total.add(1);
        link.window.taken_in_part(taken);
        ahead.give_up();
        self.send_owed_reading(link, input).await
    }
}

impl Sealing<Socket> for RustlsTls {
    fn open(&mut self, _link: &Link, input: &mut Vec<u8>) -> Result<(), End> {
        self.check()?;
        let sealed = std::mem::take(&mut self.sealed_input);
        match self.tls.open(&sealed, input) {
            Ok(peer_finished) => {
                self.peer_finished = peer_finished;
                Ok(())
            }
            Err(RetainedError::Record(error)) => {
                self.failed = Some(End::Record(error));
                self.check()
            }
            Err(RetainedError::PeerAlert) => Err(End::PeerAlert),
        }
    }

    fn arriving<'a>(&'a mut self, _input: &'a mut Vec<u8>) -> &'a mut Vec<u8> {
        &mut self.sealed_input
    }

    fn peer_finished(&self) -> bool {
        self.peer_finished
    }

    fn owes(&self, _link: &Link) -> bool {
        self.tls.owes()
    }

    async fn give(&mut self, link: &mut Link) -> Result<(), End> {
        self.send_owed(link).await
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
            let mut inbound = Opening { rustls_tls: self, input };
            await_pull(link, &mut limit, &mut ahead, &mut inbound).await?;
            // All sealed bytes have been sent.
            if let Some(end) = self.failed {
                self.send_owed(link).await?;
                return Err(end);
            }
            let turn = link.take_turn((outgoing.bytes() - at).min(link.share() as u64));
            if link.must_wait(turn.as_ref()) {
                ahead.give_up();
                // Boxed, because without a total rate no connection waits here.
                Box::pin(link.await_turn(turn.as_ref(), || Ok(()))).await?;
            }
            let (bytes, disk) = self.seal(link, outgoing, at, &mut ahead).await?;
            self.deliver(link, &mut ahead, input).await?;
            link.end_turn(turn);
            at += bytes;
            link.count_window(bytes, disk);
            yield_now().await;
        }
        limit.end(link);
        Ok(())
    }

    /// rustls seals the alerts for errors by itself.
    fn say(&mut self, link: &Link, alerts: &[Alert]) {
        if alerts.contains(&Alert::CloseNotify) {
            self.tls.seal_close_notify();
        }
        link.offer_last(|| self.offer_owed(link));
    }
}
