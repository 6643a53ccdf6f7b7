//! What servers, and the command that starts a new one, say to each other.

use serde::{Deserialize, Serialize};

/// Changes when a server could misunderstand one of another version.
pub(crate) const PROTOCOL: u32 = 1;

/// What the new server says to the old one.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum ToOld {
    /// Give me your listeners.
    Ask {
        /// [`PROTOCOL`]
        protocol: u32,
        /// How long it may take until it is ready.
        ready_seconds: u64,
    },
    /// I have started, and would accept now.
    Ready {
        /// For how long the old one is to come back if the new one ends.
        settle_seconds: f64,
    },
    /// Show me your configuration.
    Show,
    /// I cannot start.
    Failed {
        /// In words.
        why: String,
    },
}

/// What the old server says to the new one.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum ToNew {
    /// No, and nothing changes.
    Refused {
        /// In words.
        why: String,
    },
    /// One of the viewers' listeners comes with this.
    Viewers,
    /// The admin pages' listener comes with this.
    Admin,
    /// The listener for plain HTTP comes with this. A server that does not have one does not say this.
    Plain,
    /// The listening socket that is the door comes with this.
    Door,
    /// A part of the configuration, in TOML.
    Config {
        /// From where the last one ended.
        part: String,
    },
    /// That was all.
    All {
        /// The old server's process.
        process: u32,
    },
    /// Accept from now on.
    Go,
    /// I do not come back.
    Settled,
}

/// What the new server says to the command that started it, over the socket that is its standard input.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub enum ToLauncher {
    /// The old server was asked; from here on it knows by itself how this goes.
    Asked,
    /// The new one accepts now.
    Accepts,
    /// The new one serves, and the old one does not come back.
    Settled {
        /// The old server's process.
        old: u32,
    },
}
