//! Why a server cannot take over from another one.

use std::io;
use std::path::PathBuf;

/// Why a server cannot take over from another one. Nothing has changed for the other one.
#[derive(Debug, thiserror::Error)]
pub enum UpgradeError {
    /// No server answers at the upgrade socket.
    #[error(
        "no server answers at {socket}: {why}; if none runs, start one with fullbore serve, and if the state directory or the address to \
         listen on has changed, name the socket of the one that runs with --socket"
    )]
    NoServer {
        /// The socket.
        socket: PathBuf,
        /// The kernel's error.
        #[source]
        why: io::Error,
    },
    /// The other server refused, for this reason, in its own words.
    #[error("the running server refuses: {0}")]
    Refused(String),
    /// It ended, or no longer waits.
    #[error(
        "the running server ended, or stopped waiting: see its log, and start the new one with fullbore serve if it is gone"
    )]
    Gone,
    /// The messages cannot be exchanged or parsed.
    #[error("cannot talk to the running server: {0}; restart it instead")]
    Line(#[source] io::Error),
    /// A listener cannot have its options.
    #[error(
        "the listeners of the running server cannot have the new settings of [net] or of silos: {0}; restart the server instead"
    )]
    Options(#[source] io::Error),
    /// It does not show its configuration.
    #[error(
        "the running server does not show its configuration: it is ending, or of an earlier version"
    )]
    Mute,
    /// It has settings that this program does not know.
    #[error(
        "the running server is of another version, with settings that this program does not know: {0}; use the program that it runs"
    )]
    OtherSettings(#[source] Box<toml::de::Error>),
    /// This server cannot replace another one.
    #[error("an upgrade would disconnect viewers: {0}")]
    Obstacle(&'static str),
}
