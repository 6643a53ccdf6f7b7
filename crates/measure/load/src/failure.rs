//! All ways in which a connection or a response can fail, each counted separately.
//!
//! [`Failure::as_str`] is the kind in reports: a stable name that contains nothing chosen by a server. The text adds details and, where
//! possible, what to do.

use std::io;

use tls::{HandshakeError, OpenRecordError};

/// Why a connection could not be made, or did not deliver what was requested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// No server listens at the address.
    #[error("no server listens at this address: is it running?")]
    Refused,
    /// There is no route to the address; with the kernel's error number.
    #[error("cannot reach this address: {}", io::Error::from_raw_os_error(*.0))]
    Unreachable(i32),
    /// The server did not accept the connection in time.
    #[error("the server did not accept the connection in time")]
    ConnectTimeout,
    /// This process may not open more files.
    #[error(
        "this process may not open more files; raise the limit with `ulimit -n`, or use fewer connections"
    )]
    TooManyOpenFiles,
    /// No port of this machine is free for the address.
    #[error(
        "no local port is free for this address; widen net.ipv4.ip_local_port_range, or use fewer connections"
    )]
    NoPorts,
    /// The TLS handshake failed, for reasons other than the certificate.
    #[error("the TLS handshake failed: {}", handshake(*.0))]
    Handshake(HandshakeError),
    /// The server's certificate has expired.
    #[error(
        "the server's certificate has expired; renew it, or accept any certificate with --insecure"
    )]
    CertificateExpired,
    /// The server's certificate is not trusted: its issuer is unknown, or it is for another name, not valid yet, or
    /// damaged.
    #[error("{}", distrust(*.0))]
    CertificateUntrusted(HandshakeError),
    /// The server closed before the head of its response was complete, or during a body without a length and without
    /// close_notify.
    #[error("the server closed the connection before the response was complete")]
    ClosedEarly,
    /// The server closed in the middle of the body.
    #[error("the server closed the connection after {received_bytes} of {promised_bytes} bytes")]
    Short {
        /// Bytes of the body that arrived.
        received_bytes: u64,
        /// Bytes that the head announced.
        promised_bytes: u64,
    },
    /// More arrived than the head announced, or than was requested at all.
    #[error("the server sent more than the {promised_bytes} bytes it had announced")]
    TooLong {
        /// Bytes that the head announced.
        promised_bytes: u64,
    },
    /// A different status than expected.
    #[error("the server answered with status {0}")]
    Status(u16),
    /// The body differs from the expected one; with the difference.
    #[error("the server sent wrong bytes: {0}")]
    WrongBytes(String),
    /// The server ended the connection with this alert (RFC 8446 appendix B.2).
    #[error("the server sent TLS alert {0}")]
    Alert(u8),
    /// The server, or something in between, reset the connection.
    #[error("the connection was reset")]
    Reset,
    /// The server sent nothing for the whole `patience`.
    #[error("timed out waiting for {awaited}")]
    Timeout {
        /// The thing that the client was waiting for.
        awaited: &'static str,
    },
    /// The response is not HTTP/1.1, or has a form that cannot be measured; with the reason.
    #[error("the response cannot be measured: {0}")]
    BadResponse(&'static str),
    /// A record from the server was rejected.
    #[error("the server sent a bad TLS record: {0}")]
    Record(OpenRecordError),
    /// Our own keys have encrypted as much as they may: 2^24 requests on one connection.
    #[error("this connection's keys have encrypted as much as they may")]
    KeysExhausted,
    /// Any other error of a socket; with its number.
    #[error("the socket failed: {}", io::Error::from_raw_os_error(*.0))]
    Socket(i32),
}

