//! Our own TCP over a network device: its frames, and the driver that sends and receives them.
//!
//! A worker has one [`Driver`]: an endpoint of the `tcp` crate, one queue of a device, and its place among the workers
//! that share the device ([`Sibling`]). The driver moves segments between endpoint and queue and holds no payload.
//!
//! A [`Device`] is one queue of a network device, and belongs to one worker. There are two kinds (and a third without a
//! network, `synthetic`, for measuring):
//!
//! - **TAP** ([`TapSetup`]): a virtual NIC whose other end is this machine's kernel. The kernel takes super-segments of up to 64 KiB, cuts them,
//!   completes their checksums or leaves that to the NIC, and routes them on. In the other direction it hands over coalesced segments. The server has
//!   addresses of its own there, which the kernel does not have. For each of them there is a route (`/32` or `/128`) to the device and a permanent
//!   neighbour entry, so the kernel never asks for our station by ARP or NDP, and we never answer. The kernel reaches us as the next hop of a route.
//!   It reaches viewers elsewhere by its ordinary forwarding, which must be on (`net.ipv4.ip_forward`, `net.ipv6.conf.all.forwarding`) and which we
//!   do not touch. Pings are answered here, because no other host has the address.
//!
//! - **AF_XDP** ([`XdpSetup`]): queues of a NIC, past the kernel's stack. An XDP program takes TCP to our addresses and ports from the arriving
//!   frames, and leaves everything else to the kernel. The addresses belong to the kernel: it answers ARP, NDP and pings, and ssh keeps working.
//!   Super-segments are cut and checksummed here. The kernel's routes and neighbours determine the next hop of packets ([`Neighbours`]). Firewall
//!   rules do not see these frames.
//!
//! With several queues, all segments of a connection arrive at one of them, which the kernel or the NIC chooses. A router's message about a
//! connection ([`Packet::TooBig`]) may arrive at another one.
//!
//! Everything that needs privileges happens in a plan's `open`. Devices are not persistent, and a descriptor holds the program. However the process
//! ends, they disappear together with their routes and neighbours.
//!
//! Invariants:
//! - All input comes from strangers. It becomes either a [`Packet`] with checked lengths and a right checksum, or a count of a [`DropReason`]. No
//!   input makes this panic.
//! - Nothing is allocated per frame, and no frame is copied more than once: by the kernel (TAP), or into a chunk that is shared with it (AF_XDP),
//!   unless its payload lies in such memory already.
//!
//! Read [`parse`](mod@parse) and [`compose`] first, then [`setup`] and [`xdp`], and [`driver`] last.

pub mod checksum;
pub mod compose;
pub mod driver;
pub mod drop_reason;
pub mod error;
pub mod icmp;
pub mod kept;
mod kernel;
pub mod neighbours;
mod netlink;
pub mod parse;
pub mod setup;
pub mod siblings;
#[doc(hidden)]
pub mod synthetic;
pub mod tap;
pub mod virtio;
pub mod xdp;

pub use compose::{
    Between, FrameHead, HEAD_BYTES_MAX, Hop, LONG_PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MAX,
};
pub use driver::{Blocked, Driver};
pub use drop_reason::{DeviceCounters, DropReason};
pub use error::SetupError;
pub use icmp::TooBig;
pub use kept::Kept;
pub use neighbours::{Neighbours, Resolved};
pub use parse::{Checksum, Mac, Packet, ReceivedSegment, parse};
pub use setup::TapSetup;
pub use siblings::{Sibling, siblings};
pub use tap::{PAYLOAD_SLICES_MAX, Tap};
pub use xdp::{BuffersInPlace, Xdp, XdpSetup, receive_queues};

use reactor::MemoryPart;
use std::io;
use std::os::fd::BorrowedFd;

/// One worker's part of a network device.
pub struct Interface {
    /// The device's name.
    pub name: String,
    /// The largest IP packet that it took when it was opened, header included.
    pub mtu_bytes: u32,
    /// The worker's queue.
    pub device: Device,
    /// The next hops of packets.
    pub neighbours: Neighbours,
}

/// One queue of a network device.
#[expect(
    clippy::large_enum_variant,
    reason = "a worker has one, and sends by it without another step"
)]
pub enum Device {
    /// A virtual device, whose other end is the kernel.
    Tap(Tap),
    /// A NIC.
    Xdp(Box<Xdp>),
    /// No network, for measuring.
    #[doc(hidden)]
    Synthetic(Box<synthetic::Synthetic>),
}

