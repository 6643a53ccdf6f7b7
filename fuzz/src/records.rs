//! The sending side of a client that can send anything with the right keys: every content type, any padding, any nonce, in any order.
//! Written from the RFCs and not from `tls`, so that each checks the other.

use aws_lc_rs::aead::{
    self, AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use aws_lc_rs::hkdf::{self, HKDF_SHA256, HKDF_SHA384, KeyType, Prk};
use rustls::{ConnectionTrafficSecrets, ExtractedSecrets};
use tls::{Established, Suite, TlsVersion};

use crate::client;

/// Content types (RFC 8446 appendix B.1).
pub const ALERT: u8 = 21;
/// See [`ALERT`].
pub const HANDSHAKE: u8 = 22;
/// See [`ALERT`].
pub const DATA: u8 = 23;

const TAG_BYTES: usize = 16;

/// The contents of one record.
#[derive(Clone, Debug)]
pub struct Record {
    /// The content type. TLS 1.3 has it after the plaintext, TLS 1.2 in the header.
    pub content_type: u8,
    /// The payload.
    pub plaintext: Vec<u8>,
    /// Zeros after the content type; TLS 1.3 only.
    pub padding_bytes: usize,
}

/// Encrypts records as a client does, an honest one or an attacker.
pub struct Writer {
    version: TlsVersion,
    algorithm: &'static aead::Algorithm,
    hash: hkdf::Algorithm,
    key: LessSafeKey,
    /// In TLS 1.2 AES-GCM the first 4 bytes are the salt.
    iv: [u8; 12],
    /// Empty in TLS 1.2.
    secret: Vec<u8>,
    /// Number of the next record with these keys. Targets may set it, to send records out of order.
    pub sequence: u64,
}

/// A connection whose client sends whatever the target wants; `index` is below [`client::CIPHERS`].
pub fn connect(index: usize) -> (Writer, Established) {
    let (client, established) = client::connect(index);
    let secrets = client.dangerous_extract_secrets().expect("extraction is switched on");
    (Writer::new(secrets, &established), established)
}

impl Writer {
    fn new(secrets: ExtractedSecrets, established: &Established) -> Self {
        let (sequence, keys) = secrets.tx;
        let (algorithm, key, iv) = match &keys {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => unreachable!("no other cipher is offered"),
        };
        let version = established.info.version;
        let secret =
            if version == TlsVersion::Tls13 { client::last_traffic_secret() } else { Vec::new() };
        Self {
            version,
            algorithm,
            hash: if established.info.suite == Suite::Aes256Gcm {
                HKDF_SHA384
            } else {
                HKDF_SHA256
            },
            key: expand(algorithm, key.as_ref()),
            iv: iv.as_ref().try_into().expect("12 bytes in every suite"),
            secret,
            sequence,
        }
    }

    /// Encrypts one record and counts it.
    pub fn seal(&mut self, record: &Record) -> Vec<u8> {
        let mut body = record.plaintext.clone();
        let (header, explicit, additional) = match self.version {
            TlsVersion::Tls13 => {
                body.push(record.content_type);
                body.resize(body.len() + record.padding_bytes, 0);
                let header = header(DATA, body.len() + TAG_BYTES);
                (header, None, header.to_vec())
            }
            TlsVersion::Tls12 => {
                let explicit = self.explicit_nonce();
                let explicit_bytes = explicit.map_or(0, |bytes| bytes.len());
                let covered = header(record.content_type, body.len());
                let additional = [&self.sequence.to_be_bytes()[..], &covered].concat();
                (
                    header(record.content_type, explicit_bytes + body.len() + TAG_BYTES),
                    explicit,
                    additional,
                )
            }
        };
        let nonce = Nonce::assume_unique_for_key(self.nonce(explicit));
        self.key
            .seal_in_place_append_tag(nonce, Aad::from(additional), &mut body)
            .expect("a record is short");
        self.sequence = self.sequence.wrapping_add(1);
        [&header[..], explicit.as_ref().map_or(&[][..], <[u8; 8]>::as_slice), &body].concat()
    }

    /// Changes to the next keys (RFC 8446 section 7.2). Does nothing in TLS 1.2.
    pub fn update_keys(&mut self) {
        if self.version == TlsVersion::Tls12 {
            return;
        }
        self.secret = self.expand_label(b"traffic upd", self.secret.len());
        self.key = expand(self.algorithm, &self.expand_label(b"key", self.algorithm.key_len()));
        self.iv =
            self.expand_label(b"iv", self.iv.len()).try_into().expect("as many as were asked for");
        self.sequence = 0;
    }

    /// RFC 5288 section 3 lets the sender choose this part of the nonce. It differs from the sequence number here, and must work all the same.
    fn explicit_nonce(&self) -> Option<[u8; 8]> {
        (self.algorithm != &CHACHA20_POLY1305).then(|| (!self.sequence).to_be_bytes())
    }

    /// The nonce. RFC 8446 section 5.3 and RFC 7905 section 2: the sequence number XOR the IV. RFC 5288 section 3: the salt, then the part that the
    /// record carries.
    fn nonce(&self, explicit: Option<[u8; 8]>) -> [u8; 12] {
        let mut nonce = self.iv;
        let low = explicit.unwrap_or_else(|| {
            let iv = u64::from_be_bytes(*self.iv.last_chunk().expect("12 bytes hold 8"));
            (iv ^ self.sequence).to_be_bytes()
        });
        nonce[4..].copy_from_slice(&low);
        nonce
    }

    /// HKDF-Expand-Label of RFC 8446 section 7.1, with an empty context.
    fn expand_label(&self, label: &[u8], bytes: usize) -> Vec<u8> {
        let label = [b"tls13 ", label].concat();
        let info = [&(bytes as u16).to_be_bytes()[..], &[label.len() as u8], &label, &[0]].concat();
        let mut out = vec![0; bytes];
        let prk = Prk::new_less_safe(self.hash, &self.secret);
        prk.expand(&[&info], Length(bytes))
            .and_then(|okm| okm.fill(&mut out))
            .expect("48 bytes at most");
        out
    }
}

fn expand(algorithm: &'static aead::Algorithm, key: &[u8]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(algorithm, key).expect("the key fits its cipher"))
}

/// Record headers of both versions name TLS 1.2 (RFC 8446 section 5.1).
fn header(content_type: u8, body_bytes: usize) -> [u8; 5] {
    let [high, low] =
        u16::try_from(body_bytes).expect("no record here exceeds 64 KiB").to_be_bytes();
    [content_type, 3, 3, high, low]
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}
