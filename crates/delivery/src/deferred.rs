//! A connection whose keys may go to the kernel later: sealed here until its first title is known.
//!
//! Where connections move to the silo of their film's disk, they may leave by another network card afterwards. Keys that a card has stay with it,
//! so nobody gets them before. What was sealed here until then is in TCP, or has arrived: the kernel goes on with the next record.

use crate::channel::Channel;
use crate::link::Link;
use crate::protected::Protected;
use crate::sealing::{ByKernel, ByUs};
use crypt::{Established, SessionInfo};
use std::ops::{Deref, DerefMut};

/// A connection over a kernel socket, and what was agreed on it.
pub struct Deferred {
    by_us: Protected<ByUs>,
    info: SessionInfo,
}

impl Deferred {
    /// Takes a connection over whose handshake is complete and sent. `sealed_input` is what arrived after the handshake's last record.
    pub(crate) fn new(link: Link, established: Established, sealed_input: Vec<u8>) -> Self {
        let Established { sealer, opener, info } = established;
        Self { by_us: Protected { link, sealing: ByUs::new(sealer, opener, sealed_input) }, info }
    }

    /// Whether the keys wait.
    pub(crate) fn waits(&self) -> bool {
        let resources = &self.by_us.link.resources;
        let moves = resources.silos.as_ref().is_some_and(|silos| silos.connections_move);
        moves && resources.offload.gives_cards_keys()
    }

    /// Makes sure that the kernel can tell which card gets the keys: it forgets that when a connection gets the mark of another silo, and learns it
    /// with the next packet that is sent. Returns whether the keys can be passed on: that, and TCP has nothing but whole records.
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
