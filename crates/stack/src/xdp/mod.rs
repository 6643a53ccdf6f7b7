//! A queue of a network card through AF_XDP (Documentation/networking/af_xdp.rst): frames in memory shared with the
//! kernel, and with the card itself if its driver supports that.
//!
//! The card's offloads are not available. Super-segments are cut into segments here, each checksummed and copied into
//! its chunk, and arriving segments come one at a time.

mod plan;
mod program;
mod socket;

pub use plan::{XdpPlan, receive_queues};

use crate::checksum::Sum;
use crate::compose::HEAD_BYTES_MAX;
use crate::compose::Head;
use crate::drop_reason::{DropReason, Statistics};
use crate::kernel::umem::{CHUNK_BYTES, Chunk};
use crate::parse::{Checksum, Packet, parse};
use reactor::copy_streaming;
use rustix::io::Errno;
use rustix::net::xdp::{XdpDesc, XdpDescOptions};
use rustix::net::{RecvFlags, SendFlags};
use socket::XdpSocket;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// The most bytes of a frame that comes in several chunks.
const JUMBO_BYTES_MAX: usize = 65_536 + 18;

/// One queue of a network card.
pub struct Xdp {
    socket: XdpSocket,
    ours: Arc<[IpAddr]>,
    /// What is known about the checksums of arriving frames.
    checksum: Checksum,
    /// The part that has arrived of a frame in several chunks.
    jumbo: Vec<u8>,
    is_in_jumbo: bool,
    statistics: Statistics,
    /// Whether the program runs in the card's driver.
    is_native: bool,
    /// Whether payload is written into chunks past the processor's caches.
    streams_payload: bool,
    /// Keeps the program on the interface.
    _attached: Arc<OwnedFd>,
}

