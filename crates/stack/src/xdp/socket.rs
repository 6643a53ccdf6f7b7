//! An AF_XDP socket, its memory and its four rings, opened and bound (Documentation/networking/af_xdp.rst).

use crate::kernel::budget::set_transmit_budget;
use crate::kernel::ring::{Consumer, Producer};
use crate::kernel::umem::{CHUNK_BYTES, Chunk, Umem};
use rustix::io::Errno;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpDesc, XdpOptionsFlags, XdpUmemReg,
    XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Chunks for arriving frames, mostly acknowledgements: a millisecond of them at 10 Gb/s.
pub(super) const RECEIVE_CHUNKS: u32 = 512;
/// Chunks for frames to be sent: a dozen super-segments.
pub(super) const SEND_CHUNKS: u32 = 1024;
/// How much of ours the kernel may hold in copy mode before the card has sent it: each frame counts as two chunks at
/// most. The default of sockets is 90 frames.
const SEND_BUFFER_BYTES: usize = 2 * SEND_CHUNKS as usize * CHUNK_BYTES;
/// How much the kernel keeps free before each arriving frame (`XDP_PACKET_HEADROOM`).
const HEADROOM_BYTES: u32 = 256;

/// How long to wait for a busy queue, and how often to try.
const BUSY_PATIENCE: Duration = Duration::from_secs(2);
const BUSY_INTERVAL: Duration = Duration::from_millis(10);

/// The longest frame that fits into one chunk on arrival.
pub(super) const FRAME_BYTES_MAX: u32 = CHUNK_BYTES as u32 - HEADROOM_BYTES;

/// The socket, its memory and its rings.
pub(super) struct XdpSocket {
    pub(super) fd: OwnedFd,
    pub(super) umem: Umem,
    pub(super) fill: Producer<u64>,
    pub(super) completion: Consumer<u64>,
    pub(super) receive: Consumer<XdpDesc>,
    pub(super) transmit: Producer<XdpDesc>,
    /// Chunks to send with; the one given back last is taken first.
    pub(super) free: Vec<Chunk>,
    /// Chunks to receive with that go back to the kernel next.
    pub(super) empty: Vec<Chunk>,
    pub(super) is_zero_copy: bool,
}

/// What to bind the socket to.
#[derive(Clone, Copy)]
pub(super) struct Binding {
    pub(super) interface: u32,
    pub(super) queue: u32,
    /// Try to let the card read and write the memory itself.
    pub(super) zero_copy: bool,
    /// Frames may need several chunks.
    pub(super) is_jumbo: bool,
}

impl XdpSocket {
    /// Opens and binds a socket. Lends all chunks for receiving to the kernel.
    ///
    /// # Errors
    /// `EPERM` without `CAP_NET_RAW`, `ENOBUFS` if the memory may not be locked, `EBUSY` if the queue has a socket,
    /// `EINVAL` if the interface has no such queue or the kernel does not support jumbo frames here (before 6.6).
    pub(super) fn open(binding: Binding) -> io::Result<Self> {
        let kind = (AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC);
        let fd = rustix::net::socket_with(kind.0, kind.1, kind.2, None)?;
        let (mut umem, mut free) = Umem::new(RECEIVE_CHUNKS + SEND_CHUNKS)?;
        register(&fd, &umem)?;
        sockopt::set_socket_send_buffer_size_force(&fd, SEND_BUFFER_BYTES)?;
        sockopt::set_xdp_umem_fill_ring_size(&fd, RECEIVE_CHUNKS)?;
        sockopt::set_xdp_umem_completion_ring_size(&fd, SEND_CHUNKS)?;
        sockopt::set_xdp_rx_ring_size(&fd, RECEIVE_CHUNKS)?;
        sockopt::set_xdp_tx_ring_size(&fd, SEND_CHUNKS)?;
        // Older kernels need several calls for a super-segment, which costs time and nothing else.
        let _ = set_transmit_budget(&fd, SEND_CHUNKS);
        let offsets = sockopt::xdp_mmap_offsets(&fd)?;
        let (at, borrowed) = (XDP_UMEM_PGOFF_FILL_RING, fd.as_fd());
        let mut fill = Producer::map(borrowed, at, offsets.fr, RECEIVE_CHUNKS)?;
        let at = XDP_UMEM_PGOFF_COMPLETION_RING;
        let completion = Consumer::map(borrowed, at, offsets.cr, SEND_CHUNKS)?;
        let receive = Consumer::map(borrowed, XDP_PGOFF_RX_RING, offsets.rx, RECEIVE_CHUNKS)?;
        let transmit = Producer::map(borrowed, XDP_PGOFF_TX_RING, offsets.tx, SEND_CHUNKS)?;
        for chunk in free.drain(..RECEIVE_CHUNKS as usize) {
            fill.push(umem.give(chunk));
        }
        fill.publish();
        bind(&fd, binding)?;
        let is_zero_copy =
            sockopt::xdp_options(&fd)?.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY);
        let empty = Vec::with_capacity(RECEIVE_CHUNKS as usize);
        Ok(Self { fd, umem, fill, completion, receive, transmit, free, empty, is_zero_copy })
    }
}

fn register(fd: &OwnedFd, umem: &Umem) -> io::Result<()> {
    let (addr, len) = umem.region();
    let registration = XdpUmemReg {
        addr,
        len,
        chunk_size: CHUNK_BYTES as u32,
        headroom: 0,
        flags: XdpUmemRegFlags::empty(),
        tx_metadata_len: 0,
    };
    Ok(sockopt::set_xdp_umem_reg(fd, registration)?)
}

/// Without a flag about copying, the kernel tries zero copy and falls back. It takes a moment to release the queue of a
/// process that was killed.
fn bind(fd: &OwnedFd, binding: Binding) -> io::Result<()> {
    let mut flags = SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
    flags.set(SocketAddrXdpFlags::XDP_COPY, !binding.zero_copy);
    flags.set(SocketAddrXdpFlags::XDP_USE_SG, binding.is_jumbo);
    let address = SocketAddrXdp::new(flags, binding.interface, binding.queue);
    let deadline = Instant::now() + BUSY_PATIENCE;
    loop {
        match rustix::net::bind(fd, &address) {
            Err(Errno::BUSY) if Instant::now() < deadline => std::thread::sleep(BUSY_INTERVAL),
            other => return Ok(other?),
        }
    }
}
