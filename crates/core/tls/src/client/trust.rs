//! A client's trust: the machine's issuers, those of a file, or any certificate.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};

use crate::danger::{self, AcceptAnyCertificate};
use crate::error::TlsConfigError;

/// Where distributions keep their trusted issuers: Debian and its derivatives, Fedora and its derivatives, Alpine.
const SYSTEM_FILES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// OpenSSL uses this variable too.
const FILE_VARIABLE: &str = "SSL_CERT_FILE";

const ADVICE_SYSTEM: &str = "install the ca-certificates package, name a PEM file in SSL_CERT_FILE or as an option, \
     or accept any certificate";
const ADVICE_FILE: &str = "give a PEM file with the certificates of the issuers to trust";

/// The certificates to trust.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// The issuers that this machine trusts: the file that `SSL_CERT_FILE` names, else the distribution's.
    #[default]
    System,
    /// Only the certificates in a PEM file. A self-signed server's own certificate works.
    File(PathBuf),
    /// Any certificate. The connection is encrypted, but the server is not authenticated: for your own servers, under test.
    AnyCertificate,
}

/// Makes the verifier for certificates.
pub(crate) fn verifier(
    trust: &Trust,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, TlsConfigError> {
    let roots = match trust {
        // It still checks that the server has the key of the certificate it shows, so a handshake costs a client the same as any other, except for
        // the chain.
        Trust::AnyCertificate => return Ok(danger::verifier(AcceptAnyCertificate, provider)),
        Trust::File(path) => roots(path, ADVICE_FILE)?,
        Trust::System => roots(&system_file()?, ADVICE_SYSTEM)?,
    };
    let builder =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    match builder.build() {
        Ok(verifier) => Ok(verifier),
        Err(error) => Err(TlsConfigError::without_file(error, ADVICE_FILE)),
    }
}

fn system_file() -> Result<PathBuf, TlsConfigError> {
    if let Some(path) = std::env::var_os(FILE_VARIABLE) {
        return Ok(path.into());
    }
    let found = SYSTEM_FILES.iter().map(Path::new).find(|path| path.exists());
    found.map(Path::to_owned).ok_or_else(|| {
        TlsConfigError::without_file("this machine has no list of trusted issuers", ADVICE_SYSTEM)
    })
}

/// The issuers in a PEM file. Single certificates that cannot be read are skipped, because a distribution's list may
/// contain kinds that are not supported here yet. A file with no usable one is an error.
fn roots(path: &Path, advice: &'static str) -> Result<RootCertStore, TlsConfigError> {
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| match error {
            pem::Error::Io(error) => {
                TlsConfigError::at(path, format!("cannot read it: {error}"), advice)
            }
            error => TlsConfigError::at(path, format!("not a PEM file: {error}"), advice),
        })?;
    let mut roots = RootCertStore::empty();
    let (added, _passed_over) = roots.add_parsable_certificates(certificates);
    if added == 0 {
        return Err(TlsConfigError::at(path, "holds no usable certificate", advice));
    }
    Ok(roots)
}
