//! A connection, as a session sees it: every combination of carrier and sealing that there is.

use crate::end::End;
use crate::outgoing::Outgoing;
use crate::own_tcp::{self, Streamed};
use crate::protected::Protected;
use crate::sealing::{ByKernel, ByLibrary, ByUs, Unsealed};
use crypt::Alert;
use std::rc::Rc;
use std::time::Instant;

/// A connection. Boxed, each of them: a session is as large as the largest.
pub enum Channel {
    /// A kernel socket without TLS.
    Unsealed(Box<Protected<Unsealed>>),
    /// A kernel socket, sealed here.
    ByUs(Box<Protected<ByUs>>),
    /// A kernel socket, sealed by the kernel.
    ByKernel(Box<Protected<ByKernel>>),
    /// A kernel socket, sealed by the library that shook hands.
    ByLibrary(Box<Protected<ByLibrary>>),
    /// Our own TCP, sealed here or not at all.
    OwnTcp(Box<Protected<Streamed, own_tcp::Socket>>),
}

/// What is the same for every kind of channel, written once.
macro_rules! each {
    ($channel:expr, $each:ident => $what:expr) => {
        match $channel {
            Channel::Unsealed($each) => $what,
            Channel::ByUs($each) => $what,
            Channel::ByKernel($each) => $what,
            Channel::ByLibrary($each) => $what,
            Channel::OwnTcp($each) => $what,
        }
    };
}

impl Channel {
    /// The route's name, as `--route` and the status have it, and a counter's label.
    pub fn route(&self) -> &'static str {
        match self {
            Self::Unsealed(unsealed) if unsealed.link.resources.offload.sends_files => "kernel",
            Self::ByKernel(_) => "kernel",
            Self::Unsealed(_) | Self::ByUs(_) | Self::ByLibrary(_) => "userspace",
            Self::OwnTcp(_) => "bypass",
        }
    }

    /// Waits for bytes from the viewer and appends at least one to `input`.
    ///
    /// # Errors
    /// When no more will come.
    pub async fn receive(&mut self, input: &mut Vec<u8>) -> Result<(), End> {
        each!(self, channel => channel.receive(input).await)
    }

    /// Sends all of `outgoing`, as fast as the viewer pulls.
    ///
    /// # Errors
    /// When the viewer or the file is gone: the response cannot be completed, and the connection must end.
    pub async fn send(&mut self, outgoing: &Rc<Outgoing>) -> Result<(), End> {
        each!(self, channel => channel.send(outgoing).await)
    }

    /// Says goodbye by `alerts`, where there is TLS: nothing more will be sent. With close_notify among them, what was
    /// sent was all.
    ///
    /// # Errors
    /// When that cannot be said: the viewer has not taken everything in time.
    pub async fn finish(&mut self, alerts: &[Alert]) -> Result<(), End> {
        each!(self, channel => channel.finish(alerts).await)
    }

    /// Waits, after the goodbye, until closing the connection does no harm to what was sent.
    ///
    /// # Errors
    /// When that cannot be waited for: what the viewer does not have yet is then thrown away.
    pub async fn settle(&mut self) -> Result<(), End> {
        each!(self, channel => channel.settle().await)
    }

    /// Reads and throws away what the viewer still sends ([`crate::Link::linger`]).
    pub async fn linger(&self) {
        each!(self, channel => channel.link.linger().await);
    }

    /// The next byte taken is the first of a response ([`crate::Link::begin_response`]).
    pub fn begin_response(&self, since: Instant) -> u64 {
        each!(self, channel => channel.link.begin_response(since))
    }

    /// Bytes that TCP has taken so far ([`crate::Link::taken_bytes`]).
    pub fn taken_bytes(&self) -> u64 {
        each!(self, channel => channel.link.taken_bytes())
    }
}
