//! Hands a connection's sending half to kernel TLS: the keys in the kernel's format, and the state that stays in user
//! space.
//!
//! A [`KernelSealer`] is a [`Sealer`] that no longer seals. It keeps the traffic secret, from which the next keys are
//! derived, and counts records, because the kernel does not limit them: it would use one key forever.
//!
//! Invariants:
//! - Once keys were handed over, nothing here seals with them: the kernel's next record would have the same nonce. [`KernelSealer::take_back`] is
//!   only for keys that the kernel has refused.
//! - In TLS 1.2 AES-GCM the kernel numbers the explicit nonces itself, counting up from a given start. That start is
//!   half of the number space away from every nonce that the handshake has used (see [`KernelKeys::iv`]).
//! - Keys are wiped when they are dropped, here and in [`KernelKeys`].

use zeroize::Zeroize;

use crate::error::{Alert, SealError};
use crate::record::{Layout, PLAINTEXT_MAX, content_type, handshake_type};
use crate::seal::{Sealer, records_max, records_soft};
use crate::secrets::{Keys, NONCE_BYTES, Suite, TlsVersion};

/// Bytes of the nonce that never change, at its front: the salt of AES-GCM in `linux/tls.h`.
const SALT_BYTES: usize = 4;

/// Records that are not application data, by their number on the wire (RFC 8446 appendix B.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ControlRecord {
    /// An alert.
    Alert = content_type::ALERT,
    /// A handshake message. We send only key updates.
    Handshake = content_type::HANDSHAKE,
}

/// The sending half of a connection whose records the kernel seals.
pub struct KernelSealer {
    keys: Keys,
    /// Sequence number of the next record under the current keys: exact when the keys are handed over, an upper bound
    /// afterwards.
    sequence: u64,
}

/// Keys in the kernel's format. Wiped when dropped.
pub struct KernelKeys {
    version: TlsVersion,
    suite: Suite,
    key: [u8; 32],
    nonce: [u8; NONCE_BYTES],
    sequence: [u8; 8],
}

impl Sealer {
    /// Stops sealing here, so that the kernel can take over.
    pub fn into_kernel(self) -> KernelSealer {
        let (keys, sequence) = self.into_parts();
        KernelSealer { keys, sequence }
    }
}

impl KernelSealer {
    /// The keys for the kernel: now, and again after each [`Self::key_update`].
    pub fn keys(&self) -> KernelKeys {
        let mut nonce = *self.keys.iv();
        if Layout::of(self.keys.version(), self.keys.suite()) == Layout::Tls12Gcm {
            // Our nonces are the IV xor the sequence number, and the handshake has used the first ones.
            nonce[SALT_BYTES] ^= 0x80;
        }
        KernelKeys::new(&self.keys, nonce, self.sequence)
    }

    /// Seals here after all. Only for keys that the kernel has refused, and so has never used.
    pub fn take_back(self) -> Sealer {
        Sealer::new(self.keys, self.sequence)
    }

    /// TLS version of the connection.
    pub fn version(&self) -> TlsVersion {
        self.keys.version()
    }

    /// Counts the bytes that the kernel took in one call: records of 16 KiB, and one that may be shorter.
    pub fn count_taken(&mut self, plaintext_bytes: usize) {
        if plaintext_bytes > 0 {
            self.sequence += plaintext_bytes.div_ceil(PLAINTEXT_MAX) as u64 + 1;
        }
    }

    /// As [`Sealer::needs_key_update`].
    pub fn needs_key_update(&self, records_max: u64) -> bool {
        let soft = records_soft(self.keys.suite()).min(records_max);
        self.version() == TlsVersion::Tls13 && self.sequence >= soft
    }

    /// Returns true if these keys have sealed as many records as they may: only an alert may follow.
    pub fn is_exhausted(&self) -> bool {
        self.sequence >= records_max(self.keys.suite())
    }

    /// Switches to the next keys. Before that, send [`key_update_message`] under the keys that the kernel still has.
    /// Afterwards, give the kernel [`Self::keys`] again (Linux 6.14).
    ///
    /// # Errors
    /// [`SealError::NotTls13`].
    pub fn key_update(&mut self) -> Result<(), SealError> {
        if !self.keys.update() {
            return Err(SealError::NotTls13);
        }
        self.sequence = 0;
        Ok(())
    }
}

