//! One connection's socket: calls that never wait, and waits that cost no buffer.

use crate::listener::set_option;
use reactor::op::Op;
use reactor::{Fd, op, sleep};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};
use socket2::SockRef;
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// The most bytes that one call throws away.
pub const DISCARD_BYTES_MAX: usize = 1 << 20;

thread_local! {
    /// What a discarding call names as its memory. The kernel takes its length and leaves it alone, so that its pages,
    /// fresh from the kernel and zero, never come to be.
    static UNTOUCHED: RefCell<Vec<u8>> = RefCell::new(vec![0; DISCARD_BYTES_MAX]);
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
    /// The viewer's address; IPv4 in its own form even on an IPv6 listener.
    ///
    /// # Errors
    /// When the viewer is already gone.
    pub fn peer(&self) -> io::Result<SocketAddr> {
        let address = SockRef::from(&self.0.borrowed()).peer_addr()?;
        let mut address = address.as_socket().ok_or(io::ErrorKind::InvalidInput)?;
        address.set_ip(address.ip().to_canonical());
        Ok(address)
    }

    /// Takes what has arrived: `None` when nothing has, `Some(0)` when the peer has finished.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn receive(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        match rustix::net::recv(self.0.borrowed(), &mut *into, RecvFlags::DONTWAIT) {
            Ok((bytes, _)) => Ok(Some(bytes)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Appends what has arrived, at most `bytes_max`, to `into`: `None` when nothing has, `Some(0)` when the peer has
    /// finished.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn receive_into(&self, into: &mut Vec<u8>, bytes_max: usize) -> io::Result<Option<usize>> {
        let start = into.len();
        into.resize(start + bytes_max, 0);
        let received = self.receive(&mut into[start..]);
        let bytes = received.as_ref().ok().copied().flatten().unwrap_or(0);
        into.truncate(start + bytes);
        received
    }

    /// Throws away what has arrived, at most `bytes_max` and at most [`DISCARD_BYTES_MAX`], without copying it
    /// (`MSG_TRUNC`, tcp(7)). Returns how many: `None` when nothing has arrived, `Some(0)` when the peer has finished.
    ///
    /// # Errors
    /// When the connection is broken.
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

    /// Makes the kernel forget this connection at once when it is closed: the peer sees a reset, and the port does not
    /// wait a minute before it can be used again.
    pub fn reset_on_close(&self) {
        // If it fails, the connection is gone already.
        let _ = SockRef::from(&self.0.borrowed()).set_linger(Some(Duration::ZERO));
    }

    /// Gives the kernel as many of `bytes` as it takes now, and says how many: 0 when it takes none.
    ///
    /// `more` says that the next bytes follow at once, so that the last packet may wait for them.
    ///
    /// # Errors
    /// When the connection is broken.
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
    /// When the connection is broken.
    pub fn send_parts(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let mut control = SendAncillaryBuffer::default();
        match rustix::net::sendmsg(self.0.borrowed(), parts, &mut control, flags) {
            Ok(sent) => Ok(sent),
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// As [`Self::send`], for `bytes` of a file from `offset` on, which the kernel takes out of its page cache. What is
    /// not there is waited for: make sure that it is. 0 is also what a file that has become shorter says.
    ///
    /// The kernel may go on referring to the file's pages until the viewer has them ([`Self::unacknowledged_bytes`]).
    ///
    /// # Errors
    /// When the connection is broken, or the file cannot be read (`EIO`).
    pub fn send_file(&self, file: BorrowedFd<'_>, offset: u64, bytes: usize) -> io::Result<usize> {
        let mut offset = offset;
        match rustix::fs::sendfile(self.0.borrowed(), file, Some(&mut offset), bytes) {
            Ok(sent) => Ok(sent),
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether TCP keeps a packet that is not full until more comes (`TCP_CORK`, tcp(7)); taking that back sends it. For
    /// [`Self::send_file`], as long as nothing has to be waited for.
    ///
    /// The kernel sends a file in pieces of 16 pages (`splice_direct_to_actor`, fs/splice.c). Without a cork, what is left
    /// over of a piece leaves as a small packet of its own as soon as an acknowledgement arrives: over loopback, two
    /// small ones were seen for five full ones. And for a socket that it seals for, it tells TCP that more follows and
    /// never takes that back when only a part was taken (seen on Linux 6.1): with little in flight, nothing would ever send
    /// the rest.
    pub fn cork(&self, corked: bool) {
        // If it fails, the connection is gone already.
        let _ = SockRef::from(&self.0.borrowed()).set_tcp_cork(corked);
    }

    /// Bytes that were sent and that the viewer has not acknowledged (`SIOCOUTQ`, tcp(7)); 0 when the connection is
    /// gone, since nothing of it is sent any more.
    pub fn unacknowledged_bytes(&self) -> usize {
        let mut bytes: libc::c_int = 0;
        // SAFETY: the request writes one int, to `bytes`, before the call returns.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
        // Once the connection is reset, the kernel still says how much was under way.
        let is_known = result == 0 && !self.is_closed();
        if is_known { usize::try_from(bytes).unwrap_or(0) } else { 0 }
    }

    /// Whether TCP has nothing more to do for this connection, because of a reset or a time-out above all.
    fn is_closed(&self) -> bool {
        /// `TCP_CLOSE` of include/net/tcp_states.h.
        const CLOSED: u8 = 7;
        let mut state = 0u8;
        let mut bytes = 1;
        let fd = self.0.as_raw_fd();
        // SAFETY: the kernel writes as many bytes of `tcp_info` as `bytes` says, one, to `state`, which lives until the
        // call returns. The first byte is the state (include/uapi/linux/tcp.h).
        let result = unsafe {
            let state = (&raw mut state).cast();
            libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, state, &raw mut bytes)
        };
        result == 0 && state == CLOSED
    }

    pub(crate) fn fd(&self) -> &Fd {
        &self.0
    }

    /// Whether the kernel takes bytes now (or the peer is gone, which the next send tells).
    pub fn is_writable(&self) -> bool {
        let fd = self.0.borrowed();
        let mut poll = [PollFd::new(&fd, PollFlags::OUT)];
        matches!(rustix::event::poll(&mut poll, Some(&Timespec::default())), Ok(1))
    }

    /// Waits until something has arrived or the peer is gone.
    pub async fn readable(&self) {
        heeded(op::readable(&self.0)).await;
    }

    /// Waits until the kernel takes bytes again or the peer is gone.
    pub async fn writable(&self) {
        heeded(op::writable(&self.0)).await;
    }

    /// As [`Self::writable`], after the kernel has taken none. If it says that it takes bytes all the same, it is out of memory for
    /// sockets, which asking at once would not change.
    pub async fn writable_again(&self) {
        if self.is_writable() { sleep(op::SHORTAGE_PAUSE).await } else { self.writable().await }
    }

    /// From now on the socket is readable once so many bytes have arrived, or the peer has finished (`SO_RCVLOWAT`,
    /// socket(7)). The kernel takes less where the receive buffer has no room for as much.
    ///
    /// # Errors
    /// Only when this is no socket.
    pub fn wake_at(&self, bytes: i32) -> io::Result<()> {
        set_option(&self.0.borrowed(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes)
    }

    /// Says that nothing more will be sent. What was sent before still arrives.
    pub fn finish(&self) {
        let _ = rustix::net::shutdown(self.0.borrowed(), Shutdown::Write);
    }
}

/// Waits for a poll. Whatever it says, the next call on the socket tells; but one that the kernel had no memory for is over at once, and whoever
/// waits would ask again and again.
async fn heeded(poll: Op<Fd>) {
    if poll.await.0.is_err() {
        sleep(op::SHORTAGE_PAUSE).await;
    }
}
