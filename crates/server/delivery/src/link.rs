//! The part that all connections share: a carrier, a window, and their worker's resources.

use crate::carrier::Carrier;
use crate::end::End;
use crate::handover::Offer;
use crate::inbound::{Inbound, Unread};
use crate::leased::RECALL_LOOKED_FOR;
use crate::resources::Resources;
use crate::stall::Stall;
use crate::total_rate::Slot;
use crate::unsent::UnsentLimit;
use disk::ReadError;
use net::{Socket, Window};
use reactor::{sleep, timeout_at};
use std::cell::Cell;
use std::io::IoSlice;
use std::num::NonZeroU8;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tls::SessionInfo;

/// A connection without its protection.
pub struct Link<C = Socket> {
    /// The carrier of its bytes: a kernel socket, or a socket of our own TCP.
    pub socket: C,
    /// How much to read and send at once.
    pub window: Window,
    /// Shared by all connections of the worker.
    pub resources: Rc<Resources>,
    /// How many times in a row TCP has reported room and then taken nothing.
    refusals: Cell<u32>,
    /// Bytes that TCP has taken so far.
    taken_bytes: Cell<u64>,
    /// When the wait for a response's first byte began, by [`Resources::clock`]; 0 if no first byte is due. 32 bits
    /// wide, because idle viewers carry it too.
    first_byte_due_since: Cell<u32>,
    /// The silo of the NIC by which it leaves. Small, because idle viewers carry it too.
    nic: Option<NonZeroU8>,
}

/// A place in the order of sends, if a rate limits all connections together.
pub(crate) struct Turn {
    slot: Slot,
    taken_before: u64,
}

impl Turn {
    /// The bytes that may be sent.
    pub(crate) fn bytes(&self) -> u64 {
        self.slot.bytes()
    }
}

impl<C: Carrier> Link<C> {
    /// A new connection.
    pub fn new(resources: Rc<Resources>, socket: C) -> Self {
        let nic = resources.silos.as_ref().and_then(|silos| {
            let arrived = silos.of_connection(&socket);
            silos.count(&resources.numbers, arrived);
            silos.leaves_by(arrived)
        });
        Self::with_nic(resources, socket, nic)
    }

    fn with_nic(resources: Rc<Resources>, socket: C, nic: Option<usize>) -> Self {
        let window = Window::new(resources.limits.window_bytes_max);
        // One more than the silo's number, so that 0 can stand for none. Silos beyond 255 count as unknown.
        let nic = nic.and_then(|silo| u8::try_from(silo + 1).ok()).and_then(NonZeroU8::new);
        Self {
            socket,
            window,
            resources,
            refusals: Cell::new(0),
            taken_bytes: Cell::new(0),
            first_byte_due_since: Cell::new(0),
            nic,
        }
    }

    /// A connection that another link carried, with that link's window and count of taken bytes.
    pub(crate) fn moved(
        resources: Rc<Resources>,
        socket: C,
        window: Window,
        taken_bytes: u64,
    ) -> Self {
        let taken_bytes = Cell::new(taken_bytes);
        // It still arrives on the same NIC, and was counted.
        let nic = resources
            .silos
            .as_ref()
            .and_then(|silos| silos.leaves_by(silos.of_connection(&socket)));
        Self { window, taken_bytes, ..Self::with_nic(resources, socket, nic) }
    }

    /// The socket and the worker's resources.
    pub(crate) fn into_parts(self) -> (C, Rc<Resources>) {
        (self.socket, self.resources)
    }

    /// Marks the next byte taken as the first of a response. Its request was complete at `since`, unless an earlier moment is known. Returns the
    /// bytes taken so far.
    pub fn begin_response(&self, since: Instant) -> u64 {
        if self.first_byte_due_since.get() == 0 {
            self.await_first_byte(since);
        }
        self.taken_bytes.get()
    }

    /// Records that the wait for a response's first byte began at `since`.
    pub(crate) fn await_first_byte(&self, since: Instant) {
        // At least 1, because 0 means that no first byte is due.
        self.first_byte_due_since.set(self.resources.clock(since).max(1));
    }

    /// When the wait for a response's first byte began, if one is due: on a connection that moves, between request and response.
    pub fn awaited_since(&self) -> Option<Instant> {
        let (since, now) = (self.first_byte_due_since.get(), Instant::now());
        let waited = self.resources.clock(now).wrapping_sub(since);
        (since != 0).then(|| now - Duration::from_micros(waited.into()))
    }

    /// Bytes that TCP has taken so far, including TLS overhead (excluding it when the kernel encrypts).
    pub fn taken_bytes(&self) -> u64 {
        self.taken_bytes.get()
    }

