//! The key type of a certificate.

use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_RSA_SHA256, RsaKeySize};
use serde::{Deserialize, Serialize};
use x509_parser::prelude::X509Certificate;
use x509_parser::public_key::PublicKey;

/// A key type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AcmeKeyType {
    /// ECDSA over P-256: small, fast, and known to every client of the last ten years.
    #[default]
    #[serde(rename = "ecdsa-p256")]
    EcdsaP256,
    /// ECDSA over P-384.
    #[serde(rename = "ecdsa-p384")]
    EcdsaP384,
    /// RSA of 2,048 bits, for old clients and for authorities that support nothing else.
    #[serde(rename = "rsa-2048")]
    Rsa2048,
    /// RSA of 3,072 bits.
    #[serde(rename = "rsa-3072")]
    Rsa3072,
    /// RSA of 4,096 bits.
    #[serde(rename = "rsa-4096")]
    Rsa4096,
}

impl AcmeKeyType {
    /// A new key.
    pub(crate) fn generate(self) -> Result<KeyPair, rcgen::Error> {
        let rsa = |size| KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, size);
        match self {
            Self::EcdsaP256 => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
            Self::EcdsaP384 => KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384),
            Self::Rsa2048 => rsa(RsaKeySize::_2048),
            Self::Rsa3072 => rsa(RsaKeySize::_3072),
            Self::Rsa4096 => rsa(RsaKeySize::_4096),
        }
    }

    /// The key type of `certificate`, if it is one of these.
    pub(crate) fn of(certificate: &X509Certificate<'_>) -> Option<Self> {
        match certificate.public_key().parsed().ok()? {
            PublicKey::EC(point) if point.key_size() == 256 => Some(Self::EcdsaP256),
            PublicKey::EC(point) if point.key_size() == 384 => Some(Self::EcdsaP384),
            PublicKey::RSA(key) if key.key_size() == 2048 => Some(Self::Rsa2048),
            PublicKey::RSA(key) if key.key_size() == 3072 => Some(Self::Rsa3072),
            PublicKey::RSA(key) if key.key_size() == 4096 => Some(Self::Rsa4096),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::CertificateParams;
    use x509_parser::prelude::FromDer;

    #[test]
    fn the_kind_of_key_is_seen_in_its_certificate() {
        for kind in [AcmeKeyType::EcdsaP256, AcmeKeyType::EcdsaP384, AcmeKeyType::Rsa2048] {
            let parameters = CertificateParams::new(["a.example".to_owned()]).unwrap();
            let certificate = parameters.self_signed(&kind.generate().unwrap()).unwrap();
            let (_, parsed) = X509Certificate::from_der(certificate.der()).unwrap();
            assert_eq!(AcmeKeyType::of(&parsed), Some(kind));
        }
    }
}
