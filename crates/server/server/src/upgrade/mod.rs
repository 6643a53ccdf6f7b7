//! Hot restart: a new process takes over the listeners without dropping viewers. The same socket reports the configuration that a server runs with,
//! and takes an operator's purges of a caching edge and questions about it.
//!
//! A running server keeps a Unix socket, its upgrade socket. A new server, started by `fullbore upgrade`, connects there and
//! receives the listeners' descriptors. It starts completely before it reports ready; only then does the old one stop accepting and the new one
//! start. Connections that have not been accepted wait in the listeners, which both have, so none is lost.
//!
//! For some more seconds the old server can take over again: if the new one ends, it accepts again. After that it ends as on SIGTERM.
//!
//! Invariants:
//! - Until the old server sends `ToNew::Go`, the new one accepts nothing, and the old one runs as before. Only the listeners' backlog
//!   and marks are set by the new one earlier, because it could not set them later.
//! - A server that takes over again resets the assignment of connections to its listeners (`ListenerSetup`).
//! - A listener that both have is never shut down, because that would end it for both (`ListenerSet`).
//! - One of the two answers each connection. The kernel may wake the leaving server for a connection, so that one empties the accept queue after it
//!   has stopped accepting, and exits only once it has answered. The other one polls the queue once a second, in case the leaving one was killed
//!   (`reactor::op::Incoming`).
//! - The upgrade socket answers only processes of the server's own user, and one at a time.
//!
//! Read first: `message.rs`, then `handoff_server.rs` for the old server and `handoff_client.rs` for the new one.

mod edge_requests;
mod error;
mod handoff_client;
mod handoff_server;
mod listener_set;
mod listener_setup;
mod message;
mod running;
mod socket;

pub use edge_requests::{EdgeRequestError, inquire, purge, purges};
pub use error::UpgradeError;
pub(crate) use handoff_client::Inherited;
pub use handoff_client::{HandoffClient, give_up};
pub(crate) use handoff_server::HandoffServer;
pub(crate) use listener_set::{ListenerSet, PlainListener};
pub(crate) use listener_setup::ListenerSetup;
pub use message::ToLauncher;
pub use running::running_config;

use config::Config;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// A server's handoff from the one before it and to the one after it.
#[derive(Default)]
pub struct HotRestart {
    /// Its upgrade socket; none if it cannot be upgraded.
    pub socket: Option<PathBuf>,
    /// The server that it replaces.
    pub handoff: Option<HandoffClient>,
}

/// The path of the upgrade socket for this configuration. It contains the address, because several servers may share a state directory.
pub fn socket_path(config: &Config) -> PathBuf {
    config.state.join(format!("upgrade-{}.sock", config.listen))
}

/// The upgrade socket at `path`: the inherited one, if it has the same path, because a client may be waiting there.
pub(crate) fn open_socket(path: &Path, inherited: Option<OwnedFd>) -> Result<OwnedFd, NoSocket> {
    let opened = inherited
        .filter(|socket| socket::is_at(socket, path))
        .map_or_else(|| socket::open(path), Ok);
    opened.map_err(|why| NoSocket { path: path.to_path_buf(), why })
}

/// Why this server cannot be upgraded.
#[derive(Debug, thiserror::Error)]
#[error("cannot open {path}: {why}")]
pub(crate) struct NoSocket {
    path: PathBuf,
    why: io::Error,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_a_door_of_its_own() {
        let config = Config { state: "/state".into(), ..Config::default() };
        assert_eq!(socket_path(&config), Path::new("/state/upgrade-[::]:8443.sock"));
    }
}
