//! What a viewer sends while a response goes to it: a request for new keys, an alert, its next requests.
//!
//! It is read between the windows of the response, and while the viewer takes nothing. The poll that asks whether TCP takes bytes also asks
//! whether any have arrived, so a window costs no further system call unless some have.
//!
//! Requests wait in the session's input until the response is sent, as if they had come after it. Only a few are read
//! ([`PIPELINED_BYTES_MAX`]). TCP keeps the others, and its window holds the viewer back.
//!
//! Without TLS nothing is read: all that a viewer can send is its next request.

use crate::carrier::Carrier;
use crate::end::End;
use crate::link::Link;
use crate::receive_half::{ReceiveHalf, Stop};

/// Nothing more is read during a response once this much of later requests waits: dozens of a player's, half of the longest head that is
/// accepted by default. With one read ([`crate::Resources::new_scratch`]), this is what a viewer can make the server hold.
pub(crate) const PIPELINED_BYTES_MAX: usize = 8 << 10;

/// Reads what a viewer sends during a response.
pub(crate) trait Inbound<C> {
    /// Whether to read what arrives. If not, it stays in TCP.
    fn reads(&self) -> bool;

    /// Reads and opens what has arrived.
    ///
    /// # Errors
    /// If the connection is over at once. An error whose alert must follow a whole record is kept until that has left.
    fn read(&mut self, link: &Link<C>) -> Result<(), End>;

    /// Whether something has arrived that must be dealt with before more of the response is sent.
    fn interrupts(&self) -> bool;
}

/// Reads nothing.
pub(crate) struct Unread;

impl<C> Inbound<C> for Unread {
    fn reads(&self) -> bool {
        false
    }

    fn read(&mut self, _link: &Link<C>) -> Result<(), End> {
        Ok(())
    }

    fn interrupts(&self) -> bool {
        false
    }
}

/// Reads and opens records.
pub(crate) struct Records<'a> {
    half: &'a mut ReceiveHalf,
    /// Where the viewer's requests go.
    input: &'a mut Vec<u8>,
    /// Whether the viewer can get new keys now.
    gives_keys: bool,
}

impl<'a> Records<'a> {
    pub(crate) fn new(half: &'a mut ReceiveHalf, input: &'a mut Vec<u8>, gives_keys: bool) -> Self {
        Self { half, input, gives_keys }
    }
}

impl<C: Carrier> Inbound<C> for Records<'_> {
    fn reads(&self) -> bool {
        self.half.expects_more() && has_room(self.input)
    }

    fn read(&mut self, link: &Link<C>) -> Result<(), End> {
        match link.receive_now(&mut self.half.sealed)? {
            None => Ok(()),
            // A viewer may close its sending direction and wait for the response.
            Some(0) => {
                self.half.has_ended = true;
                Ok(())
            }
            Some(_) => match self.half.open(self.input, &link.resources.numbers) {
                Err(Stop::PeerAlert) => Err(End::PeerAlert),
                // It is in `half`, too.
                Ok(()) | Err(Stop::Wrong(_)) => Ok(()),
            },
        }
    }

    fn interrupts(&self) -> bool {
        self.half.check().is_err() || (self.half.owes_keys && self.gives_keys)
    }
}

/// Whether more requests may wait with those in `input`.
pub(crate) fn has_room(input: &[u8]) -> bool {
    input.len() < PIPELINED_BYTES_MAX
}
