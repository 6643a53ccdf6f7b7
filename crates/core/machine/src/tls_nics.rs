//! Finds network cards that encrypt TLS (`tls-hw-tx-offload`), and whether a connection leaves by one.
//!
//! A program that gives the kernel a connection's keys cannot choose who uses them: the kernel passes them to the card by which the
//! connection leaves, if the card's feature is on. Over a bond that can put clear text on the wire (docs/notes/bond-offload.md), so the code
//! that hands out keys asks here first.
//!
//! All information comes from the kernel over netlink, for the network namespace of this thread: the list of devices, their features, and the
//! route of a connection. The kernel reports each change of a device at once, and the reports are read before each answer. The sockets are opened
//! once, so answers stay available after a sandbox has closed `/sys` and forbidden new sockets.
//!
//! Invariants: an unknown device is never taken for safe. If no device can encrypt, an answer takes one system call. Facts about a device
//! are kept until any device changes, so that a box with hundreds of them is not searched for each connection.

use crate::ethtool::{Asker, NicFeatures};
use crate::netlink::attributes::{attribute, number, put, put_ip, text};
use crate::netlink::{Message, Netlink};
use rustix::net;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// The feature's name in the kernel and in `ethtool -k`.
pub const TLS_FEATURE: &str = "tls-hw-tx-offload";

/// `RTM_*` (linux/rtnetlink.h).
const NEW_LINK: u16 = 16;
const DELETED_LINK: u16 = 17;
const GET_LINK: u16 = 18;
const NEW_ROUTE: u16 = 24;
const GET_ROUTE: u16 = 26;

/// `RTMGRP_LINK`.
const GROUP_LINK: u32 = 1;

/// `struct ifinfomsg` and `struct rtmsg`.
const LINK_HEAD_BYTES: usize = 16;
const ROUTE_HEAD_BYTES: usize = 12;

/// How long to wait before querying the kernel again after it could not list its devices. An assumption: listing some hundred devices takes
/// milliseconds, and meanwhile no keys are handed over.
const FAILED_FOR: Duration = Duration::from_secs(1);

/// The device by which a connection leaves, as far as it matters for encryption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeavesBy {
    /// A device that does not encrypt. The kernel does it on the CPU.
    Other,
    /// A card that encrypts, by the kernel's number for it.
    TlsNic(u32),
    /// A bond, or a device on top of one, of which a card encrypts.
    SealingBond,
    /// An unknown device.
    Unknown,
}

/// The properties that decide a connection's route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The address at this end.
    pub own: SocketAddr,
    /// The address at the other end.
    pub peer: SocketAddr,
    /// The mark of the socket (`SO_MARK`).
    pub mark: u32,
    /// The device that the socket is bound to, such as that of a VRF, which has routes of its own; 0 for none.
    pub bound_to: u32,
}

/// The devices of a network namespace, and the sockets for querying a connection's route.
#[derive(Debug)]
pub struct TlsNics {
    links: Links,
    routes: Netlink,
    news: Netlink,
    /// None on a kernel without ethtool's netlink family.
    asker: Option<Asker>,
    /// The devices have to be listed again before any answer.
    is_stale: bool,
    /// When the kernel last failed to list them.
    failed_at: Option<Instant>,
}

impl TlsNics {
    /// Lists the devices of this thread's network namespace.
    ///
    /// # Errors
    /// If the kernel cannot be queried, as in a sandbox without `AF_NETLINK`.
    pub fn open() -> io::Result<Self> {
        // The notifications first, so that no change is missed in between.
        let (news, routes) = (Netlink::route(GROUP_LINK)?, Netlink::route(0)?);
        let (links, asker) = (Links::default(), Asker::open().ok());
        let mut nics = Self { links, routes, news, asker, is_stale: true, failed_at: None };
        nics.look()?;
        Ok(nics)
    }

    /// The device by which a connection leaves. Its `ends` are needed only if any device encrypts or can be made to.
    pub fn leaves_by(&mut self, ends: impl FnOnce() -> io::Result<Ends>, now: Instant) -> LeavesBy {
        if !self.is_up_to_date(now) {
            return LeavesBy::Unknown;
        }
        if !self.links.may_seal() {
            return LeavesBy::Other;
        }
        let device = ends().and_then(|ends| self.device_of(ends));
        device.map_or(LeavesBy::Unknown, |device| self.links.leaves_by(device))
    }

