//! One listener per worker on the same address; the kernel spreads connections over them.

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// The options of a listener's connections. Sockets inherit them, so accepting needs no extra calls.
#[derive(Clone, Debug)]
pub struct ListenerOptions {
    /// How many connections may wait to be accepted.
    pub backlog: i32,
    /// Unsent bytes in the kernel above which a connection does not ask for more (`TCP_NOTSENT_LOWAT`). `None` leaves
    /// the kernel's default: then windows are not pulled.
    pub unsent_bytes_max: Option<u32>,
    /// A limit on each connection's rate, bytes per second (`SO_MAX_PACING_RATE`).
    pub pacing_bytes_per_second: Option<u64>,
    /// The congestion control's name as in `/proc/sys/net/ipv4/tcp_available_congestion_control`; `None` uses the system's.
    pub congestion_control: Option<String>,
    /// Set if connections should know on which network interface they arrived ([`crate::Socket::arrived_on`]).
    pub tells_nic: bool,
}

impl Default for ListenerOptions {
    fn default() -> Self {
        Self {
            backlog: 4096,
            unsent_bytes_max: None,
            pacing_bytes_per_second: None,
            congestion_control: None,
            tells_nic: false,
        }
    }
}

/// Binds one listener. If the port is 0, bind the first one and pass its address to the others.
///
/// # Errors
/// `EADDRINUSE` if another user, or a socket without `SO_REUSEPORT`, has the address; `ENOENT` for an unknown congestion control.
pub fn bind(address: SocketAddr, options: &ListenerOptions) -> io::Result<OwnedFd> {
    let socket =
        Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    if address.is_ipv6() {
        // An unspecified IPv6 address accepts IPv4 too.
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    // Each send is a whole window or the end of a response, so there is nothing to wait for.
    socket.set_tcp_nodelay(true)?;
    if let Some(bytes) = options.unsent_bytes_max {
        socket.set_tcp_notsent_lowat(bytes)?;
    }
    if let Some(name) = &options.congestion_control {
        socket.set_tcp_congestion(name.as_bytes())?;
    }
    if let Some(rate) = options.pacing_bytes_per_second {
        set_pacing_rate(&socket, rate)?;
    }
    // IPv6 sockets know it without this option.
    if options.tells_nic && address.is_ipv4() {
        set_option(&socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?;
    }
    socket.bind(&address.into())?;
    socket.listen(options.backlog)?;
    Ok(socket.into())
}

/// Checks whether connections may use this congestion control. The kernel may load a module for that, as it would for a listener.
///
/// # Errors
/// `ENOENT` if it has none of that name, `EPERM` if only a privileged user may choose it.
pub fn try_congestion_control(name: &str) -> io::Result<()> {
    let fresh = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    fresh.set_tcp_congestion(name.as_bytes())
}

impl ListenerOptions {
    /// The same with every default named, to be set on a listener that began with other options ([`Self::reset`]).
    ///
    /// # Errors
    /// `ENOENT` or `EPERM` for a congestion control that cannot be used.
    pub fn spelled_out(&self) -> io::Result<Self> {
        let fresh = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        if let Some(name) = &self.congestion_control {
            fresh.set_tcp_congestion(name.as_bytes())?;
        }
        let name = fresh.tcp_congestion()?;
        let name: Vec<u8> = name.into_iter().take_while(|byte| *byte != 0).collect();
        Ok(Self {
            // The kernel takes 0 as the system's default, and the highest rate as no limit.
            unsent_bytes_max: Some(self.unsent_bytes_max.unwrap_or(0)),
            pacing_bytes_per_second: Some(self.pacing_bytes_per_second.unwrap_or(u64::MAX)),
            congestion_control: Some(String::from_utf8_lossy(&name).into_owned()),
            ..self.clone()
        })
    }

    /// Sets these options for the next connections of a listener that another process has made. Needs no privilege that [`Self::spelled_out`] did not
    /// need.
    ///
    /// # Errors
    /// If the kernel refuses one.
    pub fn reset(&self, listener: &OwnedFd) -> io::Result<()> {
        let socket = SockRef::from(listener);
        if let Some(bytes) = self.unsent_bytes_max {
            socket.set_tcp_notsent_lowat(bytes)?;
        }
        if let Some(rate) = self.pacing_bytes_per_second {
            set_option(listener, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, rate)?;
        }
        if local_address(listener)?.is_ipv4() {
            let tells = libc::c_int::from(self.tells_nic);
            set_option(listener, libc::IPPROTO_IP, libc::IP_PKTINFO, tells)?;
        }
        match &self.congestion_control {
            Some(name) => socket.set_tcp_congestion(name.as_bytes()),
            None => Ok(()),
        }
    }
}

/// Sets how many connections may wait at a listener that another process has made.
///
/// # Errors
/// If it is no listener.
pub fn set_backlog(listener: &OwnedFd, backlog: i32) -> io::Result<()> {
    SockRef::from(listener).listen(backlog)
}

/// Returns true if a program already listens on `address`. With `SO_REUSEPORT`, a second server of the same user would bind without an error and take
/// half of the connections.
pub fn is_taken(address: SocketAddr) -> bool {
    if address.port() == 0 {
        return false;
    }
    let Ok(socket) = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))
    else {
        return false;
    };
    let _ = socket.set_reuse_address(true);
    if address.is_ipv6() {
        let _ = socket.set_only_v6(false);
    }
    matches!(socket.bind(&address.into()), Err(error) if error.kind() == io::ErrorKind::AddrInUse)
}

