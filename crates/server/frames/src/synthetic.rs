//! A device without a network: its other end is another thread of this program. It exists to measure the cost of everything above a device, with more
//! connections than there are descriptors or addresses on any real wire.
//!
//! Sent payload is not copied: the other end gets each frame's head, and the length of its payload. It never sees the payload, so the measurement
//! lacks the work that a NIC or the kernel would do on it. Arriving frames are whole frames made by the other end. They are parsed like any others,
//! but their TCP checksums are not verified, like those that a NIC has checked.

use crate::compose::FrameHead;
use crate::drop_reason::{DeviceCounters, DropReason};
use crate::neighbours::Neighbours;
use crate::parse::{Checksum, Packet, parse};
use crate::{Device, Hop, Interface, Mac};
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};

/// Before each head: its length and that of its payload, two bytes each.
const HEAD_PREFIX_BYTES: usize = 4;

/// Before each arriving frame: its length.
const FRAME_PREFIX_BYTES: usize = 2;

/// Our end.
pub struct Synthetic {
    wire: Arc<Wire>,
    ours: IpAddr,
    /// Heads that were sent and not flushed.
    sent: Vec<u8>,
    /// Arrived frames, and how far they were taken.
    arrived: Vec<u8>,
    taken_bytes: usize,
    statistics: DeviceCounters,
}

/// The other end.
#[derive(Clone)]
pub struct FarEnd(Arc<Wire>);

struct Wire {
    to_far: Mutex<Vec<u8>>,
    to_us: Mutex<Vec<u8>>,
    /// Readable while `to_us` may hold something.
    news: OwnedFd,
}

impl Wire {
    fn locked(of: &Mutex<Vec<u8>>) -> MutexGuard<'_, Vec<u8>> {
        of.lock().expect("no holder of this lock can panic")
    }
}

/// An interface with the address `ours`, and the other end of its wire.
///
/// # Errors
/// If no descriptor is left.
pub fn interface(ours: IpAddr, mtu_bytes: u32) -> io::Result<(Interface, FarEnd)> {
    let news = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let wire = Arc::new(Wire { to_far: Mutex::default(), to_us: Mutex::default(), news });
    let hop =
        Hop { destination: Mac([2, 0, 0, 0, 0, 1]), source: Mac([2, 0, 0, 0, 0, 2]), mtu_bytes };
    let device = Synthetic {
        wire: Arc::clone(&wire),
        ours,
        sent: Vec::new(),
        arrived: Vec::new(),
        taken_bytes: 0,
        statistics: DeviceCounters::default(),
    };
    let interface = Interface {
        name: "synthetic".to_owned(),
        mtu_bytes,
        device: Device::Synthetic(Box::new(device)),
        neighbours: Neighbours::one(hop),
    };
    Ok((interface, FarEnd(wire)))
}

impl FarEnd {
    /// Takes the heads of all frames that were sent since the last call, replacing the content of `into`; [`heads`] reads them.
    pub fn take(&self, into: &mut Vec<u8>) {
        into.clear();
        std::mem::swap(into, &mut *Wire::locked(&self.0.to_far));
    }

    /// Passes on frames that were added by [`add_frame`], and clears `frames`.
    pub fn give(&self, frames: &mut Vec<u8>) {
        if frames.is_empty() {
            return;
        }
        let mut to_us = Wire::locked(&self.0.to_us);
        if to_us.is_empty() {
            std::mem::swap(&mut *to_us, frames);
        } else {
            to_us.extend_from_slice(frames);
        }
        drop(to_us);
        frames.clear();
        // EAGAIN means that the counter is full, and the descriptor readable all the same.
        let _ = rustix::io::write(&self.0.news, &1u64.to_ne_bytes());
    }
}

/// Each head of [`FarEnd::take`], Ethernet's header first, with the length of its payload.
pub fn heads(mut taken: &[u8]) -> impl Iterator<Item = (&[u8], usize)> {
    std::iter::from_fn(move || {
        let (prefix, rest) = taken.split_first_chunk::<HEAD_PREFIX_BYTES>()?;
        let head_bytes = usize::from(u16::from_ne_bytes([prefix[0], prefix[1]]));
        let payload_bytes = usize::from(u16::from_ne_bytes([prefix[2], prefix[3]]));
        let (head, rest) = rest.split_at_checked(head_bytes)?;
        taken = rest;
        Some((head, payload_bytes))
    })
}

/// Adds a frame to those for [`FarEnd::give`].
///
/// # Panics
/// If it is longer than any frame.
pub fn add_frame(frames: &mut Vec<u8>, frame: &[u8]) {
    let bytes = u16::try_from(frame.len()).expect("a frame has less than 64 KiB");
    frames.extend_from_slice(&bytes.to_ne_bytes());
    frames.extend_from_slice(frame);
}

