//! The kernel's interfaces, routes and neighbours (rtnetlink(7)), over [`machine::netlink`]. Also queries the abilities of a NIC's driver.

pub(crate) mod link;
pub(crate) mod nic;
pub(crate) mod routes;
pub(crate) mod stations;

use std::net::IpAddr;

/// `AF_INET` or `AF_INET6`.
fn family(address: IpAddr) -> u8 {
    (if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }) as u8
}
