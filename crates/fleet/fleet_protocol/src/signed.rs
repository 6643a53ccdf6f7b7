//! Data signed by the fleet (Ed25519, RFC 8032).

use std::fmt::{self, Debug, Formatter};

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Serialize};

/// The fleet's private key. It never leaves gateways.
pub struct SigningKey(Ed25519KeyPair);

impl Debug for SigningKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({:?})", self.public())
    }
}

/// The bytes are not an Ed25519 private key in PKCS #8, or drawing a key failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not a private key of Ed25519 in PKCS #8")]
pub struct SigningKeyError;

/// Verifies signatures of a [`SigningKey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PublicKey([u8; 32]);

/// Bytes with a signature. The signed text starts with a line that names its kind (`context`), so that no signature is valid for another kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The signed bytes.
    pub bytes: Vec<u8>,
    /// 64 bytes.
    pub signature: Vec<u8>,
}

/// The signature is not the fleet's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the signature is not the fleet's")]
pub struct UnsignedError;

fn message(context: &str, bytes: &[u8]) -> Vec<u8> {
    [context.as_bytes(), b"\n", bytes].concat()
}

impl SigningKey {
    /// Draws a key. Returns it and its PKCS #8, which is all that has to be stored.
    ///
    /// # Errors
    /// If the system provides no random bytes.
    pub fn draw() -> Result<(Self, Vec<u8>), SigningKeyError> {
        let pair = Ed25519KeyPair::generate().map_err(|_| SigningKeyError)?;
        let pkcs8 = pair.to_pkcs8().map_err(|_| SigningKeyError)?;
        Ok((Self(pair), pkcs8.as_ref().to_vec()))
    }

    /// Decodes a key from [`draw`](Self::draw).
    ///
    /// # Errors
    /// If it is not a key.
    pub fn from_pkcs8(bytes: &[u8]) -> Result<Self, SigningKeyError> {
        Ed25519KeyPair::from_pkcs8(bytes).map(Self).map_err(|_| SigningKeyError)
    }

    /// The key that verifies its signatures.
    ///
    /// # Panics
    /// Never: a public key of Ed25519 has 32 bytes.
    pub fn public(&self) -> PublicKey {
        PublicKey(
            self.0.public_key().as_ref().try_into().expect("RFC 8032, section 5.1.5: 32 bytes"),
        )
    }

    /// Signs `bytes` as `context`, a constant such as `fullbore-snapshot-1`.
    pub fn sign(&self, context: &str, bytes: Vec<u8>) -> Signed {
        let signature = self.0.sign(&message(context, &bytes)).as_ref().to_vec();
        Signed { bytes, signature }
    }
}

impl PublicKey {
    /// Its 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// A key with these bytes. All bytes are accepted: an invalid key verifies nothing.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the signed bytes if the fleet signed them as `context`.
    ///
    /// # Errors
    /// If it did not.
    pub fn open<'s>(&self, context: &str, signed: &'s Signed) -> Result<&'s [u8], UnsignedError> {
        UnparsedPublicKey::new(&ED25519, self.0)
            .verify(&message(context, &signed.bytes), &signed.signature)
            .map(|()| signed.bytes.as_slice())
            .map_err(|_| UnsignedError)
    }
}

#[cfg(test)]
mod tests {
    use super::SigningKey;

    #[test]
    fn only_the_signed_bytes_open_and_only_as_what_they_are() {
        let (key, kept) = SigningKey::draw().expect("a key");
        let signed =
            SigningKey::from_pkcs8(&kept).expect("the same key").sign("a", b"words".to_vec());
        assert_eq!(key.public().open("a", &signed), Ok(b"words".as_slice()));
        assert!(key.public().open("b", &signed).is_err());
        let mut other = signed.clone();
        other.bytes[0] ^= 1;
        assert!(key.public().open("a", &other).is_err());
        let (stranger, _) = SigningKey::draw().expect("a key");
        assert!(stranger.public().open("a", &signed).is_err());
    }
}
