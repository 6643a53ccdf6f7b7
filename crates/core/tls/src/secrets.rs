//! Traffic keys and secrets, from when they leave the handshake until they are wiped.
//!
//! A [`Keys`] has the raw key and IV of one direction, and for TLS 1.3 the traffic secret from which the next ones are
//! derived (RFC 8446 section 7.2). Nothing here is `Debug` or `Clone`, and all of it is overwritten when dropped.
//!
//! The secret is kept here because rustls would keep it in a `KernelConnection`, 784 bytes for each connection (measured, 0.23.46: 560 inline, 224 on
//! the heap), mostly for other purposes. Two plain secrets take 98, and the next keys cost three HKDF expansions. The price is [`Captured`], which
//! listens to rustls's key log, because nothing else hands these secrets out.

use std::cell::RefCell;

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Algorithm, CHACHA20_POLY1305, LessSafeKey, UnboundKey,
};
use aws_lc_rs::hkdf::{self, HKDF_SHA256, HKDF_SHA384, KeyType, Prk};
use rustls::{CipherSuite, ConnectionTrafficSecrets};
use zeroize::Zeroize;

pub(crate) const NONCE_BYTES: usize = 12;
const KEY_BYTES_MAX: usize = 32;
/// SHA-384, the longest hash of the suites we offer.
const SECRET_BYTES_MAX: usize = 48;

/// The TLS version of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// RFC 5246.
    Tls12,
    /// RFC 8446.
    Tls13,
}

impl TlsVersion {
    /// The name for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tls12 => "1.2",
            Self::Tls13 => "1.3",
        }
    }
}

/// The cipher that protects the records of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// AES-128-GCM (with SHA-256).
    Aes128Gcm,
    /// AES-256-GCM (with SHA-384).
    Aes256Gcm,
    /// ChaCha20-Poly1305 (with SHA-256).
    ChaCha20Poly1305,
}

impl Suite {
    /// The name for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Aes128Gcm => "aes128-gcm",
            Self::Aes256Gcm => "aes256-gcm",
            Self::ChaCha20Poly1305 => "chacha20-poly1305",
        }
    }

    /// `None` for a cipher that we never offer.
    pub(crate) fn from_rustls(suite: CipherSuite) -> Option<Self> {
        match suite {
            CipherSuite::TLS13_AES_128_GCM_SHA256
            | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
            | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => Some(Self::Aes128Gcm),
            CipherSuite::TLS13_AES_256_GCM_SHA384
            | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
            | CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => Some(Self::Aes256Gcm),
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256
            | CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
            | CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => {
                Some(Self::ChaCha20Poly1305)
            }
            _ => None,
        }
    }

    fn aead(self) -> &'static Algorithm {
        match self {
            Self::Aes128Gcm => &AES_128_GCM,
            Self::Aes256Gcm => &AES_256_GCM,
            Self::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        }
    }

    fn hkdf(self) -> hkdf::Algorithm {
        match self {
            Self::Aes256Gcm => HKDF_SHA384,
            Self::Aes128Gcm | Self::ChaCha20Poly1305 => HKDF_SHA256,
        }
    }
}

/// A TLS 1.3 application traffic secret.
pub(crate) struct TrafficSecret {
    bytes: [u8; SECRET_BYTES_MAX],
    used: u8,
}

impl TrafficSecret {
    /// `None` if `bytes` is longer than any hash we offer.
    pub(crate) fn new(bytes: &[u8]) -> Option<Self> {
        let mut secret =
            Self { bytes: [0; SECRET_BYTES_MAX], used: u8::try_from(bytes.len()).ok()? };
        secret.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(secret)
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.used)]
    }
}

impl Drop for TrafficSecret {
    fn drop(&mut self) {
        self.bytes.zeroize();
    }
}

/// The keys of one direction.
pub(crate) struct Keys {
    suite: Suite,
    key: [u8; KEY_BYTES_MAX],
    iv: [u8; NONCE_BYTES],
    /// TLS 1.3 only.
    secret: Option<TrafficSecret>,
}

