//! A NIC's queue through AF_XDP (Documentation/networking/af_xdp.rst): frames in memory shared with the kernel, and with the NIC itself if its driver
//! supports that.
//!
//! The NIC's offloads are not available. Super-segments are cut into segments here and checksummed, and arriving segments come one at a time. A
//! segment's head is written into a chunk. Its payload follows there, as a copy, or in further pieces in place, if the kernel knows the memory
//! (`in_place.rs`).

mod frame;
mod in_place;
mod program;
mod setup;
mod socket;

pub use in_place::BuffersInPlace;
pub use setup::{XdpSetup, receive_queues};

use crate::checksum::Sum;
use crate::compose::FrameHead;
use crate::compose::HEAD_BYTES_MAX;
use crate::drop_reason::{DeviceCounters, DropReason};
use crate::kernel::umem::CHUNK_BYTES;
use crate::parse::{Checksum, Packet, parse};
use crate::tap::PAYLOAD_SLICES_MAX;
use frame::Frame;
use reactor::MemoryPart;
use rustix::io::Errno;
use rustix::net::xdp::{XdpDesc, XdpDescOptions};
use rustix::net::{RecvFlags, SendFlags, sockopt};
use socket::XdpSocket;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// The most bytes of a frame that comes in several chunks.
const JUMBO_BYTES_MAX: usize = 65_536 + 18;

/// The most pieces of a frame where the kernel copies (`MAX_SKB_FRAGS` + 1). It drops frames with more.
const PIECES_MAX_COPIED: usize = 18;

/// One queue of a NIC.
pub struct Xdp {
    socket: XdpSocket,
    ours: Arc<[IpAddr]>,
    /// The knowledge about the checksums of arriving frames.
    checksum: Checksum,
    /// The part that has arrived of a frame in several chunks.
    jumbo: Vec<u8>,
    is_in_jumbo: bool,
    statistics: DeviceCounters,
    /// Set if the program runs in the NIC's driver.
    is_native: bool,
    /// Set if payload is written into chunks past the processor's caches.
    streams_payload: bool,
    /// The most pieces of a frame with some pieces in others' memory.
    pieces_max: usize,
    /// Keeps the program on the interface.
    _attached: Arc<OwnedFd>,
}

