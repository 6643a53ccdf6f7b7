//! What carries a connection's bytes: a socket of the kernel's, or one of our own TCP.
//!
//! This is as much as handshakes, small answers and goodbyes need of it, so that a session is written once. How the bytes
//! of a film get into it is a sealing's affair, and knows which of the two it has.

use crate::channel::Channel;
use crate::end::End;
use crate::link::Link;
use crate::protected::Protected;
use crate::sealing::{ByKernel, ByLibrary, ByUs, Unsealed};
use crypt::{Established, Retained};
use net::Socket;
use std::future::Future;
use std::io;

/// How a connection is protected, once its handshake is done.
pub enum Protection {
    /// Not at all.
    None,
    /// By keys of ours. Boxed: it moves with its caller's future.
    Keys(Box<Established>),
    /// By the library that shook hands.
    Retained(Retained),
}

/// One connection's bytes, in both directions. Calls never wait; waits are futures.
pub trait Carrier: Sized {
    /// Takes what has arrived: `None` when nothing has, `Some(0)` when the peer has finished.
    ///
    /// # Errors
    /// When the connection is broken.
    fn receive(&self, into: &mut [u8]) -> io::Result<Option<usize>>;

    /// Gives TCP as many of a few `bytes` as it takes now, and says how many. `more` says that the next bytes follow at
    /// once.
    ///
    /// # Errors
    /// When the connection is broken.
    fn send(&self, bytes: &[u8], more: bool) -> io::Result<usize>;

    /// Whether TCP takes bytes now (or the peer is gone, which the next send tells).
    fn is_writable(&self) -> bool;

    /// Waits until something has arrived or the peer is gone.
    fn readable(&self) -> impl Future<Output = ()>;

    /// Waits until TCP takes bytes again or the peer is gone.
    fn writable(&self) -> impl Future<Output = ()>;

    /// Says that nothing more will be sent. What was sent before still arrives.
    fn finish(&self);

    /// Why the connection is broken, if the carrier knows.
    fn reason(&self) -> Option<End> {
        None
    }

    /// Makes a channel of a connection whose handshake is done and sent; `sealed_input` is what came behind its last record.
    fn establish(link: Link<Self>, protection: Protection, sealed_input: Vec<u8>) -> Channel;
}

impl Carrier for Socket {
    fn receive(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        Self::receive(self, into)
    }

    fn send(&self, bytes: &[u8], more: bool) -> io::Result<usize> {
        Self::send(self, bytes, more)
    }

    fn is_writable(&self) -> bool {
        Self::is_writable(self)
    }

    fn readable(&self) -> impl Future<Output = ()> {
        Self::readable(self)
    }

    fn writable(&self) -> impl Future<Output = ()> {
        Self::writable(self)
    }

    fn finish(&self) {
        Self::finish(self);
    }

    fn establish(mut link: Link, protection: Protection, sealed_input: Vec<u8>) -> Channel {
        match protection {
            Protection::None => {
                let sealing = Unsealed::new(&mut link);
                Channel::Unsealed(Box::new(Protected { link, sealing }))
            }
            Protection::Keys(established) if link.resources.offload.seals => {
                ByKernel::hand_over(link, *established, sealed_input)
            }
            Protection::Keys(established) => {
                let sealing = ByUs::new(*established, sealed_input);
                Channel::ByUs(Box::new(Protected { link, sealing }))
            }
            Protection::Retained(tls) => {
                let sealing = ByLibrary::new(tls, sealed_input);
                Channel::ByLibrary(Box::new(Protected { link, sealing }))
            }
        }
    }
}
