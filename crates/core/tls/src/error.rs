//! All errors. Each has the side at fault, the alert that answers it, and the label under which it is counted. Labels are stable names for metrics;
//! they contain nothing that a peer chose.

use std::fmt::Display;
use std::path::Path;

/// An alert that this side sends (RFC 8446 section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alert {
    /// The orderly end of this side's data.
    CloseNotify,
    /// A message that is not allowed here.
    UnexpectedMessage,
    /// A record that does not open.
    BadRecordMac,
    /// A record longer than allowed.
    RecordOverflow,
    /// Both sides have no parameters in common.
    HandshakeFailure,
    /// A field that is out of range or contradicts another.
    IllegalParameter,
    /// A message that cannot be parsed.
    DecodeError,
    /// No TLS version in common.
    ProtocolVersion,
    /// Something failed on this side.
    InternalError,
    /// A client offers less than it can, although both sides can do better (RFC 7507).
    InappropriateFallback,
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
            Self::InappropriateFallback => 86,
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

    /// Returns true if the alert itself ends the connection. A warning does not, unless it is close_notify.
    pub fn ends(self) -> bool {
        self != Self::NoRenegotiation
    }
}

/// Why certificates could not be loaded or made. The text names the file and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{what}; {advice}")]
pub struct TlsConfigError {
    /// The fault, and its file if there is one.
    what: String,
    advice: &'static str,
}

impl TlsConfigError {
    pub(crate) fn at(path: &Path, what: impl Display, advice: &'static str) -> Self {
        Self::without_file(format!("{}: {what}", path.display()), advice)
    }

    pub(crate) fn without_file(what: impl ToString, advice: &'static str) -> Self {
        Self { what: what.to_string(), advice }
    }
}

/// Why a handshake ended without a connection. The alert for the peer, if one is due, was already appended to the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.as_str())]
pub enum HandshakeError {
    /// The peer speaks plain HTTP on the TLS port. No alert was written: answer it in HTTP. For a client: the server's
    /// port is not for TLS.
    PlainHttp,
    /// The bytes that arrived are not a TLS record.
    Garbage,
    /// A record longer than TLS allows.
    OversizedRecord,
    /// More handshake bytes than any honest client sends (see [`crate::HANDSHAKE_BYTES_MAX`]).
    TooLong,
    /// A handshake message that cannot be parsed.
    Malformed,
    /// A record that does not open under the handshake keys.
    BadRecordMac,
    /// No version in common: the peer offers neither TLS 1.2 nor 1.3 (or not the one that is configured).
    UnsupportedVersion,
    /// No cipher suite, key exchange group or signature scheme in common.
    NoSharedCipher,
    /// The peer offers ALPN protocols, and HTTP/1.1 is not among them.
    NoAlpn,
    /// The peer lacks something else that is required.
    Incompatible,
    /// A second hello that contradicts the first.
    ChangedOnRetry,
    /// The client claims that it fell back to an older version because a newer one failed, but this server speaks the newer one.
    InappropriateFallback,
    /// A first hello that claims to renegotiate.
    RenegotiationInfo,
    /// The peer broke the protocol.
    Misbehaved,
    /// The peer ended the handshake with this alert description.
    #[error("peer_alert {0}")]
    PeerAlert(u8),
    /// The peer closed in an orderly way before the handshake was complete.
    PeerClosed,
    /// For a client: the server's certificate has expired.
    CertificateExpired,
    /// For a client: the server's certificate is not valid yet, or a clock is wrong.
    CertificateNotYetValid,
    /// For a client: no trusted issuer has signed the server's certificate.
    CertificateUntrusted,
    /// For a client: the server's certificate is for other names.
    CertificateWrongName,
    /// For a client: the server's certificate is one that signs others (CA:TRUE), as many self-signed ones are. A server must not use such a
    /// certificate, so it is refused even where it is trusted itself.
    CertificateOfAuthority,
    /// For a client: the server's certificate is revoked, damaged, or not for servers.
    CertificateInvalid,
    /// This side failed.
    Internal,
}

