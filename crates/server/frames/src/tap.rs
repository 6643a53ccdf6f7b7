//! A queue of a TAP device: frames by `read` and `writev`, with one copy each way, made by the kernel.
//!
//! The kernel's own stack is the other end of the wire. Both sides exchange super-segments of 64 KiB with incomplete
//! checksums, so the cost of a call is spread over forty segments.

use crate::compose::FrameHead;
use crate::drop_reason::DeviceCounters;
use crate::icmp;
use crate::kernel::tun;
use crate::parse::{Packet, ReceivedSegment};
use crate::virtio::{self, VIRTIO_BYTES, parse_with_header};
use rustix::io::Errno;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Room for the largest IP packet, Ethernet's header and a VLAN tag, and the virtio header.
const RECEIVE_BYTES: usize = 65_536 + 18 + VIRTIO_BYTES;

/// The most slices of payload in one frame.
pub const PAYLOAD_SLICES_MAX: usize = 30;

/// One queue of a TAP device.
pub struct Tap {
    fd: OwnedFd,
    buffer: Box<[u8]>,
    ours: Arc<[IpAddr]>,
    payload_bytes_max: usize,
    statistics: DeviceCounters,
}

impl Tap {
    /// Opens one queue; see [`crate::TapSetup`].
    pub(crate) fn open(
        name: &str,
        queue: u32,
        queues: u32,
        coalesce: bool,
        payload_bytes_max: usize,
        ours: Arc<[IpAddr]>,
    ) -> io::Result<(Self, String)> {
        let (fd, name) = tun::open(name, queue == 0, queues > 1)?;
        tun::set_offloads(&fd, coalesce)?;
        let buffer = vec![0; RECEIVE_BYTES].into();
        let statistics = DeviceCounters::default();
        Ok((Self { fd, buffer, ours, payload_bytes_max, statistics }, name))
    }

    /// The most payload of a frame over IPv4.
    pub(crate) fn payload_bytes_max(&self) -> usize {
        self.payload_bytes_max
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
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
            match rustix::io::read(&self.fd, &mut *self.buffer) {
                Ok(bytes) => self.take(bytes, &mut each),
                Err(Errno::AGAIN) => return Ok(received),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(frames_max)
    }

    /// Parses the bytes read, and passes the packet on or answers it.
    fn take(&mut self, bytes: usize, each: &mut impl FnMut(Packet<'_>)) {
        self.statistics.frames_received += 1;
        let ours = |address| self.ours.contains(&address);
        match parse_with_header(&self.buffer[..bytes], ours) {
            Ok(Packet::Ping(_)) => self.answer_ping(bytes),
            Ok(packet) => {
                let is_coalesced =
                    matches!(packet, Packet::Tcp(ReceivedSegment { coalesced_bytes: Some(_), .. }));
                self.statistics.coalesced_received += u64::from(is_coalesced);
                each(packet);
            }
            Err(reason) => self.statistics.refuse(reason),
        }
    }

    /// Answers a ping: no other host can, because only we have the address.
    fn answer_ping(&mut self, bytes: usize) {
        self.statistics.pings_answered += 1;
        let frame = &mut self.buffer[VIRTIO_BYTES..bytes];
        let answer_bytes = icmp::answer_ping(frame);
        let answer = &frame[..answer_bytes];
        let parts = [IoSlice::new(&[0; VIRTIO_BYTES]), IoSlice::new(answer)];
        self.statistics.send_errors += u64::from(rustix::io::writev(&self.fd, &parts).is_err());
    }

    pub(crate) fn send(
        &mut self,
        mut head: FrameHead,
        payload: &[&[u8]],
        segment_bytes: u16,
    ) -> io::Result<()> {
        assert!(payload.len() <= PAYLOAD_SLICES_MAX);
        head.leave_checksum();
        let offloads = virtio::header(&head, segment_bytes);
        let mut parts = [IoSlice::new(&[]); PAYLOAD_SLICES_MAX + 2];
        parts[0] = IoSlice::new(&offloads);
        parts[1] = IoSlice::new(head.bytes());
        for (part, payload) in parts[2..].iter_mut().zip(payload) {
            *part = IoSlice::new(payload);
        }
        let parts = &parts[..2 + payload.len()];
        let written = loop {
            match rustix::io::writev(&self.fd, parts) {
                Err(Errno::INTR) => {}
                other => break other,
            }
        };
        if let Err(error) = written {
            self.statistics.send_errors += 1;
            return Err(error.into());
        }
        self.statistics.frames_sent += 1;
        self.statistics.payload_bytes_sent += head.payload_bytes() as u64;
        self.statistics.super_segments_sent +=
            u64::from(head.payload_bytes() > segment_bytes.into());
        Ok(())
    }
}