impl Synthetic {
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.wire.news.as_fd()
    }

    pub(crate) fn statistics(&self) -> &DeviceCounters {
        &self.statistics
    }

    pub(crate) fn receive(
        &mut self,
        frames_max: usize,
        mut each: impl FnMut(Packet<'_>),
    ) -> io::Result<usize> {
        for received in 0..frames_max {
            if self.taken_bytes == self.arrived.len() && !self.refill() {
                return Ok(received);
            }
            let left = &self.arrived[self.taken_bytes..];
            let frame = left.split_first_chunk::<FRAME_PREFIX_BYTES>();
            let frame =
                frame.and_then(|(bytes, rest)| rest.get(..u16::from_ne_bytes(*bytes).into()));
            self.statistics.frames_received += 1;
            let Some(frame) = frame else {
                self.statistics.refuse(DropReason::FrameBytes);
                self.taken_bytes = self.arrived.len();
                continue;
            };
            self.taken_bytes += FRAME_PREFIX_BYTES + frame.len();
            match parse(frame, Checksum::Verified, |address| address == self.ours) {
                Ok(packet) => each(packet),
                Err(reason) => self.statistics.refuse(reason),
            }
        }
        Ok(frames_max)
    }

    /// Takes everything that has arrived since the last call. Returns whether there is anything.
    fn refill(&mut self) -> bool {
        self.arrived.clear();
        self.taken_bytes = 0;
        // The counter goes first: a frame that arrives after the read makes the descriptor readable again.
        let _ = rustix::io::read(&self.wire.news, &mut [0u8; 8]);
        std::mem::swap(&mut self.arrived, &mut *Wire::locked(&self.wire.to_us));
        !self.arrived.is_empty()
    }

    pub(crate) fn send(&mut self, mut head: FrameHead, segment_bytes: u16) {
        // As for a device that completes it.
        head.leave_checksum();
        let (bytes, payload_bytes) = (head.bytes(), head.payload_bytes());
        self.sent.extend_from_slice(&(bytes.len() as u16).to_ne_bytes());
        self.sent.extend_from_slice(&(payload_bytes as u16).to_ne_bytes());
        self.sent.extend_from_slice(bytes);
        self.statistics.frames_sent += 1;
        self.statistics.payload_bytes_sent += payload_bytes as u64;
        self.statistics.super_segments_sent += u64::from(payload_bytes > segment_bytes.into());
    }

    pub(crate) fn flush(&mut self) {
        if self.sent.is_empty() {
            return;
        }
        let mut to_far = Wire::locked(&self.wire.to_far);
        if to_far.is_empty() {
            std::mem::swap(&mut *to_far, &mut self.sent);
        } else {
            to_far.extend_from_slice(&self.sent);
        }
        drop(to_far);
        self.sent.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Between;

    const OURS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 255, 255, 1));
    const THEIRS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 7));

    fn head(local: IpAddr, remote: IpAddr, payload_bytes: usize) -> FrameHead {
        let hop = Hop { destination: Mac([2; 6]), source: Mac([4; 6]), mtu_bytes: 1500 };
        let mut tcp = [0; 20];
        tcp[12..14].copy_from_slice(&[0x50, 0x10]);
        FrameHead::tcp(&hop, Between { local, remote, ecn: 0 }, &tcp, payload_bytes)
    }

    #[test]
    fn heads_arrive_at_the_other_end_after_a_flush_and_in_order() {
        let (mut interface, far) = interface(OURS, 1500).unwrap();
        let (mut taken, payload) = (Vec::new(), [7; 3000]);
        let sent = |device: &mut Device, bytes: usize| {
            device.send(head(OURS, THEIRS, bytes), &[&payload[..bytes]], 1460).unwrap();
        };
        sent(&mut interface.device, 3000);
        far.take(&mut taken);
        assert_eq!(heads(&taken).count(), 0, "nothing was flushed");
        interface.device.flush().unwrap();
        sent(&mut interface.device, 0);
        interface.device.flush().unwrap();
        far.take(&mut taken);
        let seen: Vec<_> = heads(&taken).map(|(head, payload)| (head.len(), payload)).collect();
        assert_eq!(seen, [(54, 3000), (54, 0)]);
        assert_eq!(interface.device.statistics().payload_bytes_copied, 0);
        assert_eq!(interface.device.statistics().super_segments_sent, 1);
    }

    #[test]
    fn frames_are_parsed_and_others_counted() {
        let (mut interface, far) = interface(OURS, 1500).unwrap();
        let mut frames = Vec::new();
        for (local, remote) in [(THEIRS, OURS), (THEIRS, THEIRS)] {
            add_frame(&mut frames, head(local, remote, 0).bytes());
        }
        add_frame(&mut frames, b"short");
        far.give(&mut frames);
        assert!(frames.is_empty());
        let mut remotes = Vec::new();
        let received = interface.device.receive(64, |packet| match packet {
            Packet::Tcp(segment) => remotes.push(segment.remote),
            other => panic!("{other:?}"),
        });
        assert_eq!((received.unwrap(), remotes), (3, vec![THEIRS]));
        let statistics = interface.device.statistics();
        assert_eq!(statistics.refused(DropReason::NotOurs), 1);
        assert_eq!(statistics.refused(DropReason::FrameBytes), 1);
        assert_eq!(interface.device.receive(64, |_| ()).unwrap(), 0);
    }
}