    /// Waits until TCP takes bytes and there is memory for them: the moment of a pull.
    ///
    /// # Errors
    /// [`End::SendTimeout`] if the viewer took none for too long.
    pub async fn pull(&self) -> Result<(), End> {
        self.pull_reading(&mut Unread).await
    }

    /// As [`Self::pull`], and reads what arrives meanwhile.
    ///
    /// # Errors
    /// As [`Self::pull`], and the errors of `inbound`.
    pub(crate) async fn pull_reading(&self, inbound: &mut impl Inbound<C>) -> Result<(), End> {
        while self.resources.memory.is_short() {
            self.back_off().await?;
        }
        if self.takes_now(inbound)? {
            return Ok(());
        }
        let mut stall = self.stall();
        loop {
            match timeout_at(stall.look_at(), self.writable(inbound)).await {
                Ok(writable) => return writable,
                Err(_) => self.look(&mut stall)?,
            }
        }
    }

    /// Returns true if TCP takes bytes now. The same system call shows whether something has arrived, which is read.
    ///
    /// # Errors
    /// Those of `inbound`.
    pub(crate) fn takes_now(&self, inbound: &mut impl Inbound<C>) -> Result<bool, End> {
        let reads = inbound.reads();
        let ready = self.socket.readiness(reads);
        if reads && ready.readable {
            inbound.read(self)?;
        }
        Ok(ready.writable)
    }

    /// Waits until TCP takes bytes, and reads what arrives meanwhile.
    ///
    /// # Errors
    /// Those of `inbound`.
    pub(crate) async fn writable(&self, inbound: &mut impl Inbound<C>) -> Result<(), End> {
        while inbound.reads() {
            let ready = self.socket.readable_or_writable().await;
            if ready.readable {
                inbound.read(self)?;
            }
            if ready.writable {
                return Ok(());
            }
        }
        self.socket.writable().await;
        Ok(())
    }

    /// Begins a wait for the viewer to take bytes.
    pub(crate) fn stall(&self) -> Stall {
        Stall::begin(Instant::now(), self.resources.timeouts.send)
    }

    /// Checks whether the viewer takes bytes, if it is time to.
    ///
    /// # Errors
    /// [`End::SendTimeout`] if it took none for too long.
    pub(crate) fn look(&self, stall: &mut Stall) -> Result<(), End> {
        stall.look(Instant::now(), || self.socket.unacknowledged_bytes())
    }

    /// Waits up to `timeout` for TCP to take the rest of a window, and reads what arrives meanwhile. Returns whether TCP takes it.
    ///
    /// # Errors
    /// Those of `inbound`.
    pub(crate) async fn holds(
        &self,
        timeout: Duration,
        inbound: &mut impl Inbound<C>,
    ) -> Result<bool, End> {
        match timeout_at(Instant::now() + timeout, self.writable(inbound)).await {
            Ok(writable) => writable.map(|()| true),
            Err(_) => Ok(false),
        }
    }

    /// How much to send next: a window, or less if a rate limits all connections together and a turn is shorter.
    pub(crate) fn share(&self) -> usize {
        let window = self.window.bytes();
        let turn = self.resources.total_rate.as_ref().map(|rate| rate.turn_bytes() as usize);
        turn.map_or(window, |turn| turn.min(window))
    }

    /// Takes a turn for `bytes` bytes, if a rate limits all connections together. Nothing may be sent before [`Self::await_turn`].
    pub(crate) fn take_turn(&self, bytes: u64) -> Option<Turn> {
        let rate = self.resources.total_rate.as_ref()?;
        let slot = rate.take(bytes.min(rate.turn_bytes()));
        Some(Turn { slot, taken_before: self.taken_bytes.get() })
    }

    /// Returns true if the turn has not come yet.
    pub(crate) fn must_wait(&self, turn: Option<&Turn>) -> bool {
        let rate = self.resources.total_rate.as_ref();
        rate.zip(turn).is_some_and(|(rate, turn)| !rate.wait_for(&turn.slot).is_zero())
    }

    /// Waits for the turn, and calls `check` from time to time. The caller must hold no buffer meanwhile.
    ///
    /// # Errors
    /// The error of `check`.
    pub(crate) async fn await_turn(
        &self,
        turn: Option<&Turn>,
        check: impl Fn() -> Result<(), End>,
    ) -> Result<(), End> {
        let Some((rate, turn)) = self.resources.total_rate.as_ref().zip(turn) else {
            return Ok(());
        };
        self.resources.numbers.total_rate_waits_total.add(1);
        loop {
            let wait = rate.wait_for(&turn.slot);
            if wait.is_zero() {
                return Ok(());
            }
            // In steps, so that `check` notices a program that waits to write to the file.
            sleep(wait.min(RECALL_LOOKED_FOR)).await;
            check()?;
        }
    }

