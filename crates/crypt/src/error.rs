//! What can go wrong, as data: each error says whose fault it is, which alert answers it, and under
//! which label it is counted. Labels are stable names for metrics; they contain nothing a peer chose.

use std::fmt;
use std::path::PathBuf;

/// An alert that we send (RFC 8446 section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alert {
    /// The orderly end of what we send.
    CloseNotify,
    /// A message that has no place here.
    UnexpectedMessage,
    /// A record that does not open.
    BadRecordMac,
    /// A record longer than allowed.
    RecordOverflow,
    /// Nothing that both sides support.
    HandshakeFailure,
    /// A field out of range, or one that contradicts another.
    IllegalParameter,
    /// A message that cannot be parsed.
    DecodeError,
    /// No TLS version in common.
    ProtocolVersion,
    /// Something failed on our side.
    InternalError,
    /// TLS 1.2 renegotiation is not offered.
    NoRenegotiation,
    /// No protocol in common above TLS.
    NoApplicationProtocol,
}

impl Alert {
    /// The description byte (RFC 8446 appendix B.2).
    pub fn description(self) -> u8 {
        match self {
            Self::CloseNotify => 0,
            Self::UnexpectedMessage => 10,
            Self::BadRecordMac => 20,
            Self::RecordOverflow => 22,
            Self::HandshakeFailure => 40,
            Self::IllegalParameter => 47,
            Self::DecodeError => 50,
            Self::ProtocolVersion => 70,
            Self::InternalError => 80,
            Self::NoRenegotiation => 100,
            Self::NoApplicationProtocol => 120,
        }
    }

    /// The level byte: 1 warning, 2 fatal.
    pub fn level(self) -> u8 {
        match self {
            Self::CloseNotify | Self::NoRenegotiation => 1,
            _ => 2,
        }
    }

    /// Does it say by itself that the connection is over? A warning does not, unless it is close_notify.
    pub fn ends(self) -> bool {
        self != Self::NoRenegotiation
    }
}

/// Why certificates could not be loaded or made. Says the file and what to do about it.
#[derive(Debug)]
pub struct ConfigError {
    path: Option<PathBuf>,
    what: String,
    advice: &'static str,
}

impl ConfigError {
    pub(crate) fn at(path: impl Into<PathBuf>, what: impl ToString, advice: &'static str) -> Self {
        Self { path: Some(path.into()), what: what.to_string(), advice }
    }

    pub(crate) fn without_file(what: impl ToString, advice: &'static str) -> Self {
        Self { path: None, what: what.to_string(), advice }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}: ", path.display())?;
        }
        write!(f, "{}; {}", self.what, self.advice)
    }
}

impl std::error::Error for ConfigError {}

/// Why a handshake ended without a connection. The alert for the peer, if one is due, was already
/// appended to the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeError {
    /// The peer speaks plain HTTP on the TLS port. No alert was written: answer it in HTTP. Said to a client, the
    /// server's port is not one for TLS.
    PlainHttp,
    /// What arrived is not a TLS record.
    Garbage,
    /// A record longer than TLS allows.
    OversizedRecord,
    /// More handshake bytes than any honest client sends (see [`crate::HANDSHAKE_BYTES_MAX`]).
    TooLong,
    /// A handshake message that cannot be parsed.
    Malformed,
    /// A record that does not open under the handshake keys.
    BadRecordMac,
    /// No version in common: the peer offers neither TLS 1.2 nor 1.3 (or not the one we are set to).
    UnsupportedVersion,
    /// No cipher suite, key exchange group or signature scheme in common.
    NoSharedCipher,
    /// The peer offers ALPN protocols, and HTTP/1.1 is not among them.
    NoAlpn,
    /// The peer lacks something else that we require.
    Incompatible,
    /// A second hello that contradicts the first.
    ChangedOnRetry,
    /// The peer broke the protocol.
    Misbehaved,
    /// The peer ended the handshake with this alert description.
    PeerAlert(u8),
    /// The peer closed in an orderly way before the handshake was done.
    PeerClosed,
    /// Said to a client: the server's certificate is no longer valid.
    CertificateExpired,
    /// Said to a client: the server's certificate is not valid yet, or a clock is wrong.
    CertificateNotYetValid,
    /// Said to a client: nobody whom we trust has issued the server's certificate.
    CertificateUntrusted,
    /// Said to a client: the server's certificate is for other names.
    CertificateWrongName,
    /// Said to a client: the server's certificate is revoked, damaged, or not for servers.
    CertificateInvalid,
    /// Our side failed.
    Internal,
}

