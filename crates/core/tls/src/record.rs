//! The TLS record on the wire: header, sizes, content types, alerts.
//!
//! Only numbers and byte layouts (RFC 8446 section 5, RFC 5246 section 6.2); no keys and no state. Read [`crate::seal`]
//! and [`crate::open`] next, which use these.

use crate::error::Alert;
use crate::secrets::{Suite, TlsVersion};

/// Bytes of plaintext that one record carries at most (RFC 8446 section 5.1).
pub const PLAINTEXT_MAX: usize = 16_384;

/// Bytes of a record header: type, version, length.
pub const HEADER_BYTES: usize = 5;

/// Bytes of the authentication tag; the same for all three supported ciphers.
pub const TAG_BYTES: usize = 16;

/// Bytes of the nonce part that TLS 1.2 AES-GCM sends in each record (RFC 5288 section 3).
pub(crate) const EXPLICIT_NONCE_BYTES: usize = 8;

/// Bytes of the largest record that a peer may send us, header included. A receive buffer of this size
/// always holds a whole record. RFC 5246 allows 2048 bytes of expansion during a TLS 1.2 handshake.
pub const RECORD_BYTES_MAX: usize = HEADER_BYTES + PLAINTEXT_MAX + 2048;

/// The largest body of a protected record after the handshake (RFC 8446 section 5.2). TLS 1.2 would
/// allow more, but its AEAD ciphers never expand by more than 24 bytes, so a longer body cannot be valid.
pub(crate) const CIPHERTEXT_MAX: usize = PLAINTEXT_MAX + 256;

/// Room that any single alert or key update of ours needs when sealed.
pub const CONTROL_RECORD_BYTES_MAX: usize = 48;

/// Record content types (RFC 8446 appendix B.1).
pub(crate) mod content_type {
    pub(crate) const CHANGE_CIPHER_SPEC: u8 = 20;
    pub(crate) const ALERT: u8 = 21;
    pub(crate) const HANDSHAKE: u8 = 22;
    pub(crate) const APPLICATION_DATA: u8 = 23;
}

/// Handshake message types that may turn up after the handshake (RFC 8446 appendix B.3).
pub(crate) mod handshake_type {
    pub(crate) const CLIENT_HELLO: u8 = 1;
    pub(crate) const NEW_SESSION_TICKET: u8 = 4;
    pub(crate) const KEY_UPDATE: u8 = 24;
}

/// A record header, read but not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) content_type: u8,
    pub(crate) version_major: u8,
    /// Bytes that follow the header.
    pub(crate) body_bytes: usize,
}

impl Header {
    /// Reads the header at the front of `bytes`; `None` if there are fewer than [`HEADER_BYTES`].
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let head: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
        Some(Self {
            content_type: head[0],
            version_major: head[1],
            body_bytes: usize::from(u16::from_be_bytes([head[3], head[4]])),
        })
    }

    /// Returns true if this could start a record of any TLS version. If not, the peer does not speak TLS.
    pub(crate) fn is_tls(&self) -> bool {
        self.version_major == 3
    }

    /// Returns true if this connection can have records of this type. Others are refused (RFC 8446 section 5), including heartbeats (24), which are
    /// not offered.
    pub(crate) fn has_known_type(&self) -> bool {
        let known = content_type::CHANGE_CIPHER_SPEC..=content_type::APPLICATION_DATA;
        known.contains(&self.content_type)
    }

    /// Bytes of the whole record.
    pub(crate) fn record_bytes(&self) -> usize {
        HEADER_BYTES + self.body_bytes
    }
}

/// Makes a header with the version number that both TLS 1.2 and 1.3 put on protected records.
///
/// `body_bytes` never exceeds [`CIPHERTEXT_MAX`], so the cast keeps every bit.
pub(crate) fn header(content_type: u8, body_bytes: usize) -> [u8; HEADER_BYTES] {
    debug_assert!(body_bytes <= CIPHERTEXT_MAX);
    let length = (body_bytes as u16).to_be_bytes();
    [content_type, 3, 3, length[0], length[1]]
}

/// An unprotected alert record, for a peer without agreed keys.
pub(crate) fn plain_alert(alert: Alert) -> [u8; HEADER_BYTES + 2] {
    let [a, b, c, d, e] = header(content_type::ALERT, 2);
    [a, b, c, d, e, alert.level(), alert.description()]
}

