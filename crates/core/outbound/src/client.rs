//! HTTP clients for servers outside the fleet.

use std::path::Path;
use std::sync::Arc;

use reqwest::{Client, ClientBuilder};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// The files with the CA certificates that systems trust: Debian, Fedora.
const TRUSTED: [&str; 2] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/// The most bytes of that file: Debian's has 220 kB.
const TRUSTED_BYTES_MAX: u32 = 8 << 20;

/// The CA certificates that a client trusts; by default none.
#[derive(Clone, Debug)]
pub struct Trusted(Arc<RootCertStore>);

impl Default for Trusted {
    fn default() -> Self {
        Self(Arc::new(RootCertStore::empty()))
    }
}

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

    /// Those in this text (PEM).
    ///
    /// # Errors
    /// If there is none in it.
    pub fn of_pem(pem: &str) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates(pem)?);
        match roots.is_empty() {
            true => Err("it has no usable certificate".into()),
            false => Ok(Self(Arc::new(roots))),
        }
    }

    /// A client for HTTP and HTTPS that does not follow redirects. Servers that ask for it get its `identity`.
    ///
    /// # Errors
    /// If the identity can't be used.
    pub fn client(&self, identity: Option<ClientIdentity>) -> Result<ClientBuilder, String> {
        let tls = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(Arc::clone(&self.0));
        let tls = match identity {
            None => tls.with_no_client_auth(),
            Some(ClientIdentity { chain, key }) => {
                tls.with_client_auth_cert(chain, key).map_err(|error| match error {
                    rustls::Error::InconsistentKeys(_) => {
                        "the key is not that of the certificate".to_owned()
                    }
                    other => other.to_string(),
                })?
            }
        };
        let client = Client::builder().use_preconfigured_tls(tls);
        Ok(client.redirect(reqwest::redirect::Policy::none()))
    }
}

/// A certificate by which a client proves to servers who it is, with those of the authorities between, and its key.
pub struct ClientIdentity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl ClientIdentity {
    /// Reads both from their texts (PEM).
    ///
    /// # Errors
    /// If a text has none.
    pub fn of_pem(chain: &str, key: &str) -> Result<Self, String> {
        let chain = certificates(chain).map_err(|why| format!("the certificate: {why}"))?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes());
        let key = key.map_err(|_| "the key: it has no private key (PEM, not encrypted)")?;
        Ok(Self { chain, key })
    }
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err("it has no certificate (PEM)".into()),
        Err(why) => Err(format!("it is no PEM: {why}")),
    }
}

/// A client that trusts the CA certificates in the file `trusted`, or the system's ([`Trusted::client`]).
///
/// # Errors
/// If the file cannot be read.
pub fn client(trusted: Option<&str>) -> Result<ClientBuilder, String> {
    Trusted::read(trusted)?.client(None)
}
