//! A connection's carrier: a kernel socket, or a socket of our own TCP.
//!
//! The trait has what handshakes, small answers and closing need, so that a session is written once. How the bytes of a film are sent is up to a
//! sealing, which knows its carrier.

use crate::channel::Channel;
use crate::deferred::Deferred;
use crate::end::End;
use crate::link::Link;
use crate::protected::Protected;
use crate::resources::Resources;
use crate::sealing::{Plaintext, RustlsTls};
use net::{Ready, Socket};
use std::future::Future;
use std::io;
use tls::{Established, Retained};

/// How a connection is protected after its handshake.
pub enum Protection {
    /// Not at all.
    None,
    /// By our own keys. Boxed, because it moves with its caller's future.
    Keys(Box<Established>),
    /// By the library that did the handshake.
    Retained(Retained),
}

/// One connection's bytes, in both directions. Calls never block; waits are futures.
pub trait Carrier: Sized {
    /// Receives the bytes that have arrived: `None` if there are none, `Some(0)` if the peer has finished.
    ///
    /// # Errors
    /// If the connection is broken.
    fn receive(&self, into: &mut [u8]) -> io::Result<Option<usize>>;

    /// Gives TCP as many of a few `bytes` as it takes now, and returns how many. `more` announces that the next bytes follow at once.
    ///
    /// # Errors
    /// If the connection is broken.
    fn send(&self, bytes: &[u8], more: bool) -> io::Result<usize>;

    /// Returns true if TCP takes bytes now. Also true if the peer is gone: the next send reports that.
    fn is_writable(&self) -> bool;

    /// The events that the connection is ready for now. Checks for arrived bytes only `if_readable`.
    fn readiness(&self, if_readable: bool) -> Ready;

    /// Waits until something has arrived or the peer is gone.
    fn readable(&self) -> impl Future<Output = ()>;

    /// Waits until TCP takes bytes again or the peer is gone.
    fn writable(&self) -> impl Future<Output = ()>;

    /// Waits until TCP takes bytes again, something has arrived, or the peer is gone. Returns which.
    fn readable_or_writable(&self) -> impl Future<Output = Ready>;

    /// Waits until the peer has closed its end, or is gone. Never returns if the carrier cannot tell without reading.
    fn peer_closed(&self) -> impl Future<Output = ()> {
        std::future::pending()
    }

    /// Bytes that were given to TCP and not yet acknowledged by the viewer.
    fn unacknowledged_bytes(&self) -> usize;

    /// Ends the sending direction. Earlier bytes still arrive.
    fn finish(&self);

    /// Why the connection is broken, if the carrier knows.
    fn reason(&self) -> Option<End> {
        None
    }

    /// The number of the network interface on which the connection arrived, if the carrier knows.
    fn arrived_on(&self, _listener_is_ipv6: bool) -> Option<u32> {
        None
    }

    /// Returns true if the connection should prefer TLS 1.2 over 1.3, because the NIC by which it leaves takes only 1.2.
    fn wants_tls12(&self, _resources: &Resources) -> bool {
        false
    }

    /// Makes a channel of a connection whose handshake is complete and sent. `sealed_input` holds the bytes that arrived after the handshake's last
    /// record.
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

    fn readiness(&self, if_readable: bool) -> Ready {
        Self::readiness(self, if_readable)
    }

    fn readable(&self) -> impl Future<Output = ()> {
        Self::readable(self)
    }

    fn writable(&self) -> impl Future<Output = ()> {
        Self::writable(self)
    }

    fn readable_or_writable(&self) -> impl Future<Output = Ready> {
        Self::readable_or_writable(self)
    }

    fn peer_closed(&self) -> impl Future<Output = ()> {
        Self::peer_closed(self)
    }

    fn unacknowledged_bytes(&self) -> usize {
        Self::unacknowledged_bytes(self)
    }

    fn finish(&self) {
        Self::finish(self);
    }

    fn arrived_on(&self, listener_is_ipv6: bool) -> Option<u32> {
        Self::arrived_on(self, listener_is_ipv6)
    }

    fn wants_tls12(&self, resources: &Resources) -> bool {
        resources.handover.wants_tls12(resources.offload, self)
    }

    fn establish(mut link: Link, protection: Protection, sealed_input: Vec<u8>) -> Channel {
        match protection {
            Protection::None => {
                let sealing = Plaintext::new(&mut link);
                Channel::Plaintext(Box::new(Protected { link, sealing }))
            }
            Protection::Keys(established) => {
                let deferred = Deferred::new(link, *established, sealed_input);
                if deferred.waits() {
                    Channel::Deferred(Box::new(deferred))
                } else {
                    deferred.pass_keys_on()
                }
            }
            Protection::Retained(tls) => {
                let sealing = RustlsTls::new(tls, sealed_input);
                Channel::RustlsTls(Box::new(Protected { link, sealing }))
            }
        }
    }
}
