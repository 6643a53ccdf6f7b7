//! The upgrade socket: a Unix socket that preserves packets, for the server's own user.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, UCred, accept_with, bind, connect,
    listen, socket_with,
};
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};

/// How many clients may wait. Each is soon refused while another one is being served.
const BACKLOG: i32 = 8;

/// Creates the socket at `path`. A socket that no process listens on any more is replaced.
///
/// # Errors
/// If something else is there, another server listens on it, or its folder cannot be written.
pub(crate) fn open(path: &Path) -> io::Result<OwnedFd> {
    if let Some(folder) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        if connect_to(path).is_ok() {
            return Err(io::Error::other(
                "another server of this address and state directory has it",
            ));
        }
        fs::remove_file(path)?;
    }
    let socket = make()?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    // Before it listens, no process can connect.
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Whether `socket` is the socket at `path`.
pub(crate) fn is_at(socket: &OwnedFd, path: &Path) -> bool {
    let address = socket.try_clone().and_then(|socket| UnixListener::from(socket).local_addr());
    address.is_ok_and(|address| address.as_pathname() == Some(path))
}

/// Connects to the socket at `path`.
///
/// # Errors
/// If no server is there, or this user may not connect.
pub(super) fn connect_to(path: &Path) -> io::Result<OwnedFd> {
    let socket = make()?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

fn make() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Waits for a client.
///
/// # Errors
/// If no descriptor is left.
pub(super) fn accept(socket: &OwnedFd) -> io::Result<(OwnedFd, UCred)> {
    let line = accept_with(socket, SocketFlags::CLOEXEC)?;
    let who = socket_peercred(&line)?;
    Ok((line, who))
}

/// From now on, a packet that does not arrive within `timeout`, or cannot be sent for that long, is an error of the kind `WouldBlock`.
///
/// # Errors
/// If `timeout` is zero.
pub(super) fn wait_at_most(line: &OwnedFd, timeout: Duration) -> io::Result<()> {
    set_socket_timeout(line, Timeout::Send, Some(timeout))?;
    Ok(set_socket_timeout(line, Timeout::Recv, Some(timeout))?)
}

/// Waits until one of the two has something to read, and returns which. `None` at the deadline.
///
/// # Errors
/// If the kernel cannot wait.
pub(super) fn either(
    one: &OwnedFd,
    other: &OwnedFd,
    deadline: Instant,
) -> io::Result<Option<[bool; 2]>> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        let mut asked = [one, other].map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN));
        match poll(&mut asked, Some(&left)) {
            Ok(0) => return Ok(None),
            Ok(_) => return Ok(Some(asked.map(|asked| !asked.revents().is_empty()))),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_is_its_owners_alone_and_is_replaced_when_nobody_keeps_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/door");
        let socket = open(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(is_at(&socket, &path) && !is_at(&socket, folder.path()));
        let _line = connect_to(&path).unwrap();
        let (_, who) = accept(&socket).unwrap();
        assert_eq!(who.uid, rustix::process::geteuid());
        assert!(open(&path).unwrap_err().to_string().contains("another server"));
        drop(socket);
        drop(open(&path).unwrap());
        fs::remove_file(&path).unwrap();
        fs::write(&path, "a file").unwrap();
        assert_eq!(open(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(fs::read(&path).unwrap(), b"a file", "what is no door stays");
        assert!(open(&folder.path().join("long".repeat(40))).is_err());
    }

    #[test]
    fn either_end_can_have_something_and_waiting_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("door");
        let socket = open(&path).unwrap();
        let line = connect_to(&path).unwrap();
        let soon = || Instant::now() + Duration::from_millis(10);
        assert_eq!(either(&socket, &line, soon()).unwrap(), Some([true, false]));
        let (other, _) = accept(&socket).unwrap();
        assert_eq!(either(&socket, &line, soon()).unwrap(), None);
        drop(other);
        assert_eq!(either(&socket, &line, soon()).unwrap(), Some([false, true]));
    }
}
