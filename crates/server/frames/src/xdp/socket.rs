//! An AF_XDP socket, its memory and its four rings, opened and bound (Documentation/networking/af_xdp.rst).

use crate::kernel::budget::set_transmit_budget;
use crate::kernel::ring::{Consumer, Producer};
use crate::kernel::umem::{CHUNK_BYTES, Chunk, Umem};
use crate::xdp::in_place::{BuffersInPlace, InPlace};
use reactor::MemoryPart;
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
/// Chunks for frames to send: a dozen super-segments.
pub(super) const SEND_CHUNKS: u32 = 1024;
/// The transmit ring's length where frames consist of several pieces: a head, and payload from one or two chunks of others' memory.
const PIECES: u32 = 4 * SEND_CHUNKS;
/// How much of our memory the kernel may hold in copy mode before the NIC has sent it: each frame counts as two chunks at most, or as a chunk for
/// each piece. The default of sockets is 90 frames.
const SEND_BUFFER_BYTES: usize = 4 * SEND_CHUNKS as usize * CHUNK_BYTES;
/// How much the kernel keeps free before each arriving frame (`XDP_PACKET_HEADROOM`).
const HEADROOM_BYTES: u32 = 256;

/// How long to wait for a busy queue, and how often to try.
const BUSY_PATIENCE: Duration = Duration::from_secs(2);
const BUSY_INTERVAL: Duration = Duration::from_millis(10);

/// The longest frame that fits into one chunk on arrival.
pub(super) const FRAME_BYTES_MAX: u32 = CHUNK_BYTES as u32 - HEADROOM_BYTES;

/// How much less fits where frames may come in several pieces without copies: newer kernels (7.3) store the pieces after the first one there
/// (`xsk_pool_get_tailroom`) and round down to 128 bytes.
pub(super) const TAILROOM_BYTES: u32 = 384;

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
    /// Set if others' memory may not be locked, so that bytes in it are copied.
    pub(super) lacks_locked_memory: bool,
    /// Others' memory that it sends from.
    pub(super) in_place: Option<InPlace>,
    /// That memory, until its owner takes it.
    pub(super) memory: Option<MemoryPart>,
}

/// The queue to bind the socket to, and how.
#[derive(Clone, Copy)]
pub(super) struct Binding {
    pub(super) interface: u32,
    pub(super) queue: u32,
    /// Try to let the NIC read and write the memory itself.
    pub(super) zero_copy: bool,
    /// Frames may need several chunks.
    pub(super) is_jumbo: bool,
    /// Others' memory to send from, if the NIC can do that without copies.
    pub(super) lends: Option<BuffersInPlace>,
    /// Lets the kernel copy from there if the NIC cannot.
    pub(super) lends_to_kernel: bool,
    /// The NUMA node of all memory; `None` if any will do.
    pub(super) node: Option<u32>,
}

/// Modes of binding.
#[derive(Clone, Copy)]
enum Mode {
    /// The NIC reads and writes the memory itself, or binding fails.
    ZeroCopy,
    /// The kernel copies.
    Copy,
    /// The first of these if possible, else the second.
    Either,
}

impl XdpSocket {
    /// Opens and binds a socket. Lends all chunks for receiving to the kernel.
    ///
    /// Sending from others' memory needs frames in several pieces (Linux 6.6), and a driver that takes those without copies; most take single pieces
    /// only. In that case we copy and the NIC does not. If the kernel would copy, we copy instead: it allocates memory for each piece, which costs
    /// more than our copy (docs/notes/bypass.md).
    ///
    /// # Errors
    /// `EPERM` without `CAP_NET_RAW`, `ENOBUFS` if the memory may not be locked, `EBUSY` if the queue has a socket,
    /// `EINVAL` if the interface has no such queue or the kernel does not support jumbo frames here (before 6.6).
    pub(super) fn open(binding: Binding) -> io::Result<Self> {
        let copying = Binding { lends: None, ..binding };
        let ways = [(binding.zero_copy, Mode::ZeroCopy), (binding.lends_to_kernel, Mode::Copy)];
        let ways = ways.into_iter().filter(|(applies, _)| *applies && binding.lends.is_some());
        let mut lacks_locked_memory = false;
        for (_, mode) in ways {
            match Self::open_by(binding, mode) {
                Ok(socket) => return Ok(socket),
                // The wait for it is over already, so only the last mode tries again.
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => break,
                // An error of every mode also occurs in the last one, which reports it.
                Err(error) => lacks_locked_memory |= error.raw_os_error() == Some(libc::ENOBUFS),
            }
        }
        let mode = if binding.zero_copy { Mode::Either } else { Mode::Copy };
        Ok(Self { lacks_locked_memory, ..Self::open_by(copying, mode)? })
    }

