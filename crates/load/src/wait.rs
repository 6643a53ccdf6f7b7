//! Waits for a socket, never beyond a deadline.

use std::time::Instant;

use net::Socket;
use reactor::timeout_at;

use crate::failure::Failure;

/// What a receiving call showed about the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Readiness {
    #[default]
    Unknown,
    /// Little arrived, and less than there was room for: another call would find nothing.
    Drained,
    /// As much arrived as one call ever takes: there may be more, but others on this thread are waiting.
    More,
}

/// After more than this, more has often arrived by the time it is processed, and looking is cheaper than waiting.
const LITTLE_BYTES: usize = 64 << 10;

impl Readiness {
    /// The readiness after a call that brought `bytes`, would have taken `room_bytes`, and never takes more than
    /// `room_bytes_max`.
    pub(crate) fn after(bytes: usize, room_bytes: usize, room_bytes_max: usize) -> Self {
        match () {
            () if bytes < room_bytes && bytes < LITTLE_BYTES => Self::Drained,
            () if room_bytes == room_bytes_max => Self::More,
            () => Self::Unknown,
        }
    }
}

/// Waits until something has arrived or the peer is gone. `awaited` describes it for people.
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
/// The socket's error, and [`Failure::Timeout`].
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
