//! Ports for processes whose address a test chooses.

use std::net::TcpListener;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Below all that Linux assigns by itself (`net.ipv4.ip_local_port_range`), and below those that tests have as fixed numbers.
const FIRST: u16 = 10_000;
const COUNT: usize = 9_000;

/// As [`free_port_on`], on 127.0.0.1.
///
/// # Panics
/// If there is none.
pub fn free_port() -> u16 {
    free_port_on("127.0.0.1")
}

/// An unused port of the address `host`, a different one each time. It stays free, even for a server that is started there again and
/// again: the kernel gives it to no connection, and to no listener that leaves the choice to it.
///
/// # Panics
/// If there is none, or `host` isn't an address of this machine.
pub fn free_port_on(host: &str) -> u16 {
    static NEXT: OnceLock<AtomicUsize> = OnceLock::new();
    // Several test programs run at once, so each begins elsewhere.
    let next = NEXT.get_or_init(|| AtomicUsize::new(fastrand::usize(..COUNT)));
    (0..COUNT)
        .map(|_| FIRST + (next.fetch_add(1, Ordering::Relaxed) % COUNT) as u16)
        .find(|port| TcpListener::bind((host, *port)).is_ok())
        .expect("a free port")
}
