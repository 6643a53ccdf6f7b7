//! Finds the station to which a packet goes next.
//!
//! On a TAP this is always the kernel, which routes on. On a NIC the kernel's own tables decide: its routes over this interface, and its neighbours
//! there. They are read once and then kept up to date from the kernel's messages (rtnetlink(7)). Policy rules are ignored: of several routes with one
//! prefix, those of the main table come first.
//!
//! The kernel handles ARP and NDP. If it does not know a station, or has not heard from it for long, an empty datagram to that station's discard port
//! (RFC 863), with a hop limit of 1, makes it ask. That needs no privileges.

use crate::compose::Hop;
use crate::netlink::link::Link;
use crate::netlink::stations::Tables;
use crate::parse::Mac;
use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

/// The result of looking for the next hop to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// Frames go to this station.
    Known(Hop),
    /// The kernel is asking for the station's address. Try again soon, after [`Neighbours::update`].
    Pending,
    /// No route leads there over this interface.
    Unreachable,
}

/// The routes out of one device.
pub struct Neighbours(Ways);

enum Ways {
    One(Hop),
    Many(Box<Tables>),
}

impl Neighbours {
    /// Sends everything to one station.
    pub(crate) fn one(hop: Hop) -> Self {
        Self(Ways::One(hop))
    }

    /// Reads the kernel's tables for an interface.
    pub(crate) fn of(link: &Link, name: &str) -> io::Result<Self> {
        Ok(Self(Ways::Many(Box::new(Tables::open(link.clone(), name)?))))
    }

    /// Finds the next hop to `remote`.
    pub fn resolve(&mut self, remote: IpAddr) -> Resolved {
        match &mut self.0 {
            Ways::One(hop) => Resolved::Known(*hop),
            Ways::Many(tables) => tables.resolve(remote),
        }
    }

    /// Records that a frame of `remote` came from this station. The station is used as the next hop until the kernel knows one; that is enough for a
    /// connection's first segment.
    pub fn sighted(&mut self, remote: IpAddr, station: Mac) {
        if let Ways::Many(tables) = &mut self.0 {
            tables.sighted(remote, station);
        }
    }

    /// The descriptor that becomes readable when [`Self::update`] has work; `None` if there never is any.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.0 {
            Ways::One(_) => None,
            Ways::Many(tables) => Some(tables.fd()),
        }
    }

    /// Processes the kernel's messages since the last call.
    ///
    /// # Errors
    /// If the kernel no longer answers.
    pub fn update(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Ways::One(_) => Ok(()),
            Ways::Many(tables) => tables.update(),
        }
    }

    /// Increases whenever a next hop may have changed: results of [`Self::resolve`] may be kept as long as this stays the same.
    pub fn generation(&self) -> u64 {
        match &self.0 {
            Ways::One(_) => 0,
            Ways::Many(tables) => tables.generation(),
        }
    }
}
