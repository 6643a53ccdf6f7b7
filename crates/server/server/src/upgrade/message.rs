//! The messages between servers, and to the command that starts a new one.

use edge::inquiry::{Findings, Inquiry};
use edge::purge::{Purge, PurgeRecord, Purged};
use serde::{Deserialize, Serialize};

/// The version of the protocol; it changes when another version could misunderstand a message.
pub(crate) const PROTOCOL: u32 = 1;

/// Messages from the new server to the old one.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum ToOld {
    /// Give me your listeners.
    Ask {
        /// [`PROTOCOL`]
        protocol: u32,
        /// The time limit for becoming ready.
        ready_seconds: u64,
    },
    /// I have started, and would accept now.
    Ready {
        /// How long the old server accepts again if the new one ends.
        settle_seconds: f64,
    },
    /// Show me your configuration.
    Show,
    /// Purge responses that a caching edge has stored. A URL is as the operator wrote it.
    Purge {
        /// The purge.
        purge: Purge,
    },
    /// Say what a caching edge has stored. A URL is as the operator wrote it.
    Inquire {
        /// The question.
        inquiry: Inquiry,
    },
    /// Show me a caching edge's latest purges.
    Purges,
    /// I cannot start.
    Failed {
        /// In words.
        why: String,
    },
}

/// Messages from the old server to the new one.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum ToNew {
    /// No, and nothing changes.
    Refused {
        /// In words.
        why: String,
        /// Whether the request itself is wrong, so that the same one would be refused again.
        #[serde(default)]
        is_misuse: bool,
    },
    /// One of the viewers' listeners comes with this.
    Viewers,
    /// The admin pages' listener comes with this.
    Admin,
    /// The listener for plain HTTP comes with this. A server without one does not send it.
    Plain,
    /// The listening upgrade socket comes with this.
    Door,
    /// A part of the configuration, in TOML.
    Config {
        /// The text that follows the previous part.
        part: String,
    },
    /// The purge is done.
    Purged {
        /// What it found.
        purged: Purged,
    },
    /// What a caching edge has stored.
    Found {
        /// The answer.
        findings: Box<Findings>,
    },
    /// A caching edge's latest purges, the last one first.
    Purges {
        /// The purges.
        purges: Vec<PurgeRecord>,
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

/// Messages from the new server to the command that started it, over the socket that is its standard input.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub enum ToLauncher {
    /// The old server was contacted; from here on it knows the outcome by itself.
    Asked,
    /// The new one accepts now.
    Accepts,
    /// The new one serves, and the old one does not come back.
    Settled {
        /// The old server's process.
        old: u32,
    },
}