/// The data that a record's tag covers in addition to its content.
pub(crate) struct AdditionalData {
    bytes: [u8; 13],
    used: usize,
}

impl AdditionalData {
    /// TLS 1.3: the header as it is on the wire (RFC 8446 section 5.2).
    pub(crate) fn tls13(header: [u8; HEADER_BYTES]) -> Self {
        let mut bytes = [0; 13];
        bytes[..HEADER_BYTES].copy_from_slice(&header);
        Self { bytes, used: HEADER_BYTES }
    }

    /// TLS 1.2: sequence number, the header's type and version, length of the plaintext, which fits
    /// its field since no record holds more than [`CIPHERTEXT_MAX`] (RFC 5246 section 6.2.3.3).
    pub(crate) fn tls12(sequence: u64, header: [u8; HEADER_BYTES], plaintext_bytes: usize) -> Self {
        let mut bytes = [0; 13];
        bytes[..8].copy_from_slice(&sequence.to_be_bytes());
        bytes[8..11].copy_from_slice(&header[..3]);
        bytes[11..].copy_from_slice(&(plaintext_bytes as u16).to_be_bytes());
        Self { bytes, used: 13 }
    }
}

impl AsRef<[u8]> for AdditionalData {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.used]
    }
}

/// How a protected record is laid out around its ciphertext.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// header | ciphertext of plaintext and type | tag
    Tls13,
    /// header | explicit nonce | ciphertext | tag
    Tls12Gcm,
    /// header | ciphertext | tag
    Tls12ChaCha,
}

impl Layout {
    pub(crate) fn of(version: TlsVersion, suite: Suite) -> Self {
        match (version, suite) {
            (TlsVersion::Tls13, _) => Self::Tls13,
            (TlsVersion::Tls12, Suite::ChaCha20Poly1305) => Self::Tls12ChaCha,
            (TlsVersion::Tls12, Suite::Aes128Gcm | Suite::Aes256Gcm) => Self::Tls12Gcm,
        }
    }

    /// Bytes of the nonce that each record carries.
    pub(crate) fn explicit_nonce_bytes(self) -> usize {
        if self == Self::Tls12Gcm { EXPLICIT_NONCE_BYTES } else { 0 }
    }

    /// Bytes of the content type that is sealed after the plaintext.
    pub(crate) fn inner_type_bytes(self) -> usize {
        usize::from(self == Self::Tls13)
    }

    /// Bytes in front of the ciphertext.
    pub(crate) fn front_bytes(self) -> usize {
        HEADER_BYTES + self.explicit_nonce_bytes()
    }

    /// Bytes after the plaintext.
    pub(crate) fn back_bytes(self) -> usize {
        self.inner_type_bytes() + TAG_BYTES
    }
}

/// The tag of a sealed record: its last 16 bytes, in TLS 1.2 and 1.3. Making a record again compares it.
///
/// # Panics
/// If `record` is shorter than header and tag, and so is not a sealed record.
pub fn tag(record: &[u8]) -> [u8; TAG_BYTES] {
    assert!(record.len() >= HEADER_BYTES + TAG_BYTES, "a sealed record has a header and a tag");
    *record.last_chunk().expect("length was just checked")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_reads_back_what_was_written() {
        let bytes = header(content_type::APPLICATION_DATA, CIPHERTEXT_MAX);
        let read = Header::read(&bytes).unwrap();
        assert!(read.is_tls());
        assert_eq!((read.content_type, read.body_bytes), (23, CIPHERTEXT_MAX));
        assert_eq!(Header::read(&bytes[..4]), None);
    }

    #[test]
    fn http_is_not_mistaken_for_a_record() {
        assert!(!Header::read(b"GET / HTTP/1.1").unwrap().is_tls());
    }

    #[test]
    fn heartbeats_and_unknown_types_are_told_from_ours() {
        let known =
            |content_type| Header::read(&[content_type, 3, 3, 0, 1]).unwrap().has_known_type();
        let all: Vec<u8> = (0..=255).filter(|content_type| known(*content_type)).collect();
        assert_eq!(all, [20, 21, 22, 23]);
    }

    #[test]
    fn tag_is_the_end_of_the_record() {
        let mut record = vec![0; 40];
        record[24..].copy_from_slice(&[7; 16]);
        assert_eq!(tag(&record), [7; 16]);
    }
}