    /// The device to which a connection's route leads now.
    fn device_of(&mut self, ends: Ends) -> io::Result<u32> {
        let device = device_in(self.routes.ask(GET_ROUTE, &route_request(ends))?);
        device.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Whether the kernel reports the features of network cards. If it does not, no device is known.
    pub fn tells_features(&self) -> bool {
        self.asker.is_some()
    }

    /// Each bond over which keys must not be handed out, with those of its cards that encrypt.
    pub fn bonds(&self) -> Vec<(&str, Vec<&str>)> {
        self.links.bonds()
    }

    /// The cards that encrypt and are in no bond.
    pub fn nics(&self) -> Vec<&str> {
        self.links.nics()
    }

    /// The same with the kernel's current numbers for them.
    pub fn numbered(&mut self, now: Instant) -> Vec<(u32, String)> {
        if !self.is_up_to_date(now) {
            return Vec::new();
        }
        self.links.numbered_nics()
    }

    /// The cards in bonds that encrypt or could if it were switched on.
    pub fn bonded(&self) -> Vec<&str> {
        self.links.bonded()
    }

    /// The cards that could encrypt if it were switched on, and are in no bond.
    pub fn switchable(&self) -> Vec<&str> {
        self.links.unbonded(|link, _| link.seals == Seals::IfSwitchedOn)
    }

    /// Whether all of the kernel's reports have been processed.
    fn is_up_to_date(&mut self, now: Instant) -> bool {
        let failed = |at| now.saturating_duration_since(at) < FAILED_FOR;
        if self.failed_at.is_some_and(failed) {
            return false;
        }
        self.failed_at = self.hear().err().map(|_| now);
        self.failed_at.is_none()
    }

    /// Processes the kernel's notifications since the last time.
    fn hear(&mut self) -> io::Result<()> {
        let Self { links, news, asker, is_stale, .. } = self;
        let dropped = news.hear(|message| links.heed(message, asker.as_mut()));
        // Whatever was dropped is older than a new listing.
        *is_stale |= !matches!(dropped, Ok(false));
        dropped?;
        if self.is_stale { self.look() } else { Ok(()) }
    }

    /// Lists all devices again.
    fn look(&mut self) -> io::Result<()> {
        /// How often devices are listed, if some change meanwhile.
        const LISTS_MAX: usize = 5;
        let Self { links, routes, asker, is_stale, .. } = self;
        // If listing fails half-way, its results must not be used.
        *is_stale = true;
        // IFLA_EXT_MASK with RTEXT_FILTER_SKIP_STATS.
        let mut request = vec![0; LINK_HEAD_BYTES];
        put(&mut request, 29, &8_u32.to_ne_bytes());
        let mut list = || {
            *links = Links::default();
            routes.list(GET_LINK, &request, |message| links.heed(message, asker.as_mut()))
        };
        // Devices may come and go meanwhile.
        let is_final = |listed: &io::Result<()>| {
            listed
                .as_ref()
                .map_or_else(|error| error.kind() != io::ErrorKind::Interrupted, |()| true)
        };
        let listed = (0..LISTS_MAX).map(|_| list()).find(is_final);
        listed.unwrap_or(Err(io::ErrorKind::Interrupted.into()))?;
        *is_stale = false;
        Ok(())
    }
}

/// The device in the answer to a route query.
fn device_in(answer: Message<'_>) -> Option<u32> {
    let route = answer.payload.get(ROUTE_HEAD_BYTES..).filter(|_| answer.kind == NEW_ROUTE)?;
    // RTA_OIF.
    number(route, 4)
}

/// A query for the route of a TCP connection.
fn route_request(ends: Ends) -> Vec<u8> {
    let Ends { own: from, peer: to, mark, bound_to } = ends;
    let (source, destination) = (from.ip().to_canonical(), to.ip().to_canonical());
    let (family, bits) = match destination {
        IpAddr::V4(_) => (net::AddressFamily::INET, 32),
        IpAddr::V6(_) => (net::AddressFamily::INET6, 128),
    };
    let mut request = vec![0; ROUTE_HEAD_BYTES];
    request[..3].copy_from_slice(&[family.as_raw() as u8, bits, bits]);
    // RTA_DST, RTA_SRC, RTA_MARK, RTA_IP_PROTO (TCP), RTA_SPORT, RTA_DPORT: the ports choose among routes of equal cost.
    put_ip(&mut request, 1, destination);
    put_ip(&mut request, 2, source);
    put(&mut request, 16, &mark.to_ne_bytes());
    put(&mut request, 27, &[6]);
    put(&mut request, 28, &from.port().to_be_bytes());
    put(&mut request, 29, &to.port().to_be_bytes());
    // RTA_OIF: a link-local address leaves by its own link. With a VRF's device the kernel searches its routes.
    let link = match to {
        SocketAddr::V6(to) if to.scope_id() != 0 => to.scope_id(),
        _ => bound_to,
    };
    if link != 0 {
        put(&mut request, 4, &link.to_ne_bytes());
    }
    request
}

/// A device's ability to encrypt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seals {
    Never,
    IfSwitchedOn,
    Now,
    Unknown,
}

