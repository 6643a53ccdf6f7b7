//! Viewers that use rustls, a third-party library, and accept any certificate: servers under test make their own.
//!
//! They still check the server's signatures, so the server must have the key of its certificate.

use rustls::client::WantsClientCert;
use rustls::client::danger::ServerCertVerified;
use rustls::crypto::{CryptoProvider, aws_lc_rs as provider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, ConfigBuilder, Error, NamedGroup,
    SupportedCipherSuite,
};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use tls::danger::{self, AcceptAnyCertificate, CertificateRule, Shown};

/// A client's offer.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Ciphers, and with them the versions.
    pub suites: Vec<SupportedCipherSuite>,
    /// Key exchanges.
    pub groups: Vec<NamedGroup>,
    /// Protocols.
    pub alpn: Vec<&'static [u8]>,
    /// Whether it accepts the server's certificate, whichever that is.
    pub accept_certificate: bool,
}

impl Default for Offer {
    /// Both versions, the usual ciphers, and a cheap key exchange.
    fn default() -> Self {
        Self {
            suites: provider::DEFAULT_CIPHER_SUITES.to_vec(),
            groups: vec![NamedGroup::X25519],
            alpn: vec![b"http/1.1"],
            accept_certificate: true,
        }
    }
}

impl Offer {
    /// All ciphers of TLS 1.3, and none of 1.2.
    pub fn tls13() -> Self {
        Self { suites: suites(true), ..Self::default() }
    }

    /// All ciphers of TLS 1.2, and none of 1.3.
    pub fn tls12() -> Self {
        Self { suites: suites(false), ..Self::default() }
    }

    /// The client's configuration.
    ///
    /// # Panics
    /// If nothing is offered.
    pub fn config(&self) -> Arc<ClientConfig> {
        self.with_alpn(self.verifying().with_no_client_auth())
    }

    /// The configuration of a client that shows a certificate, from files in PEM.
    ///
    /// # Panics
    /// If nothing is offered, or the files are not a certificate and its key.
    pub fn config_showing(&self, certificate: &Path, key: &Path) -> Arc<ClientConfig> {
        let chain = CertificateDer::pem_file_iter(certificate).expect("a certificate");
        let chain = chain.collect::<Result<Vec<_>, _>>().expect("a certificate");
        let key = PrivateKeyDer::from_pem_file(key).expect("a key");
        self.with_alpn(self.verifying().with_client_auth_cert(chain, key).expect("its key"))
    }

    fn with_alpn(&self, mut config: ClientConfig) -> Arc<ClientConfig> {
        config.alpn_protocols = self.alpn.iter().map(|protocol| protocol.to_vec()).collect();
        Arc::new(config)
    }

    fn verifying(&self) -> ConfigBuilder<ClientConfig, WantsClientCert> {
        let all = provider::ALL_KX_GROUPS.iter().copied();
        let provider = CryptoProvider {
            cipher_suites: self.suites.clone(),
            kx_groups: all.filter(|group| self.groups.contains(&group.name())).collect(),
            ..provider::default_provider()
        };
        let verifier = if self.accept_certificate {
            danger::verifier(AcceptAnyCertificate, &provider)
        } else {
            danger::verifier(RefuseAnyCertificate, &provider)
        };
        let has = |tls13: bool| self.suites.iter().any(|suite| suite.tls13().is_some() == tls13);
        let versions = [(true, &rustls::version::TLS13), (false, &rustls::version::TLS12)];
        let versions: Vec<_> =
            versions.into_iter().filter(|(tls13, _)| has(*tls13)).map(|(_, one)| one).collect();
        ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&versions)
            .expect("something is offered")
            .dangerous()
            .with_custom_certificate_verifier(verifier)
    }
}

/// The ciphers of TLS 1.3, or those of 1.2.
pub fn suites(tls13: bool) -> Vec<SupportedCipherSuite> {
    let all = provider::ALL_CIPHER_SUITES.iter().copied();
    all.filter(|suite| suite.tls13().is_some() == tls13).collect()
}

/// A client's connection to the server `name`, before its first byte.
///
/// # Panics
/// If `name` is not a valid name.
pub fn client(config: &Arc<ClientConfig>, name: &str) -> ClientConnection {
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    ClientConnection::new(Arc::clone(config), name).expect("the configuration is sound")
}

/// Everything that `client` wants to send.
///
/// # Panics
/// Never: writing to memory cannot fail.
pub fn outgoing(client: &mut ClientConnection) -> Vec<u8> {
    let mut wire = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut wire).expect("writing to memory cannot fail");
    }
    wire
}

/// Passes `wire` to `client`.
///
/// # Errors
/// The client's error.
///
/// # Panics
/// If the client's buffer is full because the test doesn't read from it.
pub fn deliver(client: &mut ClientConnection, mut wire: &[u8]) -> Result<(), Error> {
    while !wire.is_empty() {
        client.read_tls(&mut wire).expect("there is room");
        client.process_new_packets()?;
    }
    Ok(())
}

/// The plaintext that `client` has received so far.
pub fn received(client: &mut ClientConnection) -> Vec<u8> {
    let mut plaintext = Vec::new();
    // The error says only that there is no more for now.
    let _ = client.reader().read_to_end(&mut plaintext);
    plaintext
}

/// Accepts no certificate.
#[derive(Debug)]
struct RefuseAnyCertificate;

impl CertificateRule for RefuseAnyCertificate {
    fn check(&self, _shown: &Shown<'_>) -> Result<ServerCertVerified, Error> {
        Err(Error::InvalidCertificate(CertificateError::UnknownIssuer))
    }
}
