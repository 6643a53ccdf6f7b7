//! The address of a server.

use player::Url;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long to try each address of a name.
const TRIAL_PATIENCE: Duration = Duration::from_secs(1);

/// Resolves a URL's host. If there are several addresses, takes the first one that accepts a connection, or the first of all if none does:
/// a server on this machine often listens on only one of IPv4 and IPv6.
///
/// # Errors
/// If the name has no address.
pub fn address_of(url: &Url) -> io::Result<SocketAddr> {
    let found: Vec<_> = (url.host(), url.port()).to_socket_addrs()?.collect();
    let connects =
        |address: &&SocketAddr| TcpStream::connect_timeout(address, TRIAL_PATIENCE).is_ok();
    let chosen = if found.len() > 1 { found.iter().find(connects) } else { None };
    let chosen = chosen.or(found.first()).copied();
    chosen.ok_or_else(|| io::Error::other("the name has no address"))
}
