//! Why a request failed: for the player in its own terms, for the report with details.

use load::Failure as Cause;
use player::Failure;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A request that failed.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The server's name cannot be resolved.
    NoAddress(Arc<str>),
    /// The connection or the response failed.
    Transfer(Cause),
    /// A status other than 200 or 206. The player already knows it.
    Status(u16),
    /// Other bytes than requested.
    OtherRange { asked: Range<u64>, came: Option<Range<u64>> },
    /// The length of the response differs from the manifest's.
    WrongLength { expected_bytes: u64, came_bytes: u64 },
    /// A document longer than any real one.
    TooLong,
    /// A document that cannot be read.
    Unreadable(String),
}

impl From<Cause> for Failed {
    fn from(cause: Cause) -> Self {
        Self::Transfer(cause)
    }
}

impl Failed {
    /// The failure in the player's terms.
    pub(crate) fn as_failure(&self) -> Failure {
        match self {
            Self::NoAddress(_) => Failure::Connect,
            Self::Transfer(cause) => transfer(cause),
            Self::Status(status) => Failure::Status(*status),
            Self::OtherRange { .. } => Failure::OtherRange,
            Self::WrongLength { .. } => Failure::WrongLength,
            Self::TooLong | Self::Unreadable(_) => Failure::Unreadable,
        }
    }
}

fn transfer(cause: &Cause) -> Failure {
    match cause {
        Cause::Refused | Cause::Unreachable(_) | Cause::ConnectTimeout => Failure::Connect,
        Cause::TooManyOpenFiles | Cause::NoPorts => Failure::OwnLimit,
        Cause::Handshake(_)
        | Cause::CertificateExpired
        | Cause::CertificateUntrusted(_)
        | Cause::Alert(_)
        | Cause::Record(_)
        | Cause::KeysExhausted => Failure::Tls,
        Cause::ClosedEarly | Cause::Short { .. } => Failure::ClosedEarly,
        Cause::TooLong { .. } | Cause::WrongBytes(_) => Failure::WrongLength,
        Cause::Status(status) => Failure::Status(*status),
        Cause::Reset | Cause::Socket(_) => Failure::Reset,
        Cause::Timeout { .. } => Failure::Silence,
        Cause::BadResponse(_) => Failure::BadResponse,
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAddress(why) => f.write_str(why),
            Self::Transfer(cause) => cause.fmt(f),
            Self::Status(status) => write!(f, "the server answered with status {status}"),
            Self::OtherRange { asked, came: Some(came) } => {
                write!(f, "the server sent bytes {came:?} instead of {asked:?}")
            }
            Self::OtherRange { asked, came: None } => {
                write!(f, "the server sent the whole file instead of bytes {asked:?}")
            }
            Self::WrongLength { expected_bytes, came_bytes } => {
                write!(
                    f,
                    "the server sent {came_bytes} bytes, and the manifest says {expected_bytes}"
                )
            }
            Self::TooLong => f.write_str("the document is longer than 16 MiB"),
            Self::Unreadable(why) => f.write_str(why),
        }
    }
}
