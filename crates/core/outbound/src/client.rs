//! HTTP clients for servers outside the fleet.

use std::path::Path;
use std::sync::Arc;

use reqwest::{Client, ClientBuilder};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// The files with the CA certificates that systems trust: Debian, Fedora.
const TRUSTED: [&str; 2] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/// The most bytes of that file: Debian's has 220 kB.
const TRUSTED_BYTES_MAX: u32 = 8 << 20;

/// The CA certificates that a client trusts.
#[derive(Clone, Debug)]
pub struct Trusted(Arc<RootCertStore>);

impl Trusted {
    /// Those in the file `named`, or the system's. If the system has none, that is not an error: then HTTPS fails, with a message that says so.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(named: Option<&str>) -> Result<Self, String> {
        let usual = || TRUSTED.into_iter().find(|path| Path::new(path).exists());
        let mut roots = RootCertStore::empty();
        if let Some(path) = named.or_else(usual) {
            let pem = files::read(Path::new(path), TRUSTED_BYTES_MAX)
                .map_err(|error| format!("cannot read {path}: {error}"))?;
            let certificates = CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok);
            roots.add_parsable_certificates(certificates);
        }
        Ok(Self(Arc::new(roots)))
    }

    /// A client for HTTP and HTTPS that does not follow redirects.
    ///
    /// # Errors
    /// If there is no cipher for it.
    pub fn client(&self) -> Result<ClientBuilder, String> {
        let tls = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(Arc::clone(&self.0))
            .with_no_client_auth();
        let client = Client::builder().use_preconfigured_tls(tls);
        Ok(client.redirect(reqwest::redirect::Policy::none()))
    }
}

/// A client that trusts the CA certificates in the file `trusted`, or the system's ([`Trusted::client`]).
///
/// # Errors
/// If the file cannot be read.
pub fn client(trusted: Option<&str>) -> Result<ClientBuilder, String> {
    Trusted::read(trusted)?.client()
}
