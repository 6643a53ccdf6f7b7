//! A driver's own counters of its card, as `ethtool -S` shows them. They are missing in netlink, and available only through the older `ioctl`, which
//! takes no privileges for reading.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::ioctl::{self, Ioctl, IoctlOutput, Opcode};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::ffi::c_void;
use std::io;

/// `SIOCETHTOOL` (linux/sockios.h).
pub const ETHTOOL_IOCTL: u64 = 0x8946;

/// `ETHTOOL_GSSET_INFO`, `ETHTOOL_GSTRINGS`, `ETHTOOL_GSTATS`, and the set `ETH_SS_STATS` (linux/ethtool.h).
const GET_SET_INFO: u32 = 0x37;
const GET_STRINGS: u32 = 0x1b;
const GET_STATISTICS: u32 = 0x1d;
const STATISTICS: u32 = 1;

/// `ETH_GSTRING_LEN`, and a `__u64`.
const NAME_BYTES: usize = 32;
const VALUE_BYTES: usize = 8;

/// The most counters that are read: a card with two hundred queues has some ten thousand.
const COUNTERS_MAX: usize = 1 << 16;

/// Reads counters. It keeps a socket, so it also works in a sandbox that forbids new ones.
#[derive(Debug)]
pub struct NicCounters(OwnedFd);

/// `struct ifreq`, with a pointer to the query.
#[repr(C)]
struct Request {
    name: [u8; 16],
    question: *mut c_void,
    rest: [u8; 16],
}

struct Ask(Request);

// SAFETY: the opcode takes a `struct ifreq`, which `Request` is laid out as; `NicCounters::ask` answers for the memory that the kernel writes to.
unsafe impl Ioctl for Ask {
    type Output = ();

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        ETHTOOL_IOCTL as Opcode
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut(&mut self.0).cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> rustix::io::Result<Self::Output> {
        Ok(())
    }
}

impl NicCounters {
    /// Opens the socket.
    ///
    /// # Errors
    /// If the kernel refuses one.
    pub fn open() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        Ok(Self(socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?))
    }

    /// The counters of `nic` with these names; `None` for one that its driver does not have.
    ///
    /// # Errors
    /// If the card is gone, or its driver does not count.
    pub fn read<const N: usize>(
        &self,
        nic: &str,
        names: [&str; N],
    ) -> io::Result<[Option<u64>; N]> {
        // Each query begins with its number. `struct ethtool_sset_info`: the requested sets, and then the size of each.
        let mut info = [0; 20];
        put(&mut info, 0, GET_SET_INFO);
        info[8..16].copy_from_slice(&(1_u64 << STATISTICS).to_ne_bytes());
        self.ask(nic, &mut info)?;
        let count = number(&info, 16) as usize;
        if info[8..16] == [0; 8] || count > COUNTERS_MAX {
            return Err(Errno::OPNOTSUPP.into());
        }
        // A driver writes all that it has at that time, which may be more by then: so there is room for the most that any may have.
        // `struct ethtool_gstrings`.
        let mut strings = vec![0; 12 + COUNTERS_MAX * NAME_BYTES];
        put(&mut strings, 0, GET_STRINGS);
        put(&mut strings, 4, STATISTICS);
        put(&mut strings, 8, count as u32);
        self.ask(nic, &mut strings)?;
        // `struct ethtool_stats`.
        let mut values = vec![0; 8 + COUNTERS_MAX * VALUE_BYTES];
        put(&mut values, 0, GET_STATISTICS);
        put(&mut values, 4, count as u32);
        self.ask(nic, &mut values)?;
        if [number(&strings, 8), number(&values, 4)] != [count as u32; 2] {
            return Err(Errno::AGAIN.into());
        }
        let (strings, values) = (&strings[12..][..count * NAME_BYTES], &values[8..]);
        Ok(names.map(|name| {
            let mut named = strings.chunks_exact(NAME_BYTES);
            let at = named.position(|found| text(found) == name.as_bytes())?;
            let value = values[at * VALUE_BYTES..].first_chunk()?;
            Some(u64::from_ne_bytes(*value))
        }))
    }

    /// Queries `nic`; the answer overwrites the query.
    fn ask(&self, nic: &str, question: &mut [u8]) -> io::Result<()> {
        let mut request =
            Request { name: [0; 16], question: question.as_mut_ptr().cast(), rest: [0; 16] };
        // The last byte stays 0.
        let place = request.name[..15].get_mut(..nic.len()).ok_or(Errno::NODEV)?;
        place.copy_from_slice(nic.as_bytes());
        // SAFETY: each query has room for the longest answer, and is not touched until the call is over.
        unsafe { ioctl::ioctl(&self.0, Ask(request))? };
        Ok(())
    }
}

fn put(question: &mut [u8], at: usize, value: u32) {
    question[at..at + 4].copy_from_slice(&value.to_ne_bytes());
}

fn number(answer: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([answer[at], answer[at + 1], answer[at + 2], answer[at + 3]])
}

fn text(name: &[u8]) -> &[u8] {
    name.split(|byte| *byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_count_says_so() {
        let counters = NicCounters::open().unwrap();
        for nothing in ["nobody0", "lo", "a-name-that-is-much-too-long"] {
            let read = counters.read(nothing, ["tx_tls_ooo"]);
            assert!(read.is_err(), "{nothing}: {read:?}");
        }
    }

    #[test]
    fn a_counter_that_a_driver_does_not_have_is_none() {
        let counters = NicCounters::open().unwrap();
        for interface in std::fs::read_dir("/sys/class/net").unwrap() {
            let name = interface.unwrap().file_name().into_string().unwrap();
            if let Ok(values) = counters.read(&name, ["no_such_counter"]) {
                assert_eq!(values, [None], "{name}");
            }
        }
    }
}
