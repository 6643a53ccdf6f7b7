//! The abilities of a NIC's driver, as the kernel reports them over generic netlink (linux/netdev.h).

use super::Netlink;
use super::message::Request;
use std::io;

// linux/genetlink.h
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
// linux/netdev.h
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_ZC_MAX_SEGS: u16 = 4;

/// The most pieces of memory in a frame that the interface sends without copies. `None` if it sends nothing without copies.
///
/// # Errors
/// `ENOENT` if the kernel does not report it (before Linux 6.3), `ENODEV` if there is no such interface.
pub(crate) fn pieces_max(index: u32) -> io::Result<Option<u32>> {
    let mut netlink = Netlink::generic()?;
    let request = Request::new(GENL_ID_CTRL, 0, &command(CTRL_CMD_GETFAMILY));
    let mut family = None;
    netlink.query(request.attribute(CTRL_ATTR_FAMILY_NAME, b"netdev\0"), |message| {
        let attributes = message.split::<4>().map(|(_, attributes)| attributes);
        let id = attributes.and_then(|attributes| attributes.find(CTRL_ATTR_FAMILY_ID));
        family = id.and_then(|id| id.first_chunk()).map(|id| u16::from_ne_bytes(*id)).or(family);
    })?;
    let family = family.ok_or(io::ErrorKind::NotFound)?;
    let request = Request::new(family, 0, &command(NETDEV_CMD_DEV_GET));
    let mut pieces = None;
    netlink.query(request.attribute(NETDEV_A_DEV_IFINDEX, &index.to_ne_bytes()), |message| {
        let attributes = message.split::<4>().map(|(_, attributes)| attributes);
        let found =
            attributes.and_then(|attributes| attributes.number(NETDEV_A_DEV_XDP_ZC_MAX_SEGS));
        pieces = found.or(pieces);
    })?;
    Ok(pieces)
}

/// The fixed part of a message of generic netlink.
fn command(command: u8) -> [u8; 4] {
    [command, 1, 0, 0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::link::Link;
    use fullbore_tests::Namespace;

    #[test]
    fn a_pair_of_veth_sends_nothing_without_copies() {
        let Some(space) = Namespace::if_possible() else { return };
        space.ip("link add near type veth peer name far");
        let (of_pair, of_none) = space.inside(|| {
            let link = Link::named(&mut Netlink::open(0).unwrap(), "near").unwrap();
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
