//! How bytes get from disk to socket: the one place where the routes differ.
//!
//! A session speaks to its viewer through a [`Channel`]: it receives plaintext, sends an [`Outgoing`] and closes. What
//! happens in between is the route's business; another route is another variant here, and touches neither http, disk
//! nor crypt.

mod ahead;
pub mod clear;
mod link;
pub mod userspace;

pub use link::Link;

use crate::end::End;
use crate::outgoing::Outgoing;

/// A connection, as a session sees it.
pub enum Channel {
    /// Without TLS.
    Clear(clear::Clear),
    /// TLS, sealed here.
    Userspace(Box<userspace::Userspace>),
}

impl Channel {
    /// Waits for bytes from the viewer and appends at least one to `input`.
    ///
    /// # Errors
    /// When no more will come.
    pub async fn receive(&mut self, input: &mut Vec<u8>) -> Result<(), End> {
        match self {
            Self::Clear(clear) => clear.receive(input).await,
            Self::Userspace(userspace) => userspace.receive(input).await,
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
        }
    }

    /// Says goodbye in an orderly way: nothing more will be sent, and what was sent was all.
    pub fn finish(&mut self) {
        match self {
            Self::Clear(clear) => clear.link.socket.finish(),
            Self::Userspace(userspace) => userspace.finish(),
        }
    }

    /// The connection under it.
    pub fn link(&self) -> &Link {
        match self {
            Self::Clear(clear) => &clear.link,
            Self::Userspace(userspace) => &userspace.link,
        }
    }
}
