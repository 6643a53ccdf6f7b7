//! Certificate signing requests (RFC 2986), which nodes create and gateways check.
//!
//! A request is for exactly one name, with a P-256 key that the sender proves to have. It may not ask for anything else: the gateway decides what a
//! certificate is valid for, so attributes and extensions are refused instead of ignored.

use std::fmt::{self, Debug, Formatter};

use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use fleet_protocol::{Digest, Name};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData,
    SignatureAlgorithm,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateSigningRequestDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;
use zeroize::Zeroizing;

use crate::certificate::only_name;

/// Prefix of a SubjectPublicKeyInfo (RFC 5480, section 2) of an uncompressed point on P-256.
const P256_INFO: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// 4, then both coordinates.
const P256_POINT_BYTES: usize = 65;

/// The point in a SubjectPublicKeyInfo of a P-256 key; `None` for other keys.
pub(crate) fn p256_point(info: &[u8]) -> Option<&[u8]> {
    info.strip_prefix(&P256_INFO).filter(|point| point.len() == P256_POINT_BYTES)
}

/// A node's private P-256 key. It never leaves the node.
pub struct NodeKey(KeyPair);

impl Debug for NodeKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("NodeKey")
    }
}

impl NodeKey {
    /// Draws a key.
    ///
    /// # Panics
    /// If the system provides no random bytes.
    pub fn draw() -> Self {
        let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256);
        Self(pair.expect("the system gives random bytes"))
    }

    /// Decodes a key in PEM.
    ///
    /// # Errors
    /// If it is not a P-256 key.
    pub fn from_pem(pem: &str) -> Result<Self, rcgen::Error> {
        KeyPair::from_pkcs8_pem_and_sign_algo(pem, &PKCS_ECDSA_P256_SHA256).map(Self)
    }

    /// The key as PEM.
    pub fn to_pem(&self) -> Zeroizing<String> {
        Zeroizing::new(self.0.serialize_pem())
    }

    pub(crate) fn to_der(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.0.serialize_der()).into()
    }

    pub(crate) fn public(&self) -> &[u8] {
        self.0.public_key_raw()
    }

    /// A signing request for `node`, as PEM.
    ///
    /// # Panics
    /// Never: a name fits into a certificate.
    pub fn request(&self, node: &Name) -> String {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = common_name(node.as_str());
        let request = parameters.serialize_request(&self.0).and_then(|request| request.pem());
        request.expect("a name fits into a certificate")
    }
}

/// A subject with only a common name.
pub(crate) fn common_name(text: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, text);
    name
}

/// A checked signing request: the sender has the key, and asks only for `node`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningRequest {
    node: Name,
    point: Vec<u8>,
}

/// Why a signing request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSigningRequest {
    /// It is not a signing request in PEM.
    #[error("the signing request is not PEM of a PKCS #10 request")]
    Form,
    /// Its key is not a P-256 key.
    #[error("the signing request's key is not of P-256")]
    Key,
    /// Its signature does not match its key.
    #[error("the signing request's signature does not belong to its key")]
    Signature,
    /// It is for another name than the sender's, or its subject has more than a name.
    #[error("the signing request's subject is not the node's name alone")]
    Name,
    /// It asks for more than a name.
    #[error("the signing request asks for more than a name")]
    Extras,
}

impl SigningRequest {
    /// Parses and checks a request in PEM from a sender that claims to be `node`.
    ///
    /// # Errors
    /// The fault.
    pub fn check(pem: &str, node: &Name) -> Result<Self, BadSigningRequest> {
        let der = CertificateSigningRequestDer::from_pem_slice(pem.as_bytes())
            .map_err(|_| BadSigningRequest::Form)?;
        let (rest, request) =
            X509CertificationRequest::from_der(&der).map_err(|_| BadSigningRequest::Form)?;
        let info = &request.certification_request_info;
        if !rest.is_empty() {
            return Err(BadSigningRequest::Form);
        }
        let point = p256_point(info.subject_pki.raw).ok_or(BadSigningRequest::Key)?;
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point)
            .verify(info.raw, &request.signature_value.data)
            .map_err(|_| BadSigningRequest::Signature)?;
        if only_name(&info.subject).as_ref() != Some(node) {
            return Err(BadSigningRequest::Name);
        }
        if !info.attributes().is_empty() {
            return Err(BadSigningRequest::Extras);
        }
        Ok(Self { node: node.clone(), point: point.to_vec() })
    }

    /// The node that gets the certificate.
    pub fn node(&self) -> &Name {
        &self.node
    }

    /// Digest of the public key.
    pub fn key(&self) -> Digest {
        Digest::of(&self.point)
    }
}

