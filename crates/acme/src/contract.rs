//! What the helper tells the server: one message of JSON in each packet. The server tells the helper nothing but that it proves what it should.

use serde::{Deserialize, Serialize};

/// The longest text of an authority or a hook.
const SAID_CHARACTERS_MAX: usize = 600;

/// Why there is no new certificate. Each kind is waited for in its own way ([`crate::schedule`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AcmeTrouble {
    /// The authority asks for patience.
    RateLimited,
    /// The authority cannot be reached, is silent, or has trouble of its own.
    Unreachable,
    /// The authority's answer makes no sense.
    Malformed,
    /// The authority refuses a name: its challenge was not answered as it should, or it may not be certified.
    Rejected,
    /// The authority does not know the account any more, or refuses it.
    Account,
    /// The hook program for DNS failed.
    Hook,
    /// The address for the authority's challenges cannot be listened on.
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

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AcmeNews {
    /// A helper has begun, or knows better when to renew.
    Planned,
    /// There is a new certificate.
    Obtained,
    /// There is none.
    Failed(AcmeTrouble),
}

/// The helper tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcmeTold {
    /// What has happened.
    pub news: AcmeNews,
    /// When the certificate that is kept ends, in seconds since 1970; none if there is none.
    pub ends: Option<u64>,
    /// When a new one is due, likewise.
    pub due: u64,
    /// A line for the operator; empty if there is nothing to say.
    pub said: String,
}

/// A name that the authority may ask the server about over TLS (RFC 8737).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcmeProof {
    /// The name.
    pub name: String,
    /// The SHA-256 of what proves it.
    pub digest: [u8; 32],
}

/// A packet of the helper's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AcmePacket {
    /// Something has happened.
    Told(AcmeTold),
    /// From now on the server is to prove these names, and no others.
    Prove {
        /// What the server's answer is to say.
        number: u64,
        /// The names.
        proofs: Vec<AcmeProof>,
    },
}

/// The server's answer: it proves what the packet of this number said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcmeProving {
    /// The number.
    pub number: u64,
}

impl AcmeTold {
    /// Somebody else's words, cut to a length that always fits into a packet.
    pub(crate) fn shortened(said: &str) -> String {
        said.chars().take(SAID_CHARACTERS_MAX).collect()
    }
}
