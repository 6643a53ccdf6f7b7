//! Input from the viewer during a response: a request for new keys, an alert, its next requests.
//!
//! It is read between the windows of the response, and while the viewer takes nothing. The poll for writability also checks whether bytes have
//! arrived, so a window costs no further system call unless some have.
//!
//! Requests wait in the session's input until the response is sent, as if they had come after it. Only a few are read ([`PIPELINED_BYTES_MAX`]). TCP
//! keeps the others, and its window holds the viewer back.
//!
//! Without TLS nothing is read: a viewer can only send its next request.

use crate::carrier::Carrier;
use crate::end::End;
use crate::link::Link;
use crate::receive_half::{ReceiveHalf, Stop};

/// Reading stops during a response once this many bytes of later requests wait: dozens of a player's requests, half of the longest head that is
/// accepted by default. With one read ([`crate::Resources::new_scratch`]), this bounds what a viewer can make the server hold.
pub(crate) const PIPELINED_BYTES_MAX: usize = 8 << 10;

/// Reads the viewer's input during a response.
pub(crate) trait Inbound<C> {
    /// Returns true if arriving bytes should be read. If not, they stay in TCP.
    fn reads(&self) -> bool;

    /// Reads and opens the bytes that have arrived.
    ///
    /// # Errors
    /// If the connection is over at once. An error whose alert must follow a whole record is kept until that has left.
    fn read(&mut self, link: &Link<C>) -> Result<(), End>;

    /// Returns true if something has arrived that must be handled before more of the response is sent.
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
    /// The viewer's requests go here.
    input: &'a mut Vec<u8>,
    /// Set if the viewer can get new keys now.
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
                // `half` keeps the error too.
                Ok(()) | Err(Stop::Wrong(_)) => Ok(()),
            },
        }
    }

    fn interrupts(&self) -> bool {
        self.half.check().is_err() || (self.half.owes_keys && self.gives_keys)
    }
}

/// Returns true if more requests may wait along with those in `input`.
pub(crate) fn has_room(input: &[u8]) -> bool {
    input.len() < PIPELINED_BYTES_MAX
}
