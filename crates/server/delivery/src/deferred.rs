//! A connection whose keys may go to the kernel later: sealed here until its first title is known.
//!
//! Connections that move to the silo of their film's disk may leave by another NIC afterwards. A NIC keeps the keys that it was given, so the kernel
//! gets no keys before the move. Records sealed here until then are in TCP or have arrived, and the kernel goes on with the next record.

use crate::channel::Channel;
use crate::link::Link;
use crate::protected::Protected;
use crate::sealing::{KernelTls, UserTls};
use std::ops::{Deref, DerefMut};
use tls::{Established, SessionInfo};

/// A connection over a kernel socket, and its negotiated TLS session.
pub struct Deferred {
    user_tls: Protected<UserTls>,
    info: SessionInfo,
}

impl Deferred {
    /// Takes over a connection whose handshake is complete and sent. `sealed_input` holds the bytes that arrived after the handshake's last record.
    pub(crate) fn new(link: Link, established: Established, sealed_input: Vec<u8>) -> Self {
        let Established { sealer, opener, info } = established;
        Self {
            user_tls: Protected { link, sealing: UserTls::new(sealer, opener, sealed_input) },
            info,
        }
    }

    /// Returns true if the keys have to wait.
    pub(crate) fn waits(&self) -> bool {
        let resources = &self.user_tls.link.resources;
        let moves = resources.silos.as_ref().is_some_and(|silos| silos.connections_move);
        moves && resources.offload.gives_nics_keys()
    }

    /// Makes sure that the kernel knows which NIC gets the keys: it forgets that when a connection gets the mark of another silo, and learns it with
    /// the next packet that is sent. Returns whether the keys can be passed on: the route is known, and TCP has only whole records.
    pub(crate) fn prepare(&mut self) -> bool {
        let Protected { link, sealing } = &mut self.user_tls;
        if !sealing.is_mid_record() && !link.socket.has_route() {
            sealing.send_nothing(link);
        }
        !sealing.is_mid_record() && link.socket.has_route()
    }

    /// Gives the kernel the keys, if it may have them. Call it only between responses, after [`Self::prepare`].
    pub(crate) fn pass_keys_on(self) -> Channel {
        let Self { user_tls: Protected { link, sealing }, info } = self;
        match link.key_offer(&info) {
            Some(offer) => KernelTls::hand_over(link, sealing, &info, offer),
            None => Channel::UserTls(Box::new(Protected { link, sealing })),
        }
    }

    pub(crate) fn into_parts(self) -> (Link, UserTls, SessionInfo) {
        (self.user_tls.link, self.user_tls.sealing, self.info)
    }

    pub(crate) fn of_parts(link: Link, sealing: UserTls, info: SessionInfo) -> Self {
        Self { user_tls: Protected { link, sealing }, info }
    }
}

impl Deref for Deferred {
    type Target = Protected<UserTls>;

    fn deref(&self) -> &Self::Target {
        &self.user_tls
    }
}

impl DerefMut for Deferred {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.user_tls
    }
}