impl Xdp {
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.fd.as_fd()
    }

    pub(crate) fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Whether the card reads and writes our memory itself.
    pub fn is_zero_copy(&self) -> bool {
        self.socket.is_zero_copy
    }

    pub(crate) fn describe(&self) -> &'static str {
        match (self.is_zero_copy(), self.is_native) {
            (true, _) => "AF_XDP without copies",
            (false, true) => "AF_XDP with copies, XDP in the driver",
            (false, false) => "AF_XDP with copies, XDP behind the driver",
        }
    }

    pub(crate) fn receive(
        &mut self,
        frames_max: usize,
        mut each: impl FnMut(Packet<'_>),
    ) -> io::Result<usize> {
        let mut received = 0;
        while received < frames_max {
            let Some(piece) = self.socket.receive.pop() else { break };
            received += usize::from(self.take(piece, &mut each));
        }
        self.socket.receive.release();
        self.refill();
        if self.socket.fill.needs_wakeup() {
            let _ = rustix::net::recv(&self.socket.fd, &mut [0; 0], RecvFlags::DONTWAIT);
        }
        Ok(received)
    }

    /// Processes a piece of a frame, puts its chunk aside, and returns whether the frame is complete.
    fn take(&mut self, piece: XdpDesc, each: &mut impl FnMut(Packet<'_>)) -> bool {
        let Some((chunk, offset)) = self.socket.umem.take_back(piece.addr) else {
            self.statistics.refuse(DropReason::FrameBytes);
            return true;
        };
        let bytes = self.socket.umem.bytes(&chunk);
        let bytes = bytes.get(offset..offset + piece.len as usize).unwrap_or_default();
        let has_more = piece.options.contains(XdpDescOptions::XDP_PKT_CONTD);
        if has_more || self.is_in_jumbo {
            let room = JUMBO_BYTES_MAX - self.jumbo.len();
            self.jumbo.extend_from_slice(&bytes[..bytes.len().min(room)]);
            if !has_more {
                see(&self.jumbo, self.checksum, &self.ours, &mut self.statistics, each);
                self.jumbo.clear();
            }
            self.is_in_jumbo = has_more;
        } else {
            see(bytes, self.checksum, &self.ours, &mut self.statistics, each);
        }
        self.socket.empty.push(chunk);
        !has_more
    }

    /// Gives chunks back, for new frames to arrive in. The kernel reports a filled chunk before it reports that it has
    /// taken the chunk, so there may be no room for the last ones yet.
    fn refill(&mut self) {
        let XdpSocket { empty, umem, fill, .. } = &mut self.socket;
        while fill.room() > 0 {
            let Some(chunk) = empty.pop() else { break };
            fill.push(umem.give(chunk));
        }
        fill.publish();
    }

    /// Takes back the chunks of sent frames.
    fn reap(&mut self) {
        while let Some(address) = self.socket.completion.pop() {
            if let Some((chunk, _)) = self.socket.umem.take_back(address) {
                self.socket.free.push(chunk);
            }
        }
        self.socket.completion.release();
    }

    pub(crate) fn can_send(&mut self, payload_bytes: usize, segment_bytes: u16) -> bool {
        let needed = chunks(payload_bytes, segment_bytes);
        let has_room = |xdp: &Self| {
            needed <= xdp.socket.free.len() && needed <= xdp.socket.transmit.room() as usize
        };
        has_room(self) || {
            self.reap();
            has_room(self)
        }
    }

    pub(crate) fn send(
        &mut self,
        head: &Head,
        payload: &[&[u8]],
        segment_bytes: u16,
    ) -> io::Result<()> {
        let payload_bytes = head.payload_bytes();
        if !self.can_send(payload_bytes, segment_bytes) {
            self.statistics.send_errors += 1;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut left = Slices { slices: payload, offset: 0 };
        let mut offset = 0;
        loop {
            let bytes = (payload_bytes - offset).min(segment_bytes.into());
            self.put(head.part(offset, bytes), &mut left);
            offset += bytes;
            if offset == payload_bytes {
                break;
            }
        }
        self.statistics.payload_bytes_sent += payload_bytes as u64;
        self.statistics.payload_bytes_copied += payload_bytes as u64;
        self.statistics.super_segments_sent += u64::from(payload_bytes > segment_bytes.into());
        Ok(())
    }

    /// Puts one segment into the transmit ring; `left` begins with its payload.
    fn put(&mut self, mut head: Head, left: &mut Slices<'_>) {
        let mut sum = Sum::default();
        left.clone().take(head.payload_bytes(), |slice| sum.add(slice));
        head.complete_checksum(sum);
        let mut frame_bytes_left = head.bytes().len() + head.payload_bytes();
        let mut at = head.bytes().len();
        let mut head_bytes = head.bytes();
        while frame_bytes_left > 0 {
            let mut chunk =
                self.socket.free.pop().expect("the caller has checked that there is room");
            let bytes = self.socket.umem.bytes_mut(&mut chunk);
            bytes[..head_bytes.len()].copy_from_slice(head_bytes);
            let here = frame_bytes_left.min(CHUNK_BYTES);
            left.take(here - at, |slice| {
                let to = &mut bytes[at..at + slice.len()];
                if self.streams_payload {
                    copy_streaming(slice, to)
                } else {
                    to.copy_from_slice(slice)
                }
                at += slice.len();
            });
            frame_bytes_left -= here;
            self.push(chunk, here, frame_bytes_left > 0);
            (at, head_bytes) = (0, &[]);
        }
        self.statistics.frames_sent += 1;
    }

    fn push(&mut self, chunk: Chunk, bytes: usize, has_more: bool) {
        let addr = self.socket.umem.give(chunk);
        let mut options = XdpDescOptions::empty();
        options.set(XdpDescOptions::XDP_PKT_CONTD, has_more);
        self.socket.transmit.push(XdpDesc { addr, len: bytes as u32, options });
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.socket.transmit.publish();
        loop {
            let pending = self.socket.transmit.pending();
            self.reap();
            if pending == 0 || !self.socket.transmit.needs_wakeup() {
                return Ok(());
            }
            // The kernel may take a few dozen frames per call (32 in copy mode before Linux 6.17), and reports that by EAGAIN.
            match rustix::net::send(&self.socket.fd, &[], SendFlags::DONTWAIT) {
                Ok(_) | Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS | Errno::INTR) => {}
                // The interface may come up again. Until then frames wait, and TCP finds some of them lost.
                Err(Errno::NETDOWN) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            if self.socket.transmit.pending() == pending {
                return Ok(());
            }
        }
    }
}

/// Passes on a frame that has arrived, or counts why not.
fn see(
    frame: &[u8],
    checksum: Checksum,
    ours: &[IpAddr],
    statistics: &mut Statistics,
    each: &mut impl FnMut(Packet<'_>),
) {
    statistics.frames_received += 1;
    match parse(frame, checksum, |address| ours.contains(&address)) {
        Ok(packet) => each(packet),
        Err(reason) => statistics.refuse(reason),
    }
}

/// How many chunks a super-segment takes at most.
fn chunks(payload_bytes: usize, segment_bytes: u16) -> usize {
    let segment_bytes = usize::from(segment_bytes);
    let segments = payload_bytes.div_ceil(segment_bytes).max(1);
    segments * (HEAD_BYTES_MAX + segment_bytes.min(payload_bytes)).div_ceil(CHUNK_BYTES)
}

/// The rest of a list of slices.
#[derive(Clone)]
struct Slices<'a> {
    slices: &'a [&'a [u8]],
    /// How much of the first slice was taken.
    offset: usize,
}

impl Slices<'_> {
    /// Passes on the next `bytes`, which must exist.
    fn take(&mut self, mut bytes: usize, mut each: impl FnMut(&[u8])) {
        while bytes > 0 {
            let (first, rest) =
                self.slices.split_first().expect("the caller takes no more than there is");
            let here = (first.len() - self.offset).min(bytes);
            each(&first[self.offset..self.offset + here]);
            self.offset += here;
            bytes -= here;
            if self.offset == first.len() {
                (self.slices, self.offset) = (rest, 0);
            }
        }
    }
}

#[cfg(test)]
mod reuse_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_taken_in_order_whatever_their_lengths() {
        let slices: [&[u8]; 5] = [b"ab", b"", b"cdefg", b"h", b"ijk"];
        for step in 1..=11 {
            let mut left = Slices { slices: &slices, offset: 0 };
            let mut taken = Vec::new();
            while taken.len() < 11 {
                let bytes = step.min(11 - taken.len());
                left.take(bytes, |slice| taken.extend_from_slice(slice));
            }
            assert_eq!(taken, b"abcdefghijk");
        }
    }

    #[test]
    fn room_is_asked_for_by_the_chunk() {
        assert_eq!(chunks(0, 1448), 1);
        assert_eq!(chunks(1449, 1448), 2);
        assert_eq!(chunks(8948, 8948), 3);
        assert_eq!(chunks(17_000, 8948), 6);
    }
}
