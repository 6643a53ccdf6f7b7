//! How bytes get from disk to socket: the one place where the routes differ.
//!
//! A session speaks to its viewer through a [`Channel`]: it receives plaintext, sends an [`Outgoing`] and closes. What
//! happens in between is the route's business; another route is another variant here, and touches neither http, disk
//! nor crypt.

mod ahead;
pub mod bypass;
pub mod clear;
pub mod in_kernel;
mod incoming;
pub mod kernel;
mod link;
mod pour;
pub mod retained;
pub mod transport;
pub mod userspace;

pub use in_kernel::InKernel;
pub use link::Link;
pub use transport::{Protection, Transport};

use crate::end::End;
use crate::outgoing::Outgoing;
use crate::worker::Worker;
use crypt::Alert;
use std::rc::Rc;
use std::time::Instant;

/// A connection, as a session sees it.
pub enum Channel {
    /// Without TLS. Boxed as the others are: a session is as large as the largest.
    Clear(Box<clear::Clear>),
    /// TLS, sealed here.
    Userspace(Box<userspace::Userspace>),
    /// TLS, sealed by the kernel.
    Kernel(Box<kernel::Kernel>),
    /// TLS, sealed by the library that shook hands.
    Retained(Box<retained::Retained>),
    /// Over our own TCP, with TLS or without.
    Bypass(Box<bypass::Bypass>),
}

/// What is the same for every kind of channel, written once.
macro_rules! each {
    ($channel:expr, $each:ident => $what:expr) => {
        match $channel {
            Channel::Clear($each) => $what,
            Channel::Userspace($each) => $what,
            Channel::Kernel($each) => $what,
            Channel::Retained($each) => $what,
            Channel::Bypass($each) => $what,
        }
    };
}

impl Channel {
    /// The route's name, as a counter's label.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Clear(_) => "clear",
            Self::Userspace(_) => "userspace",
            Self::Kernel(_) => "kernel",
            Self::Retained(_) => "retained",
            Self::Bypass(_) => "bypass",
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
        if let Self::Kernel(kernel) = self {
            kernel.emptied().await?;
        }
        each!(self, channel => channel.finish(alerts));
        Ok(())
    }

    /// Waits, after the goodbye, until closing the connection does no harm to what was sent.
    ///
    /// # Errors
    /// When that cannot be waited for: what the viewer does not have yet is then thrown away.
    pub async fn settle(&mut self) -> Result<(), End> {
        match self {
            Self::Clear(clear) => clear.settle().await,
            Self::Bypass(bypass) => bypass.settle().await,
            Self::Userspace(_) | Self::Kernel(_) | Self::Retained(_) => Ok(()),
        }
    }

    /// Reads and throws away what the viewer still sends ([`Link::linger`]).
    pub async fn linger(&self) {
        each!(self, channel => channel.link.linger().await);
    }

    /// The worker that it lives on.
    pub fn worker(&self) -> &Rc<Worker> {
        each!(self, channel => &channel.link.worker)
    }

    /// The next byte taken is the first of a response ([`Link::begin_response`]).
    pub fn begin_response(&self, since: Instant) -> u64 {
        each!(self, channel => channel.link.begin_response(since))
    }

    /// Bytes that TCP has taken so far ([`Link::taken_bytes`]).
    pub fn taken_bytes(&self) -> u64 {
        each!(self, channel => channel.link.taken_bytes())
    }
}
