//! The kernel's routes over one interface: longest prefix first.

use machine::netlink::Message;
use machine::netlink::attributes::{as_ip, attribute, ip, number};
use std::collections::HashMap;
use std::net::IpAddr;

// linux/rtnetlink.h
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_METRICS: u16 = 8;
const RTA_MULTIPATH: u16 = 9;
const RTA_VIA: u16 = 18;
const RTAX_MTU: u16 = 2;
const RTM_F_CLONED: u32 = 0x200;
const RTNH_F_DEAD: u32 = 1;
/// `struct rtnexthop`
const NEXT_HOP_BYTES: usize = 8;

/// A route's next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextHop {
    /// The router; without one, the destination is on this link.
    pub(crate) gateway: Option<IpAddr>,
    /// The largest packet, if the route gives one.
    pub(crate) mtu_bytes: Option<u32>,
    /// Among routes with one prefix, the one with the smaller preference is used: first whether it is outside the main table, then the kernel's
    /// "metric".
    preference: (bool, u32),
}

/// All routes of one interface.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    /// For each prefix length, longest first: the prefixes, and the next hop of each. Both families, IPv4 first.
    families: [Vec<(u8, HashMap<u128, NextHop>)>; 2],
}

impl Routes {
    /// Adds the route of an `RTM_NEWROUTE`, if it leaves over `interface`.
    pub(crate) fn add(&mut self, message: Message<'_>, interface: u32) {
        if message.kind == libc::RTM_NEWROUTE {
            let _ = self.read(message, interface);
        }
    }

    fn read(&mut self, message: Message<'_>, interface: u32) -> Option<()> {
        let (fixed, attributes) = message.payload.split_first_chunk::<12>()?;
        let [family, bits, _, _, table, _, _, kind, flags @ ..] = *fixed;
        let flags = u32::from_ne_bytes(flags);
        if kind != libc::RTN_UNICAST
            || table == libc::RT_TABLE_LOCAL
            || flags & (RTM_F_CLONED | RTNH_F_DEAD) != 0
        {
            return None;
        }
        let gateway = match number(attributes, RTA_OIF) {
            Some(index) => (index == interface).then(|| gateway(attributes))?,
            None => one_of_many(attribute(attributes, RTA_MULTIPATH)?, interface)?,
        };
        let metrics = attribute(attributes, RTA_METRICS);
        let priority = number(attributes, RTA_PRIORITY).unwrap_or(0);
        let way = NextHop {
            gateway,
            mtu_bytes: metrics.and_then(|metrics| number(metrics, RTAX_MTU)),
            preference: (table != libc::RT_TABLE_MAIN, priority),
        };
        let is_v6 = match i32::from(family) {
            libc::AF_INET => false,
            libc::AF_INET6 => true,
            _ => return None,
        };
        let prefix = ip(attributes, RTA_DST).map_or(0, |address| masked(address, bits));
        self.insert(is_v6, bits, prefix, way);
        Some(())
    }

    fn insert(&mut self, is_v6: bool, bits: u8, prefix: u128, way: NextHop) {
        let lengths = &mut self.families[usize::from(is_v6)];
        let at = lengths.partition_point(|(known, _)| *known > bits);
        if lengths.get(at).is_none_or(|(known, _)| *known != bits) {
            lengths.insert(at, (bits, HashMap::new()));
        }
        let known = lengths[at].1.entry(prefix).or_insert(way);
        if way.preference < known.preference {
            *known = way;
        }
    }

    /// Finds the next hop to `remote`.
    pub(crate) fn find(&self, remote: IpAddr) -> Option<NextHop> {
        let lengths = &self.families[usize::from(remote.is_ipv6())];
        lengths.iter().find_map(|(bits, ways)| ways.get(&masked(remote, *bits)).copied())
    }
}

/// The first `bits` of an address, as a number.
fn masked(address: IpAddr, bits: u8) -> u128 {
    let (number, width) = match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)), 32),
        IpAddr::V6(address) => (u128::from(address), 128),
    };
    let rest = width - u32::from(bits).min(width);
    number.checked_shr(rest).unwrap_or(0)
}

/// `RTA_VIA` has the family before the address: an IPv6 router for IPv4.
fn gateway(attributes: &[u8]) -> Option<IpAddr> {
    let via = || as_ip(attribute(attributes, RTA_VIA)?.get(2..)?);
    ip(attributes, RTA_GATEWAY).or_else(via)
}

/// The first of several next hops that leads over `interface`.
fn one_of_many(mut hops: &[u8], interface: u32) -> Option<Option<IpAddr>> {
    while let Some(hop) = hops.first_chunk::<NEXT_HOP_BYTES>() {
        let bytes = usize::from(u16::from_ne_bytes([hop[0], hop[1]]));
        let attributes = hops.get(NEXT_HOP_BYTES..bytes)?;
        if u32::from_ne_bytes([hop[4], hop[5], hop[6], hop[7]]) == interface {
            return Some(gateway(attributes));
        }
        hops = hops.get(bytes.next_multiple_of(4)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(gateway: &str, preference: (bool, u32)) -> NextHop {
        NextHop { gateway: gateway.parse().ok(), mtu_bytes: None, preference }
    }

    #[test]
    fn the_longest_prefix_and_then_the_better_route_is_taken() {
        let mut routes = Routes::default();
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let mut add = |text: &str, bits, way| {
            let address = address(text);
            routes.insert(address.is_ipv6(), bits, masked(address, bits), way);
        };
        add("0.0.0.0", 0, way("192.0.2.1", (false, 100)));
        add("0.0.0.0", 0, way("192.0.2.2", (false, 50)));
        add("0.0.0.0", 0, way("192.0.2.3", (true, 0)));
        add("10.0.0.0", 8, way("192.0.2.4", (false, 0)));
        add("10.1.0.0", 16, way("", (false, 0)));
        add("2001:db8::", 32, way("fe80::1", (false, 0)));
        let gateway = |text: &str| routes.find(address(text)).map(|way| way.gateway);
        assert_eq!(gateway("198.51.100.1"), Some(Some(address("192.0.2.2"))));
        assert_eq!(gateway("10.2.0.1"), Some(Some(address("192.0.2.4"))));
        assert_eq!(gateway("10.1.255.1"), Some(None));
        assert_eq!(gateway("2001:db8:ffff::1"), Some(Some(address("fe80::1"))));
        assert_eq!(gateway("2001:db9::1"), None);
    }
}