impl From<Option<NicFeatures>> for Seals {
    fn from(features: Option<NicFeatures>) -> Self {
        match features {
            None => Self::Unknown,
            Some(features) if features.on.contains(TLS_FEATURE) => Self::Now,
            Some(features) if features.switchable.contains(TLS_FEATURE) => Self::IfSwitchedOn,
            Some(_) => Self::Never,
        }
    }
}

/// A network device.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Link {
    name: String,
    is_bond: bool,
    seals: Seals,
    /// The bond or bridge that it belongs to.
    master: Option<u32>,
    /// The device under it: of a VLAN, a macvlan or a tunnel.
    on: Option<u32>,
}

/// The devices, by the kernel's numbers.
#[derive(Debug, Default)]
struct Links {
    all: BTreeMap<u32, Link>,
    /// The answers since any of them changed.
    found: Found,
}

#[derive(Debug, Default)]
struct Found {
    may_seal: Option<bool>,
    leaves_by: BTreeMap<u32, LeavesBy>,
}

impl Links {
    /// Processes the kernel's report about a device.
    fn heed(&mut self, message: Message<'_>, asker: Option<&mut Asker>) {
        let features = |name: &str| asker.and_then(|asker| asker.features(name).ok().flatten());
        self.heed_with(message, features);
    }

    fn heed_with(
        &mut self,
        message: Message<'_>,
        features: impl FnOnce(&str) -> Option<NicFeatures>,
    ) {
        let Some((head, told)) = message.payload.split_at_checked(LINK_HEAD_BYTES) else { return };
        let index = u32::from_ne_bytes([head[4], head[5], head[6], head[7]]);
        // A bridge reports its ports (AF_BRIDGE), and a wireless driver events (IFLA_WIRELESS): neither describes the device as such.
        if head[0] != 0 || attribute(told, 11).is_some() {
            return;
        }
        self.found = Found::default();
        match message.kind {
            DELETED_LINK => drop(self.all.remove(&index)),
            NEW_LINK => {
                // IFLA_IFNAME, IFLA_LINKINFO with IFLA_INFO_KIND, IFLA_MASTER, IFLA_LINK, IFLA_LINK_NETNSID.
                let name = text(told, 3).unwrap_or_default();
                let kind = attribute(told, 18).and_then(|info| text(info, 1)).unwrap_or_default();
                // A veth names its other end, which is not under it.
                let is_on = kind != "veth" && attribute(told, 37).is_none();
                let on = number(told, 5).filter(|on| is_on && *on != 0 && *on != index);
                let link = Link {
                    seals: features(&name).into(),
                    is_bond: kind == "bond",
                    master: number(told, 10).filter(|master| *master != 0),
                    on,
                    name,
                };
                self.all.insert(index, link);
            }
            _ => {}
        }
    }

