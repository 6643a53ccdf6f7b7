//! The abilities of a NIC's driver, as the kernel reports them over generic netlink (linux/netdev.h).

use machine::netlink::Generic;
use machine::netlink::attributes::{number, put};
use std::io;

// linux/netdev.h
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_ZC_MAX_SEGS: u16 = 4;

/// The most pieces of memory in a frame that the interface sends without copies. `None` if it sends nothing without copies.
///
/// # Errors
/// `ENOENT` if the kernel does not report it (before Linux 6.3), `ENODEV` if there is no such interface.
pub(crate) fn pieces_max(index: u32) -> io::Result<Option<u32>> {
    let mut request = Vec::new();
    put(&mut request, NETDEV_A_DEV_IFINDEX, &index.to_ne_bytes());
    let device = Generic::open("netdev")?.ask(NETDEV_CMD_DEV_GET, &request)?;
    Ok(number(&device, NETDEV_A_DEV_XDP_ZC_MAX_SEGS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::link::Link;
    use fullbore_tests::Namespace;
    use machine::netlink::Netlink;

    #[test]
    fn a_pair_of_veth_sends_nothing_without_copies() {
        let Some(space) = Namespace::if_possible() else { return };
        space.ip("link add near type veth peer name far");
        let (of_pair, of_none) = space.inside(|| {
            let link = Link::named(&mut Netlink::route(0).unwrap(), "near").unwrap();
            (pieces_max(link.index), pieces_max(9999))
        });
        match of_pair {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                eprintln!("skipped: Linux 6.3 reports what a card can do")
            }
            of_pair => {
                assert_eq!(of_pair.unwrap(), None);
                assert_eq!(of_none.unwrap_err().raw_os_error(), Some(libc::ENODEV));
            }
        }
    }
}
