//! A connection, as a session sees it: one variant for each combination of carrier and sealing.

use crate::carrier::Carrier;
use crate::deferred::Deferred;
use crate::end::End;
use crate::outgoing::Outgoing;
use crate::own_tcp::{self, Streamed};
use crate::protected::Protected;
use crate::sealing::{KernelTls, Plaintext, RustlsTls, UserTls};
use std::rc::Rc;
use std::time::Instant;
use tls::Alert;

/// A connection. Every variant is boxed, because a session is as large as the largest.
pub enum Channel {
    /// A kernel socket without TLS.
    Plaintext(Box<Protected<Plaintext>>),
    /// A kernel socket, sealed here.
    UserTls(Box<Protected<UserTls>>),
    /// The same, until its first title is known ([`Self::pass_keys_on`]).
    Deferred(Box<Deferred>),
    /// A kernel socket, sealed by the kernel.
    KernelTls(Box<Protected<KernelTls>>),
    /// A kernel socket, sealed by the library that did the handshake.
    RustlsTls(Box<Protected<RustlsTls>>),
    /// Our own TCP, sealed here or not at all.
    OwnTcp(Box<Protected<Streamed, own_tcp::OwnTcpSocket>>),
}

/// Calls the same method on every kind of channel.
macro_rules! each {
    ($channel:expr, $each:ident => $what:expr) => {
        match $channel {
            Channel::Plaintext($each) => $what,
            Channel::UserTls($each) => $what,
            Channel::Deferred($each) => $what,
            Channel::KernelTls($each) => $what,
            Channel::RustlsTls($each) => $what,
            Channel::OwnTcp($each) => $what,
        }
    };
}

impl Channel {
    /// The route's name: in `--route`, in the status, and as a counter's label.
    pub fn route(&self) -> &'static str {
        match self {
            Self::Plaintext(plaintext) if plaintext.link.resources.offload.sends_files => "kernel",
            Self::KernelTls(_) => "kernel",
            Self::Plaintext(_) | Self::UserTls(_) | Self::Deferred(_) | Self::RustlsTls(_) => {
                "userspace"
            }
            Self::OwnTcp(_) => "bypass",
        }
    }

    /// Returns true while its keys wait for its first title, so that it may still move.
    pub fn is_deferred(&self) -> bool {
        matches!(self, Self::Deferred(_))
    }

    /// Returns true if keys that wait can be passed on now. If not, the next response is sealed here.
    pub fn can_pass_keys_on(&mut self) -> bool {
        match self {
            Self::Deferred(deferred) => deferred.prepare(),
            _ => false,
        }
    }

    /// Gives the kernel the keys that waited, if the kernel may have them: the first title is known now, and this worker sends it. Call it between
    /// responses, after [`Self::can_pass_keys_on`]; the next request was complete at `asked_at`.
    #[must_use]
    pub fn pass_keys_on(self, asked_at: Instant) -> Self {
        let Self::Deferred(deferred) = self else { return self };
        deferred.link.await_first_byte(asked_at);
        deferred.pass_keys_on()
    }

    /// Returns true if the connection should end soon, although nothing is wrong with it: it costs its NIC too much work.
    pub fn is_costly(&self) -> bool {
        matches!(self, Self::KernelTls(kernel_tls) if kernel_tls.sealing.is_costly())
    }

    /// Waits for bytes from the viewer and appends at least one to `input`.
    ///
    /// # Errors
    /// If no more will arrive.
    pub async fn receive(&mut self, input: &mut Vec<u8>) -> Result<(), End> {
        each!(self, channel => channel.receive(input).await)
    }

    /// Waits until the viewer has closed its end of the connection, or the connection is broken. Does not read what arrived before. A viewer that
    /// closed only its sending half still takes answers.
    pub async fn peer_closed(&self) {
        each!(self, channel => channel.link.socket.peer_closed().await);
    }

    /// Sends all of `outgoing`, as fast as the viewer pulls. Requests that arrive meanwhile may be appended to `input`, up to a bound.
    ///
    /// # Errors
    /// If the viewer or the file is gone, or the viewer breaks the protocol meanwhile. The response cannot be completed, and the connection
    /// must end.
    pub async fn send(&mut self, outgoing: &Rc<Outgoing>, input: &mut Vec<u8>) -> Result<(), End> {
        each!(self, channel => channel.send(outgoing, input).await)
    }

    /// Closes the sending side with `alerts`, if there is TLS. Nothing is sent afterwards. A close_notify tells the viewer that it has everything.
    ///
    /// # Errors
    /// If the alerts cannot be sent, because the viewer has not taken everything in time.
    pub async fn finish(&mut self, alerts: &[Alert]) -> Result<(), End> {
        each!(self, channel => channel.finish(alerts).await)
    }

    /// Waits, after [`Self::finish`], until closing the connection cannot harm what was sent.
    ///
    /// # Errors
    /// If the wait fails. Bytes that the viewer does not have yet are then discarded.
    pub async fn settle(&mut self) -> Result<(), End> {
        each!(self, channel => channel.settle().await)
    }

    /// Reads and discards what the viewer still sends ([`crate::Link::linger`]).
    pub async fn linger(&self) {
        each!(self, channel => channel.link.linger().await);
    }

    /// Marks the next byte taken as the first of a response ([`crate::Link::begin_response`]).
    pub fn begin_response(&self, since: Instant) -> u64 {
        each!(self, channel => channel.link.begin_response(since))
    }

    /// When the wait for a response's first byte began, if one is due ([`crate::Link::awaited_since`]).
    pub fn awaited_since(&self) -> Option<Instant> {
        each!(self, channel => channel.link.awaited_since())
    }

    /// Bytes that TCP has taken so far ([`crate::Link::taken_bytes`]).
    pub fn taken_bytes(&self) -> u64 {
        each!(self, channel => channel.link.taken_bytes())
    }
}
