//! One connection's socket: calls that never block, and waits that hold no buffer.

use crate::listener::{mark, set_option};
use reactor::op::Op;
use reactor::{Fd, op, sleep, yield_now};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};
use socket2::{SockAddr, SockRef};
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// The most bytes that one call discards.
pub const DISCARD_BYTES_MAX: usize = 1 << 20;

/// From include/uapi/linux/in.h; the C library's headers leave it out.
const IP_PKTOPTIONS: i32 = 9;

thread_local! {
    /// The memory that a discarding call passes. The kernel uses only its length, so its zeroed pages are never touched
    /// and take no memory.
    static UNTOUCHED: RefCell<Vec<u8>> = RefCell::new(vec![0; DISCARD_BYTES_MAX]);
}

/// A connection's progress in sending, as TCP counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendProgress {
    /// Bytes, including retransmissions.
    pub sent_bytes: u64,
    /// Retransmitted bytes.
    pub retransmitted_bytes: u64,
    /// Segments with data, including retransmissions.
    pub sent_segments: u64,
    /// Retransmitted segments.
    pub retransmitted_segments: u64,
}

impl SendProgress {
    /// The difference to an earlier state.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            sent_bytes: self.sent_bytes.saturating_sub(before.sent_bytes),
            retransmitted_bytes: self
                .retransmitted_bytes
                .saturating_sub(before.retransmitted_bytes),
            sent_segments: self.sent_segments.saturating_sub(before.sent_segments),
            retransmitted_segments: self
                .retransmitted_segments
                .saturating_sub(before.retransmitted_segments),
        }
    }

    /// The sum with another.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            sent_bytes: self.sent_bytes.saturating_add(other.sent_bytes),
            retransmitted_bytes: self.retransmitted_bytes.saturating_add(other.retransmitted_bytes),
            sent_segments: self.sent_segments.saturating_add(other.sent_segments),
            retransmitted_segments: self
                .retransmitted_segments
                .saturating_add(other.retransmitted_segments),
        }
    }

    /// Reads `struct tcp_info` (include/uapi/linux/tcp.h), as long as the kernel has made it. None if one of the numbers is missing.
    fn of_tcp_info(info: &[u8]) -> Option<Self> {
        let four = |at: usize| Some(u32::from_ne_bytes(info.get(at..at + 4)?.try_into().ok()?));
        let eight = |at: usize| Some(u64::from_ne_bytes(info.get(at..at + 8)?.try_into().ok()?));
        Some(Self {
            sent_bytes: eight(200)?,
            retransmitted_bytes: eight(208)?,
            sent_segments: four(156)?.into(),
            retransmitted_segments: four(100)?.into(),
        })
    }
}

/// The events that a socket is ready for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// The kernel takes bytes. Also true if the peer is gone: the next send reports that.
    pub writable: bool,
    /// Something has arrived, or the peer has finished.
    pub readable: bool,
}

impl Ready {
    fn of_events(events: PollFlags) -> Self {
        let is_gone = events.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL);
        Self {
            writable: is_gone || events.contains(PollFlags::OUT),
            readable: events.intersects(PollFlags::IN | PollFlags::RDHUP),
        }
    }
}

/// A connected, non-blocking TCP socket.
#[derive(Clone, Debug)]
pub struct Socket(Fd);

impl From<OwnedFd> for Socket {
    fn from(fd: OwnedFd) -> Self {
        Self(fd.into())
    }
}

impl From<Fd> for Socket {
    fn from(fd: Fd) -> Self {
        Self(fd)
    }
}

impl Socket {
    /// The viewer's address. An IPv4 address is in IPv4 form even on an IPv6 listener.
    ///
    /// # Errors
    /// If the viewer is already gone.
    pub fn peer(&self) -> io::Result<SocketAddr> {
        canonical(SockRef::from(&self.0.borrowed()).peer_addr()?)
    }

    /// The address at this end, in the same form.
    ///
    /// # Errors
    /// Only if this is not a socket.
    pub fn own(&self) -> io::Result<SocketAddr> {
        canonical(SockRef::from(&self.0.borrowed()).local_addr()?)
    }

