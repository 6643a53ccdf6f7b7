//! The kernel's current tables for one interface: its link, routes and neighbours.

use super::link::Link;
use super::routes::Routes;
use crate::compose::Hop;
use crate::neighbours::Resolved;
use crate::parse::Mac;
use machine::netlink::attributes::{attribute, ip};
use machine::netlink::{Message, Netlink};
use socket2::{Domain, SockAddr, Socket, Type};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

// linux/neighbour.h
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NUD_REACHABLE: u16 = 0x02;
const NUD_STALE: u16 = 0x04;
const NUD_DELAY: u16 = 0x08;
const NUD_PROBE: u16 = 0x10;
const NUD_NOARP: u16 = 0x40;
const NUD_PERMANENT: u16 = 0x80;
const IS_FRESH: u16 = NUD_REACHABLE | NUD_DELAY | NUD_PROBE | NUD_NOARP | NUD_PERMANENT;
const IS_VALID: u16 = IS_FRESH | NUD_STALE;

/// The groups of messages to receive from the kernel.
const GROUPS: i32 =
    libc::RTMGRP_LINK | libc::RTMGRP_NEIGH | libc::RTMGRP_IPV4_ROUTE | libc::RTMGRP_IPV6_ROUTE;
/// The shortest time between requests for one station. The kernel itself asks three times, a second apart.
const ASK_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest time between reads of the routes: a table that changes all the time must not take all our time.
const ROUTES_INTERVAL: Duration = Duration::from_millis(100);
/// How many stations to remember that the kernel does not know. If there are more, strangers are inventing them.
const UNKNOWN_MAX: usize = 256;
/// How often to read a list again if it changed while it was read.
const ATTEMPTS: usize = 10;
/// How many peers' next hops are cached: a power of two, and 16 KiB of the CPU's cache.
const LATELY: usize = 256;
/// RFC 863
const DISCARD_PORT: u16 = 9;

/// The tables.
pub(crate) struct Tables {
    asks: Netlink,
    hears: Netlink,
    link: Link,
    routes: Routes,
    routes_read: Instant,
    routes_changed: bool,
    stations: HashMap<IpAddr, Station>,
    unknown: HashMap<IpAddr, Unknown>,
    /// Recently used peers with a known next hop, each in the slot that its address hashes to. Cleared by any change.
    lately: Box<[Option<(IpAddr, Hop)>]>,
    hasher: RandomState,
    /// One for IPv4 and one for IPv6, if the machine has it.
    probes: [Option<Socket>; 2],
    generation: u64,
}

struct Station {
    mac: Mac,
    is_fresh: bool,
    asked: Option<Instant>,
}

/// A station unknown to the kernel.
#[derive(Default)]
struct Unknown {
    asked: Option<Instant>,
    /// The link address that its frames came from.
    sighted: Option<Mac>,
}

impl Tables {
    /// Starts to listen before reading, so that no change is missed.
    pub(crate) fn open(link: Link, name: &str) -> io::Result<Self> {
        let mut tables = Self {
            asks: Netlink::route(0)?,
            hears: Netlink::route(GROUPS as u32)?,
            link,
            routes: Routes::default(),
            routes_read: Instant::now(),
            routes_changed: false,
            stations: HashMap::new(),
            unknown: HashMap::new(),
            lately: vec![None; LATELY].into(),
            hasher: RandomState::new(),
            probes: [probe(Domain::IPV4, name).ok(), probe(Domain::IPV6, name).ok()],
            generation: 0,
        };
        tables.read_routes()?;
        tables.read_stations()?;
        Ok(tables)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.hears.as_fd()
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) fn resolve(&mut self, remote: IpAddr) -> Resolved {
        if self.routes_changed {
            // Catches up on a read that was postponed because the routes had just been read. If it fails, the old routes stay.
            let _ = self.read_changed_routes();
        }
        let place = self.place(remote);
        if let Some((_, hop)) = self.lately[place].filter(|(known, _)| *known == remote) {
            return Resolved::Known(hop);
        }
        let resolved = self.look_up(remote, place);
        resolved.map_or_else(|otherwise| otherwise, Resolved::Known)
    }

    fn place(&self, remote: IpAddr) -> usize {
        self.hasher.hash_one(remote) as usize % LATELY
    }

    fn look_up(&mut self, remote: IpAddr, place: usize) -> Result<Hop, Resolved> {
        let way = self.routes.find(remote).ok_or(Resolved::Unreachable)?;
        let next = way.gateway.unwrap_or(remote);
        let destination = self.station(next).ok_or(Resolved::Pending)?;
        let mtu_bytes = way.mtu_bytes.unwrap_or(u32::MAX).min(self.link.mtu_bytes);
        let hop = Hop { destination, source: self.link.mac, mtu_bytes };
        // A stale entry is requested again each time, so that the kernel confirms it.
        if self.stations.get(&next).is_some_and(|station| station.is_fresh) {
            self.lately[place] = Some((remote, hop));
        }
        Ok(hop)
    }

    /// The station's address, if it is known. Makes the kernel find it out, and keep it up to date.
    fn station(&mut self, next: IpAddr) -> Option<Mac> {
        let (asked, mac) = match self.stations.get_mut(&next) {
            Some(station) if station.is_fresh => return Some(station.mac),
            Some(station) => (&mut station.asked, Some(station.mac)),
            None => {
                if self.unknown.len() >= UNKNOWN_MAX && !self.unknown.contains_key(&next) {
                    self.unknown.clear();
                }
                let unknown = self.unknown.entry(next).or_default();
                (&mut unknown.asked, unknown.sighted)
            }
        };
        let now = Instant::now();
        if asked.is_none_or(|asked| now.duration_since(asked) >= ASK_INTERVAL) {
            *asked = Some(now);
            if let Some(probe) = &self.probes[usize::from(next.is_ipv6())] {
                ask(probe, next, self.link.index);
            }
        }
        mac
    }