impl HandshakeError {
    /// The label to count this under.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PlainHttp => "plain_http",
            Self::Garbage => "garbage",
            Self::OversizedRecord => "oversized_record",
            Self::TooLong => "handshake_too_long",
            Self::Malformed => "malformed",
            Self::BadRecordMac => "bad_record_mac",
            Self::UnsupportedVersion => "unsupported_version",
            Self::NoSharedCipher => "no_shared_cipher",
            Self::NoAlpn => "no_alpn",
            Self::Incompatible => "incompatible",
            Self::ChangedOnRetry => "changed_on_retry",
            Self::Misbehaved => "misbehaved",
            Self::PeerAlert(_) => "peer_alert",
            Self::PeerClosed => "peer_closed",
            Self::CertificateExpired => "certificate_expired",
            Self::CertificateNotYetValid => "certificate_not_yet_valid",
            Self::CertificateUntrusted => "certificate_untrusted",
            Self::CertificateWrongName => "certificate_wrong_name",
            Self::CertificateInvalid => "certificate_invalid",
            Self::Internal => "internal",
        }
    }

    /// Is the peer to blame? If not, the operator should hear of it.
    pub fn is_peers_fault(self) -> bool {
        self != Self::Internal
    }
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PeerAlert(description) => write!(f, "peer_alert {description}"),
            other => f.write_str(other.as_str()),
        }
    }
}

impl std::error::Error for HandshakeError {}

impl HandshakeError {
    /// The alert that tells the peer (RFC 8446 section 6.2), for when rustls has written none. No alert answers an
    /// alert, or HTTP.
    pub(crate) fn alert(self) -> Option<Alert> {
        match self {
            Self::Garbage | Self::Malformed | Self::TooLong => Some(Alert::DecodeError),
            Self::OversizedRecord => Some(Alert::RecordOverflow),
            Self::BadRecordMac => Some(Alert::BadRecordMac),
            Self::UnsupportedVersion => Some(Alert::ProtocolVersion),
            Self::NoSharedCipher | Self::Incompatible => Some(Alert::HandshakeFailure),
            Self::NoAlpn => Some(Alert::NoApplicationProtocol),
            Self::ChangedOnRetry => Some(Alert::IllegalParameter),
            Self::Misbehaved => Some(Alert::UnexpectedMessage),
            Self::Internal => Some(Alert::InternalError),
            Self::PlainHttp | Self::PeerAlert(_) | Self::PeerClosed => None,
            // Only a client comes to these, and it has rustls say them.
            Self::CertificateExpired
            | Self::CertificateNotYetValid
            | Self::CertificateUntrusted
            | Self::CertificateWrongName
            | Self::CertificateInvalid => None,
        }
    }

    /// Sorts what rustls reports. Taken by value, to be handed to `map_err`.
    pub(crate) fn from_rustls(error: rustls::Error) -> Self {
        use rustls::{Error, InvalidMessage, PeerMisbehaved};
        match error {
            Error::InvalidMessage(what) => match what {
                InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion => {
                    Self::Garbage
                }
                InvalidMessage::MessageTooLarge => Self::OversizedRecord,
                _ => Self::Malformed,
            },
            Error::PeerSentOversizedRecord => Self::OversizedRecord,
            // The latter is a record that does not open, too, where early data would have been passed over.
            Error::DecryptError
            | Error::PeerMisbehaved(
                PeerMisbehaved::RejectedEarlyDataInterleavedWithHandshakeMessage,
            ) => Self::BadRecordMac,
            Error::NoApplicationProtocol => Self::NoAlpn,
            Error::AlertReceived(description) => Self::PeerAlert(u8::from(description)),
            Error::PeerIncompatible(what) => Self::from_incompatibility(&what),
            // How rustls says, while it shakes hands, that our key signs by no scheme that the peer knows: the
            // one use of `General` that a server comes to with a key and a certificate loaded.
            Error::General(_) => Self::NoSharedCipher,
            Error::PeerMisbehaved(PeerMisbehaved::ServerNameDifferedOnRetry) => {
                Self::ChangedOnRetry
            }
            Error::PeerMisbehaved(_)
            | Error::InappropriateMessage { .. }
            | Error::InappropriateHandshakeMessage { .. } => Self::Misbehaved,
            _ => Self::Internal,
        }
    }

    /// As [`Self::from_rustls`], for a client.
    pub(crate) fn of_server(error: rustls::Error) -> Self {
        use rustls::Error;
        match error {
            Error::InvalidCertificate(what) => Self::from_certificate(&what),
            Error::NoCertificatesPresented => Self::CertificateInvalid,
            // A client has no key that could fail to sign.
            Error::General(_) => Self::Internal,
            error => Self::from_rustls(error),
        }
    }

    fn from_certificate(what: &rustls::CertificateError) -> Self {
        use rustls::CertificateError as Is;
        match what {
            Is::Expired | Is::ExpiredContext { .. } => Self::CertificateExpired,
            Is::NotValidYet | Is::NotValidYetContext { .. } => Self::CertificateNotYetValid,
            Is::UnknownIssuer => Self::CertificateUntrusted,
            Is::NotValidForName | Is::NotValidForNameContext { .. } => Self::CertificateWrongName,
            _ => Self::CertificateInvalid,
        }
    }