impl HandshakeError {
    /// The label in the metrics.
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
            Self::InappropriateFallback => "inappropriate_fallback",
            Self::RenegotiationInfo => "renegotiation_info",
            Self::Misbehaved => "misbehaved",
            Self::PeerAlert(_) => "peer_alert",
            Self::PeerClosed => "peer_closed",
            Self::CertificateExpired => "certificate_expired",
            Self::CertificateNotYetValid => "certificate_not_yet_valid",
            Self::CertificateUntrusted => "certificate_untrusted",
            Self::CertificateWrongName => "certificate_wrong_name",
            Self::CertificateOfAuthority => "certificate_of_authority",
            Self::CertificateInvalid => "certificate_invalid",
            Self::Internal => "internal",
        }
    }

    /// Returns true if the peer is at fault. If not, report it to the operator.
    pub fn is_peers_fault(self) -> bool {
        self != Self::Internal
    }

    /// The alert for the peer if rustls has written none (RFC 8446 section 6.2). Alerts and HTTP are not answered with
    /// an alert.
    pub(crate) fn alert(self) -> Option<Alert> {
        match self {
            Self::Garbage | Self::Malformed | Self::TooLong => Some(Alert::DecodeError),
            Self::OversizedRecord => Some(Alert::RecordOverflow),
            Self::BadRecordMac => Some(Alert::BadRecordMac),
            Self::UnsupportedVersion => Some(Alert::ProtocolVersion),
            Self::NoSharedCipher | Self::Incompatible | Self::RenegotiationInfo => {
                Some(Alert::HandshakeFailure)
            }
            Self::InappropriateFallback => Some(Alert::InappropriateFallback),
            Self::NoAlpn => Some(Alert::NoApplicationProtocol),
            Self::ChangedOnRetry => Some(Alert::IllegalParameter),
            Self::Misbehaved => Some(Alert::UnexpectedMessage),
            Self::Internal => Some(Alert::InternalError),
            Self::PlainHttp | Self::PeerAlert(_) | Self::PeerClosed => None,
            // Only a client gets these errors, and rustls writes the alerts for them.
            Self::CertificateExpired
            | Self::CertificateNotYetValid
            | Self::CertificateUntrusted
            | Self::CertificateWrongName
            | Self::CertificateOfAuthority
            | Self::CertificateInvalid => None,
        }
    }

    /// Classifies an error of rustls. Takes it by value for use with `map_err`.
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
            // The latter is also the error of a record that does not open, where early data would have been skipped.
            Error::DecryptError
            | Error::PeerMisbehaved(
                PeerMisbehaved::RejectedEarlyDataInterleavedWithHandshakeMessage,
            ) => Self::BadRecordMac,
            Error::NoApplicationProtocol => Self::NoAlpn,
            Error::AlertReceived(description) => Self::PeerAlert(u8::from(description)),
            Error::PeerIncompatible(what) => Self::from_incompatibility(&what),
            // During a handshake, rustls reports this way that our key signs with no scheme that the peer supports, or that there is no certificate,
            // for example for a missing proof (`proofs`). It has no other use of `General` for a server.
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
            Is::Other(other)
                if other.0.downcast_ref() == Some(&webpki::Error::CaUsedAsEndEntity) =>
            {
                Self::CertificateOfAuthority
            }
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

/// Why nothing was sealed. Nothing was written and no sequence number was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.as_str())]
pub enum SealError {
    /// The output is shorter than [`crate::Sealer::sealed_bytes`] requires: a mistake of the caller.
    BufferTooSmall,
    /// These keys have sealed as many records as is safe. TLS 1.3: update the keys; TLS 1.2: close.
    KeysExhausted,
    /// Only TLS 1.3 has key updates.
    NotTls13,
}

impl SealError {
    /// The label in the metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BufferTooSmall => "seal_buffer_too_small",
            Self::KeysExhausted => "seal_keys_exhausted",
            Self::NotTls13 => "seal_not_tls13",
        }
    }
}

/// Why a record could not be made again. The output was wiped: nothing in it may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.as_str())]
pub enum ResealError {
    /// The plaintext differs from what was sealed at this position before. The connection must end.
    ChangedUnderUs,
    /// The position was sealed under keys that are gone, or was never sealed.
    OutOfReach,
    /// The output is shorter than the record: a mistake of the caller.
    BufferTooSmall,
}

impl ResealError {
    /// The label in the metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ChangedUnderUs => "reseal_changed_under_us",
            Self::OutOfReach => "reseal_out_of_reach",
            Self::BufferTooSmall => "reseal_buffer_too_small",
        }
    }
}

/// Why a record of the peer was refused. Send [`OpenRecordError::alert`], and close_notify too unless the alert
/// [ends](Alert::ends) the connection. Then close.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.as_str())]
pub enum OpenRecordError {
    /// The length in the header, or the opened plaintext, exceeds what TLS allows.
    Oversized,
    /// The record does not open: forged, damaged, reordered, repeated or missing.
    BadRecordMac,
    /// A content or handshake type that is not allowed after the handshake.
    Unexpected,
    /// An alert or key update of the wrong length.
    Malformed,
    /// A key update whose request field is neither 0 nor 1.
    BadKeyUpdate,
    /// TLS 1.2: the peer wants to renegotiate. That is refused, and the connection ends in an orderly way.
    Renegotiation,
    /// More key updates than the data received with them allows.
    KeyUpdateFlood,
    /// Too many records in a row that carry nothing.
    EmptyRecordFlood,
}

impl OpenRecordError {
    /// The label in the metrics.
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

    /// The alert that answers the error.
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

/// Why a [`crate::Retained`] connection is over. The alert for the peer, if one is due, is among the bytes to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RetainedError {
    /// A record from the peer was refused.
    #[error(transparent)]
    Record(#[from] OpenRecordError),
    /// The peer sent a fatal alert.
    #[error("peer_alert")]
    PeerAlert,
}

impl RetainedError {
    /// Classifies an error of rustls. Takes it by value for use with `map_err`.
    pub(crate) fn from_rustls(error: rustls::Error) -> Self {
        use rustls::Error;
        match error {
            Error::AlertReceived(_) => Self::PeerAlert,
            Error::DecryptError => Self::Record(OpenRecordError::BadRecordMac),
            Error::PeerSentOversizedRecord => Self::Record(OpenRecordError::Oversized),
            Error::InvalidMessage(_) => Self::Record(OpenRecordError::Malformed),
            _ => Self::Record(OpenRecordError::Unexpected),
        }
    }
}
