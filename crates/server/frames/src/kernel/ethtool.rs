//! One query to a NIC's driver (linux/ethtool.h).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// `struct ethtool_channels`
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    maxima: [u32; 4],
    receive: u32,
    transmit: u32,
    other: u32,
    combined: u32,
}

const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// How many receive queues an interface uses.
///
/// # Errors
/// `EOPNOTSUPP` if the driver does not report it, as one with a single queue may not.
pub(crate) fn receive_queues(interface: &str) -> io::Result<u32> {
    let flags = rustix::net::SocketFlags::CLOEXEC;
    let (family, kind) = (rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM);
    let socket: OwnedFd = rustix::net::socket_with(family, kind, flags, None)?;
    let mut channels = Channels { command: ETHTOOL_GCHANNELS, ..Channels::default() };
    // SAFETY: all zeroes is a valid value of this plain structure of the C library.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..room].iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut channels).cast();
    // Each C library has a type of its own for the request's number.
    let number = libc::SIOCETHTOOL as libc::Ioctl;
    // SAFETY: request and channels live until the call is over; the kernel writes no more than `struct ethtool_channels`.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), number, &raw mut request) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(channels.receive + channels.combined)
}