    fn from_incompatibility(what: &rustls::PeerIncompatible) -> Self {
        use rustls::PeerIncompatible as Lacks;
        match what {
            Lacks::ServerDoesNotSupportTls12Or13
            | Lacks::ServerTlsVersionIsDisabledByOurConfig
            | Lacks::SupportedVersionsExtensionRequired
            | Lacks::Tls12NotOffered
            | Lacks::Tls12NotOfferedOrEnabled => Self::UnsupportedVersion,
            Lacks::NoCipherSuitesInCommon
            | Lacks::NoKxGroupsInCommon
            | Lacks::NoSignatureSchemesInCommon
            | Lacks::NoEcPointFormatsInCommon => Self::NoSharedCipher,
            _ => Self::Incompatible,
        }
    }
}

/// Why nothing could be sealed. Nothing was written and no sequence number was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealError {
    /// The output is shorter than [`crate::Sealer::sealed_bytes`] asks for. A fault of the caller.
    BufferTooSmall,
    /// These keys have sealed all they safely may. TLS 1.3: update the keys; TLS 1.2: close.
    KeysExhausted,
    /// Key update exists in TLS 1.3 only.
    NotTls13,
}

impl SealError {
    /// The label to count this under.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BufferTooSmall => "seal_buffer_too_small",
            Self::KeysExhausted => "seal_keys_exhausted",
            Self::NotTls13 => "seal_not_tls13",
        }
    }
}

impl fmt::Display for SealError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for SealError {}

/// Why a record could not be made again. The output was wiped: nothing of it may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResealError {
    /// The plaintext is not what was sealed at this position before. The connection must end.
    ChangedUnderUs,
    /// The position was sealed under keys that are gone, or was never sealed.
    OutOfReach,
    /// The output is shorter than the record. A fault of the caller.
    BufferTooSmall,
}

impl ResealError {
    /// The label to count this under.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ChangedUnderUs => "reseal_changed_under_us",
            Self::OutOfReach => "reseal_out_of_reach",
            Self::BufferTooSmall => "reseal_buffer_too_small",
        }
    }
}

impl fmt::Display for ResealError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for ResealError {}

/// Why a record of the peer was refused. Send [`OpenError::alert`], and close_notify too unless that [ends](Alert::ends)
/// the connection; then close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The length in the header, or the opened plaintext, exceeds what TLS allows.
    Oversized,
    /// The record does not open: forged, damaged, reordered, repeated or dropped.
    BadRecordMac,
    /// A content or handshake type that has no place after the handshake.
    Unexpected,
    /// An alert or key update of the wrong length.
    Malformed,
    /// A key update whose request field is neither 0 nor 1.
    BadKeyUpdate,
    /// TLS 1.2: the peer wants to renegotiate; we do not, and end the connection in an orderly way.
    Renegotiation,
    /// Too many key updates for the data received with them.
    KeyUpdateFlood,
    /// Too many records in a row that carry nothing.
    EmptyRecordFlood,
}

impl OpenError {
    /// The label to count this under.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Oversized => "oversized_record",
            Self::BadRecordMac => "bad_record_mac",
            Self::Unexpected => "unexpected_message",
            Self::Malformed => "malformed",
            Self::BadKeyUpdate => "bad_key_update",
            Self::Renegotiation => "renegotiation",
            Self::KeyUpdateFlood => "key_update_flood",
            Self::EmptyRecordFlood => "empty_record_flood",
        }
    }

    /// The alert that tells the peer.
    pub fn alert(self) -> Alert {
        match self {
            Self::Oversized => Alert::RecordOverflow,
            Self::BadRecordMac => Alert::BadRecordMac,
            Self::Malformed => Alert::DecodeError,
            Self::BadKeyUpdate => Alert::IllegalParameter,
            Self::Renegotiation => Alert::NoRenegotiation,
            Self::Unexpected | Self::KeyUpdateFlood | Self::EmptyRecordFlood => {
                Alert::UnexpectedMessage
            }
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::error::Error for OpenError {}

/// Why a [`crate::Retained`] connection is over. The alert for the peer, if one is due, is among what is owed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetainedError {
    /// A record of the peer's was refused.
    Record(OpenError),
    /// The peer sent a fatal alert.
    PeerAlert,
}

impl From<OpenError> for RetainedError {
    fn from(error: OpenError) -> Self {
        Self::Record(error)
    }
}

impl RetainedError {
    /// Sorts what rustls reports. Taken by value, to be handed to `map_err`.
    pub(crate) fn from_rustls(error: rustls::Error) -> Self {
        use rustls::Error;
        match error {
            Error::AlertReceived(_) => Self::PeerAlert,
            Error::DecryptError => Self::Record(OpenError::BadRecordMac),
            Error::PeerSentOversizedRecord => Self::Record(OpenError::Oversized),
            Error::InvalidMessage(_) => Self::Record(OpenError::Malformed),
            _ => Self::Record(OpenError::Unexpected),
        }
    }
}

impl fmt::Display for RetainedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record(error) => error.fmt(f),
            Self::PeerAlert => f.write_str("peer_alert"),
        }
    }
}

impl std::error::Error for RetainedError {}
