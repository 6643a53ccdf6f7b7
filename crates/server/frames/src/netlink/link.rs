//! Interfaces, and setting them up.

use super::family;
use crate::parse::Mac;
use machine::netlink::attributes::{attribute, number, put, put_ip, text};
use machine::netlink::{Message, Netlink};
use std::io;
use std::net::IpAddr;

// linux/if_link.h
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_TXQLEN: u16 = 13;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
// linux/if_addr.h
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_F_NODAD: u8 = 0x02;
// linux/rtnetlink.h
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTPROT_STATIC: u8 = 4;
// linux/neighbour.h
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;

/// What does not exist is created; what exists is an error.
const CREATE: u16 = (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;

/// How many frames may wait in a TAP device; the kernel's default is 500. Acknowledgements of a 10 Gb/s stream arrive at 400,000 a second, and a
/// worker may be busy for ten milliseconds.
const QUEUE_FRAMES: u32 = 4096;

/// An interface, as the kernel describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) mac: Mac,
    pub(crate) mtu_bytes: u32,
    /// `veth`, `tun`, or empty for a NIC.
    pub(crate) kind: String,
}

impl Link {
    /// Finds the interface with this name.
    ///
    /// # Errors
    /// `ENODEV` if there is none.
    pub(crate) fn named(netlink: &mut Netlink, name: &str) -> io::Result<Self> {
        let mut request = description(0, 0);
        put(&mut request, IFLA_IFNAME, format!("{name}\0").as_bytes());
        let link = Self::read(netlink.ask(libc::RTM_GETLINK, &request)?);
        link.ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))
    }

    /// Reads an `RTM_NEWLINK`.
    pub(crate) fn read(message: Message<'_>) -> Option<Self> {
        if message.kind != libc::RTM_NEWLINK {
            return None;
        }
        let (fixed, attributes) = message.payload.split_first_chunk::<16>()?;
        let info = attribute(attributes, IFLA_LINKINFO);
        Some(Self {
            index: u32::from_ne_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]),
            mac: Mac(*attribute(attributes, IFLA_ADDRESS)?.first_chunk()?),
            mtu_bytes: number(attributes, IFLA_MTU)?,
            kind: info.and_then(|info| text(info, IFLA_INFO_KIND)).unwrap_or_default(),
        })
    }

    /// Sets the MTU and how many packets may wait, and brings the interface up. Also sets its link address to the
    /// present one: udev does not replace an address that was set (systemd.link(5), `MACAddressPolicy=`).
    pub(crate) fn bring_up(&self, netlink: &mut Netlink, mtu_bytes: u32) -> io::Result<()> {
        let mut request = description(self.index, libc::IFF_UP as u32);
        put(&mut request, IFLA_ADDRESS, &self.mac.0);
        put(&mut request, IFLA_TXQLEN, &QUEUE_FRAMES.to_ne_bytes());
        put(&mut request, IFLA_MTU, &mtu_bytes.to_ne_bytes());
        netlink.change(libc::RTM_NEWLINK, 0, &request)
    }

    /// Gives the kernel an address on this interface, with the prefix around it.
    pub(crate) fn add_address(
        &self,
        netlink: &mut Netlink,
        address: IpAddr,
        prefix_bits: u8,
    ) -> io::Result<()> {
        let mut request = vec![family(address), prefix_bits, IFA_F_NODAD, 0];
        request.extend(self.index.to_ne_bytes());
        put_ip(&mut request, IFA_LOCAL, address);
        put_ip(&mut request, IFA_ADDRESS, address);
        netlink.change(libc::RTM_NEWADDR, CREATE, &request)
    }

    /// Routes packets for this one address to the interface. Fails if they are already routed elsewhere.
    pub(crate) fn add_route(&self, netlink: &mut Netlink, address: IpAddr) -> io::Result<()> {
        let (bits, scope) = match address {
            IpAddr::V4(_) => (32, libc::RT_SCOPE_LINK),
            IpAddr::V6(_) => (128, libc::RT_SCOPE_UNIVERSE),
        };
        let mut request = vec![family(address), bits, 0, 0];
        request.extend([libc::RT_TABLE_MAIN, RTPROT_STATIC, scope, libc::RTN_UNICAST]);
        // No flags.
        request.extend([0; 4]);
        put_ip(&mut request, RTA_DST, address);
        put(&mut request, RTA_OIF, &self.index.to_ne_bytes());
        netlink.change(libc::RTM_NEWROUTE, CREATE, &request)
    }

    /// Adds a permanent entry for the station that has this address.
    pub(crate) fn add_neighbour(
        &self,
        netlink: &mut Netlink,
        address: IpAddr,
        mac: Mac,
    ) -> io::Result<()> {
        let mut request = vec![family(address), 0, 0, 0];
        request.extend(self.index.to_ne_bytes());
        request.extend(libc::NUD_PERMANENT.to_ne_bytes());
        request.extend([0; 2]);
        put_ip(&mut request, NDA_DST, address);
        put(&mut request, NDA_LLADDR, &mac.0);
        let flags = (libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16;
        netlink.change(libc::RTM_NEWNEIGH, flags, &request)
    }
}

/// `struct ifinfomsg` for this interface, which turns these flags on.
fn description(index: u32, flags: u32) -> Vec<u8> {
    let fixed = [0, index, flags, flags];
    fixed.iter().flat_map(|number| number.to_ne_bytes()).collect()
}
