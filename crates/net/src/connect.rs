//! Connects to a server without blocking in a system call.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use reactor::{Fd, op};
use socket2::{Domain, Protocol, SockRef, Type};

use crate::Socket;

/// How to connect.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectOptions {
    /// Size of the kernel's receive buffer in bytes (`SO_RCVBUF`, which the kernel doubles for its own needs). `None`
    /// leaves it to the kernel, which then grows it with the connection.
    pub receive_buffer_bytes: Option<usize>,
}

/// Connects to `address`. Small writes go out at once (`TCP_NODELAY`). There is no time limit: the caller sets one.
///
/// # Errors
/// The kernel's: connection refused, unreachable, no descriptor (`EMFILE`), no port (`EADDRNOTAVAIL`).
pub async fn connect(address: SocketAddr, options: ConnectOptions) -> io::Result<Socket> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = socket2::Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))?;
    socket.set_tcp_nodelay(true)?;
    if let Some(bytes) = options.receive_buffer_bytes {
        socket.set_recv_buffer_size(bytes)?;
    }
    let begun = socket.connect(&address.into());
    let fd = Fd::from(OwnedFd::from(socket));
    match begun {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => finish(&fd).await?,
        Err(error) => return Err(error),
    }
    Ok(Socket::from(fd))
}

/// Waits until TCP's handshake is over, and returns its outcome.
async fn finish(fd: &Fd) -> io::Result<()> {
    let (polled, _) = op::writable(fd).await;
    polled?;
    SockRef::from(&fd.borrowed()).take_error()?.map_or(Ok(()), Err)
}
