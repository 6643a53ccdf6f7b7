//! Connects to a server without blocking in a system call.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use reactor::{Fd, op};
use socket2::{Domain, Protocol, SockRef, Type};

use crate::Socket;
use crate::listener::set_option;

/// How to connect.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectOptions {
    /// Size of the kernel's receive buffer in bytes (`SO_RCVBUF`, which the kernel doubles for its own needs). `None`
    /// leaves it to the kernel, which then grows it with the connection.
    pub receive_buffer_bytes: Option<usize>,
    /// The address to connect from, of the same family. `None` leaves it to the kernel. Each address has ports of its own, so several addresses allow
    /// more connections to one server than the 28,000 of one address.
    pub source: Option<IpAddr>,
}

/// Connects to `address`. Small writes go out at once (`TCP_NODELAY`). There is no time limit: the caller sets one.
///
/// # Errors
/// The kernel's: connection refused, unreachable, no descriptor (`EMFILE`), no port or no such source address
/// (`EADDRNOTAVAIL`).
pub async fn connect(address: SocketAddr, options: ConnectOptions) -> io::Result<Socket> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = socket2::Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))?;
    socket.set_tcp_nodelay(true)?;
    if let Some(bytes) = options.receive_buffer_bytes {
        socket.set_recv_buffer_size(bytes)?;
    }
    if let Some(source) = options.source {
        leave_from(&socket, source)?;
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

/// Binds to an address, and leaves the port to the moment of connecting: only then does the kernel know the destination, and it may use a port that
/// is taken for another destination (`IP_BIND_ADDRESS_NO_PORT`, ip(7)).
fn leave_from(socket: &socket2::Socket, source: IpAddr) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
    socket.bind(&SocketAddr::new(source, 0).into())
}

/// Waits until TCP's handshake is over, and returns its result.
async fn finish(fd: &Fd) -> io::Result<()> {
    let (polled, _) = op::writable(fd).await;
    polled?;
    SockRef::from(&fd.borrowed()).take_error()?.map_or(Ok(()), Err)
}
