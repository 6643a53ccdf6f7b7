//! TAP devices (Documentation/networking/tuntap.rst, linux/if_tun.h).

use rustix::fs::{Mode, OFlags};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// The file that creates TAP devices.
const CLONE_DEVICE: &str = "/dev/net/tun";
/// The device must not exist yet. (linux/if_tun.h; not in the C library's bindings.)
const IFF_TUN_EXCL: libc::c_int = 0x8000;

/// Opens one queue of a TAP device with virtio-net headers.
///
/// `name` may contain a `%d`, which the kernel replaces by a number. The first queue creates the device, the others
/// join it. The device is not persistent: it disappears when the last of its descriptors is closed.
///
/// # Errors
/// `EBUSY` if a device of this name exists, `EPERM` without `CAP_NET_ADMIN`, `ENOENT` without the kernel's `tun`.
pub(crate) fn open(
    name: &str,
    is_first: bool,
    is_one_of_many: bool,
) -> io::Result<(OwnedFd, String)> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open(CLONE_DEVICE, flags, Mode::empty())?;
    // SAFETY: all zeroes is a valid value of this plain structure of the C library.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero.
    let room = request.ifr_name.len() - 1;
    if name.is_empty() || name.len() > room {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    let mut flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    if is_first {
        flags |= IFF_TUN_EXCL;
    }
    if is_one_of_many {
        flags |= libc::IFF_MULTI_QUEUE;
    }
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: the request lives until the call is over; the kernel writes the device's name into it and keeps nothing.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has written a zero-terminated name there, and our own name was zero-terminated.
    let name = unsafe { CStr::from_ptr(request.ifr_name.as_ptr()) };
    Ok((fd, name.to_string_lossy().into_owned()))
}

/// Sets which frames the kernel may hand over: with checksums left to complete, and with `coalesced` several segments as one.
///
/// # Errors
/// `EINVAL` if the kernel does not support one of them.
pub(crate) fn set_offloads(fd: &OwnedFd, coalesced: bool) -> io::Result<()> {
    let mut offloads = libc::TUN_F_CSUM;
    if coalesced {
        offloads |= libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    }
    let offloads = libc::c_ulong::from(offloads);
    // SAFETY: this call takes its argument by value.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD, offloads) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
