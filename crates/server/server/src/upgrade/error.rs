//! Why a server cannot take over from another one.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a server cannot take over from another one. Nothing has changed for the other one.
#[derive(Debug)]
pub enum UpgradeError {
    /// No server answers at the upgrade socket.
    NoServer {
        /// The socket.
        socket: PathBuf,
        /// The kernel's error.
        why: io::Error,
    },
    /// The other server refused, for this reason, in its own words.
    Refused(String),
    /// It ended, or no longer waits.
    Gone,
    /// The messages cannot be exchanged or parsed.
    Line(io::Error),
    /// A listener cannot have its options.
    Options(io::Error),
    /// It does not show its configuration.
    Mute,
    /// It has settings that this program does not know.
    OtherSettings(Box<toml::de::Error>),
    /// This server cannot replace another one.
    Obstacle(&'static str),
}

impl fmt::Display for UpgradeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoServer { socket, why } => write!(
                f,
                "no server can be asked at {}: {why}; if none runs, start one with fullbore serve, and if the state directory or the address to \
                 listen on has changed, name the socket of the one that runs with --socket",
                socket.display()
            ),
            Self::Refused(why) => write!(f, "the running server refuses: {why}"),
            Self::Gone => f.write_str(
                "the running server ended, or stopped waiting: see its log, and start the new one with fullbore serve if it is gone",
            ),
            Self::Line(why) => {
                write!(f, "cannot talk to the running server: {why}; restart it instead")
            }
            Self::Options(why) => write!(
                f,
                "the listeners of the running server cannot have the new settings of [net] or of silos: {why}; restart the server instead"
            ),
            Self::Mute => f.write_str(
                "the running server does not show its configuration: it is ending, or of an earlier version",
            ),
            Self::OtherSettings(why) => write!(
                f,
                "the running server is of another version, with settings that this program does not know: {why}; use the program that it runs"
            ),
            Self::Obstacle(why) => write!(f, "an upgrade would disconnect viewers: {why}"),
        }
    }
}

impl std::error::Error for UpgradeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NoServer { why, .. } | Self::Line(why) | Self::Options(why) => Some(why),
            Self::OtherSettings(why) => Some(&**why),
            Self::Refused(_) | Self::Gone | Self::Mute | Self::Obstacle(_) => None,
        }
    }
}
