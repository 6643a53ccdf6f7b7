//! Moves a connection from one worker to another: its socket, its keys and sequence numbers, and its received bytes.
//!
//! [`Channel::leave`] takes a connection apart into plain data ([`ConnectionState`]) that may cross threads. [`ConnectionState::enter`] puts it
//! together again with another worker's resources.
//!
//! A connection moves only between responses, so this program holds nothing of a response at that time. Bytes that TCP has not sent yet, or that the
//! viewer has not acknowledged, are in the socket and move with it: no byte is reordered.
//!
//! Invariants:
//! - No operation on the socket remains in the ring of the worker that it leaves ([`Socket::into_owned`]).
//! - The kernel refers to no page of a file: the lease on such a file belongs to the worker that took it.
//!
//! Refused: connections whose state belongs to their thread. These are connections over our own TCP, those that the handshake's library seals, and
//! those that a NIC seals. Where connections move, a NIC gets no keys before the first title is known.

use crate::channel::Channel;
use crate::deferred::Deferred;
use crate::link::Link;
use crate::protected::Protected;
use crate::resources::Resources;
use crate::sealing::{KernelHalves, KernelTls, Plaintext, UserTls};
use net::{Socket, Window};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Instant;
use tls::SessionInfo;

/// A connection's state between workers.
pub struct ConnectionState {
    socket: OwnedFd,
    window: Window,
    /// Bytes that TCP has taken so far.
    taken_bytes: u64,
    sealing: Packed,
}

/// Its protection, with keys, sequence numbers, and bytes that were received and not opened yet.
enum Packed {
    None,
    UserTls(Box<UserTls>),
    Deferred(Box<(UserTls, SessionInfo)>),
    KernelTls(Box<KernelHalves>),
}

/// Why a connection cannot move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CannotMove {
    /// Its state is bound to its thread for good.
    Bound,
    /// The viewer has not acknowledged all of a file that the kernel sends.
    Unacknowledged,
    /// An operation on its socket is still in the kernel.
    InUse,
}

impl CannotMove {
    /// The counter's label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bound => "bound",
            Self::Unacknowledged => "unacknowledged",
            Self::InUse => "in_use",
        }
    }
}

impl Channel {
    /// Why the connection cannot move at the moment, if it cannot.
    pub fn stays(&mut self) -> Option<CannotMove> {
        match self {
            Self::Plaintext(plaintext) => {
                plaintext.sealing.needs_file().then_some(CannotMove::Unacknowledged)
            }
            Self::KernelTls(kernel_tls) if kernel_tls.sealing.is_on_nic() => {
                Some(CannotMove::Bound)
            }
            Self::UserTls(_) | Self::Deferred(_) | Self::KernelTls(_) => None,
            Self::RustlsTls(_) | Self::OwnTcp(_) => Some(CannotMove::Bound),
        }
    }

    /// Takes the connection apart. Call this only between responses.
    ///
    /// # Errors
    /// The unchanged connection, and why it cannot move.
    pub async fn leave(mut self) -> Result<ConnectionState, (Self, CannotMove)> {
        if let Some(stays) = self.stays() {
            return Err((self, stays));
        }
        match self {
            Self::Plaintext(plaintext) => {
                let Protected { link, sealing } = *plaintext;
                // The sealing holds the socket too, which has to have one owner.
                drop(sealing);
                pack(link, Packed::None).await
            }
            Self::UserTls(user_tls) => {
                let Protected { link, sealing } = *user_tls;
                pack(link, Packed::UserTls(Box::new(sealing))).await
            }
            Self::Deferred(deferred) => {
                let (link, sealing, info) = deferred.into_parts();
                pack(link, Packed::Deferred(Box::new((sealing, info)))).await
            }
            Self::KernelTls(kernel_tls) => {
                let Protected { link, sealing } = *kernel_tls;
                pack(link, Packed::KernelTls(Box::new(sealing.into_halves()))).await
            }
            bound @ (Self::RustlsTls(_) | Self::OwnTcp(_)) => Err((bound, CannotMove::Bound)),
        }
    }
}

async fn pack(link: Link, sealing: Packed) -> Result<ConnectionState, (Channel, CannotMove)> {
    let (window, taken_bytes) = (link.window, link.taken_bytes());
    let (socket, resources) = link.into_parts();
    match socket.into_owned().await {
        Ok(socket) => Ok(ConnectionState { socket, window, taken_bytes, sealing }),
        Err(socket) => {
            let link = Link::moved(resources, socket, window, taken_bytes);
            Err((unpack(link, sealing), CannotMove::InUse))
        }
    }
}

fn unpack(link: Link, sealing: Packed) -> Channel {
    match sealing {
        Packed::None => {
            let sealing = Plaintext::over(&link);
            Channel::Plaintext(Box::new(Protected { link, sealing }))
        }
        Packed::UserTls(sealing) => {
            Channel::UserTls(Box::new(Protected { link, sealing: *sealing }))
        }
        Packed::Deferred(parts) => {
            let (sealing, info) = *parts;
            Channel::Deferred(Box::new(Deferred::of_parts(link, sealing, info)))
        }
        Packed::KernelTls(keys) => {
            let sealing = KernelTls::of_halves(*keys);
            Channel::KernelTls(Box::new(Protected { link, sealing }))
        }
    }
}

impl ConnectionState {
    /// Puts the connection together again on this thread, with its worker's `resources`. One of its requests is still unanswered and was complete at
    /// `asked_at`: the wait for its first byte began then.
    pub fn enter(self, resources: Rc<Resources>, asked_at: Instant) -> Channel {
        let Self { socket, window, taken_bytes, sealing } = self;
        let socket = Socket::from(socket);
        if let Some(departure) = resources.silos.as_ref().and_then(|silos| silos.departure) {
            // The server tried this at startup, and keeps the privilege. If it fails, the connection leaves as before.
            let _ = socket.mark(departure.mark);
        }
        let link = Link::moved(resources, socket, window, taken_bytes);
        link.await_first_byte(asked_at);
        unpack(link, sealing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leaves_may_cross_threads() {
        fn crosses<T: Send + 'static>() {}
        crosses::<ConnectionState>();
    }
}
