//! Proofs to a certificate authority that this server controls a name, by TLS itself (TLS-ALPN-01, RFC 8737).
//!
//! The authority connects and offers only the protocol `acme-tls/1`, for the name in question. It gets a self-signed certificate for that name with
//! the proof in it, and nothing else: no such connection carries data. Without proofs, the protocol is not spoken at all.
//!
//! The keys of these certificates are made here, live as long as the proof, and are worthless: no client trusts them.

use crate::config::HTTP;
use crate::error::TlsConfigError;
use aws_lc_rs::digest::SHA256_OUTPUT_LEN;
use rcgen::{
    CertificateParams, CustomExtension, DistinguishedName, KeyPair, PKCS_ECDSA_P256_SHA256,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::identity::Identities;

/// The protocol's name (RFC 8737 section 6.2).
pub(crate) const ACME_TLS: &[u8] = b"acme-tls/1";

/// The proofs of all workers, which may change at any time.
#[derive(Clone, Debug, Default)]
pub struct AlpnProofs(Arc<Held>);

#[derive(Debug, Default)]
struct Held {
    /// Set if there are any. Handshakes check this, and take the lock only then.
    any: AtomicBool,
    by_name: RwLock<HashMap<String, Arc<CertifiedKey>>>,
}

impl AlpnProofs {
    /// Proves these names from now on, each by the SHA-256 of the value that the authority expects, and no others.
    ///
    /// # Errors
    /// If no certificate can be made for one of them. Then the proofs do not change.
    pub fn replace<'n>(
        &self,
        proofs: impl IntoIterator<Item = (&'n str, [u8; SHA256_OUTPUT_LEN])>,
    ) -> Result<(), TlsConfigError> {
        let provider = crate::config::crypto_provider(crate::config::has_aes());
        let made = proofs.into_iter().map(|(name, digest)| {
            let name = name.to_ascii_lowercase();
            let certified = make(&name, &digest, &provider)?;
            Ok((name, Arc::new(certified)))
        });
        let made = made.collect::<Result<HashMap<_, _>, _>>()?;
        let any = !made.is_empty();
        *self.0.by_name.write().unwrap_or_else(PoisonError::into_inner) = made;
        self.0.any.store(any, Ordering::Release);
        Ok(())
    }

    /// Returns true if there is anything to prove.
    pub fn are_there(&self) -> bool {
        self.0.any.load(Ordering::Acquire)
    }

    /// Returns true if this name is proved now.
    pub fn prove(&self, name: &str) -> bool {
        self.of(name).is_some()
    }

    fn of(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let by_name = self.0.by_name.read().unwrap_or_else(PoisonError::into_inner);
        by_name.get(&name.to_ascii_lowercase()).cloned()
    }
}

/// RFC 8737 section 3.
fn make(
    name: &str,
    digest: &[u8],
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsConfigError> {
    const ADVICE: &str = "report this";
    let failed = |error: String| {
        TlsConfigError::without_file(format!("cannot make a proof for {name}: {error}"), ADVICE)
    };
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256);
    let key = key.map_err(|error| failed(error.to_string()))?;
    let parameters = CertificateParams::new([name.to_owned()]);
    let mut parameters = parameters.map_err(|error| failed(error.to_string()))?;
    parameters.distinguished_name = DistinguishedName::new();
    parameters.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let certificate = parameters.self_signed(&key).map_err(|error| failed(error.to_string()))?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let key = provider.key_provider.load_private_key(key);
    let key = key.map_err(|error| failed(error.to_string()))?;
    // Unchecked: webpki reads no certificate with a critical extension that it does not know, and this one was just made from its key.
    Ok(CertifiedKey::new(vec![certificate.der().clone()], key))
}

/// The certificates while there are proofs.
#[derive(Debug)]
pub(crate) struct WithProofs {
    pub(crate) identities: Arc<Identities>,
    pub(crate) proofs: AlpnProofs,
}

impl ResolvesServerCert for WithProofs {
    /// None, which ends the handshake, for an authority that requests a proof that does not exist.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        match is_for_proof(&hello) {
            true => self.proofs.of(hello.server_name()?),
            false => self.identities.resolve(hello),
        }
    }
}

/// Returns true if the client offers the protocol, and no other that the server speaks, so that it would be agreed on.
fn is_for_proof(hello: &ClientHello<'_>) -> bool {
    let Some(offered) = hello.alpn() else { return false };
    let mut offered: Vec<_> = offered.collect();
    offered.retain(|one| *one == ACME_TLS || HTTP.contains(one));
    offered == [ACME_TLS]
}

#[cfg(test)]
mod tests {
    use super::*;
    use x509_parser::prelude::{FromDer, X509Certificate};

    /// `acmeIdentifier` (RFC 8737 section 6.1).
    const ACME_IDENTIFIER: &str = "1.3.6.1.5.5.7.1.31";

    #[test]
    fn a_proof_is_a_certificate_for_the_name_alone_with_the_digest_in_a_critical_extension() {
        let proofs = AlpnProofs::default();
        assert!(!proofs.are_there());
        proofs.replace([("A.example", [7; 32]), ("b.example", [8; 32])]).unwrap();
        assert!(proofs.are_there() && proofs.of("c.example").is_none());
        let certified = proofs.of("a.EXAMPLE").unwrap();
        let der = certified.end_entity_cert().unwrap();
        let (_, certificate) = X509Certificate::from_der(der).unwrap();
        let names = certificate.subject_alternative_name().unwrap().unwrap();
        let names: Vec<_> = names.value.general_names.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["DNSName(a.example)"]);
        let mut extensions = certificate.extensions().iter();
        let found = extensions.find(|found| found.oid.to_id_string() == ACME_IDENTIFIER).unwrap();
        assert!(found.critical);
        // An OCTET STRING of 32 bytes.
        assert_eq!(found.value, [&[4, 32][..], &[7; 32]].concat());
        proofs.replace([]).unwrap();
        assert!(!proofs.are_there() && proofs.of("a.example").is_none());
    }
}
