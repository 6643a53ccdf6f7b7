//! Why a request to the outside failed, in words for the operator.

use std::error::Error;
use std::io;

use rustls::{AlertDescription, CertificateError};

/// An error with its causes: reqwest's own text only says that sending failed.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Why the other side's certificate is refused, or ours by it, and what to do, if that is the cause of `error`.
pub fn certificate_trouble(error: &(dyn Error + 'static)) -> Option<String> {
    use CertificateError::{
        Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet,
        NotValidYetContext, Other, UnknownIssuer,
    };
    let found = match tls_error(error)? {
        rustls::Error::InvalidCertificate(why) => why.clone(),
        rustls::Error::AlertReceived(alert) => return own_certificate_trouble(*alert),
        _ => return None,
    };
    let advice = match &found {
        UnknownIssuer => {
            "no authority that is trusted here has signed it: write the certificate of the authority that has, or this one if it is self-signed, into a file (PEM), \
             and start this program with SSL_CERT_FILE=FILE, or name the file as ca of an edge's origin"
        }
        Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "it is an authority's (CA:TRUE), which openssl makes for self-signed ones, and not a server's: make another, with openssl by \
             -addext basicConstraints=critical,CA:FALSE, and start this program with SSL_CERT_FILE=FILE, a file (PEM) that has it"
        }
        Expired | ExpiredContext { .. } => {
            "it has expired: renew it there, and check the clock here"
        }
        NotValidYet | NotValidYetContext { .. } => "it is not valid yet: check the clocks",
        NotValidForName | NotValidForNameContext { .. } => {
            "it is for other names than the one in the address: use a name that it has"
        }
        other => return Some(format!("its certificate cannot be used: {other}; get another one")),
    };
    Some(format!("its certificate is refused, because {advice}"))
}

/// What a server's alert says about this client's certificate.
fn own_certificate_trouble(alert: AlertDescription) -> Option<String> {
    use AlertDescription::{
        AccessDenied, BadCertificate, CertificateExpired, CertificateRequired, CertificateRevoked,
        CertificateUnknown, UnknownCA, UnsupportedCertificate,
    };
    match alert {
        CertificateRequired => Some(
            "it requires a client certificate, and got none: give this program one, with its key (cert and key of an edge's origin)"
                .into(),
        ),
        AccessDenied
        | BadCertificate
        | CertificateExpired
        | CertificateRevoked
        | CertificateUnknown
        | UnknownCA
        | UnsupportedCertificate => Some(format!(
            "it refuses this program's own certificate ({alert:?}): renew it, or get one from the authority that the server trusts"
        )),
        _ => None,
    }
}

/// The TLS error in an error or in its causes. An error that came through a reader or a writer is wrapped inside, and not a cause.
fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    if let Some(found) = error.downcast_ref() {
        return Some(found);
    }
    let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    let inner = inner.and_then(|inner| tls_error(inner));
    inner.or_else(|| tls_error(error.source()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(why: CertificateError) -> Option<String> {
        let inner = io::Error::other(rustls::Error::InvalidCertificate(why));
        certificate_trouble(&io::Error::other(inner))
    }

    #[test]
    fn why_a_certificate_is_refused_is_told_with_what_to_do() {
        let words = |why| words(why).expect("it is about a certificate");
        assert!(words(CertificateError::UnknownIssuer).contains("SSL_CERT_FILE=FILE"));
        assert!(words(CertificateError::Expired).contains("renew it"));
        assert!(words(CertificateError::NotValidYet).contains("clocks"));
        assert!(words(CertificateError::NotValidForName).contains("use a name that it has"));
        assert!(words(CertificateError::Revoked).contains("get another one"));
    }

    #[test]
    fn what_a_server_says_about_our_certificate_is_told_with_what_to_do() {
        let words = |alert| {
            let inner = io::Error::other(rustls::Error::AlertReceived(alert));
            certificate_trouble(&io::Error::other(inner))
        };
        let required = words(AlertDescription::CertificateRequired).unwrap();
        assert!(required.contains("requires a client certificate"), "{required}");
        let expired = words(AlertDescription::CertificateExpired).unwrap();
        assert!(expired.contains("CertificateExpired") && expired.contains("renew"), "{expired}");
        assert_eq!(words(AlertDescription::CloseNotify), None);
    }

    #[test]
    fn what_is_not_about_a_certificate_is_left_alone() {
        assert_eq!(certificate_trouble(&io::Error::other("refused")), None);
        assert_eq!(certificate_trouble(&io::Error::other(rustls::Error::DecryptError)), None);
    }
}