/// Stops listening at once, even if other processes or rings still have the listener open. An accept that waits in a ring keeps the listener open
/// until the ring is torn down, which may be after the process has ended. The next server would then find the address in use.
pub fn stop(listener: impl AsFd) {
    // This fails only if the listener was already stopped.
    let _ = SockRef::from(&listener).shutdown(std::net::Shutdown::Both);
}

fn set_pacing_rate(socket: &Socket, bytes_per_second: u64) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, bytes_per_second)
}

/// Sets an option that socket2 has no method for.
pub(crate) fn set_option<T: Copy>(
    socket: &impl AsFd,
    level: i32,
    name: i32,
    value: T,
) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is plain data, and the kernel reads `length` bytes of it before the call returns. If it has a pointer (`sock_fprog`), its
    // caller keeps the memory behind it until then.
    let result = unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the kernel run `program` for all listeners on the address of `listener`.
///
/// # Errors
/// If the kernel refuses the program.
pub fn steer(listener: &impl AsFd, program: &[libc::sock_filter]) -> io::Result<()> {
    let filter = program.as_ptr().cast_mut();
    let len = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // The kernel copies the program before the call returns, and does not write to it.
    let program = libc::sock_fprog { len, filter };
    set_option(listener, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, program)
}

/// Checks whether the kernel accepts `program`, with a socket that takes no connections.
///
/// # Errors
/// As [`steer`].
pub fn try_steering(program: &[libc::sock_filter]) -> io::Result<()> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_port(true)?;
    steer(&socket, program)
}

/// From include/uapi/asm-generic/socket.h; libc does not have it.
const SO_DETACH_REUSEPORT_BPF: libc::c_int = 68;

/// Lets the kernel spread connections over the listeners on the address of `listener` as it does without a program.
///
/// # Errors
/// If the kernel cannot remove a program (before Linux 5.3).
pub fn unsteer(listener: &impl AsFd) -> io::Result<()> {
    match set_option(listener, libc::SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, 0) {
        // There was no program.
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        done => done,
    }
}

/// Sets the mark by which routes are chosen (`SO_MARK`, socket(7)): for the packets of a socket and, if it listens, for the connections that it
/// accepts from now on. An open connection changes its route with its next packet.
///
/// # Errors
/// `EPERM` without `CAP_NET_RAW`.
pub fn mark(socket: &impl AsFd, mark: u32) -> io::Result<()> {
    set_option(socket, libc::SOL_SOCKET, libc::SO_MARK, mark)
}

/// The kernel's number for a network interface; `None` if there is none of this name in this network namespace.
pub fn nic_index(name: &str) -> Option<u32> {
    let socket = Socket::new(Domain::UNIX, Type::DGRAM, None).ok()?;
    rustix::net::netdevice::name_to_index(&socket, name).ok()
}

/// The address that a listener is bound to.
///
/// # Errors
/// Only if `listener` is not a socket.
pub fn local_address(listener: &OwnedFd) -> io::Result<SocketAddr> {
    let address = SockRef::from(listener).local_addr()?;
    address.as_socket().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_another_process_are_replaced_and_its_program_is_taken_away() {
        let address = "127.0.0.1:0".parse().unwrap();
        let before = ListenerOptions {
            unsent_bytes_max: Some(4096),
            pacing_bytes_per_second: Some(1000),
            tells_nic: true,
            ..ListenerOptions::default()
        };
        let listener = bind(address, &before).unwrap();
        let socket = SockRef::from(&listener);
        assert_eq!(socket.tcp_notsent_lowat().unwrap(), 4096);
        let after = ListenerOptions::default().spelled_out().unwrap();
        assert!(after.congestion_control.as_ref().is_some_and(|name| !name.is_empty()));
        after.reset(&listener).unwrap();
        set_backlog(&listener, 7).unwrap();
        let fresh = bind(address, &ListenerOptions::default()).unwrap();
        let fresh = SockRef::from(&fresh);
        assert_eq!(socket.tcp_notsent_lowat().unwrap(), fresh.tcp_notsent_lowat().unwrap());
        assert_eq!(socket.tcp_congestion().unwrap(), fresh.tcp_congestion().unwrap());
        unsteer(&listener).unwrap();
        let program = crate::Steering::default().program();
        try_steering(&program).unwrap();
        assert!(try_steering(&[]).is_err(), "a program that never returns");
        steer(&listener, &program).unwrap();
        unsteer(&listener).unwrap();
        let unknown = ListenerOptions {
            congestion_control: Some("no-such".into()),
            ..ListenerOptions::default()
        };
        assert!(unknown.spelled_out().is_err());
        let tried = |name| try_congestion_control(name).map_err(|why| why.raw_os_error());
        assert_eq!(tried("no-such"), Err(Some(libc::ENOENT)));
        assert_eq!(tried("reno"), Ok(()), "every kernel has it, for every user");
    }
}
