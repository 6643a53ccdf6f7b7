//! Generic netlink: families with names, whose numbers the kernel assigns when they are registered.

use super::Netlink;
use super::attributes::{number, put};
use std::io;

/// `GENL_ID_CTRL`, which reports the numbers of families.
const CONTROL: u16 = 16;

/// The header of generic netlink.
const HEAD_BYTES: usize = 4;

/// Queries to one family, one at a time.
#[derive(Debug)]
pub struct Generic {
    netlink: Netlink,
    family: u16,
}

impl Generic {
    /// Opens a socket for the family of this name.
    ///
    /// # Errors
    /// `ENOENT` if the kernel does not have the family.
    pub fn open(family: &str) -> io::Result<Self> {
        let mut netlink = Netlink::generic()?;
        // CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, CTRL_ATTR_FAMILY_ID.
        let mut request = vec![3, 1, 0, 0];
        put(&mut request, 2, format!("{family}\0").as_bytes());
        let answer = netlink.ask(CONTROL, &request)?.payload;
        let family = number(answer.get(HEAD_BYTES..).unwrap_or_default(), 1);
        let family = family.and_then(|family| u16::try_from(family).ok());
        let family = family.ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { netlink, family })
    }

    /// The attributes of the answer to a command.
    ///
    /// # Errors
    /// The kernel's.
    pub fn ask(&mut self, command: u8, attributes: &[u8]) -> io::Result<Vec<u8>> {
        let request = [&[command, 1, 0, 0], attributes].concat();
        let answer = self.netlink.ask(self.family, &request)?.payload;
        Ok(answer.get(HEAD_BYTES..).unwrap_or_default().to_vec())
    }
}
