//! A TCP of our own over a network device: the frames below it, and what drives it.
//!
//! A worker has one [`Driver`]: an endpoint of the `tcp` crate, one queue of a device, and its place among the workers that share the
//! device ([`Sibling`]). It moves segments from one to the other and holds no payload.
//!
//! A [`Device`] is one queue of a network device, and one worker's. There are two kinds:
//!
//! - **TAP** ([`TapPlan`]): a virtual card whose other end is this machine's kernel. The kernel takes super-segments of up to
//!   64 KiB, cuts them, completes their checksums or leaves that to the card, and routes them on; and hands us what it has
//!   coalesced. The server has addresses of its own there, which the kernel has not: for each there is a route (`/32` or `/128`)
//!   to the device and a permanent neighbour entry, so that the kernel never asks for our station by ARP or NDP, and we never
//!   answer. The kernel reaches us as the next hop of a route, and viewers elsewhere by its ordinary forwarding, which must be on
//!   (`net.ipv4.ip_forward`, `net.ipv6.conf.all.forwarding`) and which we do not touch. Pings are answered here, since nobody
//!   else could.
//!
//! - **AF_XDP** ([`XdpPlan`]): queues of a network card, past the kernel's stack. An XDP program takes TCP to our addresses and ports
//!   out of what arrives and leaves everything else to the kernel, to which the addresses belong: it answers ARP, NDP and pings,
//!   and ssh lives on. Super-segments are cut and summed here. Where packets go next the kernel's routes and neighbours say
//!   ([`Neighbours`]). Firewall rules do not see these frames.
//!
//! With several queues, a connection's segments all come to one, whose choice is the kernel's or the card's. What a router says of
//! a connection ([`Packet::TooBig`]) may come to another one.
//!
//! All that needs privileges happens in `open` of a plan. Devices are not persistent, and the program is held by a descriptor:
//! when the process ends, however it ends, they are gone, and routes and neighbours with them.
//!
//! Invariants:
//! - What arrives is from strangers: it ends in a [`Packet`] whose lengths are in bounds and whose checksum is right, or in the
//!   counter of a [`DropReason`]. No bytes make this panic.
//! - Nothing is allocated per frame, and no frame is copied more than once: by the kernel (TAP), or into a chunk that is shared with it (AF_XDP).
//!
//! Read [`parse`](mod@parse) and [`compose`] first, then [`plan`] and [`xdp`], and [`driver`] last.

pub mod checksum;
pub mod compose;
pub mod driver;
pub mod drop_reason;
pub mod error;
pub mod icmp;
mod kernel;
pub mod neighbours;
mod netlink;
pub mod parse;
pub mod plan;
pub mod siblings;
pub mod tap;
pub mod virtio;
pub mod xdp;

pub use compose::{Between, HEAD_BYTES_MAX, Head, Hop, PAYLOAD_BYTES_MAX};
pub use driver::{Blocked, Driver};
pub use drop_reason::{DropReason, Statistics};
pub use error::SetupError;
pub use icmp::TooBig;
pub use neighbours::{Neighbours, Resolved};
pub use parse::{Checksum, Mac, Packet, Segment, parse};
pub use plan::TapPlan;
pub use siblings::{Sibling, siblings};
pub use tap::{PAYLOAD_SLICES_MAX, Tap};
pub use xdp::{Xdp, XdpPlan, receive_queues};

use std::io;
use std::os::fd::BorrowedFd;

/// What one worker gets of a network device.
pub struct Interface {
    /// The device's name.
    pub name: String,
    /// The largest IP packet it takes, header included, when it was opened.
    pub mtu_bytes: u32,
    /// The worker's queue of it.
    pub device: Device,
    /// Where packets go next.
    pub neighbours: Neighbours,
}

/// One queue of a network device.
pub enum Device {
    /// Of a virtual one, whose other end is the kernel.
    Tap(Tap),
    /// Of a network card.
    Xdp(Box<Xdp>),
}

impl Device {
    /// Hands on what has arrived, at most so many frames, and says how many there were; what is refused counts too. Waits for
    /// nothing: poll [`Self::fd`] after a call that found less than it was allowed.
    ///
    /// # Errors
    /// When the device is gone.
    pub fn receive(
        &mut self,
        frames_max: usize,
        each: impl FnMut(Packet<'_>),
    ) -> io::Result<usize> {
        match self {
            Self::Tap(tap) => tap.receive(frames_max, each),
            Self::Xdp(xdp) => xdp.receive(frames_max, each),
        }
    }

    /// Whether [`Self::send`] has room for this much now. If not: [`Self::flush`], then wait until [`Self::fd`] is writable.
    pub fn can_send(&mut self, payload_bytes: usize, segment_bytes: u16) -> bool {
        match self {
            Self::Tap(_) => true,
            Self::Xdp(xdp) => xdp.can_send(payload_bytes, segment_bytes),
        }
    }

    /// Sends one segment, or several as one: where there are more than `segment_bytes` of payload, each segment gets so many, the
    /// last one what is left: the kernel cuts them or, where it does not, the device itself. All or nothing; the payload is copied before
    /// this returns. With many small segments it is cheaper to call this often and [`Self::flush`] once.
    ///
    /// # Errors
    /// When the kernel does not take it: the segment is lost, as on any wire, and counted.
    ///
    /// # Panics
    /// If there are more than [`PAYLOAD_SLICES_MAX`] slices, `segment_bytes` is 0, or the slices are not together as long as
    /// `head` was made for.
    pub fn send(&mut self, head: Head, payload: &[&[u8]], segment_bytes: u16) -> io::Result<()> {
        assert!(segment_bytes > 0, "a segment has a length");
        let payload_bytes: usize = payload.iter().map(|slice| slice.len()).sum();
        assert_eq!(payload_bytes, head.payload_bytes(), "the payload that the head was made for");
        match self {
            Self::Tap(tap) => tap.send(head, payload, segment_bytes),
            Self::Xdp(xdp) => xdp.send(&head, payload, segment_bytes),
        }
    }

    /// Sees that what was sent leaves, and takes back the room of what has left. What the kernel cannot take now, since a card is
    /// busy, waits for the next call, or for a poll of [`Self::fd`].
    ///
    /// # Errors
    /// When the device is gone.
    pub fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tap(_) => Ok(()),
            Self::Xdp(xdp) => xdp.flush(),
        }
    }

    /// Readable when something has arrived, writable when there is room to send.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tap(tap) => tap.fd(),
            Self::Xdp(xdp) => xdp.fd(),
        }
    }

    /// How it is done, for people.
    pub fn describe(&self) -> &'static str {
        match self {
            Self::Tap(_) => "TAP",
            Self::Xdp(xdp) => xdp.describe(),
        }
    }

    /// What it has done.
    pub fn statistics(&self) -> &Statistics {
        match self {
            Self::Tap(tap) => tap.statistics(),
            Self::Xdp(xdp) => xdp.statistics(),
        }
    }
}

#[cfg(test)]
mod tests;
