//! Rules of our own for servers' certificates, in place of the usual ones, for rustls's clients.
//!
//! A mistake in such a rule lets others pass for the server. That is why a caller has to name this module, and why the rule that accepts everything
//! is called [`AcceptAnyCertificate`].
//!
//! Invariant: whatever the rule, the server has to prove that it has the key of the certificate that it shows.

use std::fmt::Debug;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};

/// What a server shows in its handshake.
#[derive(Debug)]
pub struct Shown<'a> {
    /// Its certificate.
    pub end_entity: &'a CertificateDer<'a>,
    /// The certificates that it sends along.
    pub intermediates: &'a [CertificateDer<'a>],
    /// The OCSP response that it sends along; empty if none.
    pub ocsp: &'a [u8],
    /// The time of the handshake.
    pub now: UnixTime,
}

/// Decides whether a certificate is that of the server that the client wants. The name that the client dialled plays no part.
pub trait CertificateRule: Debug + Send + Sync {
    /// Checks the certificate, but not whether the server has its key.
    ///
    /// # Errors
    /// The certificate's fault.
    fn check(&self, shown: &Shown<'_>) -> Result<ServerCertVerified, Error>;
}

/// Accepts every certificate. The connection is encrypted, but the server is not authenticated: for your own servers, under test.
#[derive(Clone, Copy, Debug)]
pub struct AcceptAnyCertificate;

impl CertificateRule for AcceptAnyCertificate {
    fn check(&self, _shown: &Shown<'_>) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }
}

/// A verifier for rustls that applies `rule` to certificates, and checks signatures with the algorithms of `provider`.
pub fn verifier(
    rule: impl CertificateRule + 'static,
    provider: &CryptoProvider,
) -> Arc<dyn ServerCertVerifier> {
    Arc::new(Verifier { rule, algorithms: provider.signature_verification_algorithms })
}

#[derive(Debug)]
struct Verifier<R> {
    rule: R,
    algorithms: WebPkiSupportedAlgorithms,
}

impl<R: CertificateRule> ServerCertVerifier for Verifier<R> {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _dialled: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.rule.check(&Shown { end_entity, intermediates, ocsp, now })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{crypto_provider, has_aes};
    use fullbore_tests::tls::{client, deliver, outgoing};
    use rcgen::{CertificateParams, KeyPair};
    use rustls::pki_types::PrivateKeyDer;
    use rustls::sign::{CertifiedKey, SingleCertAndKey};
    use rustls::version::{TLS12, TLS13};
    use rustls::{
        CertificateError, ClientConfig, ServerConfig, ServerConnection, SupportedProtocolVersion,
    };

    /// The verdict of a client that accepts any certificate on a server that shows one of `shown` and signs with `held`.
    fn meet(
        version: &'static SupportedProtocolVersion,
        shown: &KeyPair,
        held: &KeyPair,
    ) -> Result<(), Error> {
        let provider = Arc::new(crypto_provider(has_aes()));
        let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let certificate = params.self_signed(shown).unwrap().der().clone();
        let key = PrivateKeyDer::try_from(held.serialize_der()).unwrap();
        let key = provider.key_provider.load_private_key(key).unwrap();
        let certified = SingleCertAndKey::from(CertifiedKey::new(vec![certificate], key));
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(certified));
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[version])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(verifier(AcceptAnyCertificate, &provider))
            .with_no_client_auth();
        let mut client = client(&Arc::new(config), "localhost");
        let mut server = ServerConnection::new(Arc::new(server)).unwrap();
        server.read_tls(&mut &outgoing(&mut client)[..]).unwrap();
        server.process_new_packets().unwrap();
        let mut flight = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut flight).unwrap();
        }
        deliver(&mut client, &flight)
    }

    #[test]
    fn a_server_without_the_key_of_its_certificate_is_refused_even_if_any_will_do() {
        let (own, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        for version in [&TLS12, &TLS13] {
            assert_eq!(meet(version, &own, &own), Ok(()));
            let refused = Error::InvalidCertificate(CertificateError::BadSignature);
            assert_eq!(meet(version, &own, &other), Err(refused));
        }
    }
}
