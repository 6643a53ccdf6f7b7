//! Hot restart: a new process takes over the listeners without dropping viewers. The same socket reports the configuration that a server runs with.
//!
//! A running server keeps a Unix socket, its door. A new server, started by `fullbore upgrade`, connects there and receives the listeners'
//! descriptors. It starts completely before it reports ready; only then does the old one stop accepting and the new one begin. Connections that
//! have not been accepted wait in the listeners, which both have, so none is lost.
//!
//! For some seconds more the old server can come back: if the new one ends, it accepts again. After that it ends as on SIGTERM.
//!
//! Invariants:
//! - Until the old server says `ToNew::Go`, the new one accepts nothing, and the old one is as if nobody had asked. Only the listeners' backlog
//!   and marks are the new one's before, because it could not set them later.
//! - A server that comes back sets again how connections come to its listeners (`Reception`).
//! - A listener that both have is never shut down, because that would end it for both (`Estate`).
//! - One of the two answers each connection. The kernel may wake the leaving server for a connection, so that one empties the accept queue after it
//!   has stopped accepting, and exits only once it has answered. The other one polls the queue once a second, in case the leaving one was killed
//!   (`reactor::op::Incoming`).
//! - The door answers processes of the server's own user only, and one at a time.
//!
//! Read first: `message.rs`, then `door.rs` for the old server and `predecessor.rs` for the new one.

mod door;
mod error;
mod estate;
mod message;
mod predecessor;
mod reception;
mod running;
mod socket;

pub(crate) use door::Doorkeeper;
pub use error::UpgradeError;
pub(crate) use estate::{Estate, PlainListener};
pub use message::ToLauncher;
pub(crate) use predecessor::Inherited;
pub use predecessor::{Predecessor, give_up};
pub(crate) use reception::Reception;
pub use running::running_config;

use crate::config::{Config, Route};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// What a server has to do with the one before it and the one after it.
#[derive(Default)]
pub struct Succession {
    /// Where it can be asked for its listeners; none if it cannot.
    pub door: Option<PathBuf>,
    /// The server whose place it takes.
    pub predecessor: Option<Predecessor>,
}

/// Where the server of this configuration has its door. The address is part of the name, because several servers may share a state directory.
pub fn door_of(config: &Config) -> PathBuf {
    config.state.join(format!("upgrade-{}.sock", config.listen))
}

/// Why the server of this configuration cannot be part of an upgrade, and what to do instead.
pub fn obstacle(config: &Config) -> Option<&'static str> {
    if config.route == Route::Bypass {
        return Some(
            "on the bypass route connections end with the process that has them: restart the server instead",
        );
    }
    if config.edge.origin.is_some() {
        return Some(
            "a caching edge has its cache for itself: stop the server, and start the new one",
        );
    }
    None
}

/// The door at `path`: that of the server whose place this one takes, if it is the same, because somebody may be waiting there.
pub(crate) fn open_door(path: &Path, inherited: Option<OwnedFd>) -> Result<OwnedFd, NoDoor> {
    let opened =
        inherited.filter(|door| socket::is_at(door, path)).map_or_else(|| socket::open(path), Ok);
    opened.map_err(|why| NoDoor { path: path.to_path_buf(), why })
}

/// Why nobody can take this server's place.
#[derive(Debug)]
pub(crate) struct NoDoor {
    path: PathBuf,
    why: io::Error,
}

impl fmt::Display for NoDoor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot open {}: {}", self.path.display(), self.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_a_door_of_its_own() {
        let config = Config { state: "/state".into(), ..Config::default() };
        assert_eq!(door_of(&config), Path::new("/state/upgrade-[::]:8443.sock"));
    }

    #[test]
    fn what_cannot_hand_over_says_what_to_do_instead() {
        assert_eq!(obstacle(&Config::default()), None);
        let bypass = Config { route: Route::Bypass, ..Config::default() };
        assert!(obstacle(&bypass).is_some_and(|why| why.contains("restart the server instead")));
        let mut edge = Config::default();
        edge.edge.origin = Some("http://origin".into());
        assert!(obstacle(&edge).is_some_and(|why| why.contains("stop the server")));
    }
}
