//! Why a Common Access Token is refused.

use std::borrow::Cow;

use crate::TokenFault;

/// Why a Common Access Token does not allow a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatFault {
    /// It does not have the form of a token.
    #[error("it is not a Common Access Token: {0}")]
    Malformed(&'static str),
    /// No key has the id that it names.
    #[error("no key has its key id")]
    UnknownKey,
    /// It was signed by another key, or changed.
    #[error("its signature is not of the key that it names")]
    Forged,
    /// This claim does not allow the request.
    #[error("its claim {0} does not allow this request")]
    NotAllowed(&'static str),
    /// It has expired.
    #[error("it has expired")]
    Expired,
    /// It is not valid yet.
    #[error("it is not valid yet (nbf)")]
    NotYet,
    /// This server can't do or evaluate what the token demands.
    #[error("it demands {0}, which this server does not support; issue it without")]
    Unsupported(Cow<'static, str>),
}

impl CatFault {
    pub(super) fn unsupported(what: &'static str) -> Self {
        Self::Unsupported(Cow::Borrowed(what))
    }
}

impl From<CatFault> for TokenFault {
    fn from(fault: CatFault) -> Self {
        match fault {
            CatFault::Malformed(_) => Self::Malformed,
            CatFault::UnknownKey => Self::UnknownKey,
            CatFault::Forged | CatFault::NotAllowed(_) => Self::Wrong,
            CatFault::Expired => Self::Expired,
            CatFault::NotYet => Self::NotYet,
            CatFault::Unsupported(_) => Self::Unsupported,
        }
    }
}
