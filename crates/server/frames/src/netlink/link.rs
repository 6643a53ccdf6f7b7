//! Interfaces, and setting them up.

use super::Netlink;
use super::message::{Attributes, Message, Request, family, whole};
use crate::parse::Mac;
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
        let request = Request::new(libc::RTM_GETLINK, 0, &description(0, 0))
            .attribute(IFLA_IFNAME, &zero_terminated(name));
        let mut link = None;
        netlink.query(request, |message| link = link.take().or_else(|| Self::read(message)))?;
        link.ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))
    }

    /// Reads an `RTM_NEWLINK`.
    pub(crate) fn read(message: Message<'_>) -> Option<Self> {
        if message.kind != libc::RTM_NEWLINK {
            return None;
        }
        let (fixed, attributes) = message.split::<16>()?;
        let mac = Mac(*attributes.find(IFLA_ADDRESS)?.first_chunk()?);
        let info = attributes.find(IFLA_LINKINFO).map(Attributes);
        let kind = info.and_then(|info| info.find(IFLA_INFO_KIND)).unwrap_or_default();
        Some(Self {
            index: u32::from_ne_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]),
            mac,
            mtu_bytes: attributes.number(IFLA_MTU)?,
            kind: String::from_utf8_lossy(kind).trim_end_matches('\0').to_owned(),
        })
    }

    /// Sets the MTU and how many packets may wait, and brings the interface up. Also sets its link address to the
    /// present one: udev does not replace an address that was set (systemd.link(5), `MACAddressPolicy=`).
    pub(crate) fn bring_up(&self, netlink: &mut Netlink, mtu_bytes: u32) -> io::Result<()> {
        let fixed = description(self.index, libc::IFF_UP as u32);
        let request = Request::new(libc::RTM_NEWLINK, 0, &fixed);
        let request = request.attribute(IFLA_ADDRESS, &self.mac.0);
        let request = request.attribute(IFLA_TXQLEN, &QUEUE_FRAMES.to_ne_bytes());
        netlink.ask(request.attribute(IFLA_MTU, &mtu_bytes.to_ne_bytes()))
    }

    /// Gives the kernel an address on this interface, with the prefix around it.
    pub(crate) fn add_address(
        &self,
        netlink: &mut Netlink,
        address: IpAddr,
        prefix_bits: u8,
    ) -> io::Result<()> {
        let mut fixed = [family(address), prefix_bits, IFA_F_NODAD, 0, 0, 0, 0, 0];
        fixed[4..].copy_from_slice(&self.index.to_ne_bytes());
        let request =
            Request::new(libc::RTM_NEWADDR, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &fixed);
        netlink.ask(request.address(IFA_LOCAL, address).address(IFA_ADDRESS, address))
    }

    /// Routes packets for this one address to the interface. Fails if they are already routed elsewhere.
    pub(crate) fn add_route(&self, netlink: &mut Netlink, address: IpAddr) -> io::Result<()> {
        let scope = if address.is_ipv4() { libc::RT_SCOPE_LINK } else { libc::RT_SCOPE_UNIVERSE };
        let fixed = [
            family(address),
            whole(address),
            0,
            0,
            libc::RT_TABLE_MAIN,
            RTPROT_STATIC,
            scope,
            libc::RTN_UNICAST,
            0,
            0,
            0,
            0,
        ];
        let request =
            Request::new(libc::RTM_NEWROUTE, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &fixed);
        let index = self.index.to_ne_bytes();
        netlink.ask(request.address(RTA_DST, address).attribute(RTA_OIF, &index))
    }

    /// Adds a permanent entry for the station that has this address.
    pub(crate) fn add_neighbour(
        &self,
        netlink: &mut Netlink,
        address: IpAddr,
        mac: Mac,
    ) -> io::Result<()> {
        let mut fixed = [0; 12];
        fixed[0] = family(address);
        fixed[4..8].copy_from_slice(&self.index.to_ne_bytes());
        fixed[8..10].copy_from_slice(&libc::NUD_PERMANENT.to_ne_bytes());
        let request =
            Request::new(libc::RTM_NEWNEIGH, libc::NLM_F_CREATE | libc::NLM_F_REPLACE, &fixed);
        netlink.ask(request.address(NDA_DST, address).attribute(NDA_LLADDR, &mac.0))
    }
}

/// `struct ifinfomsg` for this interface, which turns these flags on.
fn description(index: u32, flags: u32) -> [u8; 16] {
    let mut fixed = [0; 16];
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    fixed[8..12].copy_from_slice(&flags.to_ne_bytes());
    fixed[12..16].copy_from_slice(&flags.to_ne_bytes());
    fixed
}

fn zero_terminated(name: &str) -> Vec<u8> {
    [name.as_bytes(), b"\0"].concat()
}
