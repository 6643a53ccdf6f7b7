//! A key, which signs and verifies.
//!
//! There are two kinds, and a token is of one or the other: the length of its signature decides, and each kind signs a different text
//! ([`Grant::message`]). So no byte of one kind is ever taken for the other's: a forger who uses a public key as a secret of HMAC
//! makes signatures that the server verifies with no key.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, ParsedPublicKey};
use data_encoding::HEXLOWER;

use crate::token::{CHECK_BYTES, ED25519_BYTES, Form, Grant, Signature};

/// Bytes of a public key (RFC 8032, section 5.1.5).
pub(crate) const PUBLIC_KEY_BYTES: usize = 32;

/// How many bytes of a public key's SHA-256 form its name: enough to rule out two keys of one name by chance.
const NAME_BYTES: usize = 8;

/// A key with its name.
pub(crate) struct Key {
    pub(crate) id: String,
    kind: Kind,
}

enum Kind {
    /// Signs and verifies.
    Hmac(Box<hmac::Key>),
    /// Verifies, and signs if it has its private half.
    Ed25519 {
        public: [u8; PUBLIC_KEY_BYTES],
        parsed: ParsedPublicKey,
        private: Option<Ed25519KeyPair>,
    },
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.id, f)
    }
}

impl Key {
    pub(crate) fn hmac(id: &str, secret: &[u8]) -> Self {
        Self {
            id: id.to_owned(),
            kind: Kind::Hmac(Box::new(hmac::Key::new(hmac::HMAC_SHA256, secret))),
        }
    }

    /// `None` if `public` is no point of the curve.
    pub(crate) fn public(public: [u8; PUBLIC_KEY_BYTES]) -> Option<Self> {
        Self::ed25519(public, None)
    }

    /// `None` if `pkcs8` is not the PKCS #8 of a private key of Ed25519.
    pub(crate) fn private(pkcs8: &[u8]) -> Option<Self> {
        let private = Ed25519KeyPair::from_pkcs8_maybe_unchecked(pkcs8).ok()?;
        let public = private.public_key().as_ref().try_into().ok()?;
        Self::ed25519(public, Some(private))
    }

    fn ed25519(public: [u8; PUBLIC_KEY_BYTES], private: Option<Ed25519KeyPair>) -> Option<Self> {
        let parsed = ParsedPublicKey::new(&ED25519, public).ok()?;
        Some(Self { id: ed25519_id(&public), kind: Kind::Ed25519 { public, parsed, private } })
    }

    /// Whether the key can sign.
    pub(crate) fn is_secret(&self) -> bool {
        !matches!(self.kind, Kind::Ed25519 { private: None, .. })
    }

    /// The half that may be published, if it has halves.
    pub(crate) fn public_half(&self) -> Option<&[u8; PUBLIC_KEY_BYTES]> {
        match &self.kind {
            Kind::Hmac(_) => None,
            Kind::Ed25519 { public, .. } => Some(public),
        }
    }

    /// The signature for `grant`; `None` if it only verifies.
    pub(crate) fn sign(&self, grant: &Grant<'_>) -> Option<Signature> {
        match &self.kind {
            Kind::Hmac(key) => {
                let signature = hmac::sign(key, &grant.message(Form::Hmac));
                Some(Signature::Hmac(signature.as_ref().try_into().expect("SHA-256 has 32 bytes")))
            }
            Kind::Ed25519 { private, .. } => {
                let message = grant.message(Form::Ed25519);
                let signature = private.as_ref()?.sign(&message);
                let mut both = [0; ED25519_BYTES + CHECK_BYTES];
                both[..ED25519_BYTES].copy_from_slice(signature.as_ref());
                both[ED25519_BYTES..].copy_from_slice(&check(&message));
                Some(Signature::Ed25519(both))
            }
        }
    }

    /// Whether `signature` is this key's for `grant`.
    pub(crate) fn verifies(&self, grant: &Grant<'_>, signature: &Signature) -> bool {
        match (&self.kind, signature) {
            (Kind::Hmac(key), Signature::Hmac(signature)) => {
                hmac::verify(key, &grant.message(Form::Hmac), signature).is_ok()
            }
            (Kind::Ed25519 { parsed, .. }, Signature::Ed25519(both)) => {
                let message = grant.message(Form::Ed25519);
                let (signature, checked) = both.split_at(ED25519_BYTES);
                // The check says nothing about the signer, but detects another path in a hundredth of the time.
                check(&message) == checked && parsed.verify_sig(&message, signature).is_ok()
            }
            _ => false,
        }
    }
}

/// The id of a key of Ed25519.
pub(crate) fn ed25519_id(public: &[u8]) -> String {
    HEXLOWER.encode(&digest(&SHA256, public).as_ref()[..NAME_BYTES])
}

/// A checksum that shows at once that a token is for another path: lists of thousands of titles are compared with one token.
fn check(message: &[u8]) -> [u8; CHECK_BYTES] {
    digest(&SHA256, message).as_ref()[..CHECK_BYTES].try_into().expect("SHA-256 has 32 bytes")
}