/// The content of a [`ControlRecord::Handshake`] to send before [`KernelSealer::key_update`]. `request_peer` asks the
/// peer to change its keys too.
pub fn key_update_message(request_peer: bool) -> [u8; 5] {
    [handshake_type::KEY_UPDATE, 0, 0, 1, u8::from(request_peer)]
}

/// The content of a [`ControlRecord::Alert`].
pub fn alert(alert: Alert) -> [u8; 2] {
    [alert.level(), alert.description()]
}

impl KernelKeys {
    fn new(keys: &Keys, nonce: [u8; NONCE_BYTES], sequence: u64) -> Self {
        let mut key = [0; 32];
        let raw = keys.raw();
        key[..raw.len()].copy_from_slice(raw);
        let (version, suite) = (keys.version(), keys.suite());
        Self { version, suite, key, nonce, sequence: sequence.to_be_bytes() }
    }

    /// TLS version.
    pub fn version(&self) -> TlsVersion {
        self.version
    }

    /// Cipher.
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// The key: 16 or 32 bytes.
    pub fn key(&self) -> &[u8] {
        let bytes = if self.suite == Suite::Aes128Gcm { 16 } else { 32 };
        &self.key[..bytes]
    }

    /// The part of the nonce that never changes: 4 bytes in AES-GCM, none in ChaCha20-Poly1305.
    pub fn salt(&self) -> &[u8] {
        &self.nonce[..self.salt_bytes()]
    }

    /// The rest of the nonce, 8 or 12 bytes. The kernel xors the sequence number into it, except in TLS 1.2 AES-GCM, where it counts up from this
    /// value. That start differs in its highest bit from every nonce of the handshake, which had small numbers in its lowest bits; they could meet
    /// after 2^63 records.
    pub fn iv(&self) -> &[u8] {
        &self.nonce[self.salt_bytes()..]
    }

    /// The next record's sequence number, big-endian.
    pub fn sequence(&self) -> &[u8; 8] {
        &self.sequence
    }

    fn salt_bytes(&self) -> usize {
        if self.suite == Suite::ChaCha20Poly1305 { 0 } else { SALT_BYTES }
    }
}

