//! One interface, as a packet socket that receives every frame and can send any (packet(7)).
//!
//! Each frame has a virtio-net header in front, in both directions. The kernel uses it to describe super-segments and unfinished checksums;
//! frames that we send declare that they have none.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use fullbore_middlebox::frame::OFFLOAD_BYTES;
use rustix::net::{RecvFlags, SendFlags};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

/// The largest frame that the kernel hands over: a super-segment of 64 KiB and its headers.
const FRAME_BYTES_MAX: usize = OFFLOAD_BYTES + (64 << 10) + 256;
/// Size of the kernel's buffer for times when this process does not run: 100 ms at 2.5 Gbit/s.
const SOCKET_BUFFER_BYTES: libc::c_int = 32 << 20;

/// One interface.
pub(crate) struct Port {
    socket: Socket,
    buffer: Vec<u8>,
    /// Frames that the kernel dropped since the start, because this process was too slow.
    dropped_by_kernel: u64,
}

/// The result of receiving.
pub(crate) enum Arrived {
    /// [`Port::bytes`] holds this many bytes: a virtio-net header and a frame.
    Frame(usize),
    /// A frame that the kernel could not describe, or that is larger than the buffer. It is lost.
    Unusable,
    /// There is no frame for now.
    Nothing,
}

impl Port {
    /// Opens the interface `name` of this network namespace.
    ///
    /// # Errors
    /// Without CAP_NET_RAW, or if there is no such interface.
    pub(crate) fn open(name: &str) -> io::Result<Self> {
        // Protocol 0 receives nothing until the socket is bound. Otherwise frames of other interfaces would be in its queue.
        let socket = Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(0)))?;
        socket.set_nonblocking(true)?;
        let index = rustix::net::netdevice::name_to_index(&socket, name)?;
        let index = i32::try_from(index).map_err(|_| io::ErrorKind::InvalidInput)?;
        set(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1)?;
        set(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1)?;
        for force in [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE] {
            enlarge(&socket, force)?;
        }
        let wanted = libc::packet_mreq {
            mr_ifindex: index,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        set_value(&socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &wanted)?;
        socket.bind(&link_address(index))?;
        Ok(Self { socket, buffer: vec![0; FRAME_BYTES_MAX], dropped_by_kernel: 0 })
    }

    /// Receives the next frame from the interface.
    ///
    /// # Errors
    /// If the interface has gone or is down.
    pub(crate) fn receive(&mut self) -> io::Result<Arrived> {
        match rustix::net::recv(&self.socket, &mut self.buffer[..], RecvFlags::TRUNC) {
            Ok((_, bytes)) if !(OFFLOAD_BYTES..=FRAME_BYTES_MAX).contains(&bytes) => {
                Ok(Arrived::Unusable)
            }
            Ok((_, bytes)) => Ok(Arrived::Frame(bytes)),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(Arrived::Nothing),
            // Super-segments of kinds that the virtio-net header cannot name.
            Err(rustix::io::Errno::INVAL) => Ok(Arrived::Unusable),
            Err(error) => Err(error.into()),
        }
    }

    /// The first `bytes` of what was received last.
    pub(crate) fn bytes(&mut self, bytes: usize) -> &mut [u8] {
        &mut self.buffer[..bytes]
    }

    /// Sends a virtio-net header with its frame. Returns whether the interface took it: it may be full, or the frame too large.
    ///
    /// # Errors
    /// If the interface has gone or is down.
    pub(crate) fn send(&self, packet: &[u8]) -> io::Result<bool> {
        use rustix::io::Errno;
        match rustix::net::send(&self.socket, packet, SendFlags::empty()) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::MSGSIZE | Errno::INVAL | Errno::INTR) => {
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Frames that the kernel has dropped so far, because this process was too slow.
    pub(crate) fn dropped_by_kernel(&mut self) -> u64 {
        let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut bytes = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `bytes` into `statistics`, which is that large.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &raw mut bytes,
            )
        };
        if result == 0 {
            // Reading resets the kernel's counter to 0.
            self.dropped_by_kernel += u64::from(statistics.tp_drops);
        }
        self.dropped_by_kernel
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Without CAP_NET_ADMIN the buffer keeps its size, which is small but works.
fn enlarge(socket: &Socket, force: libc::c_int) -> io::Result<()> {
    match set(socket, libc::SOL_SOCKET, force, &SOCKET_BUFFER_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        other => other,
    }
}

fn set(
    socket: &Socket,
    level: libc::c_int,
    name: libc::c_int,
    value: &libc::c_int,
) -> io::Result<()> {
    set_value(socket, level, name, value)
}

fn set_value<T>(
    socket: &Socket,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let bytes = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `bytes` from `value`, which is that large; both callers' types are plain numbers.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast::<libc::c_void>(),
            bytes,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The address for frames of every protocol on one interface.
fn link_address(index: i32) -> SockAddr {
    // SAFETY: `sockaddr_ll` fits into a `sockaddr_storage`, which is aligned for every kind of address, and the length is that of the data
    // written.
    let ((), address) = unsafe {
        SockAddr::try_init(|storage, length| {
            let address = storage.cast::<libc::sockaddr_ll>();
            (*address).sll_family = libc::AF_PACKET as u16;
            (*address).sll_protocol = (libc::ETH_P_ALL as u16).to_be();
            (*address).sll_ifindex = index;
            *length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            Ok(())
        })
    }
    .expect("nothing in it fails");
    address
}