    /// Ends the turn.
    pub(crate) fn end_turn(&self, turn: Option<Turn>) {
        if let Some((rate, turn)) = self.resources.total_rate.as_ref().zip(turn) {
            rate.used(&turn.slot, self.taken_bytes.get() - turn.taken_before);
        }
    }

    /// Offers bytes to TCP and counts what it took.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn offer(&self, bytes: &[u8], more: bool) -> Result<usize, End> {
        Ok(self.count_taken(self.socket.send(bytes, more)?))
    }

    /// Counts the bytes of a window that was sent. If they came from the node of a disk, `disk` is that disk's device number.
    pub fn count_window(&self, bytes: u64, disk: Option<u64>) {
        let Resources { numbers, silos, .. } = &*self.resources;
        numbers.windows_total.add(1);
        numbers.response_sent_bytes_total.add(bytes);
        if let Some(silos) = silos {
            let nic = self.nic.map(|nic| usize::from(nic.get()) - 1);
            numbers.crossings.add(silos.source(disk), nic, bytes);
        }
    }

    /// Counts bytes that TCP has taken, and returns their number.
    pub fn count_taken(&self, taken: usize) -> usize {
        if taken > 0 {
            self.refusals.set(0);
            self.taken_bytes.set(self.taken_bytes.get() + taken as u64);
            self.note_first_byte();
        }
        self.resources.numbers.transport_sent_bytes_total.add(taken as u64);
        taken
    }

    fn note_first_byte(&self) {
        let since = self.first_byte_due_since.take();
        if since != 0 {
            let waited = self.resources.clock(Instant::now()).wrapping_sub(since);
            self.resources.numbers.first_byte.record(waited.into());
        }
    }

    /// Waits before the next offer, after TCP reported room and took nothing. The kernel is then out of memory for sockets, and an immediate retry
    /// would not help.
    ///
    /// # Errors
    /// [`End::SendTimeout`] if that lasts too long.
    pub async fn back_off(&self) -> Result<(), End> {
        /// A guess: acknowledgements free memory within a round trip.
        const PAUSE: Duration = Duration::from_millis(10);
        self.resources.numbers.send_pauses_total.add(1);
        self.refusals.set(self.refusals.get() + 1);
        if PAUSE * self.refusals.get() > self.resources.timeouts.send {
            return Err(End::SendTimeout);
        }
        sleep(PAUSE).await;
        Ok(())
    }

    /// Sends a few bytes without waiting for a pull first: handshake flights, alerts.
    ///
    /// # Errors
    /// As [`Self::pull`] and [`Self::offer`].
    pub async fn send_all(&self, mut bytes: &[u8]) -> Result<(), End> {
        self.offer_all(|| {
            let taken = self.offer(bytes, false)?;
            bytes = &bytes[taken..];
            Ok((taken, !bytes.is_empty()))
        })
        .await
    }

    /// Calls `offer` whenever TCP accepts more, until nothing is left. `offer` returns the number of bytes that TCP took, and whether
    /// any are left.
    ///
    /// # Errors
    /// As [`Self::pull`], and any error of `offer`.
    pub(crate) async fn offer_all(
        &self,
        mut offer: impl FnMut() -> Result<(usize, bool), End>,
    ) -> Result<(), End> {
        loop {
            match offer()? {
                (_, false) => return Ok(()),
                (0, true) if self.socket.is_writable() => self.back_off().await?,
                (_, true) => self.pull().await?,
            }
        }
    }

    /// Waits for bytes and appends all that have arrived, at least one.
    ///
    /// # Errors
    /// [`End::PeerClosed`] if the viewer has finished, [`End::PeerReset`] if the connection broke.
    pub async fn receive(&self, into: &mut Vec<u8>) -> Result<(), End> {
        loop {
            match self.receive_now(into)? {
                Some(0) => return Err(End::PeerClosed),
                Some(_) => return Ok(()),
                None => self.socket.readable().await,
            }
        }
    }

    /// Appends the bytes that have arrived: `None` if there are none, `Some(0)` if the viewer has finished.
    ///
    /// # Errors
    /// [`End::PeerReset`], or why the connection broke.
    pub(crate) fn receive_now(&self, into: &mut Vec<u8>) -> Result<Option<usize>, End> {
        let mut scratch = self.resources.scratch.borrow_mut();
        let received = self.socket.receive(&mut scratch);
        let received = received.map_err(|_| self.socket.reason().unwrap_or(End::PeerReset))?;
        into.extend_from_slice(&scratch[..received.unwrap_or(0)]);
        Ok(received)
    }

    /// Reads and discards what the viewer still sends, until it closes or a short time has passed. Closing with unread bytes would reset the
    /// connection, and the answer could be lost (RFC 9112 section 9.6).
    pub async fn linger(&self) {
        /// A guess: longer than any round trip, yet short enough that many viewers who never close cost little.
        const TIMEOUT: Duration = Duration::from_secs(2);
        const BYTES_MAX: usize = 1 << 20;
        let mut total = 0;
        let deadline = Instant::now() + TIMEOUT;
        while total < BYTES_MAX {
            match timeout_at(deadline, self.discard()).await {
                Ok(Some(bytes)) => total += bytes,
                _ => return,
            }
        }
    }

    /// Waits for bytes and discards them. `None` if no more will arrive.
    async fn discard(&self) -> Option<usize> {
        loop {
            let discarded = {
                let mut scratch = self.resources.scratch.borrow_mut();
                self.socket.receive(&mut scratch).ok()?
            };
            match discarded {
                None => self.socket.readable().await,
                Some(0) => return None,
                Some(bytes) => return Some(bytes),
            }
        }
    }
}