    fn open_by(binding: Binding, mode: Mode) -> io::Result<Self> {
        let kind = (AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC);
        let fd = rustix::net::socket_with(kind.0, kind.1, kind.2, None)?;
        let others_bytes = binding.lends.map_or(0, BuffersInPlace::bytes_all);
        let (mut umem, mut free, memory) =
            Umem::new(RECEIVE_CHUNKS + SEND_CHUNKS, others_bytes, binding.node)?;
        let in_place =
            binding.lends.map(|blocks| InPlace::new(blocks, memory.base(), umem.others_address()));
        let pieces = if in_place.is_some() { PIECES } else { SEND_CHUNKS };
        register(&fd, &umem)?;
        sockopt::set_socket_send_buffer_size_force(&fd, SEND_BUFFER_BYTES)?;
        sockopt::set_xdp_umem_fill_ring_size(&fd, RECEIVE_CHUNKS)?;
        sockopt::set_xdp_umem_completion_ring_size(&fd, pieces)?;
        sockopt::set_xdp_rx_ring_size(&fd, RECEIVE_CHUNKS)?;
        sockopt::set_xdp_tx_ring_size(&fd, pieces)?;
        // Older kernels need several calls for a super-segment, which costs time and nothing else.
        let _ = set_transmit_budget(&fd, pieces);
        let offsets = sockopt::xdp_mmap_offsets(&fd)?;
        let (at, borrowed) = (XDP_UMEM_PGOFF_FILL_RING, fd.as_fd());
        let mut fill = Producer::map(borrowed, at, offsets.fr, RECEIVE_CHUNKS)?;
        let at = XDP_UMEM_PGOFF_COMPLETION_RING;
        let completion = Consumer::map(borrowed, at, offsets.cr, pieces)?;
        let receive = Consumer::map(borrowed, XDP_PGOFF_RX_RING, offsets.rx, RECEIVE_CHUNKS)?;
        let transmit = Producer::map(borrowed, XDP_PGOFF_TX_RING, offsets.tx, pieces)?;
        for chunk in free.drain(..RECEIVE_CHUNKS as usize) {
            fill.push(umem.give(chunk));
        }
        fill.publish();
        bind(&fd, binding, mode)?;
        let is_zero_copy =
            sockopt::xdp_options(&fd)?.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY);
        let empty = Vec::with_capacity(RECEIVE_CHUNKS as usize);
        let memory = in_place.is_some().then_some(memory);
        Ok(Self {
            fd,
            umem,
            fill,
            completion,
            receive,
            transmit,
            free,
            empty,
            is_zero_copy,
            lacks_locked_memory: false,
            in_place,
            memory,
        })
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

/// Without a flag about copying, the kernel tries zero copy and falls back. It takes a moment to release the queue of a process that was killed.
fn bind(fd: &OwnedFd, binding: Binding, mode: Mode) -> io::Result<()> {
    let mut flags = SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
    flags.set(SocketAddrXdpFlags::XDP_COPY, matches!(mode, Mode::Copy));
    flags.set(SocketAddrXdpFlags::XDP_ZEROCOPY, matches!(mode, Mode::ZeroCopy));
    flags.set(SocketAddrXdpFlags::XDP_USE_SG, binding.is_jumbo || binding.lends.is_some());
    let address = SocketAddrXdp::new(flags, binding.interface, binding.queue);
    let deadline = Instant::now() + BUSY_PATIENCE;
    loop {
        match rustix::net::bind(fd, &address) {
            Err(Errno::BUSY) if Instant::now() < deadline => std::thread::sleep(BUSY_INTERVAL),
            other => return Ok(other?),
        }
    }
}