    /// Whether any device encrypts or can be made to.
    fn may_seal(&mut self) -> bool {
        let may = || self.all.values().any(|link| link.seals != Seals::Never);
        *self.found.may_seal.get_or_insert_with(may)
    }

    /// How a connection leaves if its route leads to this device.
    fn leaves_by(&mut self, index: u32) -> LeavesBy {
        if let Some(found) = self.found.leaves_by.get(&index) {
            return *found;
        }
        let found = self.find_out(index);
        self.found.leaves_by.insert(index, found);
        found
    }

    /// Computes that. A connection that the kernel encrypts on the CPU when it gets the keys stays there, even if a card's feature is switched on
    /// later.
    fn find_out(&self, index: u32) -> LeavesBy {
        let Some(link) = self.all.get(&index) else { return LeavesBy::Unknown };
        let under = self.under(index);
        if under.iter().any(|device| self.is_bond_that_seals(*device)) {
            return LeavesBy::SealingBond;
        }
        match link.seals {
            Seals::Now => LeavesBy::TlsNic(index),
            Seals::Unknown => LeavesBy::Unknown,
            Seals::IfSwitchedOn | Seals::Never => LeavesBy::Other,
        }
    }

    fn is_bond_that_seals(&self, index: u32) -> bool {
        self.all.get(&index).is_some_and(|link| link.is_bond)
            && !self.sealing_members(index).is_empty()
    }

    /// The devices under a bond that encrypt, or don't report it.
    fn sealing_members(&self, bond: u32) -> Vec<&str> {
        self.members(bond, |seals| matches!(seals, Seals::Now | Seals::Unknown))
    }

    fn members(&self, bond: u32, is_wanted: impl Fn(Seals) -> bool) -> Vec<&str> {
        let members = self.under(bond).into_iter().filter(|index| *index != bond);
        let members = members.filter_map(|index| self.all.get(&index));
        // A bond in a bond reports what its cards can do.
        let wanted = members.filter(|link| !link.is_bond && is_wanted(link.seals));
        wanted.map(|link| link.name.as_str()).collect()
    }

    /// A device and everything under it.
    fn under(&self, index: u32) -> BTreeSet<u32> {
        let mut members: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (member, link) in &self.all {
            if let Some(master) = link.master {
                members.entry(master).or_default().push(*member);
            }
        }
        let (mut found, mut next) = (BTreeSet::new(), vec![index]);
        while let Some(index) = next.pop() {
            if found.insert(index) {
                next.extend(self.all.get(&index).and_then(|link| link.on));
                next.extend(members.get(&index).into_iter().flatten());
            }
        }
        found
    }

    fn bonds(&self) -> Vec<(&str, Vec<&str>)> {
        let bonds = self.all.iter().filter(|(_, link)| link.is_bond);
        let bonds = bonds.map(|(index, bond)| (bond.name.as_str(), self.sealing_members(*index)));
        bonds.filter(|(_, members)| !members.is_empty()).collect()
    }

    fn bonded(&self) -> Vec<&str> {
        let bonds = self.all.iter().filter(|(_, link)| link.is_bond);
        let nics = bonds.flat_map(|(bond, _)| self.members(*bond, |seals| seals != Seals::Never));
        nics.collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn nics(&self) -> Vec<&str> {
        self.unbonded(|_, index| matches!(self.find_out(index), LeavesBy::TlsNic(_)))
    }

    fn numbered_nics(&self) -> Vec<(u32, String)> {
        let nics = self.nics();
        let all = self.all.iter().filter(|(_, link)| nics.contains(&link.name.as_str()));
        all.map(|(index, link)| (*index, link.name.clone())).collect()
    }

    /// The names of wanted devices that are in no bond and are not bonds.
    fn unbonded(&self, is_wanted: impl Fn(&Link, u32) -> bool) -> Vec<&str> {
        let is_bond = |index: u32| self.all.get(&index).is_some_and(|link| link.is_bond);
        let wanted = self.all.iter().filter(|(index, link)| {
            let in_bond = link.is_bond || link.master.is_some_and(is_bond);
            !in_bond && is_wanted(link, **index)
        });
        wanted.map(|(_, link)| link.name.as_str()).collect()
    }
}

#[cfg(test)]
mod tests;
