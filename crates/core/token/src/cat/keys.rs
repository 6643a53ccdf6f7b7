//! The keys of Common Access Tokens, and their files.
//!
//! A file has the form of our own key files (`../file.rs`): lines `ID:SECRET`, and PEM. Issuers choose the ids of their keys, so a line
//! `kid NAME` may come before a key: before a PEM block, or before a secret in a line of its own. Without one, a key of Ed25519 has the id that
//! it has for our own tokens. PEM may also have keys of P-256 (ES256) and, for checking only, of RSA (PS256).

use std::fmt;

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ED25519, EcdsaKeyPair,
    Ed25519KeyPair, KeyPair as _, ParsedPublicKey, RSA_PSS_2048_8192_SHA256, VerificationAlgorithm,
};
use data_encoding::HEXLOWER;

use super::cose::{CatAlgorithm, Sealed};
use crate::file::{secret, split_shared};
use crate::key::ed25519_id;
use crate::{KeyFileFault, pem};

/// Bytes of a key's id. Issuers use names, UUIDs and hashes.
const ID_BYTES_MAX: usize = 128;

/// The line before a key with another id than its own.
const KID: &str = "kid";

/// The fault of a line `kid NAME` without a key after it.
const NO_KEY: &str = "after a line `kid NAME` comes its key";

/// The bytes before the point in a SubjectPublicKeyInfo of P-256 (RFC 5480).
const P256_DER: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// The algorithm in a SubjectPublicKeyInfo of RSA (RFC 3279, section 2.3.1), and its place after the outer sequence's length of two bytes.
const RSA_DER: [u8; 15] =
    [0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];
const RSA_DER_AT: usize = 4;

/// Bytes of a public key with 4096 bits and the exponent 65537, which is 550, and a little more. Longer ones would cost a server too much.
const RSA_DER_BYTES_MAX: usize = 560;

/// A key with its id.
pub(crate) struct CatKey {
    id: Vec<u8>,
    kind: Kind,
}

enum Kind {
    Hs256(Box<hmac::Key>),
    Public(CatAlgorithm, ParsedPublicKey),
    EdDsa(ParsedPublicKey, Ed25519KeyPair),
    Es256(ParsedPublicKey, Box<EcdsaKeyPair>),
}

impl fmt::Debug for CatKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl CatKey {
    pub(super) fn id(&self) -> &[u8] {
        &self.id
    }

    /// Its id for people.
    pub(super) fn name(&self) -> String {
        String::from_utf8_lossy(&self.id).into_owned()
    }

    pub(super) fn algorithm(&self) -> CatAlgorithm {
        match &self.kind {
            Kind::Hs256(_) => CatAlgorithm::Hs256,
            Kind::Public(algorithm, _) => *algorithm,
            Kind::EdDsa(..) => CatAlgorithm::EdDsa,
            Kind::Es256(..) => CatAlgorithm::Es256,
        }
    }

    /// Whether it can sign.
    pub(crate) fn is_secret(&self) -> bool {
        !matches!(self.kind, Kind::Public(..))
    }

    /// The signature of `covered`; `None` if it only verifies.
    pub(super) fn sign(&self, covered: &[u8]) -> Option<Vec<u8>> {
        match &self.kind {
            Kind::Hs256(key) => Some(hmac::sign(key, covered).as_ref().to_vec()),
            Kind::Public(..) => None,
            Kind::EdDsa(_, pair) => Some(pair.sign(covered).as_ref().to_vec()),
            Kind::Es256(_, pair) => {
                let signature = pair.sign(&SystemRandom::new(), covered).ok()?;
                Some(signature.as_ref().to_vec())
            }
        }
    }

    /// Whether the token was signed by this key. The caller has compared the algorithm.
    pub(super) fn verifies(&self, token: &Sealed) -> bool {
        match &self.kind {
            // Compares in constant time.
            Kind::Hs256(key) => hmac::verify(key, &token.covered, &token.signature).is_ok(),
            Kind::Public(_, parsed) | Kind::EdDsa(parsed, _) | Kind::Es256(parsed, _) => {
                parsed.verify_sig(&token.covered, &token.signature).is_ok()
            }
        }
    }
}