impl PublicKeyData for SigningRequest {
    fn der_bytes(&self) -> &[u8] {
        &self.point
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{ExtendedKeyUsagePurpose, PKCS_ED25519};

    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn check(pem: &str) -> Result<SigningRequest, BadSigningRequest> {
        SigningRequest::check(pem, &name("node-1"))
    }

    fn requested(key: &KeyPair, change: impl FnOnce(&mut CertificateParams)) -> String {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name = common_name("node-1");
        change(&mut parameters);
        parameters.serialize_request(key).unwrap().pem().unwrap()
    }

    #[test]
    fn a_node_asks_for_its_name() {
        let key = NodeKey::draw();
        let request = check(&key.request(&name("node-1"))).unwrap();
        assert_eq!(request.node(), &name("node-1"));
        assert_eq!(request.key(), Digest::of(key.public()));
        let kept = NodeKey::from_pem(&key.to_pem()).unwrap();
        assert_eq!(kept.public(), key.public());
    }

    #[test]
    fn a_request_for_another_name_is_refused() {
        let key = NodeKey::draw();
        assert_eq!(check(&key.request(&name("node-2"))), Err(BadSigningRequest::Name));
        let key = KeyPair::generate().unwrap();
        let more = requested(&key, |parameters| {
            parameters.distinguished_name.push(DnType::OrganizationName, "gateways");
        });
        assert_eq!(check(&more), Err(BadSigningRequest::Name));
    }

    #[test]
    fn a_request_for_more_than_a_name_is_refused() {
        let key = KeyPair::generate().unwrap();
        assert!(check(&requested(&key, |_| {})).is_ok());
        let names = requested(&key, |parameters| {
            let alternative = rcgen::SanType::DnsName("node-2".try_into().unwrap());
            parameters.subject_alt_names = vec![alternative];
        });
        assert_eq!(check(&names), Err(BadSigningRequest::Extras));
        let usage = requested(&key, |parameters| {
            parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        });
        assert_eq!(check(&usage), Err(BadSigningRequest::Extras));
    }

    #[test]
    fn another_kind_of_key_is_refused() {
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        assert_eq!(check(&requested(&key, |_| {})), Err(BadSigningRequest::Key));
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
        assert_eq!(check(&requested(&key, |_| {})), Err(BadSigningRequest::Key));
    }

    #[test]
    fn a_changed_byte_is_refused_wherever_it_is() {
        let key = NodeKey::draw();
        let pem = key.request(&name("node-1"));
        let der = CertificateSigningRequestDer::from_pem_slice(pem.as_bytes()).unwrap();
        for at in 0..der.len() {
            let mut bytes = der.to_vec();
            bytes[at] ^= 1;
            let text = pem_of(&bytes);
            // The label of the signature's algorithm is the only part that nothing depends on.
            if let Ok(request) = check(&text) {
                assert_eq!(request.key(), Digest::of(key.public()), "byte {at}");
            }
        }
        for bad in ["", "nothing", "-----BEGIN CERTIFICATE REQUEST-----\n", &pem[..200]] {
            assert_eq!(check(bad), Err(BadSigningRequest::Form), "{bad}");
        }
    }

    fn pem_of(der: &[u8]) -> String {
        const DIGITS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::new();
        for three in der.chunks(3) {
            let word = three.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte))
                << (8 * (3 - three.len()));
            for at in 0..4 {
                let digit = DIGITS[(word >> (18 - 6 * at) & 63) as usize] as char;
                text.push(if at <= three.len() { digit } else { '=' });
            }
        }
        let lines: Vec<_> =
            text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
        format!(
            "-----BEGIN CERTIFICATE REQUEST-----\n{}\n-----END CERTIFICATE REQUEST-----\n",
            lines.join("\n")
        )
    }
}
