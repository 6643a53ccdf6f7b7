//! The endpoint: a table of connections, and who of them has something to say.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::Instant;

use crate::{Arrived, Config, Event, Id, Info, Secret, Statistics, Transmit, Want, Withheld};

/// Many connections of one host, or of one core of it.
pub struct Endpoint {
    statistics: Statistics,
}

impl Endpoint {
    /// An endpoint without connections. `now` is its beginning: no later call may have an earlier time.
    #[must_use]
    pub fn new(config: Config, secret: Secret, now: Instant) -> Self {
        let _ = (config, secret, now);
        Endpoint { statistics: Statistics::default() }
    }

    /// Takes in a segment.
    pub fn handle_segment(&mut self, now: Instant, arrived: Arrived<'_>) {
        let _ = (now, arrived);
    }

    /// A router says that packets to `remote` of more than `mtu_bytes` do not get through (ICMP "fragmentation needed", ICMPv6
    /// "packet too big"). Believed only if `sequence`, from the quoted TCP header, is in flight (RFC 5927 section 7).
    pub fn handle_packet_too_big(
        &mut self,
        now: Instant,
        local: SocketAddr,
        remote: SocketAddr,
        sequence: u32,
        mtu_bytes: u16,
    ) {
        let _ = (now, local, remote, sequence, mtu_bytes);
    }

    /// Does what is due. Harmless if called early.
    pub fn handle_timeout(&mut self, now: Instant) {
        let _ = now;
    }

    /// When [`Endpoint::handle_timeout`] is to be called, at the latest.
    #[must_use]
    pub fn next_timeout(&mut self) -> Option<Instant> {
        None
    }

    /// The next thing that happened.
    pub fn poll_event(&mut self) -> Option<(Id, Event)> {
        None
    }

    /// The next segment without payload: SYN-ACK, ACK, RST, FIN, probes.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        let _ = now;
        None
    }

    /// The next range that is asked for.
    pub fn poll_want(&mut self, now: Instant) -> Option<(Id, Want)> {
        let _ = now;
        None
    }

    /// The caller has `bytes` bytes of the send stream in hand, from `offset` on: how many of them leave now, and under which header.
    /// What is returned counts as sent. To be called again, with the same bytes, until it is an error.
    ///
    /// # Errors
    /// Says why nothing of it may leave, which is no fault; see [`Withheld`].
    pub fn transmit(
        &mut self,
        now: Instant,
        id: Id,
        offset: u64,
        bytes: usize,
    ) -> Result<Transmit, Withheld> {
        let _ = (now, id, offset, bytes);
        Err(Withheld::Gone)
    }

    /// What was wanted is not at hand any more and not sent: it may be asked for again.
    pub fn decline(&mut self, now: Instant, id: Id, range: Range<u64>) {
        let _ = (now, id, range);
    }

    /// The send stream is longer by so many bytes. Nothing is copied: they are wanted when they can be sent.
    pub fn write(&mut self, now: Instant, id: Id, bytes: u64) {
        let _ = (now, id, bytes);
    }

    /// No more will be written: a FIN follows the last byte.
    pub fn finish(&mut self, now: Instant, id: Id) {
        let _ = (now, id);
    }

    /// Ends the connection at once with a RST.
    pub fn reset(&mut self, now: Instant, id: Id) {
        let _ = (now, id);
    }

    /// Takes received bytes, in order; says how many.
    pub fn read(&mut self, now: Instant, id: Id, into: &mut [u8]) -> usize {
        let _ = (now, id, into);
        0
    }

    /// Opens a connection from `local` to `remote`. None: there are too many, or this pair has one already.
    pub fn connect(&mut self, now: Instant, local: SocketAddr, remote: SocketAddr) -> Option<Id> {
        let _ = (now, local, remote);
        None
    }

    /// Caps the rate of a connection, in bytes per second. None: no cap. Without effect if pacing is off.
    pub fn limit_rate(&mut self, id: Id, bytes_per_second: Option<u64>) {
        let _ = (id, bytes_per_second);
    }

    /// Who is connected to which of our addresses: (remote, local).
    #[must_use]
    pub fn addresses(&self, id: Id) -> Option<(SocketAddr, SocketAddr)> {
        let _ = id;
        None
    }

    /// A connection in figures. None: no such connection any more.
    #[must_use]
    pub fn info(&self, id: Id) -> Option<Info> {
        let _ = id;
        None
    }

    /// Connections at present.
    #[must_use]
    pub fn connections(&self) -> usize {
        0
    }

    /// All counters.
    #[must_use]
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }
}
