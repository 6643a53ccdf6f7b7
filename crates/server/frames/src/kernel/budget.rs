//! How much of a transmit ring the kernel processes in one call, where it copies (Documentation/networking/af_xdp.rst).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// `XDP_MAX_TX_SKB_BUDGET` (linux/if_xdp.h; not in the C library's bindings).
const MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// Lets one call process `descriptors` of the transmit ring, from 32 to the ring's length.
///
/// # Errors
/// `ENOPROTOOPT` before Linux 6.17, which processes 32.
pub(crate) fn set_transmit_budget(fd: &OwnedFd, descriptors: u32) -> io::Result<()> {
    let length = size_of::<u32>() as libc::socklen_t;
    let value = (&raw const descriptors).cast();
    // SAFETY: the kernel reads the number, whose length is right, before the call returns.
    let result = unsafe {
        libc::setsockopt(fd.as_raw_fd(), libc::SOL_XDP, MAX_TX_SKB_BUDGET, value, length)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
