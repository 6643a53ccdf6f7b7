//! Asks a running caching edge to purge stored responses. The server answers only its own user.

use super::message::{ToNew, ToOld};
use super::socket::{connect_to, wait_at_most};
use edge::purge::{Purge, Purged};
use helper_process::packets;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longer than the server gives its helper.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(75);

/// Why nothing was purged.
#[derive(Debug, thiserror::Error)]
pub enum PurgeError {
    /// No server answers at its socket.
    #[error(
        "no server answers at {socket}: {why}; name its configuration with --config, or its socket with --socket (STATE/upgrade-ADDR:PORT.sock)"
    )]
    NoServer {
        /// The socket.
        socket: PathBuf,
        /// The kernel's error.
        #[source]
        why: io::Error,
    },
    /// The server refused, for this reason, in its own words.
    #[error("the running server refuses: {0}")]
    Refused(String),
    /// The messages cannot be exchanged.
    #[error("cannot talk to the running server: {0}; see its log for what it has purged")]
    Line(#[source] io::Error),
    /// It does not answer.
    #[error("the running server can't purge: it is shutting down, or is an earlier version")]
    Mute,
}

/// Has the server at `socket` purge stored responses, and returns what it found. A URL may be as people write it.
///
/// # Errors
/// If there is none, or it refuses.
pub fn purge(socket: &Path, purge: Purge) -> Result<Purged, PurgeError> {
    let no_server = |why| PurgeError::NoServer { socket: socket.to_owned(), why };
    let line = connect_to(socket).map_err(no_server)?;
    wait_at_most(&line, ANSWER_TIMEOUT).map_err(PurgeError::Line)?;
    packets::send(&line, &ToOld::Purge { purge }, None).map_err(PurgeError::Line)?;
    match packets::receive(&line, &mut Vec::new()).map_err(PurgeError::Line)? {
        Some((ToNew::Purged { purged }, _)) => Ok(purged),
        Some((ToNew::Refused { why }, _)) => Err(PurgeError::Refused(why)),
        _ => Err(PurgeError::Mute),
    }
}