impl Device {
    /// Passes on arrived frames, at most `frames_max`, and returns how many there were; dropped frames count too. Does not wait: poll [`Self::fd`]
    /// after a call that found less than the limit.
    ///
    /// # Errors
    /// If the device is gone.
    pub fn receive(
        &mut self,
        frames_max: usize,
        each: impl FnMut(Packet<'_>),
    ) -> io::Result<usize> {
        match self {
            Self::Tap(tap) => tap.receive(frames_max, each),
            Self::Xdp(xdp) => xdp.receive(frames_max, each),
            Self::Synthetic(synthetic) => synthetic.receive(frames_max, each),
        }
    }

    /// Returns true if [`Self::send`] has room for this much now. If not: [`Self::flush`], then wait until [`Self::fd`] is writable.
    pub fn can_send(&mut self, payload_bytes: usize, segment_bytes: u16) -> bool {
        match self {
            Self::Tap(_) | Self::Synthetic(_) => true,
            Self::Xdp(xdp) => xdp.can_send(payload_bytes, segment_bytes),
        }
    }

    /// The most payload that [`Self::send`] takes at once. Longer super-segments are for IPv4 only.
    fn payload_bytes_max(&self, is_ipv4: bool) -> usize {
        match self {
            Self::Tap(tap) if is_ipv4 => tap.payload_bytes_max(),
            _ => PAYLOAD_BYTES_MAX,
        }
    }

    /// Sends one segment, or several as one. If the payload is longer than `segment_bytes`, it is cut into segments of that length, the last one
    /// shorter: by the kernel or, if the kernel cannot, by the device itself. All or nothing. The payload is copied before this returns, except for
    /// slices in [memory of the device](Self::take_memory). With many small segments, it is cheaper to call this repeatedly and [`Self::flush`] once.
    ///
    /// # Errors
    /// If the kernel does not take it. The segment is lost, as on any wire, and counted.
    ///
    /// # Panics
    /// If there are more than [`PAYLOAD_SLICES_MAX`] slices, `segment_bytes` is 0, or the slices do not have the length
    /// that `head` was made for.
    pub fn send(
        &mut self,
        head: FrameHead,
        payload: &[&[u8]],
        segment_bytes: u16,
    ) -> io::Result<()> {
        assert!(segment_bytes > 0, "a segment has a length");
        let payload_bytes: usize = payload.iter().map(|slice| slice.len()).sum();
        assert_eq!(payload_bytes, head.payload_bytes(), "the payload that the head was made for");
        match self {
            Self::Tap(tap) => tap.send(head, payload, segment_bytes),
            Self::Xdp(xdp) => xdp.send(&head, payload, segment_bytes),
            Self::Synthetic(synthetic) => {
                synthetic.send(head, segment_bytes);
                Ok(())
            }
        }
    }

    /// Makes the kernel send the queued frames, and reclaims the room of sent ones. Frames that the kernel cannot take now, because a NIC is busy,
    /// wait for the next call, or for a poll of [`Self::fd`].
    ///
    /// # Errors
    /// If the device is gone.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tap(_) => Ok(()),
            Self::Xdp(xdp) => xdp.flush(),
            Self::Synthetic(synthetic) => {
                synthetic.flush();
                Ok(())
            }
        }
    }

    /// Memory that the device sends from without copying it first, if it has some. Bytes sent from there must not change, and [`Self::in_flight`]
    /// returns the number of their buffer. [`Self::next_returned`] returns that number once the buffer may be written to again.
    pub fn take_memory(&mut self) -> Option<MemoryPart> {
        match self {
            Self::Xdp(xdp) => xdp.take_memory(),
            Self::Tap(_) | Self::Synthetic(_) => None,
        }
    }

    /// The number of the buffer that holds these bytes, if the device still reads some of it.
    pub fn in_flight(&self, bytes: &[u8]) -> Option<usize> {
        match self {
            Self::Xdp(xdp) => xdp.in_flight(bytes),
            Self::Tap(_) | Self::Synthetic(_) => None,
        }
    }

    /// The number of a buffer that the device has finished reading since this last returned it. Call it after [`Self::flush`], until there is none.
    pub fn next_returned(&mut self) -> Option<usize> {
        match self {
            Self::Xdp(xdp) => xdp.next_returned(),
            Self::Tap(_) | Self::Synthetic(_) => None,
        }
    }

    /// Readable if frames have arrived, writable if there is room to send.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tap(tap) => tap.fd(),
            Self::Xdp(xdp) => xdp.fd(),
            Self::Synthetic(synthetic) => synthetic.fd(),
        }
    }

    /// A description of its mode, for people.
    pub fn describe(&self) -> &'static str {
        match self {
            Self::Tap(_) => "TAP",
            Self::Xdp(xdp) => xdp.describe(),
            Self::Synthetic(_) => "synthetic",
        }
    }

    /// The kernel's counters for it, by event: only for AF_XDP. Takes a system call.
    pub fn kernel_counts(&self) -> Vec<(&'static str, u64)> {
        match self {
            Self::Xdp(xdp) => xdp.kernel_counts(),
            Self::Tap(_) | Self::Synthetic(_) => Vec::new(),
        }
    }

    /// Its counters.
    pub fn statistics(&self) -> &DeviceCounters {
        match self {
            Self::Tap(tap) => tap.statistics(),
            Self::Xdp(xdp) => xdp.statistics(),
            Self::Synthetic(synthetic) => synthetic.statistics(),
        }
    }
}

#[cfg(test)]
mod tests;
