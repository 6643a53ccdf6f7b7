//! Which station a packet goes to next.
//!
//! On a TAP this is always the kernel, which routes on. On a network card it is what the kernel's own tables say.

use crate::frames::compose::Hop;
use crate::frames::parse::Mac;
use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

/// The way to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// Goes here.
    Known(Hop),
    /// The kernel has been caused to ask for the station's address; ask again soon, after [`Neighbours::update`].
    Pending,
    /// No route leads there over this interface.
    Unreachable,
}

/// The ways that lead out of one device.
pub struct Neighbours {
    hop: Hop,
}

impl Neighbours {
    /// Everything goes to one station.
    pub(crate) fn one(hop: Hop) -> Self {
        Self { hop }
    }

    /// The way to `remote`.
    pub fn resolve(&mut self, _remote: IpAddr) -> Resolved {
        Resolved::Known(self.hop)
    }

    /// Tells that a frame of `remote` has come from this station. It is taken for the way there as long as the kernel knows
    /// none; worth calling for a connection's first segment.
    pub fn sighted(&mut self, _remote: IpAddr, _station: Mac) {}

    /// What becomes readable when there is news for [`Self::update`]; nothing where there never are any.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Takes in what the kernel has told meanwhile.
    ///
    /// # Errors
    /// When the kernel no longer answers.
    pub fn update(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Grows whenever a way may have changed: what [`Self::resolve`] said may be kept as long as this stays the same.
    pub fn generation(&self) -> u64 {
        0
    }
}