impl Link {
    /// How the kernel gets the connection's keys, if it does. Counts the keys that it could have and must not get.
    pub(crate) fn key_offer(&self, info: &SessionInfo) -> Option<Offer> {
        let Resources { offload, handover, numbers, .. } = &*self.resources;
        offload.seals.then(|| handover.offer(*offload, &self.socket, info, numbers)).flatten()
    }

    /// Returns true if TCP takes bytes now or within the time for which a buffer may be held.
    ///
    /// # Errors
    /// Those of `inbound`.
    pub(crate) async fn pulls_soon(
        &self,
        unsent: &mut UnsentLimit,
        inbound: &mut impl Inbound<Socket>,
    ) -> Result<bool, End> {
        if self.resources.memory.is_short() {
            return Ok(false);
        }
        Ok(self.takes_now(inbound)? || self.asks_soon(unsent, inbound).await?)
    }

    /// As [`Self::pulls_soon`], after TCP has refused bytes.
    ///
    /// # Errors
    /// Those of `inbound`.
    pub(crate) async fn asks_soon(
        &self,
        unsent: &mut UnsentLimit,
        inbound: &mut impl Inbound<Socket>,
    ) -> Result<bool, End> {
        self.resources.numbers.windows_waited_total.add(1);
        let is_soon = self.holds(self.resources.hold_timeout(), inbound).await?;
        if is_soon {
            unsent.woken(self);
        }
        Ok(is_soon)
    }

    /// Waits until the viewer has acknowledged everything that TCP was given. Calls `check` from time to time, and stops if it fails.
    ///
    /// # Errors
    /// The error of `check`; [`End::SendTimeout`] if the viewer took nothing for too long.
    pub async fn acknowledged(&self, check: impl Fn() -> Result<(), End>) -> Result<(), End> {
        /// No event reports that the last byte is acknowledged. Guesses: a round trip nearby, and a few far away.
        const PAUSE_MIN: Duration = Duration::from_millis(1);
        const PAUSE_MAX: Duration = Duration::from_millis(100);
        let mut stall = self.stall();
        let mut pause = PAUSE_MIN;
        while self.socket.unacknowledged_bytes() > 0 {
            check()?;
            self.look(&mut stall)?;
            sleep(pause).await;
            pause = PAUSE_MAX.min(2 * pause);
        }
        Ok(())
    }

    /// Makes the connection's last offer. TCP refuses it while the unsent bytes reach their limit. The limit is then lifted and the offer repeated
    /// once; bytes that TCP refuses again are lost.
    pub(crate) fn offer_last(&self, mut offer: impl FnMut() -> Result<usize, End>) {
        // If it fails, the connection is gone already.
        if matches!(offer(), Ok(0)) {
            self.socket.ask_below(u32::MAX);
            let _ = offer();
        }
    }

    /// As [`Self::offer`], for bytes in several places.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn offer_parts(&self, parts: &[IoSlice<'_>]) -> Result<usize, End> {
        Ok(self.count_taken(self.socket.send_parts(parts)?))
    }

    /// As [`Self::offer`], for a part of a file that is in memory: in the page cache, or in the hot set.
    ///
    /// # Errors
    /// If the connection is broken or the file cannot be read.
    pub fn offer_file(&self, file: BorrowedFd<'_>, range: Range<u64>) -> Result<usize, End> {
        let bytes = (range.end - range.start) as usize;
        match self.socket.send_file(file, range.start, bytes) {
            Ok(taken) => Ok(self.count_taken(taken)),
            Err(error) if error.raw_os_error() == Some(libc::EIO) => {
                Err(ReadError::Io(libc::EIO).into())
            }
            Err(error) => Err(error.into()),
        }
    }
}
