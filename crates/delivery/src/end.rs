//! Why a connection ended. Every early exit has its name, and the name is a counter.

use disk::ReadError;

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The viewer closed in an orderly way.
    PeerClosed,
    /// The connection broke: reset, unreachable.
    PeerReset,
    /// An answer ended it on purpose: the request asked for that, or could not be trusted.
    Answered,
    /// The server is going away.
    Drained,
    /// No request within the idle time.
    IdleTimeout,
    /// A handshake that took too long.
    HandshakeTimeout,
    /// Not one byte was taken within the send time.
    SendTimeout,
    /// The handshake failed, by its own name.
    Handshake(crypt::HandshakeError),
    /// A record of the viewer's was wrong, by its own name.
    Record(crypt::OpenError),
    /// The viewer sent a fatal alert.
    PeerAlert,
    /// The keys have sealed what they may.
    KeysExhausted,
    /// The viewer asked for new keys, and this kernel cannot change those that it has.
    KeysFixed,
    /// The file was no longer what was promised, or the disk failed.
    File(ReadError),
    /// A record made again came out different: the file changed under us.
    ChangedUnderUs,
}

impl End {
    /// The counter's label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PeerClosed => "peer_closed",
            Self::PeerReset => "peer_reset",
            Self::Answered => "answered",
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
    /// A socket's error: whatever its name, the viewer is gone.
    fn from(_: std::io::Error) -> Self {
        Self::PeerReset
    }
}