    pub(crate) fn sighted(&mut self, remote: IpAddr, station: Mac) {
        if self.lately[self.place(remote)].is_some_and(|(known, _)| known == remote) {
            return;
        }
        let Some(way) = self.routes.find(remote) else { return };
        let next = way.gateway.unwrap_or(remote);
        if self.stations.contains_key(&next) {
            return;
        }
        // Adds an entry for the station, and makes the kernel ask.
        let _ = self.station(next);
        if let Some(unknown) = self.unknown.get_mut(&next) {
            if unknown.sighted.replace(station) != Some(station) {
                self.generation += 1;
            }
        }
    }

    pub(crate) fn update(&mut self) -> io::Result<()> {
        self.lately.fill(None);
        let Self { hears, link, stations, unknown, routes_changed, generation, .. } = self;
        let heard = hears.hear(|message| match message.kind {
            libc::RTM_NEWNEIGH | libc::RTM_DELNEIGH => {
                if let Some(address) = note_station(stations, message, link.index) {
                    unknown.remove(&address);
                    *generation += 1;
                }
            }
            libc::RTM_NEWROUTE | libc::RTM_DELROUTE => *routes_changed = true,
            _ => {
                if let Some(changed) = Link::read(message).filter(|new| new.index == link.index) {
                    *link = changed;
                    *generation += 1;
                }
            }
        });
        let has_lost = match heard {
            // The kernel drops messages faster than they are read: the rest waits for the next call.
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => true,
            heard => heard?,
        };
        if has_lost {
            self.read_stations()?;
            self.routes_changed = true;
        }
        self.read_changed_routes()
    }

    /// Reads the routes again if they have changed, but not too often.
    fn read_changed_routes(&mut self) -> io::Result<()> {
        if self.routes_changed && self.routes_read.elapsed() >= ROUTES_INTERVAL {
            self.read_routes()?;
        }
        Ok(())
    }

    fn read_routes(&mut self) -> io::Result<()> {
        let interface = self.link.index;
        self.routes = read(&mut self.asks, libc::RTM_GETROUTE, |routes: &mut Routes, message| {
            routes.add(message, interface);
        })?;
        (self.routes_read, self.routes_changed) = (Instant::now(), false);
        self.lately.fill(None);
        self.generation += 1;
        Ok(())
    }

    fn read_stations(&mut self) -> io::Result<()> {
        let interface = self.link.index;
        let note = |stations: &mut HashMap<_, _>, message: Message<'_>| {
            let _ = note_station(stations, message, interface);
        };
        self.stations = read(&mut self.asks, libc::RTM_GETNEIGH, note)?;
        self.unknown.clear();
        self.generation += 1;
        Ok(())
    }
}

/// Reads a list, and repeats that if it has changed in the meantime.
fn read<T: Default>(
    asks: &mut Netlink,
    kind: u16,
    mut add: impl FnMut(&mut T, Message<'_>),
) -> io::Result<T> {
    for attempt in 1.. {
        let mut list = T::default();
        // Zeros stand for both families and every interface.
        match asks.list(kind, &[0; 12], |message| add(&mut list, message)) {
            Ok(()) => return Ok(list),
            Err(error) if attempt < ATTEMPTS && error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    unreachable!("the last attempt returns")
}

/// Processes a message about a station of this interface. Returns the station if anything relevant has changed.
fn note_station(
    stations: &mut HashMap<IpAddr, Station>,
    message: Message<'_>,
    interface: u32,
) -> Option<IpAddr> {
    let (fixed, attributes) = message.payload.split_first_chunk::<12>()?;
    if u32::from_ne_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]) != interface {
        return None;
    }
    let address = ip(attributes, NDA_DST)?;
    let state = u16::from_ne_bytes([fixed[8], fixed[9]]);
    let mac = attribute(attributes, NDA_LLADDR).and_then(|bytes| bytes.first_chunk());
    let mac = mac.map(|mac| Mac(*mac));
    let is_valid = message.kind == libc::RTM_NEWNEIGH && state & IS_VALID != 0;
    let before = match mac.filter(|_| is_valid) {
        Some(mac) => {
            let station = Station { mac, is_fresh: state & IS_FRESH != 0, asked: None };
            let before = stations.insert(address, station);
            before.filter(|before| before.mac == mac).is_none()
        }
        None => stations.remove(&address).is_some(),
    };
    before.then_some(address)
}

/// A socket whose datagrams leave over this interface, and go no further than its link.
fn probe(domain: Domain, name: &str) -> io::Result<Socket> {
    let socket = Socket::new(domain, Type::DGRAM, None)?;
    socket.bind_device(Some(name.as_bytes()))?;
    if domain == Domain::IPV4 {
        socket.set_ttl_v4(1)?;
    } else {
        socket.set_unicast_hops_v6(1)?;
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Makes the kernel send a datagram to a station. Its tables then show whether it can.
fn ask(probe: &Socket, station: IpAddr, interface: u32) {
    let address = match station {
        IpAddr::V4(_) => SocketAddr::new(station, DISCARD_PORT),
        // A link-local address is valid on one link only.
        IpAddr::V6(station) => SocketAddrV6::new(station, DISCARD_PORT, 0, interface).into(),
    };
    let _ = probe.send_to(&[], &SockAddr::from(address));
}
