//! All ways in which a request can fail, from a player's point of view.
//!
//! The code that does the I/O maps its own errors to these. Two questions decide what the player does next: does the failure concern the
//! object or the server, and does another attempt in the same place make sense?

/// Why a request returned nothing playable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Failure {
    /// No connection: refused, unreachable, unknown name, or not accepted in time.
    #[error("the server cannot be reached: is it running?")]
    Connect,
    /// The TLS handshake failed, or the certificate is not trusted.
    #[error("the TLS handshake failed")]
    Tls,
    /// The connection was reset.
    #[error("the connection was reset")]
    Reset,
    /// The server closed the connection before the response was complete.
    #[error("the server closed the connection before the response was complete")]
    ClosedEarly,
    /// The server sent nothing for too long.
    #[error("the server sent nothing for too long")]
    Silence,
    /// The server answered with this status instead of 200 or 206.
    #[error("the server answered with status {0}")]
    Status(u16),
    /// The server sent other bytes than requested, such as the whole file.
    #[error("the server ignored the requested byte range")]
    OtherRange,
    /// The body's length differs from the manifest's.
    #[error("the response does not have the length that the manifest gives")]
    WrongLength,
    /// The response is not HTTP that this client understands.
    #[error("the response is not HTTP that this client understands")]
    BadResponse,
    /// The manifest, playlist, index or steering answer cannot be read.
    #[error("the document cannot be read")]
    Unreadable,
    /// This machine has no port or file left: a failure of the test, not of the server.
    #[error("this machine has no free port or file left: use fewer viewers, or raise `ulimit -n`")]
    OwnLimit,
}

impl Failure {
    /// Number of kinds, for counters.
    pub const KINDS: usize = 11;

    /// The labels of all kinds, in the order of [`Failure::kind`].
    pub const LABELS: [&str; Self::KINDS] = [
        "connect",
        "tls",
        "reset",
        "closed_early",
        "silence",
        "status",
        "other_range",
        "wrong_length",
        "bad_response",
        "unreadable",
        "own_limit",
    ];

    /// The index of its kind, below [`Failure::KINDS`].
    pub fn kind(&self) -> usize {
        match self {
            Self::Connect => 0,
            Self::Tls => 1,
            Self::Reset => 2,
            Self::ClosedEarly => 3,
            Self::Silence => 4,
            Self::Status(_) => 5,
            Self::OtherRange => 6,
            Self::WrongLength => 7,
            Self::BadResponse => 8,
            Self::Unreadable => 9,
            Self::OwnLimit => 10,
        }
    }

    /// The label under which it is counted: a stable name that contains nothing chosen by a server.
    pub fn as_str(&self) -> &'static str {
        Self::LABELS[self.kind()]
    }

    /// Returns true if the object itself is missing or damaged, so that waiting is unlikely to help. All other failures concern the server
    /// or the network, and may pass.
    pub fn is_of_object(&self) -> bool {
        match self {
            // 408, 425 and 429 ask the client to try again later.
            Self::Status(status) => {
                (400..500).contains(status) && !matches!(status, 408 | 425 | 429)
            }
            Self::OtherRange | Self::WrongLength | Self::Unreadable => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_own_label() {
        let all = [
            Failure::Connect,
            Failure::Tls,
            Failure::Reset,
            Failure::ClosedEarly,
            Failure::Silence,
            Failure::Status(503),
            Failure::OtherRange,
            Failure::WrongLength,
            Failure::BadResponse,
            Failure::Unreadable,
            Failure::OwnLimit,
        ];
        let mut labels: Vec<_> = all.iter().map(Failure::as_str).collect();
        assert_eq!(labels, Failure::LABELS);
        labels.sort_unstable();
        labels.dedup();
        assert_eq!(labels.len(), Failure::KINDS);
    }

    #[test]
    fn a_missing_object_is_told_from_a_busy_server() {
        for status in [400, 403, 404, 410, 416] {
            assert!(Failure::Status(status).is_of_object(), "{status}");
        }
        for status in [408, 425, 429, 500, 502, 503, 301] {
            assert!(!Failure::Status(status).is_of_object(), "{status}");
        }
        assert!(!Failure::Reset.is_of_object() && Failure::WrongLength.is_of_object());
    }
}
