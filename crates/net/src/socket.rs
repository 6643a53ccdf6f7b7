//! One connection's socket: calls that never wait, and waits that cost no buffer.

use reactor::{Fd, op};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown};
use socket2::SockRef;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// A connected, non-blocking TCP socket.
#[derive(Clone, Debug)]
pub struct Socket(Fd);

impl From<OwnedFd> for Socket {
    fn from(fd: OwnedFd) -> Self {
        Self(fd.into())
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

    /// Whether the kernel takes bytes now (or the peer is gone, which the next send tells).
    pub fn is_writable(&self) -> bool {
        let fd = self.0.borrowed();
        let mut poll = [PollFd::new(&fd, PollFlags::OUT)];
        matches!(rustix::event::poll(&mut poll, Some(&Timespec::default())), Ok(1))
    }

    /// Waits until something has arrived or the peer is gone.
    pub async fn readable(&self) {
        // Whatever the poll says, the next call on the socket tells.
        let _ = op::readable(&self.0).await;
    }

    /// Waits until the kernel takes bytes again or the peer is gone.
    pub async fn writable(&self) {
        let _ = op::writable(&self.0).await;
    }

    /// Says that nothing more will be sent. What was sent before still arrives.
    pub fn finish(&self) {
        let _ = rustix::net::shutdown(self.0.borrowed(), Shutdown::Write);
    }
}
