//! The addresses at which other machines may reach this one.

use crate::root::Root;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// `scope` of /proc/net/if_inet6 for an address that is valid everywhere (`IPV6_ADDR_ANY`, include/net/ipv6.h).
const SCOPE_GLOBAL: &str = "00";

/// Temporary, failed, deprecated or tentative (`IFA_F_*`, linux/if_addr.h): addresses that should not be advertised.
const PASSING: u32 = 0x01 | 0x08 | 0x20 | 0x40;

/// The addresses of interfaces that are up. IPv4 comes first, starting with the address in the default router's
/// network, which other machines most likely use. Loopback and link-local addresses are left out, and IPv6 has
/// one address per interface. Empty if the kernel does not report them.
pub fn reachable_addresses() -> Vec<IpAddr> {
    let root = Root::new(Path::new("/"));
    let read = |path: &str| root.read(path).unwrap_or_default();
    let mut v4 = local_v4(&read("proc/net/fib_trie"));
    if let Some(router) = default_router(&read("proc/net/route")) {
        v4.sort_by_key(|address| std::cmp::Reverse(common_bits(*address, router)));
    }
    let v6 = global_v6(&read("proc/net/if_inet6"));
    v4.into_iter().map(IpAddr::V4).chain(v6.into_iter().map(IpAddr::V6)).collect()
}

/// Parses the kernel's routing table. It has a local route to each address of an interface that is up: `|-- 192.0.2.2`,
/// and in the next line `/32 host LOCAL`.
fn local_v4(trie: &str) -> Vec<Ipv4Addr> {
    let mut found = Vec::new();
    let mut last = None;
    for line in trie.lines().map(str::trim) {
        match line.strip_prefix("|-- ") {
            Some(address) => last = address.parse::<Ipv4Addr>().ok(),
            None if line == "/32 host LOCAL" => found.extend(last),
            None => {}
        }
    }
    found.retain(|address| !address.is_loopback() && !address.is_link_local());
    // Depending on the kernel's configuration, main and local table are one trie or two. With two, each address appears
    // twice.
    found.sort_unstable();
    found.dedup();
    found
}

/// The gateway of the route to 0.0.0.0. The kernel prints its bytes as a number in native byte order.
fn default_router(routes: &str) -> Option<Ipv4Addr> {
    let gateway = routes.lines().find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next().filter(|destination| *destination == "00000000")?;
        fields.next()
    })?;
    u32::from_str_radix(gateway, 16).ok().map(|bytes| Ipv4Addr::from(bytes.to_ne_bytes()))
}

fn common_bits(a: Ipv4Addr, b: Ipv4Addr) -> u32 {
    (a.to_bits() ^ b.to_bits()).leading_zeros()
}

/// Parses lines of `address index prefix scope flags interface`, all numbers in hexadecimal (proc(5)).
fn global_v6(lines: &str) -> Vec<Ipv6Addr> {
    let mut found: Vec<(&str, Ipv6Addr)> = Vec::new();
    for line in lines.lines() {
        let fields: Vec<_> = line.split_whitespace().collect();
        let [address, _, _, SCOPE_GLOBAL, flags, interface] = fields[..] else { continue };
        let is_lasting = u32::from_str_radix(flags, 16).is_ok_and(|flags| flags & PASSING == 0);
        let is_first = !found.iter().any(|(other, _)| *other == interface);
        if let (true, true, Ok(address)) = (is_lasting, is_first, u128::from_str_radix(address, 16))
        {
            found.push((interface, Ipv6Addr::from_bits(address)));
        }
    }
    found.into_iter().map(|(_, address)| address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIE: &str = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\nLocal:\n  \
        |-- 127.0.0.1\n     /32 host LOCAL\n  |-- 10.0.0.7\n     /32 host LOCAL\n  |-- 10.0.0.255\n     /32 link BROADCAST\n  \
        |-- 192.0.2.9\n     /32 host LOCAL\n  |-- 169.254.3.3\n     /32 host LOCAL\n  |-- 10.0.0.7\n     /32 host LOCAL\n";

    #[test]
    fn local_addresses_are_those_that_others_may_use_each_once() {
        let expected =
            ["10.0.0.7", "192.0.2.9"].map(|address| address.parse::<Ipv4Addr>().unwrap());
        assert_eq!(local_v4(TRIE), expected);
        assert!(local_v4("nonsense\n/32 host LOCAL\n").is_empty());
    }

    #[test]
    fn the_default_router_is_read_in_the_order_of_this_machine() {
        let gateway = u32::from_ne_bytes([192, 0, 2, 1]);
        let routes = format!(
            "Iface\tDestination\tGateway\neth0\t{:08X}\t00000000\neth0\t00000000\t{gateway:08X}\t0003\n",
            7
        );
        assert_eq!(default_router(&routes), Some(Ipv4Addr::new(192, 0, 2, 1)));
        assert_eq!(default_router("Iface\tDestination\tGateway\n"), None);
    }

    #[test]
    fn the_network_of_the_router_is_nearest() {
        let [router, near, far] =
            [[192, 0, 2, 1], [192, 0, 2, 9], [10, 0, 0, 7]].map(Ipv4Addr::from);
        assert!(common_bits(near, router) > common_bits(far, router));
    }

    #[test]
    fn of_each_interface_the_first_lasting_global_address_counts() {
        let lines = "fe8000000000000000fc00fffe000001 04 40 20 80     eth0\n\
            00000000000000000000000000000001 01 80 10 80       lo\n\
            20010db8000000000000000000000001 04 40 00 01     eth0\n\
            20010db8000000000000000000000002 04 40 00 80     eth0\n\
            20010db8000000000000000000000003 04 40 00 80     eth0\n\
            fd000000000000000000000000000004 05 40 00 00     eth1\nbroken\n";
        let expected =
            ["2001:db8::2", "fd00::4"].map(|address| address.parse::<Ipv6Addr>().unwrap());
        assert_eq!(global_v6(lines), expected);
    }
}