impl Xdp {
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.fd.as_fd()
    }

    pub(crate) fn statistics(&self) -> &DeviceCounters {
        &self.statistics
    }

    /// The kernel's counters for the socket (`XDP_STATISTICS`).
    pub(crate) fn kernel_counts(&self) -> Vec<(&'static str, u64)> {
        let Ok(counts) = sockopt::xdp_statistics(&self.socket.fd) else { return Vec::new() };
        let known = [
            ("kernel_dropped", Some(counts.rx_dropped)),
            ("kernel_refused_to_fill", Some(counts.rx_invalid_descs)),
            ("kernel_refused_to_send", Some(counts.tx_invalid_descs)),
            ("receive_ring_full", counts.rx_ring_full),
            ("fill_ring_empty", counts.rx_fill_ring_empty_descs),
        ];
        known.into_iter().filter_map(|(event, count)| Some((event, count?))).collect()
    }

    /// Returns true if the NIC reads and writes our memory itself.
    pub fn is_zero_copy(&self) -> bool {
        self.socket.is_zero_copy
    }

    pub(crate) fn describe(&self) -> &'static str {
        match (self.is_zero_copy(), self.socket.in_place.is_some(), self.is_native) {
            (true, true, _) => "AF_XDP without any copies",
            (true, false, _) if self.socket.lacks_locked_memory => {
                "AF_XDP without copies by the kernel; the server copies, because it may not lock its buffers in memory: raise LimitMEMLOCK= in \
                 systemd, or `ulimit -l`"
            }
            (true, false, _) => "AF_XDP without copies",
            (false, true, true) => "AF_XDP with copies by the kernel, XDP in the driver",
            (false, true, false) => "AF_XDP with copies by the kernel, XDP behind the driver",
            (false, false, true) => "AF_XDP with copies, XDP in the driver",
            (false, false, false) => "AF_XDP with copies, XDP behind the driver",
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

    /// Gives chunks back, for new frames to arrive in. The kernel reports a filled chunk before it reports that it has taken the chunk, so there may
    /// be no room for the last ones yet.
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
            } else if let Some(in_place) = &mut self.socket.in_place {
                in_place.take_back(address);
            }
        }
        self.socket.completion.release();
    }

    /// The memory for sending in place, for its future owner.
    pub(crate) fn take_memory(&mut self) -> Option<MemoryPart> {
        self.socket.memory.take()
    }

    /// The buffer of these bytes, if the kernel still reads some of it.
    pub(crate) fn in_flight(&self, bytes: &[u8]) -> Option<usize> {
        self.socket.in_place.as_ref()?.block(bytes)
    }

    /// A buffer that the kernel has returned.
    pub(crate) fn next_returned(&mut self) -> Option<usize> {
        self.socket.in_place.as_mut()?.next_idle()
    }

    pub(crate) fn can_send(&mut self, payload_bytes: usize, segment_bytes: u16) -> bool {
        let lends = self.socket.in_place.is_some();
        let needed = pieces_max(payload_bytes, segment_bytes, lends);
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
        head: &FrameHead,
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
        self.statistics.super_segments_sent += u64::from(payload_bytes > segment_bytes.into());
        Ok(())
    }

    /// Puts one segment into the transmit ring; `left` begins with its payload.
    fn put(&mut self, mut head: FrameHead, left: &mut Slices<'_>) {
        let mut sum = Sum::default();
        let mut pieces = 1;
        left.clone().take(head.payload_bytes(), |slice| {
            sum.add(slice);
            let in_place =
                self.socket.in_place.as_ref().and_then(|in_place| in_place.pieces(slice));
            pieces += in_place.unwrap_or(1 + slice.len() / CHUNK_BYTES);
        });
        head.complete_checksum(sum);
        let lends = pieces <= self.pieces_max;
        let mut frame = Frame::new(&mut self.socket, self.streams_payload);
        frame.copy(head.bytes());
        let mut copied = 0;
        left.take(head.payload_bytes(), |slice| {
            if !(lends && frame.lend(slice)) {
                frame.copy_payload(slice);
                copied += slice.len() as u64;
            }
        });
        frame.finish();
        self.statistics.payload_bytes_copied += copied;
        self.statistics.frames_sent += 1;
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

/// Passes on an arrived frame, or counts why not.
fn see(
    frame: &[u8],
    checksum: Checksum,
    ours: &[IpAddr],
    statistics: &mut DeviceCounters,
    each: &mut impl FnMut(Packet<'_>),
) {
    statistics.frames_received += 1;
    match parse(frame, checksum, |address| ours.contains(&address)) {
        Ok(packet) => each(packet),
        Err(reason) => statistics.refuse(reason),
    }
}

/// The most pieces that a super-segment takes, and so the most chunks. `lends` allows some in others' memory, from any byte on.
fn pieces_max(payload_bytes: usize, segment_bytes: u16, lends: bool) -> usize {
    let segment_bytes = usize::from(segment_bytes).min(payload_bytes);
    let segments = payload_bytes.div_ceil(segment_bytes.max(1)).max(1);
    let copied = (HEAD_BYTES_MAX + segment_bytes).div_ceil(CHUNK_BYTES);
    if !lends || payload_bytes == 0 {
        return segments * copied;
    }
    // A head, and the chunks that a segment can touch; two more where slices meet.
    let of_each = 2 + segment_bytes.div_ceil(CHUNK_BYTES);
    segments * of_each.max(copied) + 2 * PAYLOAD_SLICES_MAX.min(payload_bytes)
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
mod in_place_tests;
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
        assert_eq!(pieces_max(0, 1448, false), 1);
        assert_eq!(pieces_max(1449, 1448, false), 2);
        assert_eq!(pieces_max(8948, 8948, false), 3);
        assert_eq!(pieces_max(17_000, 8948, false), 6);
        assert_eq!(pieces_max(0, 1448, true), 1);
        assert_eq!(pieces_max(1449, 1448, true), 66);
        assert_eq!(pieces_max(17_000, 8948, true), 70);
    }
}
