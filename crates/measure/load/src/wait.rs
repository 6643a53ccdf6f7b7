//! Waits for a socket, but never beyond a deadline.

use std::time::Instant;

use net::Socket;
use reactor::timeout_at;

use crate::failure::Failure;

/// The outlook for the next receiving call, from the result of the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Readiness {
    #[default]
    Unknown,
    /// Little arrived, and less than there was room for: another call would find nothing.
    Drained,
    /// As much arrived as one call ever reads: there may be more, but others on this thread are waiting.
    More,
}

/// After more than this, more has often arrived by the time it is processed, and a read is cheaper than a wait.
const LITTLE_BYTES: usize = 64 << 10;

impl Readiness {
    /// The readiness after a call that returned `bytes`, had room for `room_bytes`, and never reads more than `room_bytes_max`.
    pub(crate) fn after(bytes: usize, room_bytes: usize, room_bytes_max: usize) -> Self {
        match () {
            () if bytes < room_bytes && bytes < LITTLE_BYTES => Self::Drained,
            () if room_bytes == room_bytes_max => Self::More,
            () => Self::Unknown,
        }
    }
}

/// Waits until something has arrived or the peer has closed. `awaited` describes it for people.
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
/// If the socket fails, and [`Failure::Timeout`].
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