impl Drop for KernelKeys {
    fn drop(&mut self) {
        self.key.zeroize();
        self.nonce.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::{Content, Opened, Opener};
    use crate::record::{AdditionalData, HEADER_BYTES, TAG_BYTES, header};
    use crate::secrets::tests::{ALL, keys};
    use aws_lc_rs::aead::{
        AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
    };

    /// Seals a record as the kernel does (net/tls/tls_sw.c), only from the kernel's keys; `count` records were sealed since then.
    fn seal_as_kernel(
        keys: &KernelKeys,
        count: u64,
        content_type: u8,
        plaintext: &[u8],
    ) -> Vec<u8> {
        let algorithm = match keys.suite() {
            Suite::Aes128Gcm => &AES_128_GCM,
            Suite::Aes256Gcm => &AES_256_GCM,
            Suite::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        };
        let sequence = u64::from_be_bytes(*keys.sequence()) + count;
        let counts_up = keys.version() == TlsVersion::Tls12 && !keys.salt().is_empty();
        let mut nonce = [keys.salt(), keys.iv()].concat();
        if counts_up {
            let start = u64::from_be_bytes(nonce[4..].try_into().unwrap());
            nonce[4..].copy_from_slice(&start.wrapping_add(count).to_be_bytes());
        } else {
            nonce[4..].iter_mut().zip(sequence.to_be_bytes()).for_each(|(byte, s)| *byte ^= s);
        }
        let explicit = if counts_up { nonce[4..].to_vec() } else { Vec::new() };
        let mut body = plaintext.to_vec();
        if keys.version() == TlsVersion::Tls13 {
            body.push(content_type);
        }
        let outer = if keys.version() == TlsVersion::Tls13 { 23 } else { content_type };
        let front: [u8; HEADER_BYTES] = header(outer, explicit.len() + body.len() + TAG_BYTES);
        let additional = match keys.version() {
            TlsVersion::Tls13 => AdditionalData::tls13(front),
            TlsVersion::Tls12 => AdditionalData::tls12(sequence, front, plaintext.len()),
        };
        let nonce = Nonce::try_assume_unique_for_key(&nonce).unwrap();
        let key = LessSafeKey::new(UnboundKey::new(algorithm, keys.key()).unwrap());
        key.seal_in_place_append_tag(nonce, Aad::from(additional), &mut body).unwrap();
        [&front[..], &explicit, &body].concat()
    }

    fn open(opener: &mut Opener, mut record: Vec<u8>) -> (Content, Vec<u8>) {
        match opener.open(&mut record) {
            Ok(Opened::Record { content, .. }) => (content, record),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_a_kernel_seals_with_these_keys_follows_on_from_the_handshake() {
        for (version, suite) in ALL {
            let mut opener = Opener::new(keys(version, suite), 3);
            let sealer = Sealer::new(keys(version, suite), 3).into_kernel();
            for count in 0..3 {
                let record = seal_as_kernel(&sealer.keys(), count, 23, b"film");
                let (content, record) = open(&mut opener, record);
                let Content::Data(range) = content else { panic!("{version:?} {suite:?}") };
                assert_eq!(&record[range], b"film");
            }
            let goodbye = seal_as_kernel(&sealer.keys(), 3, 21, &alert(Alert::CloseNotify));
            assert_eq!(open(&mut opener, goodbye).0, Content::CloseNotify);
        }
    }

    #[test]
    fn a_key_update_is_followed_by_keys_that_the_peer_arrives_at_too() {
        let suite = Suite::Aes256Gcm;
        let mut opener = Opener::new(keys(TlsVersion::Tls13, suite), 0);
        let mut sealer = Sealer::new(keys(TlsVersion::Tls13, suite), 0).into_kernel();
        let before = sealer.keys();
        sealer.key_update().unwrap();
        let message = seal_as_kernel(&before, 0, 22, &key_update_message(true));
        let update = open(&mut opener, message).0;
        assert_eq!(update, Content::KeyUpdate { peer_requests_answer: true });
        let (content, _) = open(&mut opener, seal_as_kernel(&sealer.keys(), 0, 23, b"film"));
        assert!(matches!(content, Content::Data(_)));
        let mut tls12 = Sealer::new(keys(TlsVersion::Tls12, suite), 1).into_kernel();
        assert_eq!(tls12.key_update(), Err(SealError::NotTls13));
    }

    #[test]
    fn the_kernels_nonces_of_tls12_stay_clear_of_the_handshakes() {
        for iv_end in [0u64, 1, u64::MAX, u64::MAX / 2, 1 << 63] {
            let used: Vec<u64> = (0..1000).map(|sequence| iv_end ^ sequence).collect();
            let start = iv_end ^ (1 << 63);
            let ends = [start, start.wrapping_add(records_max(Suite::Aes128Gcm))];
            let is_met = |nonce: &u64| nonce.wrapping_sub(start) <= ends[1].wrapping_sub(start);
            assert!(!used.iter().any(is_met), "{iv_end:x}");
        }
        let sealer = Sealer::new(keys(TlsVersion::Tls12, Suite::Aes128Gcm), 1).into_kernel();
        assert_eq!(sealer.keys().iv(), [0x82, 2, 2, 2, 2, 2, 2, 2]);
        assert_eq!(sealer.keys().salt(), [2; 4]);
    }

    #[test]
    fn keys_are_to_be_changed_long_before_they_have_sealed_what_they_may() {
        let mut sealer = Sealer::new(keys(TlsVersion::Tls13, Suite::Aes128Gcm), 0).into_kernel();
        let windows = || std::iter::repeat_n(512 << 10, 1 << 20);
        let bytes: u64 = windows()
            .take_while(|bytes| {
                sealer.count_taken(*bytes);
                !sealer.needs_key_update(u64::MAX)
            })
            .map(|bytes| bytes as u64)
            .sum();
        assert!(bytes >= 240 << 30, "{bytes}");
        assert!(!sealer.is_exhausted());
        let mut fresh = Sealer::new(keys(TlsVersion::Tls13, Suite::Aes128Gcm), 0).into_kernel();
        fresh.count_taken(5 * PLAINTEXT_MAX);
        assert!(!fresh.needs_key_update(7) && fresh.needs_key_update(6));
        windows().take(1 << 19).for_each(|bytes| sealer.count_taken(bytes));
        assert!(sealer.is_exhausted());
    }

    #[test]
    fn refused_keys_seal_here_as_if_nothing_had_been() {
        let (version, suite) = (TlsVersion::Tls13, Suite::ChaCha20Poly1305);
        let mut sealer = Sealer::new(keys(version, suite), 2).into_kernel().take_back();
        let mut opener = Opener::new(keys(version, suite), 2);
        let mut record = vec![0; 64];
        let bytes = sealer.seal(b"film", &mut record).unwrap();
        record.truncate(bytes);
        assert!(matches!(open(&mut opener, record).0, Content::Data(_)));
    }
}