impl Keys {
    /// Takes over the keys that rustls extracted. `None` if rustls hands out a cipher that we never offered.
    pub(crate) fn from_rustls(
        extracted: &ConnectionTrafficSecrets,
        secret: Option<TrafficSecret>,
    ) -> Option<Self> {
        let (suite, key, iv) = match extracted {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (Suite::Aes128Gcm, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (Suite::Aes256Gcm, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => {
                (Suite::ChaCha20Poly1305, key, iv)
            }
            _ => return None,
        };
        let mut keys = Self { suite, key: [0; KEY_BYTES_MAX], iv: [0; NONCE_BYTES], secret };
        keys.key.get_mut(..key.as_ref().len())?.copy_from_slice(key.as_ref());
        keys.iv = iv.as_ref().try_into().ok()?;
        (key.as_ref().len() == suite.aead().key_len()).then_some(keys)
    }

    pub(crate) fn suite(&self) -> Suite {
        self.suite
    }

    pub(crate) fn version(&self) -> TlsVersion {
        if self.secret.is_some() { TlsVersion::Tls13 } else { TlsVersion::Tls12 }
    }

    /// The raw key, without the room for longer ones.
    pub(crate) fn raw(&self) -> &[u8] {
        &self.key[..self.suite.aead().key_len()]
    }

    pub(crate) fn iv(&self) -> &[u8; NONCE_BYTES] {
        &self.iv
    }

    /// The nonce of record `sequence`: IV xor sequence number (RFC 8446 section 5.3). The same rule works for TLS 1.2:
    /// RFC 7905 prescribes it for ChaCha20, and AES-GCM accepts any unique explicit part.
    pub(crate) fn nonce(&self, sequence: u64) -> [u8; NONCE_BYTES] {
        let mut nonce = self.iv;
        for (byte, sequence_byte) in nonce[4..].iter_mut().zip(sequence.to_be_bytes()) {
            *byte ^= sequence_byte;
        }
        nonce
    }

    /// Expands the raw key into one that can seal and open.
    pub(crate) fn expand(&self) -> LessSafeKey {
        let algorithm = self.suite.aead();
        let key = UnboundKey::new(algorithm, &self.key[..algorithm.key_len()]).expect(
            "the key length fits the suite; aws-lc fails otherwise only when out of memory",
        );
        LessSafeKey::new(key)
    }

    /// Switches to the next generation. Returns false, and changes nothing, for TLS 1.2, which has none.
    #[must_use]
    pub(crate) fn update(&mut self) -> bool {
        let next = self.next();
        let updated = next.is_some();
        if let Some(next) = next {
            *self = next;
        }
        updated
    }

    /// The next generation (RFC 8446 section 7.2); `None` for TLS 1.2.
    pub(crate) fn next(&self) -> Option<Self> {
        let secret = self.secret.as_ref()?;
        let mut next = TrafficSecret { bytes: [0; SECRET_BYTES_MAX], used: secret.used };
        let next_bytes = &mut next.bytes[..usize::from(secret.used)];
        expand_label(self.suite, secret, b"traffic upd", next_bytes);
        Some(Self::of_secret(self.suite, next))
    }

    /// Derives keys from a traffic secret (RFC 8446 section 7.3).
    pub(crate) fn of_secret(suite: Suite, secret: TrafficSecret) -> Self {
        let (key, iv) = ([0; KEY_BYTES_MAX], [0; NONCE_BYTES]);
        let mut keys = Self { suite, key, iv, secret: None };
        expand_label(suite, &secret, b"key", &mut keys.key[..suite.aead().key_len()]);
        expand_label(suite, &secret, b"iv", &mut keys.iv);
        keys.secret = Some(secret);
        keys
    }
}

/// HKDF-Expand-Label with an empty context (RFC 8446 section 7.1).
fn expand_label(suite: Suite, secret: &TrafficSecret, label: &[u8], out: &mut [u8]) {
    const PREFIX: &[u8] = b"tls13 ";
    let length = (out.len() as u16).to_be_bytes();
    let label_bytes = [(PREFIX.len() + label.len()) as u8];
    let info: [&[u8]; 5] = [&length, &label_bytes, PREFIX, label, &[0]];
    let prk = Prk::new_less_safe(suite.hkdf(), secret.as_slice());
    prk.expand(&info, Length(out.len()))
        .and_then(|okm| okm.fill(out))
        .expect("at most 48 bytes are requested; HKDF fails from 255 hash lengths on");
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.key.zeroize();
        self.iv.zeroize();
    }
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// The secrets captured during a handshake, while rustls goes through it.
#[derive(Default)]
pub(crate) struct Captured {
    /// The two application traffic secrets, when they are derived.
    pub(crate) server: Option<TrafficSecret>,
    pub(crate) client: Option<TrafficSecret>,
    /// The secret of the client's handshake messages.
    pub(crate) client_handshake: Option<TrafficSecret>,
    /// The viewer's number in the ticket that it presented, or else in those that it gets.
    pub(crate) viewer: Option<u64>,
}

thread_local! {
    /// Set only while [`Captured::during`] runs. rustls calls its key log on the same thread during that.
    static CAPTURE: RefCell<Option<Captured>> = const { RefCell::new(None) };
}

impl Captured {
    /// Runs `step`, a synchronous call into rustls, and captures the secrets that it derives. They pass through this
    /// thread's slot and are here when the call returns; they reach no file.
    pub(crate) fn during<T>(&mut self, step: impl FnOnce() -> T) -> T {
        CAPTURE.set(Some(std::mem::take(self)));
        let result = step();
        *self = CAPTURE.take().unwrap_or_default();
        result
    }

    /// Calls `f` with the secrets captured so far. None outside of [`Captured::during`].
    pub(crate) fn with<T>(f: impl FnOnce(&mut Self) -> T) -> Option<T> {
        CAPTURE.with_borrow_mut(|slot| slot.as_mut().map(f))
    }
}

/// The key log given to rustls. It writes nowhere: SSLKEYLOGFILE is ignored.
#[derive(Debug)]
pub(crate) struct CaptureLog;

const SERVER_LABEL: &str = "SERVER_TRAFFIC_SECRET_0";
const CLIENT_LABEL: &str = "CLIENT_TRAFFIC_SECRET_0";
const CLIENT_HANDSHAKE_LABEL: &str = "CLIENT_HANDSHAKE_TRAFFIC_SECRET";

impl rustls::KeyLog for CaptureLog {
    fn will_log(&self, label: &str) -> bool {
        [SERVER_LABEL, CLIENT_LABEL, CLIENT_HANDSHAKE_LABEL].contains(&label)
    }

    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        CAPTURE.with_borrow_mut(|slot| {
            let Some(captured) = slot else { return };
            match label {
                SERVER_LABEL => captured.server = TrafficSecret::new(secret),
                CLIENT_LABEL => captured.client = TrafficSecret::new(secret),
                CLIENT_HANDSHAKE_LABEL => captured.client_handshake = TrafficSecret::new(secret),
                _ => {}
            }
        });
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Every version with every suite.
    pub(crate) const ALL: [(TlsVersion, Suite); 6] = [
        (TlsVersion::Tls13, Suite::Aes128Gcm),
        (TlsVersion::Tls13, Suite::Aes256Gcm),
        (TlsVersion::Tls13, Suite::ChaCha20Poly1305),
        (TlsVersion::Tls12, Suite::Aes128Gcm),
        (TlsVersion::Tls12, Suite::Aes256Gcm),
        (TlsVersion::Tls12, Suite::ChaCha20Poly1305),
    ];

    /// Keys that are the same every time.
    pub(crate) fn keys(version: TlsVersion, suite: Suite) -> Keys {
        let secret = if version == TlsVersion::Tls13 { TrafficSecret::new(&[3; 32]) } else { None };
        Keys { suite, key: [1; 32], iv: [2; 12], secret }
    }

    #[test]
    fn nonce_differs_for_every_sequence_number_and_keeps_the_salt() {
        let keys = keys(TlsVersion::Tls13, Suite::Aes128Gcm);
        assert_eq!(keys.nonce(0), [2; 12]);
        assert_eq!(keys.nonce(1)[..11], [2; 11]);
        assert_eq!(keys.nonce(1)[11], 3);
        assert_eq!(keys.nonce(u64::MAX)[..4], [2; 4]);
    }

    #[test]
    fn update_changes_key_iv_and_secret() {
        let mut keys = keys(TlsVersion::Tls13, Suite::ChaCha20Poly1305);
        assert!(keys.update());
        assert_ne!(keys.key, [1; 32]);
        assert_ne!(keys.iv, [2; 12]);
        assert_ne!(keys.secret.as_ref().unwrap().as_slice(), [3; 32]);
    }

    #[test]
    fn tls12_keys_cannot_be_updated() {
        let mut keys = keys(TlsVersion::Tls12, Suite::Aes128Gcm);
        assert!(!keys.update());
        assert_eq!(keys.key, [1; 32]);
    }

    #[test]
    fn secrets_are_caught_only_during_a_step() {
        use rustls::KeyLog;
        CaptureLog.log(SERVER_LABEL, &[], &[9; 32]);
        let mut captured = Captured::default();
        captured.during(|| CaptureLog.log(CLIENT_LABEL, &[], &[8; 48]));
        assert!(captured.server.is_none());
        assert_eq!(captured.client.unwrap().as_slice(), [8; 48]);
        assert!(CAPTURE.take().is_none());
    }
}
