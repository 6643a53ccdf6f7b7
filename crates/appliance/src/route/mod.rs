//! How bytes get from disk to socket: the one place where the routes differ.
//!
//! A session speaks to its viewer through a [`Channel`]: it receives plaintext, sends an [`Outgoing`] and closes. What
//! happens in between is the route's business; another route is another variant here, and touches neither http, disk
//! nor crypt.

mod ahead;
pub mod clear;
pub mod in_kernel;
mod incoming;
pub mod kernel;
mod link;
mod pour;
pub mod retained;
pub mod userspace;

pub use in_kernel::InKernel;
pub use link::Link;

use crate::end::End;
use crate::outgoing::Outgoing;

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
}

impl Channel {
    /// The route's name, as a counter's label.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Clear(_) => "clear",
            Self::Userspace(_) => "userspace",
            Self::Kernel(_) => "kernel",
            Self::Retained(_) => "retained",
        }
    }

    /// Waits for bytes from the viewer and appends at least one to `input`.
    ///
    /// # Errors
    /// When no more will come.
    pub async fn receive(&mut self, input: &mut Vec<u8>) -> Result<(), End> {
        match self {
            Self::Clear(clear) => clear.receive(input).await,
            Self::Userspace(userspace) => userspace.receive(input).await,
            Self::Kernel(kernel) => kernel.receive(input).await,
            Self::Retained(retained) => retained.receive(input).await,
        }
    }

    /// Sends all of `outgoing`, as fast as the viewer pulls.
    ///
    /// # Errors
    /// When the viewer or the file is gone: the response cannot be completed, and the connection must end.
    pub async fn send(&mut self, outgoing: &Outgoing) -> Result<(), End> {
        match self {
            Self::Clear(clear) => clear.send(outgoing).await,
            Self::Userspace(userspace) => userspace.send(outgoing).await,
            Self::Kernel(kernel) => kernel.send(outgoing).await,
            Self::Retained(retained) => retained.send(outgoing).await,
        }
    }

    /// Says goodbye in an orderly way: nothing more will be sent, and what was sent was all.
    ///
    /// # Errors
    /// When that cannot be said: the viewer has not taken everything in time.
    pub async fn finish(&mut self) -> Result<(), End> {
        match self {
            Self::Clear(clear) => clear.link.socket.finish(),
            Self::Userspace(userspace) => userspace.finish(),
            Self::Kernel(kernel) => kernel.finish().await?,
            Self::Retained(retained) => retained.finish(),
        }
        Ok(())
    }

    /// Waits, after the goodbye, until closing the connection does no harm to what was sent.
    ///
    /// # Errors
    /// When that cannot be waited for: what the viewer does not have yet is then thrown away.
    pub async fn settle(&mut self) -> Result<(), End> {
        match self {
            Self::Clear(clear) => clear.settle().await,
            Self::Userspace(_) | Self::Kernel(_) | Self::Retained(_) => Ok(()),
        }
    }

    /// The connection under it.
    pub fn link(&self) -> &Link {
        match self {
            Self::Clear(clear) => &clear.link,
            Self::Userspace(userspace) => &userspace.link,
            Self::Kernel(kernel) => &kernel.link,
            Self::Retained(retained) => &retained.link,
        }
    }
}
