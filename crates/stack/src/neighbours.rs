//! Which station a packet goes to next.
//!
//! On a TAP this is always the kernel, which routes on. On a network card it is what the kernel's own tables say: its routes
//! over this interface, and its neighbours there. They are read once and then kept up by what the kernel tells (rtnetlink(7)).
//! Policy rules are not looked at: of several routes with one prefix, those of the main table come first.
//!
//! ARP and NDP are the kernel's business. Where it does not know a station, or has not heard from it for long, a datagram of
//! no bytes to that station's discard port (RFC 863), with a hop limit of 1, makes it ask. That needs no privileges.

use crate::compose::Hop;
use crate::netlink::link::Link;
use crate::netlink::stations::Tables;
use crate::parse::Mac;
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
pub struct Neighbours(Ways);

enum Ways {
    One(Hop),
    Many(Box<Tables>),
}

impl Neighbours {
    /// Everything goes to one station.
    pub(crate) fn one(hop: Hop) -> Self {
        Self(Ways::One(hop))
    }

    /// What the kernel knows about an interface.
    pub(crate) fn of(link: &Link, name: &str) -> io::Result<Self> {
        Ok(Self(Ways::Many(Box::new(Tables::open(link.clone(), name)?))))
    }

    /// The way to `remote`.
    pub fn resolve(&mut self, remote: IpAddr) -> Resolved {
        match &mut self.0 {
            Ways::One(hop) => Resolved::Known(*hop),
            Ways::Many(tables) => tables.resolve(remote),
        }
    }

    /// Tells that a frame of `remote` has come from this station. It is taken for the way there as long as the kernel knows
    /// none; enough for a connection's first segment.
    pub fn sighted(&mut self, remote: IpAddr, station: Mac) {
        if let Ways::Many(tables) = &mut self.0 {
            tables.sighted(remote, station);
        }
    }

    /// What becomes readable when there is news for [`Self::update`]; nothing where there never are any.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.0 {
            Ways::One(_) => None,
            Ways::Many(tables) => Some(tables.fd()),
        }
    }

    /// Takes in what the kernel has told meanwhile.
    ///
    /// # Errors
    /// When the kernel no longer answers.
    pub fn update(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Ways::One(_) => Ok(()),
            Ways::Many(tables) => tables.update(),
        }
    }

    /// Grows whenever a way may have changed: what [`Self::resolve`] said may be kept as long as this stays the same.
    pub fn generation(&self) -> u64 {
        match &self.0 {
            Ways::One(_) => 0,
            Ways::Many(tables) => tables.generation(),
        }
    }
}
