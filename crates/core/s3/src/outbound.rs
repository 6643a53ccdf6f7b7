//! HTTP clients for servers outside the fleet.

use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::Arc;

use reqwest::{Client, ClientBuilder};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{CertificateError, ClientConfig, RootCertStore};

/// The files with the CA certificates that systems trust: Debian, Fedora.
const TRUSTED: [&str; 2] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/// The most bytes of that file: Debian's has 220 kB.
const TRUSTED_BYTES_MAX: u32 = 8 << 20;

/// A client for HTTP and HTTPS that does not follow redirects. It trusts the CA certificates in the file `trusted`, or the system's.
///
/// # Errors
/// If the file cannot be read.
pub fn outbound(trusted: Option<&str>) -> Result<ClientBuilder, String> {
    let tls = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots(trusted)?)
        .with_no_client_auth();
    let client = Client::builder().use_preconfigured_tls(tls);
    Ok(client.redirect(reqwest::redirect::Policy::none()))
}

/// Why the other side's certificate is refused, and what to do, if that is the cause of `error`.
pub fn certificate_trouble(error: &(dyn Error + 'static)) -> Option<String> {
    use CertificateError::{
        Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet,
        NotValidYetContext, Other, UnknownIssuer,
    };
    let found = refused(error)?;
    let advice = match &found {
        UnknownIssuer => {
            "no authority that is trusted here has signed it: write the certificate of the authority that has, or this one if it is self-signed, into a file (PEM), \
             and start this program with SSL_CERT_FILE=FILE"
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

/// The certificate error in an error or in its causes. An error that came through a reader or a writer is wrapped inside, and not a cause.
fn refused(error: &(dyn Error + 'static)) -> Option<CertificateError> {
    if let Some(rustls::Error::InvalidCertificate(why)) = error.downcast_ref() {
        return Some(why.clone());
    }
    let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    let inner = inner.and_then(|inner| refused(inner));
    inner.or_else(|| refused(error.source()?))
}

/// An empty store is not an error: then HTTPS fails, with a message that says so.
fn roots(named: Option<&str>) -> Result<RootCertStore, String> {
    let usual = || TRUSTED.into_iter().find(|path| Path::new(path).exists());
    let mut roots = RootCertStore::empty();
    let Some(path) = named.or_else(usual) else { return Ok(roots) };
    let pem = files::read(Path::new(path), TRUSTED_BYTES_MAX)
        .map_err(|error| format!("cannot read {path}: {error}"))?;
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok));
    Ok(roots)
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
    fn what_is_not_about_a_certificate_is_left_alone() {
        assert_eq!(certificate_trouble(&io::Error::other("refused")), None);
        assert_eq!(certificate_trouble(&io::Error::other(rustls::Error::DecryptError)), None);
    }
}
