//! A connection whose keys may go to the kernel later: sealed here until its first title is known.
//!
//! Connections that move to the silo of their film's disk may leave by another NIC afterwards. A NIC keeps the keys that it was given, so the kernel
//! gets no keys before the move. Records sealed here until then are in TCP or have arrived, and the kernel goes on with the next record.

use crate::channel::Channel;
use crate::link::Link;
use crate::protected::Protected;
use crate::sealing::{ByKernel, ByUs};
use crypt::{Established, SessionInfo};
use std::ops::{Deref, DerefMut};

/// A connection over a kernel socket, and its negotiated TLS session.
pub struct Deferred {
    by_us: Protected<ByUs>,
    info: SessionInfo,
}

impl Deferred {
    /// Takes over a connection whose handshake is complete and sent. `sealed_input` holds the bytes that arrived after the handshake's last record.
    pub(crate) fn new(link: Link, established: Established, sealed_input: Vec<u8>) -> Self {
        let Established { sealer, opener, info } = established;
        Self { by_us: Protected { link, sealing: ByUs::new(sealer, opener, sealed_input) }, info }
    }

    /// Returns true if the keys have to wait.
    pub(crate) fn waits(&self) -> bool {
        let resources = &self.by_us.link.resources;
        let moves = resources.silos.as_ref().is_some_and(|silos| silos.connections_move);
        moves && resources.offload.gives_cards_keys()
    }

    /// Makes sure that the kernel knows which NIC gets the keys: it forgets that when a connection gets the mark of another silo, and learns it with
    /// the next packet that is sent. Returns whether the keys can be passed on: the route is known, and TCP has only whole records.
    pub(crate) fn prepare(&mut self) -> bool {
        let Protected { link, sealing } = &mut self.by_us;
        if !sealing.is_mid_record() && !link.socket.has_route() {
            sealing.send_nothing(link);
        }
        !sealing.is_mid_record() && link.socket.has_route()
    }

    /// Gives the kernel the keys, if it may have them. Call it only between responses, after [`Self::prepare`].
    pub(crate) fn pass_keys_on(self) -> Channel {
        let Self { by_us: Protected { link, sealing }, info } = self;
        match link.key_offer(&info) {
            Some(offer) => ByKernel::hand_over(link, sealing, &info, offer),
            None => Channel::ByUs(Box::new(Protected { link, sealing })),
        }
    }

    pub(crate) fn into_parts(self) -> (Link, ByUs, SessionInfo) {
        (self.by_us.link, self.by_us.sealing, self.info)
    }

    pub(crate) fn of_parts(link: Link, sealing: ByUs, info: SessionInfo) -> Self {
        Self { by_us: Protected { link, sealing }, info }
    }
}

impl Deref for Deferred {
    type Target = Protected<ByUs>;

    fn deref(&self) -> &Self::Target {
        &self.by_us
    }
}

impl DerefMut for Deferred {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.by_us
    }
}