    /// The number of the network interface on which the last packet of the handshake arrived. `None` if the kernel does not report it: over IPv4 it
    /// does so only if the listener asked for it ([`crate::ListenerOptions::tells_nic`]).
    pub fn arrived_on(&self, listener_is_ipv6: bool) -> Option<u32> {
        // On a socket of an IPv6 listener it is in the option for the multicast interface, even if the viewer came over IPv4. On one of an IPv4
        // listener it is in the control message IP_PKTINFO: struct cmsghdr, 16 bytes, then struct in_pktinfo, which begins with it.
        let (level, name, bytes, at) = match listener_is_ipv6 {
            true => (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF, 4, 0),
            false => (libc::IPPROTO_IP, IP_PKTOPTIONS, 64, 16),
        };
        let mut answer = [0u8; 64];
        let mut length: libc::socklen_t = bytes;
        let fd = self.0.as_raw_fd();
        // SAFETY: the kernel writes at most `length` bytes, no more than `answer` has, and `answer` lives until the call returns.
        let result =
            unsafe { libc::getsockopt(fd, level, name, (&raw mut answer).cast(), &raw mut length) };
        let index = answer[..length as usize].get(at..at + 4).filter(|_| result == 0)?;
        let index = u32::from_ne_bytes(index.try_into().ok()?);
        (index > 0).then_some(index)
    }

    /// Receives the bytes that have arrived: `None` if there are none, `Some(0)` if the peer has finished.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn receive(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        match rustix::net::recv(self.0.borrowed(), &mut *into, RecvFlags::DONTWAIT) {
            Ok((bytes, _)) => Ok(Some(bytes)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Appends the bytes that have arrived, at most `bytes_max`, to `into`: `None` if there are none, `Some(0)` if the peer has finished.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn receive_into(&self, into: &mut Vec<u8>, bytes_max: usize) -> io::Result<Option<usize>> {
        let start = into.len();
        into.resize(start + bytes_max, 0);
        let received = self.receive(&mut into[start..]);
        let bytes = received.as_ref().ok().copied().flatten().unwrap_or(0);
        into.truncate(start + bytes);
        received
    }

    /// Discards what has arrived, at most `bytes_max` and at most [`DISCARD_BYTES_MAX`], without copying it
    /// (`MSG_TRUNC`, tcp(7)). Returns the number of bytes: `None` if nothing has arrived, `Some(0)` if the peer has
    /// finished.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn discard(&self, bytes_max: usize) -> io::Result<Option<usize>> {
        UNTOUCHED.with_borrow_mut(|room| {
            let room = &mut room[..bytes_max.min(DISCARD_BYTES_MAX)];
            let flags = RecvFlags::DONTWAIT | RecvFlags::TRUNC;
            match rustix::net::recv(self.0.borrowed(), room, flags) {
                Ok((_, bytes)) => Ok(Some(bytes)),
                Err(Errno::AGAIN | Errno::INTR) => Ok(None),
                Err(error) => Err(error.into()),
            }
        })
    }

    /// Makes the kernel reset this connection when it is closed, and forget it. The port can then be used again without
    /// waiting a minute.
    pub fn reset_on_close(&self) {
        // If it fails, the connection is gone already.
        let _ = SockRef::from(&self.0.borrowed()).set_linger(Some(Duration::ZERO));
    }

