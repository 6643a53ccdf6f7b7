//! Reasons why a connection ended. Every early end has a name, and the name is a counter.

use disk::ReadError;

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The viewer closed in an orderly way.
    PeerClosed,
    /// The connection broke: reset, unreachable.
    PeerReset,
    /// The server ended it after an answer, because the request asked for that or could not be trusted.
    Answered,
    /// A certificate authority has seen its proof (TLS-ALPN-01).
    Proved,
    /// The server is shutting down.
    Drained,
    /// No request within the idle time.
    IdleTimeout,
    /// The handshake took too long.
    HandshakeTimeout,
    /// The viewer took no byte within the send timeout.
    SendTimeout,
    /// The handshake failed; the error names the reason.
    Handshake(tls::HandshakeError),
    /// A record from the viewer was wrong; the error names the reason.
    Record(tls::OpenRecordError),
    /// The viewer sent a fatal alert.
    PeerAlert,
    /// The keys have sealed as many records as they may.
    KeysExhausted,
    /// The viewer requested new keys, and this kernel cannot change the keys it has.
    KeysFixed,
    /// The file had changed since its headers were sent, or the disk failed.
    File(ReadError),
    /// A record made a second time differs from the first: the file changed while it was served.
    ChangedUnderUs,
}

impl End {
    /// The counter's label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PeerClosed => "peer_closed",
            Self::PeerReset => "peer_reset",
            Self::Answered => "answered",
            Self::Proved => "acme_proof",
            Self::Drained => "drained",
            Self::IdleTimeout => "idle_timeout",
            Self::HandshakeTimeout => "handshake_timeout",
            Self::SendTimeout => "send_timeout",
            Self::Handshake(error) => error.as_str(),
            Self::Record(error) => error.as_str(),
            Self::PeerAlert => "peer_alert",
            Self::KeysExhausted => "keys_exhausted",
            Self::KeysFixed => "keys_fixed",
            Self::File(error) => error.as_str(),
            Self::ChangedUnderUs => "changed_under_us",
        }
    }
}

impl From<ReadError> for End {
    fn from(error: ReadError) -> Self {
        Self::File(error)
    }
}

impl From<std::io::Error> for End {
    /// A socket error: whatever it is, the viewer is gone.
    fn from(_: std::io::Error) -> Self {
        Self::PeerReset
    }
}