/// The keys in `text`, in order; at least one.
pub(super) fn parse(text: &str) -> Result<Vec<CatKey>, KeyFileFault> {
    let (mut keys, mut id) = (Vec::new(), None);
    let mut lines = (1..).zip(text.lines().map(str::trim));
    while let Some((number, line)) = lines.next() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let fault = |wanted| KeyFileFault::Line { number, wanted };
        let is_apart = |name: &&str| name.is_empty() || name.starts_with(char::is_whitespace);
        let name = line.strip_prefix(KID).filter(is_apart);
        if let Some(name) = name {
            if id.replace((number, key_id(name).map_err(fault)?)).is_some() {
                return Err(fault(NO_KEY));
            }
            continue;
        }
        let id = id.take().map(|(_, id)| id);
        let key = match pem::label(line) {
            Some(label) => {
                let block = pem::read_block(label, lines.by_ref().map(|(_, line)| line));
                block.and_then(|block| of_block(&block, id))
            }
            None => shared(line, id),
        };
        keys.push(key.map_err(fault)?);
    }
    if let Some((number, _)) = id {
        return Err(KeyFileFault::Line { number, wanted: NO_KEY });
    }
    if keys.is_empty() { Err(KeyFileFault::Empty) } else { Ok(keys) }
}

/// Parses the id after `kid`: text, or `hex:` and digits.
fn key_id(name: &str) -> Result<Vec<u8>, &'static str> {
    let wanted = "an id is 1 to 128 bytes: write `kid NAME`, or `kid hex:DIGITS`";
    let id = match name.trim().strip_prefix("hex:") {
        Some(digits) => HEXLOWER.decode(digits.as_bytes()).map_err(|_| wanted)?,
        None => name.trim().as_bytes().to_vec(),
    };
    if (1..=ID_BYTES_MAX).contains(&id.len()) { Ok(id) } else { Err(wanted) }
}

fn shared(line: &str, id: Option<Vec<u8>>) -> Result<CatKey, &'static str> {
    let (id, digits) = match id {
        Some(id) => (id, line),
        None => split_shared(line).map(|(id, digits)| (id.as_bytes().to_vec(), digits))?,
    };
    let key = hmac::Key::new(hmac::HMAC_SHA256, &secret(digits)?);
    Ok(CatKey { id, kind: Kind::Hs256(Box::new(key)) })
}

fn of_block(block: &pem::Block, id: Option<Vec<u8>>) -> Result<CatKey, &'static str> {
    let found = if block.is_public { public(&block.der) } else { private(&block.der) };
    let (kind, own_id) = found.ok_or(
        "a block holds a key of Ed25519 or P-256, or a public key of RSA with 2048 to 4096 bits",
    )?;
    let id = id.or(own_id).ok_or("write a line `kid NAME` before this key: it has no id")?;
    Ok(CatKey { id, kind })
}

/// A public key, and its id if that follows from it.
fn public(der: &[u8]) -> Option<(Kind, Option<Vec<u8>>)> {
    let parsed = |algorithm: &'static dyn VerificationAlgorithm, key: &[u8]| {
        ParsedPublicKey::new(algorithm, key).ok()
    };
    if let Some(key) = der.strip_prefix(&pem::PUBLIC_DER) {
        let kind = Kind::Public(CatAlgorithm::EdDsa, parsed(&ED25519, key)?);
        Some((kind, Some(ed25519_id(key).into_bytes())))
    } else if let Some(point) = der.strip_prefix(&P256_DER) {
        Some((Kind::Public(CatAlgorithm::Es256, parsed(&ECDSA_P256_SHA256_FIXED, point)?), None))
    } else if der.len() <= RSA_DER_BYTES_MAX && der.get(RSA_DER_AT..)?.starts_with(&RSA_DER) {
        Some((Kind::Public(CatAlgorithm::Ps256, parsed(&RSA_PSS_2048_8192_SHA256, der)?), None))
    } else {
        None
    }
}

fn private(der: &[u8]) -> Option<(Kind, Option<Vec<u8>>)> {
    if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
        let key = pair.public_key().as_ref();
        let (parsed, id) = (ParsedPublicKey::new(&ED25519, key).ok()?, ed25519_id(key));
        return Some((Kind::EdDsa(parsed, pair), Some(id.into_bytes())));
    }
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der).ok()?;
    let parsed = ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key().as_ref()).ok()?;
    Some((Kind::Es256(parsed, Box::new(pair)), None))
}