    /// Gives the kernel as many of `bytes` as it takes now, and returns how many: 0 if it takes none.
    ///
    /// `more` announces that the next bytes follow at once, so that the last packet may wait for them.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn send(&self, bytes: &[u8], more: bool) -> io::Result<usize> {
        let mut flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        if more {
            flags |= SendFlags::MORE;
        }
        match rustix::net::send(self.0.borrowed(), bytes, flags) {
            Ok(sent) => Ok(sent),
            // ENOBUFS, ENOMEM: the kernel is short of memory; the caller waits and tries again.
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// As [`Self::send`], for bytes that lie in several places.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn send_parts(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let mut control = SendAncillaryBuffer::default();
        match rustix::net::sendmsg(self.0.borrowed(), parts, &mut control, flags) {
            Ok(sent) => Ok(sent),
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// As [`Self::send`], for `bytes` of a file from `offset` on, which the kernel takes from its page cache. The call blocks for bytes that are not
    /// cached, so make sure that they are. It also returns 0 if the file was truncated.
    ///
    /// The kernel may go on referring to the file's pages until the viewer has them ([`Self::unacknowledged_bytes`]).
    ///
    /// # Errors
    /// If the connection is broken, or the file cannot be read (`EIO`).
    pub fn send_file(&self, file: BorrowedFd<'_>, offset: u64, bytes: usize) -> io::Result<usize> {
        let mut offset = offset;
        match rustix::fs::sendfile(self.0.borrowed(), file, Some(&mut offset), bytes) {
            Ok(sent) => Ok(sent),
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Sets whether TCP holds back a packet that is not full until more bytes come (`TCP_CORK`, tcp(7)). Uncorking sends it. Use it with
    /// [`Self::send_file`], as long as there is nothing to wait for.
    ///
    /// The kernel sends a file in pieces of 16 pages (`splice_direct_to_actor`, fs/splice.c). Without a cork, the remainder of a piece leaves as a
    /// small packet of its own as soon as an acknowledgement arrives: over loopback, two small ones were seen for five full ones. A socket that the
    /// kernel encrypts needs the cork for a second reason. The kernel announces to TCP that more follows, and never takes that back if only a part
    /// was taken (seen on Linux 6.1): with little in flight, nothing would ever send the rest.
    pub fn cork(&self, corked: bool) {
        // If it fails, the connection is gone already.
        let _ = SockRef::from(&self.0.borrowed()).set_tcp_cork(corked);
    }

    /// Bytes that were sent and not acknowledged by the viewer (`SIOCOUTQ`, tcp(7)). 0 if the connection is gone, because nothing more is sent then.
    pub fn unacknowledged_bytes(&self) -> usize {
        let mut bytes: libc::c_int = 0;
        // SAFETY: the request writes one int, to `bytes`, before the call returns.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
        // After a reset, the kernel still reports the bytes in flight.
        let is_known = result == 0 && !self.is_closed();
        if is_known { usize::try_from(bytes).unwrap_or(0) } else { 0 }
    }

    /// The connection's progress in sending. None if the kernel does not report all of it (before Linux 4.19).
    pub fn send_progress(&self) -> Option<SendProgress> {
        let mut info = [0; 216];
        SendProgress::of_tcp_info(self.tcp_info(&mut info)?)
    }

    /// Returns true if TCP has closed this connection, usually because of a reset or a timeout.
    fn is_closed(&self) -> bool {
        /// `TCP_CLOSE` of include/net/tcp_states.h.
        const CLOSED: u8 = 7;
        // The first byte is the state (include/uapi/linux/tcp.h).
        self.tcp_info(&mut [0; 1]).is_some_and(|info| info == [CLOSED])
    }

    /// Fills `into` with the beginning of `struct tcp_info`, and returns the part that the kernel has.
    fn tcp_info<'a>(&self, into: &'a mut [u8]) -> Option<&'a [u8]> {
        let mut bytes = libc::socklen_t::try_from(into.len()).ok()?;
        let fd = self.0.as_raw_fd();
        // SAFETY: the kernel writes at most `bytes` bytes to `into`, which has as many and lives until the call returns.
        let result = unsafe {
            let into = into.as_mut_ptr().cast();
            libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, into, &raw mut bytes)
        };
        (result == 0).then(|| &into[..bytes as usize])
    }

    pub(crate) fn fd(&self) -> &Fd {
        &self.0
    }

    /// Returns true if the kernel takes bytes now. Also true if the peer is gone: the next send reports that.
    pub fn is_writable(&self) -> bool {
        self.readiness(false).writable
    }

    /// The events that the socket is ready for now. Checks for arrived bytes only `if_readable`. One system call either way.
    pub fn readiness(&self, if_readable: bool) -> Ready {
        let fd = self.0.borrowed();
        let readable =
            if if_readable { PollFlags::IN | PollFlags::RDHUP } else { PollFlags::empty() };
        let mut poll = [PollFd::new(&fd, PollFlags::OUT | readable)];
        match rustix::event::poll(&mut poll, Some(&Timespec::default())) {
            Ok(1) => Ready::of_events(poll[0].revents()),
            _ => Ready::default(),
        }
    }

    /// Waits until something has arrived or the peer is gone.
    pub async fn readable(&self) {
        heeded(op::readable(&self.0)).await;
    }

    /// Waits until the kernel takes bytes again or the peer is gone.
    pub async fn writable(&self) {
        heeded(op::writable(&self.0)).await;
    }

    /// Waits until the kernel takes bytes again, something has arrived, or the peer is gone. Returns which.
    pub async fn readable_or_writable(&self) -> Ready {
        match op::readable_or_writable(&self.0).await.0 {
            // The kernel's poll events have 16 bits.
            Ok(events) => Ready::of_events(PollFlags::from_bits_retain(events as u16)),
            Err(_) => {
                sleep(op::SHORTAGE_PAUSE).await;
                Ready::default()
            }
        }
    }

    /// Waits until the peer has closed its end or is gone, whatever has arrived before that.
    pub async fn peer_closed(&self) {
        if op::peer_closed(&self.0).await.0.is_err() {
            // The kernel had no memory for the poll, so nothing is known of the peer.
            std::future::pending().await
        }
    }

    /// As [`Self::writable`], after the kernel has taken no bytes. If the socket is writable all the same, the kernel is out of memory for sockets,
    /// and an immediate retry would not help.
    pub async fn writable_again(&self) {
        if self.is_writable() { sleep(op::SHORTAGE_PAUSE).await } else { self.writable().await }
    }

    /// Makes the socket writable, from now on, when fewer than `unsent_bytes` wait in the kernel (`TCP_NOTSENT_LOWAT`, tcp(7)).
    pub fn ask_below(&self, unsent_bytes: u32) {
        // If it fails, the connection is gone already.
        let _ = SockRef::from(&self.0.borrowed()).set_tcp_notsent_lowat(unsent_bytes);
    }

    /// Makes the socket readable, from now on, once `bytes` have arrived, or the peer has finished (`SO_RCVLOWAT`, socket(7)). The kernel uses a
    /// lower mark if the receive buffer is smaller.
    ///
    /// # Errors
    /// Only if this is not a socket.
    pub fn wake_at(&self, bytes: i32) -> io::Result<()> {
        set_option(&self.0.borrowed(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes)
    }

    /// Makes the kernel choose the connection's route by this mark from now on ([`mark`]).
    ///
    /// # Errors
    /// `EPERM` without `CAP_NET_RAW`.
    pub fn mark(&self, number: u32) -> io::Result<()> {
        mark(&self.0.borrowed(), number)
    }

    /// Returns true if the kernel knows by which NIC the connection leaves. A new mark makes it forget that until it has sent a packet.
    pub fn has_route(&self) -> bool {
        let mut mtu_bytes: libc::c_int = 0;
        let mut length = size_of::<libc::c_int>() as libc::socklen_t;
        let (fd, level) = (self.0.as_raw_fd(), libc::IPPROTO_IP);
        let into = (&raw mut mtu_bytes).cast();
        // The kernel answers with the route's MTU, and with an error if there is no route (ip(7)).
        // SAFETY: the kernel writes at most `length` bytes, which `mtu_bytes` has, and it lives until the call returns.
        let result = unsafe { libc::getsockopt(fd, level, libc::IP_MTU, into, &raw mut length) };
        result == 0
    }

    /// The socket's mark ([`Self::mark`], or its listener's).
    ///
    /// # Errors
    /// Only if this is not a socket.
    pub fn own_mark(&self) -> io::Result<u32> {
        SockRef::from(&self.0.borrowed()).mark()
    }

    /// The device at which its routes begin: the one that it is bound to, or the VRF through which the viewer came (`SO_BINDTOIFINDEX`). 0 if there
    /// is none.
    ///
    /// # Errors
    /// On a kernel before 5.1.
    pub fn bound_to(&self) -> io::Result<u32> {
        let mut device: u32 = 0;
        let mut length = size_of::<u32>() as libc::socklen_t;
        let (fd, level) = (self.0.as_raw_fd(), libc::SOL_SOCKET);
        let into = (&raw mut device).cast();
        // SAFETY: the kernel writes at most `length` bytes, which `device` has, and `device` lives until the call returns.
        let result =
            unsafe { libc::getsockopt(fd, level, libc::SO_BINDTOIFINDEX, into, &raw mut length) };
        if result == 0 { Ok(device) } else { Err(io::Error::last_os_error()) }
    }

    /// Takes the descriptor out, so that another thread can continue the connection. Waits until abandoned operations on it, such as a wait that
    /// timed out, have left the kernel: that takes a turn of the reactor or two.
    ///
    /// # Errors
    /// `self`, if the socket has another user.
    pub async fn into_owned(self) -> Result<OwnedFd, Self> {
        /// Many times the turns that a cancelled wait takes.
        const TURNS_MAX: usize = 16;
        let mut fd = self.0;
        for _ in 0..TURNS_MAX {
            match fd.into_owned() {
                Ok(owned) => return Ok(owned),
                Err(shared) => fd = shared,
            }
            yield_now().await;
        }
        fd.into_owned().map_err(Self)
    }

    /// Ends the sending direction. Earlier bytes still arrive.
    pub fn finish(&self) {
        let _ = rustix::net::shutdown(self.0.borrowed(), Shutdown::Write);
    }

    /// Ends both directions, so that whatever waits for the socket goes on and finds it closed.
    pub fn hang_up(&self) {
        let _ = rustix::net::shutdown(self.0.borrowed(), Shutdown::Both);
    }
}

/// An IPv4 address in IPv4 form even on an IPv6 listener.
fn canonical(address: SockAddr) -> io::Result<SocketAddr> {
    let mut address = address.as_socket().ok_or(io::ErrorKind::InvalidInput)?;
    address.set_ip(address.ip().to_canonical());
    Ok(address)
}

/// Waits for a poll. Its result does not matter, because the next call on the socket reports it. But a poll for which the kernel had no memory ends
/// at once, and without a pause the caller would repeat it endlessly.
async fn heeded(poll: Op<Fd>) {
    if poll.await.0.is_err() {
        sleep(op::SHORTAGE_PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_new_mark_makes_a_socket_forget_its_route_until_it_sends() {
        for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let port = listener.local_addr().unwrap().port();
            let peer = if address.contains("1]") { "[::1]" } else { "127.0.0.1" };
            let _peer = TcpStream::connect(format!("{peer}:{port}")).unwrap();
            let accepted = listener.accept().unwrap().0;
            accepted.set_nonblocking(true).unwrap();
            let socket = Socket::from(OwnedFd::from(accepted));
            assert!(socket.has_route(), "{address}");
            if let Err(why) = socket.mark(7) {
                assert_eq!(why.raw_os_error(), Some(libc::EPERM));
                fullbore_tests::tool::skip("marks need root");
                return;
            }
            assert!(!socket.has_route(), "{address}");
            assert_eq!(socket.send(b"packet", false).unwrap(), 6);
            assert!(socket.has_route(), "{address}");
        }
    }

    #[test]
    fn a_socket_tells_the_device_that_it_is_bound_to() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let bound = SockRef::from(&stream).bind_device(Some(b"lo"));
        let socket = Socket::from(OwnedFd::from(stream));
        let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(Socket::from(OwnedFd::from(other)).bound_to().unwrap(), 0);
        match bound {
            Ok(()) => {
                assert_eq!(Some(socket.bound_to().unwrap()), crate::listener::nic_index("lo"))
            }
            Err(error) => fullbore_tests::tool::skip(&format!(
                "a socket cannot be bound to a device here: {error}"
            )),
        }
    }

    #[test]
    fn what_was_sent_is_counted_and_a_shorter_answer_is_no_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        sender.write_all(&[7; 1000]).unwrap();
        receiver.read_exact(&mut [0; 1000]).unwrap();
        let socket = Socket::from(OwnedFd::from(sender));
        let mut info = [0; 216];
        let told = socket.tcp_info(&mut info).unwrap();
        assert_eq!(SendProgress::of_tcp_info(&told[..told.len() - 1]), None);
        // Some kernels that are not Linux (gVisor) report less.
        if let Some(progress) = socket.send_progress() {
            assert_eq!((progress.sent_bytes, progress.retransmitted_bytes), (1000, 0));
            assert_eq!((progress.sent_segments, progress.retransmitted_segments), (1, 0));
        }
    }
}
