//! Names of all optimisations, so that each can be switched off and its worth measured.
//!
//! A switch changes the cost of a byte, never its value. docs/serve.md describes each one.

use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// An optimisation that can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Switch {
    /// Pull by `TCP_NOTSENT_LOWAT`; off: fill the kernel's send buffer.
    Pull,
    /// Last-in-first-out buffers; off: the buffer that has been idle for longest.
    Lifo,
    /// Buffers registered with the ring.
    Registered,
    /// Heat; off: everything through the page cache, under `disk = "auto"`.
    Heat,
    /// Asking the kernel what is in the page cache before reading; off: heat alone decides, under `disk = "auto"`.
    Resident,
    /// The hot set: popular parts of films in the server's own memory; off: the page cache alone.
    Hot,
    /// Large pages for the hot set, if the kernel allows them.
    Hugepages,
    /// Large folios in the page cache: threads load what is worth memory as a sequential reader would; off: pages of 4 KiB.
    Folios,
    /// Reading ahead for a viewer whose connection takes everything at once.
    Ahead,
    /// Whole buffers, and more of them, from disks that rotate; off: as from all other disks.
    Rotating,
    /// Windows that grow while TCP accepts them; off: 64 KiB at a time.
    Window,
    /// Library files that stay open between requests; off: each request opens its file.
    Files,
    /// Sealing directly from the plaintext's buffer; off: the plaintext is copied to the send buffer first.
    Onepass,
    /// Keys taken over from the handshake, whose state is dropped; off: rustls keeps the connection and seals.
    Handout,
    /// Session tickets.
    Tickets,
    /// A listener per worker; off: one that all workers accept from.
    Listeners,
    /// Workers pinned to cores; off: the kernel's scheduler decides.
    Pinning,
    /// On the bypass route, super-segments that the device cuts up; off: one segment at a time.
    Tso,
    /// On the bypass route, several segments that arrive together as one.
    Coalesce,
    /// On the bypass route, of several acknowledgements that arrive together only the last is processed.
    Merge,
    /// On the bypass route, each read is sealed and sent as soon as it is done; off: in stages, with queues between them.
    Completion,
    /// On the bypass route, lost bytes are read from disk again; off: sent bytes stay in memory until they are acknowledged.
    Reread,
    /// On the bypass route, sending spread over the round trip; off: in bursts, unless a rate is set.
    Pacing,
    /// On the bypass route over AF_XDP, payload is written into frames through the processor's caches; off: past them.
    CachedFrames,
}

impl Switch {
    /// Every switch with its name and description.
    pub const ALL: [(Switch, &'static str, &'static str); 24] = [
        (Self::Pull, "pull", "windows pulled by TCP_NOTSENT_LOWAT"),
        (Self::Lifo, "lifo", "last-in-first-out buffers"),
        (Self::Registered, "registered", "buffers registered with the ring"),
        (Self::Heat, "heat", "caching by heat"),
        (Self::Resident, "resident", "asking what the page cache has"),
        (Self::Hot, "hot", "popular parts of films in its own memory"),
        (Self::Hugepages, "hugepages", "large pages for buffers and the hot set"),
        (Self::Folios, "folios", "large folios in the page cache"),
        (Self::Ahead, "ahead", "several reads in flight per viewer"),
        (Self::Rotating, "rotating", "larger reads from disks that rotate"),
        (Self::Window, "window", "windows that grow"),
        (Self::Files, "files", "files that stay open between requests"),
        (Self::Onepass, "onepass", "sealing in one pass"),
        (Self::Handout, "handout", "keys taken over from the handshake"),
        (Self::Tickets, "tickets", "TLS session tickets"),
        (Self::Listeners, "listeners", "a listener per worker"),
        (Self::Pinning, "pinning", "workers pinned to cores"),
        (Self::Tso, "tso", "super-segments that the device cuts (bypass)"),
        (Self::Coalesce, "coalesce", "segments that arrive together processed as one (bypass)"),
        (Self::Merge, "merge", "acknowledgements that arrive together processed as one (bypass)"),
        (Self::Completion, "completion", "reads sealed and sent as soon as done (bypass)"),
        (Self::Reread, "reread", "lost bytes read from disk again (bypass)"),
        (Self::Pacing, "pacing", "sending spread over the round trip (bypass)"),
        (Self::CachedFrames, "cached-frames", "frames written through the caches (bypass, xdp)"),
    ];

    /// All names, as a list for people.
    pub fn names() -> String {
        Self::ALL.map(|(_, name, _)| name).join(", ")
    }

    /// All names and what they stand for, as a list for people.
    fn choices() -> String {
        Self::ALL.map(|(_, name, what)| format!("{name} ({what})")).join(", ")
    }
}

/// The name of no switch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown switch {0:?}; choose from {choices}", choices = Switch::choices())]
pub struct UnknownSwitch(String);

impl FromStr for Switch {
    type Err = UnknownSwitch;

    fn from_str(name: &str) -> Result<Self, UnknownSwitch> {
        let known = Self::ALL.iter().find(|(_, known, _)| *known == name);
        known.map(|(switch, ..)| *switch).ok_or_else(|| UnknownSwitch(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_switch_has_its_name() {
        for (switch, name, _) in Switch::ALL {
            assert_eq!(name.parse::<Switch>().unwrap(), switch);
            assert_eq!(serde_json::to_string(&switch).unwrap(), format!("{name:?}"));
        }
        let unknown = "warp".parse::<Switch>().unwrap_err().to_string();
        assert!(unknown.contains("\"warp\"") && unknown.contains("lifo"), "{unknown}");
    }

    #[test]
    fn every_switch_is_documented() {
        let documented = include_str!("../../../../docs/serve.md");
        for (_, name, _) in Switch::ALL {
            assert!(documented.contains(&format!("\n| `{name}` |")), "{name} is missing");
        }
    }
}
