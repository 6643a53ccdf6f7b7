//! Waiting for a socket, never longer than until a deadline.

use std::time::Instant;

use net::Socket;
use reactor::timeout_at;

use super::failure::Failure;

/// Waits until something has arrived or the peer is gone. `awaited` is what a person is told.
///
/// # Errors
/// [`Failure::Timeout`].
pub(crate) async fn readable(
    socket: &Socket,
    deadline: Instant,
    awaited: &'static str,
) -> Result<(), Failure> {
    let waited = timeout_at(deadline, socket.readable()).await;
    waited.map_err(|_| Failure::Timeout { awaited })
}

/// Sends all of `bytes`.
///
/// # Errors
/// The socket's, and [`Failure::Timeout`].
pub(crate) async fn send_all(
    socket: &Socket,
    mut bytes: &[u8],
    deadline: Instant,
) -> Result<(), Failure> {
    while !bytes.is_empty() {
        let sent = socket.send(bytes, false)?;
        bytes = &bytes[sent..];
        if sent == 0 {
            let waited = timeout_at(deadline, socket.writable()).await;
            waited.map_err(|_| Failure::Timeout { awaited: "room for a request" })?;
        }
    }
    Ok(())
}
