//! The helper's messages to the server: one JSON message per packet. The server only answers which proofs it presents.

use serde::{Deserialize, Serialize};

/// The longest text from an authority or a hook.
const SAID_CHARACTERS_MAX: usize = 600;

/// Why there is no new certificate. Each kind has its own retry schedule ([`crate::schedule`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AcmeTrouble {
    /// The authority limits the rate of requests.
    RateLimited,
    /// The authority cannot be reached, is silent, or has an internal error.
    Unreachable,
    /// The authority's answer is invalid.
    Malformed,
    /// The authority refuses a name: its challenge was not answered correctly, or it may not be certified.
    Rejected,
    /// The authority no longer knows the account, or refuses it.
    Account,
    /// The hook program for DNS failed.
    Hook,
    /// Listening on the address for challenges failed.
    Listen,
    /// A file cannot be read or written.
    Disk,
    /// The new certificate is not valid by this machine's clock.
    Clock,
}

impl AcmeTrouble {
    /// Every kind, for registering counters.
    pub const ALL: [Self; 9] = [
        Self::RateLimited,
        Self::Unreachable,
        Self::Malformed,
        Self::Rejected,
        Self::Account,
        Self::Hook,
        Self::Listen,
        Self::Disk,
        Self::Clock,
    ];

    /// The label of its counter.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RateLimited => "rate_limited",
            Self::Unreachable => "unreachable",
            Self::Malformed => "malformed",
            Self::Rejected => "rejected",
            Self::Account => "account",
            Self::Hook => "hook",
            Self::Listen => "listen",
            Self::Disk => "disk",
            Self::Clock => "clock",
        }
    }
}

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AcmeNews {
    /// A helper has started, or has a better time for the renewal.
    Planned,
    /// There is a new certificate.
    Obtained,
    /// There is no new certificate.
    Failed(AcmeTrouble),
}

/// A report of the helper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcmeTold {
    /// The event.
    pub news: AcmeNews,
    /// When the current certificate expires, in seconds since 1970; `None` if there is none.
    pub ends: Option<u64>,
    /// When a new one is due, in seconds since 1970.
    pub due: u64,
    /// A line for the operator; empty if there is none.
    pub said: String,
}

/// A name that the authority may check at the server over TLS (RFC 8737).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcmeProof {
    /// The name.
    pub name: String,
    /// The SHA-256 of the key authorization.
    pub digest: [u8; 32],
}

/// A packet from the helper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AcmePacket {
    /// A report.
    Told(AcmeTold),
    /// From now on the server has to prove these names, and no others.
    Prove {
        /// The number for the server's answer.
        number: u64,
        /// The names.
        proofs: Vec<AcmeProof>,
    },
}

/// The server's answer: it now proves the names of the packet with this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcmeProving {
    /// The number.
    pub number: u64,
}

impl AcmeTold {
    /// An external text, cut to a length that always fits into a packet.
    pub(crate) fn shortened(said: &str) -> String {
        said.chars().take(SAID_CHARACTERS_MAX).collect()
    }
}
