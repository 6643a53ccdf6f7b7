//! Asks a running caching edge to purge stored responses, or what it has stored. The server answers only its own user.

use super::message::{ToNew, ToOld};
use super::socket::{connect_to, wait_at_most};
use edge::inquiry::{Findings, Inquiry};
use edge::purge::{Purge, PurgeRecord, Purged};
use helper_process::packets;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longer than the server gives its helper.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(75);

/// Why a caching edge has not done what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum EdgeRequestError {
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
    /// The request itself is wrong, for this reason, in the server's words: the same one would be refused again.
    #[error("the running server refuses: {0}")]
    Misused(String),
    /// The messages cannot be exchanged.
    #[error("cannot talk to the running server: {0}; see its log for what it has done")]
    Line(#[source] io::Error),
    /// It does not answer.
    #[error("the running server can't do this: it is shutting down, or is an earlier version")]
    Mute,
}

/// Has the server at `socket` purge stored responses, and returns what it found. A URL may be as people write it.
///
/// # Errors
/// If there is none, or it refuses.
pub fn purge(socket: &Path, purge: Purge) -> Result<Purged, EdgeRequestError> {
    match exchange(socket, &ToOld::Purge { purge })? {
        ToNew::Purged { purged } => Ok(purged),
        _ => Err(EdgeRequestError::Mute),
    }
}

/// Asks the server at `socket` what it has stored. A URL may be as people write it.
///
/// # Errors
/// If there is none, or it refuses.
pub fn inquire(socket: &Path, inquiry: Inquiry) -> Result<Findings, EdgeRequestError> {
    match exchange(socket, &ToOld::Inquire { inquiry })? {
        ToNew::Found { findings } => Ok(*findings),
        _ => Err(EdgeRequestError::Mute),
    }
}

/// The latest purges at the server at `socket`, the last one first.
///
/// # Errors
/// If there is none, or it refuses.
pub fn purges(socket: &Path) -> Result<Vec<PurgeRecord>, EdgeRequestError> {
    match exchange(socket, &ToOld::Purges)? {
        ToNew::Purges { purges } => Ok(purges),
        _ => Err(EdgeRequestError::Mute),
    }
}

fn exchange(socket: &Path, ask: &ToOld) -> Result<ToNew, EdgeRequestError> {
    let no_server = |why| EdgeRequestError::NoServer { socket: socket.to_owned(), why };
    let line = connect_to(socket).map_err(no_server)?;
    wait_at_most(&line, ANSWER_TIMEOUT).map_err(EdgeRequestError::Line)?;
    packets::send(&line, ask, None).map_err(EdgeRequestError::Line)?;
    match packets::receive(&line, &mut Vec::new()).map_err(EdgeRequestError::Line)? {
        Some((ToNew::Refused { why, is_misuse: false }, _)) => Err(EdgeRequestError::Refused(why)),
        Some((ToNew::Refused { why, is_misuse: true }, _)) => Err(EdgeRequestError::Misused(why)),
        Some((told, _)) => Ok(told),
        None => Err(EdgeRequestError::Mute),
    }
}