impl Failure {
    /// The label under which it is counted.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Unreachable(_) => "unreachable",
            Self::ConnectTimeout => "connect_timeout",
            Self::TooManyOpenFiles => "too_many_open_files",
            Self::NoPorts => "no_ports",
            Self::Handshake(_) => "handshake",
            Self::CertificateExpired => "certificate_expired",
            Self::CertificateUntrusted(_) => "certificate_untrusted",
            Self::ClosedEarly => "closed_early",
            Self::Short { .. } => "short",
            Self::TooLong { .. } => "too_long",
            Self::Status(_) => "status",
            Self::WrongBytes(_) => "wrong_bytes",
            Self::Alert(_) => "alert",
            Self::Reset => "reset",
            Self::Timeout { .. } => "timeout",
            Self::BadResponse(_) => "bad_response",
            Self::Record(_) => "bad_record",
            Self::KeysExhausted => "keys_exhausted",
            Self::Socket(_) => "socket",
        }
    }

    /// Classifies the errors of connecting.
    pub(crate) fn of_connect(error: &io::Error) -> Self {
        match error.raw_os_error().unwrap_or_default() {
            libc::ECONNREFUSED => Self::Refused,
            libc::ETIMEDOUT => Self::ConnectTimeout,
            libc::EADDRNOTAVAIL => Self::NoPorts,
            number @ (libc::ENETUNREACH
            | libc::EHOSTUNREACH
            | libc::ENETDOWN
            | libc::EACCES
            | libc::EPERM) => Self::Unreachable(number),
            _ => Self::from(error),
        }
    }

    fn of_number(number: i32) -> Self {
        match number {
            libc::EMFILE | libc::ENFILE => Self::TooManyOpenFiles,
            libc::ECONNRESET | libc::EPIPE | libc::ECONNABORTED => Self::Reset,
            libc::ETIMEDOUT => Self::Timeout { awaited: "acknowledgements" },
            number => Self::Socket(number),
        }
    }
}

impl From<&io::Error> for Failure {
    fn from(error: &io::Error) -> Self {
        Self::of_number(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::from(&error)
    }
}

impl From<HandshakeError> for Failure {
    fn from(error: HandshakeError) -> Self {
        use HandshakeError as Is;
        match error {
            Is::CertificateExpired => Self::CertificateExpired,
            Is::CertificateNotYetValid
            | Is::CertificateUntrusted
            | Is::CertificateWrongName
            | Is::CertificateOfAuthority
            | Is::CertificateInvalid => Self::CertificateUntrusted(error),
            error => Self::Handshake(error),
        }
    }
}

impl From<OpenRecordError> for Failure {
    fn from(error: OpenRecordError) -> Self {
        Self::Record(error)
    }
}

fn handshake(error: HandshakeError) -> String {
    match error {
        HandshakeError::PlainHttp => "the server speaks plain HTTP here; use http://".into(),
        HandshakeError::Garbage => "the server does not speak TLS here".into(),
        HandshakeError::PeerAlert(description) => format!("the server sent alert {description}"),
        error => error.to_string(),
    }
}

/// The problem with a certificate, and what to do.
fn distrust(error: HandshakeError) -> &'static str {
    match error {
        HandshakeError::CertificateUntrusted => {
            "no trusted issuer signed the server's certificate; pass its issuer's PEM file with --ca (for a self-signed certificate, such as `fullbore serve` makes, its own), or accept any certificate with --insecure"
        }
        HandshakeError::CertificateOfAuthority => {
            "the server's certificate is a CA certificate (CA:TRUE, the default of `openssl req -x509`), which servers must not use; accept any certificate with --insecure, or make one with -addext basicConstraints=critical,CA:FALSE"
        }
        HandshakeError::CertificateWrongName => {
            "the server's certificate is for other names; use one of them in the URL, or accept any certificate with --insecure"
        }
        HandshakeError::CertificateNotYetValid => {
            "the server's certificate is not valid yet; set the clocks of both machines, or accept any certificate with --insecure"
        }
        _ => {
            "the server's certificate is damaged, revoked or not for servers; replace it, or accept any certificate with --insecure"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_certificate_it_says_what_it_is_and_what_to_do() {
        let said = |error: HandshakeError| Failure::from(error).to_string();
        let untrusted = said(HandshakeError::CertificateUntrusted);
        assert!(untrusted.contains("self-signed") && untrusted.contains("--ca"), "{untrusted}");
        let of_authority = said(HandshakeError::CertificateOfAuthority);
        assert!(of_authority.contains("CA:TRUE"), "{of_authority}");
        assert!(of_authority.contains("basicConstraints=critical,CA:FALSE"), "{of_authority}");
        for error in [
            HandshakeError::CertificateUntrusted,
            HandshakeError::CertificateOfAuthority,
            HandshakeError::CertificateWrongName,
            HandshakeError::CertificateNotYetValid,
            HandshakeError::CertificateExpired,
            HandshakeError::CertificateInvalid,
        ] {
            assert!(said(error).contains("--insecure"), "{error:?}: {}", said(error));
        }
    }
}
