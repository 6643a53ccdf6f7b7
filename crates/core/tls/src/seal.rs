//! Sealing: turns plaintext into TLS records, from its place into the send buffer in one pass.
//!
//! A [`Sealer`] is one connection's sending half. Every record has a *position*: a count that starts where the
//! handshake ended and never goes back, not even when the keys change. A record whose position is known can be made
//! again by [`Sealer::reseal`], byte for byte.
//!
//! Invariants:
//! - A nonce never leaves this machine with two different plaintexts. Sealing uses each position once. Making a record
//!   again compares its tag with the first one, and wipes the output if it differs. A record that was sealed and
//!   discarded has revealed nothing.
//! - Positions from before a key update can never be made again. So update keys only when every byte sealed so far was handed to the network, or will
//!   never be made again.
//! - A refused call (output too small, keys at their limit) writes nothing and uses no position.

use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce};

use crate::error::{Alert, ResealError, SealError};
use crate::record::{
    AdditionalData, HEADER_BYTES, Layout, PLAINTEXT_MAX, TAG_BYTES, content_type, handshake_type,
    header, tag,
};
use crate::secrets::{Keys, NONCE_BYTES, Suite, TlsVersion};

/// Records after which AES-GCM keys should be changed: 2^24 (256 GiB of video), well before
/// [`GCM_RECORDS_MAX`], so that the caller can wait until nothing needs to be made again.
const GCM_RECORDS_SOFT: u64 = 1 << 24;

/// How many records of data one AES-GCM key may seal: 2^24.5 (RFC 8446 section 5.5), rounded down, which leaves six
/// thousand for alerts and the key update itself.
const GCM_RECORDS_MAX: u64 = 23_720_000;

/// ChaCha20-Poly1305 stays safe until the sequence number wraps (RFC 8446 section 5.5). An eighth of that cannot be
/// reached either, and rules out overflow in the arithmetic.
const CHACHA_RECORDS_MAX: u64 = 1 << 61;

/// Heap memory of an expanded key: aws-lc keeps it there (docs/memory.md).
pub(crate) const EXPANDED_KEY_BYTES: usize = 608;

/// Records of data that one key may seal.
pub(crate) fn records_max(suite: Suite) -> u64 {
    match suite {
        Suite::Aes128Gcm | Suite::Aes256Gcm => GCM_RECORDS_MAX,
        Suite::ChaCha20Poly1305 => CHACHA_RECORDS_MAX,
    }
}

/// Records after which a key should be changed.
pub(crate) fn records_soft(suite: Suite) -> u64 {
    match suite {
        Suite::Aes128Gcm | Suite::Aes256Gcm => GCM_RECORDS_SOFT,
        Suite::ChaCha20Poly1305 => CHACHA_RECORDS_MAX / 2,
    }
}

/// The sending half of a connection after its handshake.
pub struct Sealer {
    keys: Keys,
    expanded: LessSafeKey,
    layout: Layout,
    /// Position of the next record.
    position: u64,
    /// Position that has sequence number 0 under the current keys.
    generation_start: u64,
    /// The first position that can be made again.
    reach_start: u64,
}

impl Sealer {
    /// `sequence` is the number of the next record. It is not 0 if the handshake has already sent records under these keys.
    pub(crate) fn new(keys: Keys, sequence: u64) -> Self {
        let layout = Layout::of(keys.version(), keys.suite());
        let expanded = keys.expand();
        Self {
            keys,
            expanded,
            layout,
            position: sequence,
            generation_start: 0,
            reach_start: sequence,
        }
    }

    /// The keys, and the sequence number of the next record under them.
    pub(crate) fn into_parts(self) -> (Keys, u64) {
        let sequence = self.sequence(self.position);
        (self.keys, sequence)
    }

    /// Bytes that one record adds to its plaintext: 22 (TLS 1.3), 29 (1.2 AES-GCM), 21 (1.2 ChaCha20).
    pub fn record_overhead(&self) -> usize {
        self.layout.front_bytes() + self.layout.back_bytes()
    }

    /// Bytes in front of a record's plaintext, for [`Self::seal_in_place`]: 5 or 13.
    pub fn front_bytes(&self) -> usize {
        self.layout.front_bytes()
    }

    /// Bytes after a record's plaintext, for [`Self::seal_in_place`]: 17 or 16.
    pub fn back_bytes(&self) -> usize {
        self.layout.back_bytes()
    }

    /// Bytes on the wire of `plaintext_bytes` cut into records of [`PLAINTEXT_MAX`] from the start.
    pub fn sealed_bytes(&self, plaintext_bytes: u64) -> u64 {
        let records = plaintext_bytes.div_ceil(PLAINTEXT_MAX as u64);
        plaintext_bytes + records * self.record_overhead() as u64
    }

    /// The position that the next record will have.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Seals `plaintext` into `out` as application data: records of [`PLAINTEXT_MAX`] from the start, the last one
    /// shorter. Empty plaintext makes no record. Returns the bytes written, which are [`Self::sealed_bytes`]. The
    /// records get consecutive positions from [`Self::position`] on.
    ///
    /// # Errors
    /// [`SealError::BufferTooSmall`], or [`SealError::KeysExhausted`] at the AEAD limit.
    pub fn seal(&mut self, plaintext: &[u8], out: &mut [u8]) -> Result<usize, SealError> {
        let sealed_bytes =
            plaintext.len() + plaintext.len().div_ceil(PLAINTEXT_MAX) * self.record_overhead();
        let mut out = out.get_mut(..sealed_bytes).ok_or(SealError::BufferTooSmall)?;
        self.check_limit(plaintext.len().div_ceil(PLAINTEXT_MAX) as u64)?;
        for chunk in plaintext.chunks(PLAINTEXT_MAX) {
            let (record, rest) = out.split_at_mut(chunk.len() + self.record_overhead());
            self.write_record(self.position, content_type::APPLICATION_DATA, chunk, record);
            self.position += 1;
            out = rest;
        }
        Ok(sealed_bytes)
    }

    /// As [`Self::seal`], in two passes: copies all of `plaintext` to the place of its records, then seals each in place. The output is the same; it
    /// is the baseline for sealing in one pass.
    ///
    /// # Errors
    /// As [`Self::seal`].
    pub fn seal_copied(&mut self, plaintext: &[u8], out: &mut [u8]) -> Result<usize, SealError> {
        let records = plaintext.len().div_ceil(PLAINTEXT_MAX);
        let sealed_bytes = plaintext.len() + records * self.record_overhead();
        let out = out.get_mut(..sealed_bytes).ok_or(SealError::BufferTooSmall)?;
        self.check_limit(records as u64)?;
        let record_bytes_max = PLAINTEXT_MAX + self.record_overhead();
        let front = self.front_bytes();
        let chunks = plaintext.chunks(PLAINTEXT_MAX);
        for (chunk, record) in chunks.clone().zip(out.chunks_mut(record_bytes_max)) {
            record[front..front + chunk.len()].copy_from_slice(chunk);
        }
        for (chunk, record) in chunks.zip(out.chunks_mut(record_bytes_max)) {
            self.seal_in_place(record, chunk.len())?;
        }
        Ok(sealed_bytes)
    }

    /// Seals one record in place: `record` is [`Self::front_bytes`] of room, `plaintext_bytes` of plaintext, and at
    /// least [`Self::back_bytes`] of room. Returns the record's length.
    ///
    /// # Errors
    /// As [`Self::seal`].
    ///
    /// # Panics
    /// If `plaintext_bytes` exceeds [`PLAINTEXT_MAX`]: the caller cuts records.
    pub fn seal_in_place(
        &mut self,
        record: &mut [u8],
        plaintext_bytes: usize,
    ) -> Result<usize, SealError> {
        assert!(plaintext_bytes <= PLAINTEXT_MAX, "the caller cuts records");
        let record_bytes = plaintext_bytes + self.record_overhead();
        let record = record.get_mut(..record_bytes).ok_or(SealError::BufferTooSmall)?;
        self.check_limit(1)?;
        let frame = self.frame(self.position, content_type::APPLICATION_DATA, plaintext_bytes);
        let (front, rest) = record.split_at_mut(self.layout.front_bytes());
        let (body, back) = rest.split_at_mut(plaintext_bytes);
        frame.write_front(front);
        self.expanded
            .seal_in_place_scatter(
                frame.nonce(),
                Aad::from(&frame.additional),
                body,
                frame.inner_type(),
                back,
            )
            .expect(AEAD_CANNOT_FAIL);
        self.position += 1;
        Ok(record_bytes)
    }

    /// Makes the record at `position` again from its `plaintext` (at most [`PLAINTEXT_MAX`]), and returns its length.
    /// `expected_tag` is the [`tag`] it had when it was first sealed.
    ///
    /// The comparison need not take constant time: the tag is visible on the wire, and both compared values are our own.
    ///
    /// # Errors
    /// [`ResealError::ChangedUnderUs`] if the tag and thus the plaintext differs: `out` is wiped, and the connection
    /// must end without sending anything more of it. [`ResealError::OutOfReach`] for positions of earlier keys or of
    /// the future, [`ResealError::BufferTooSmall`].
    ///
    /// # Panics
    /// If `plaintext` exceeds [`PLAINTEXT_MAX`].
    pub fn reseal(
        &self,
        position: u64,
        plaintext: &[u8],
        out: &mut [u8],
        expected_tag: &[u8; TAG_BYTES],
    ) -> Result<usize, ResealError> {
        assert!(plaintext.len() <= PLAINTEXT_MAX, "a record is made again by itself");
        let record_bytes = self.seal_reserved(position, plaintext, out)?;
        let record = &mut out[..record_bytes];
        if tag(record) != *expected_tag {
            record.fill(0);
            return Err(ResealError::ChangedUnderUs);
        }
        Ok(record_bytes)
    }

    /// Seals an alert; 48 bytes of `out` ([`crate::CONTROL_RECORD_BYTES_MAX`]) are always enough. Returns the bytes written. This works at the key
    /// limit too, so that a connection with exhausted keys can still be closed properly.
    ///
    /// # Errors
    /// [`SealError::BufferTooSmall`].
    pub fn seal_alert(&mut self, alert: Alert, out: &mut [u8]) -> Result<usize, SealError> {
        self.seal_control(content_type::ALERT, &[alert.level(), alert.description()], out)
    }

    /// Seals a record without data, which the peer ignores (RFC 5246 section 6.2.1, RFC 8446 section 5.1). Returns the bytes written.
    ///
    /// # Errors
    /// As [`Self::seal_alert`].
    pub fn seal_nothing(&mut self, out: &mut [u8]) -> Result<usize, SealError> {
        self.seal_control(content_type::APPLICATION_DATA, &[], out)
    }

    /// Returns true if these keys should be changed soon ([`Self::seal_key_update`]), because they have sealed `records_max` records or a prudent
    /// number for the cipher. Never true for TLS 1.2, where [`SealError::KeysExhausted`] ends the connection after 360 GiB.
    pub fn needs_key_update(&self, records_max: u64) -> bool {
        let soft = records_soft(self.keys.suite()).min(records_max);
        self.keys.version() == TlsVersion::Tls13 && self.sequence(self.position) >= soft
    }

    /// Seals a key update message and switches to the next keys (RFC 8446 section 4.6.3). `request_peer` asks the peer
    /// to update its own; an answer to the peer's request must not ask. Nothing sealed before can be made again
    /// afterwards. Returns the bytes written.
    ///
    /// # Errors
    /// [`SealError::NotTls13`], [`SealError::BufferTooSmall`].
    pub fn seal_key_update(
        &mut self,
        request_peer: bool,
        out: &mut [u8],
    ) -> Result<usize, SealError> {
        self.change_keys(request_peer, out).map(|(record_bytes, _)| record_bytes)
    }

    /// As [`Self::seal_key_update`], but also returns the former keys, for records sealed with them that may be made again.
    pub(crate) fn change_keys(
        &mut self,
        request_peer: bool,
        out: &mut [u8],
    ) -> Result<(usize, Self), SealError> {
        let keys = self.keys.next().ok_or(SealError::NotTls13)?;
        let record_bytes = self.seal_key_update_message(request_peer, out)?;
        let next = Self {
            expanded: keys.expand(),
            keys,
            layout: self.layout,
            position: self.position,
            generation_start: self.position,
            reach_start: self.position,
        };
        Ok((record_bytes, std::mem::replace(self, next)))
    }

    fn seal_key_update_message(
        &mut self,
        request_peer: bool,
        out: &mut [u8],
    ) -> Result<usize, SealError> {
        let message = [handshake_type::KEY_UPDATE, 0, 0, 1, u8::from(request_peer)];
        self.seal_control(content_type::HANDSHAKE, &message, out)
    }

    /// Reserves the positions of the next `records`, to be sealed by [`Self::seal_reserved`]. Returns the first.
    pub(crate) fn reserve(&mut self, records: u64) -> Result<u64, SealError> {
        self.check_limit(records)?;
        let first = self.position;
        self.position += records;
        Ok(first)
    }

    /// How many records may still be sealed before the keys should be changed. If they cannot be changed: before they
    /// are exhausted.
    pub(crate) fn records_left(&self, records_max: u64) -> u64 {
        let suite = self.keys.suite();
        let max = match self.keys.version() {
            TlsVersion::Tls13 => records_soft(suite).min(records_max),
            TlsVersion::Tls12 => self::records_max(suite),
        };
        max.saturating_sub(self.sequence(self.position))
    }

    /// Seals one record at a reserved position. The caller ensures that no position is sealed with two plaintexts.
    pub(crate) fn seal_reserved(
        &self,
        position: u64,
        plaintext: &[u8],
        out: &mut [u8],
    ) -> Result<usize, ResealError> {
        if !(self.reach_start..self.position).contains(&position) {
            return Err(ResealError::OutOfReach);
        }
        let record_bytes = plaintext.len() + self.record_overhead();
        let record = out.get_mut(..record_bytes).ok_or(ResealError::BufferTooSmall)?;
        self.write_record(position, content_type::APPLICATION_DATA, plaintext, record);
        Ok(record_bytes)
    }

    fn seal_control(
        &mut self,
        content_type: u8,
        message: &[u8],
        out: &mut [u8],
    ) -> Result<usize, SealError> {
        let record_bytes = message.len() + self.record_overhead();
        let record = out.get_mut(..record_bytes).ok_or(SealError::BufferTooSmall)?;
        self.write_record(self.position, content_type, message, record);
        self.position += 1;
        Ok(record_bytes)
    }

    fn check_limit(&self, records: u64) -> Result<(), SealError> {
        if self.sequence(self.position) + records > records_max(self.keys.suite()) {
            Err(SealError::KeysExhausted)
        } else {
            Ok(())
        }
    }

    fn sequence(&self, position: u64) -> u64 {
        position - self.generation_start
    }

    /// Writes the record at `position` over the whole of `out`, which has exactly its length.
    fn write_record(&self, position: u64, content_type: u8, plaintext: &[u8], out: &mut [u8]) {
        let frame = self.frame(position, content_type, plaintext.len());
        let (front, rest) = out.split_at_mut(self.layout.front_bytes());
        let (body, back) = rest.split_at_mut(plaintext.len());
        frame.write_front(front);
        let additional = Aad::from(&frame.additional);
        self.expanded
            .seal_out_of_place_scatter(
                frame.nonce(),
                additional,
                plaintext,
                body,
                frame.inner_type(),
                back,
            )
            .expect(AEAD_CANNOT_FAIL);
    }

    fn frame(&self, position: u64, content_type: u8, plaintext_bytes: usize) -> Frame {
        let sequence = self.sequence(position);
        let layout = self.layout;
        let body_bytes = layout.explicit_nonce_bytes() + plaintext_bytes + layout.back_bytes();
        let (header, additional) = match layout {
            Layout::Tls13 => {
                let header = header(content_type::APPLICATION_DATA, body_bytes);
                (header, AdditionalData::tls13(header))
            }
            Layout::Tls12Gcm | Layout::Tls12ChaCha => {
                let header = header(content_type, body_bytes);
                (header, AdditionalData::tls12(sequence, header, plaintext_bytes))
            }
        };
        Frame {
            layout,
            header,
            nonce: self.keys.nonce(sequence),
            additional,
            content_type: [content_type],
        }
    }
}

const AEAD_CANNOT_FAIL: &str =
    "lengths were computed together and are far below the cipher's own limits";

/// Everything about one record except plaintext and output.
struct Frame {
    layout: Layout,
    header: [u8; HEADER_BYTES],
    nonce: [u8; NONCE_BYTES],
    additional: AdditionalData,
    content_type: [u8; 1],
}

impl Frame {
    fn nonce(&self) -> Nonce {
        Nonce::assume_unique_for_key(self.nonce)
    }

    /// The content type that is sealed after the plaintext; empty in TLS 1.2.
    fn inner_type(&self) -> &[u8] {
        &self.content_type[..self.layout.inner_type_bytes()]
    }

    /// Writes the header and, where records carry one, the explicit nonce: its last 8 bytes.
    fn write_front(&self, front: &mut [u8]) {
        let (header, explicit) = front.split_at_mut(HEADER_BYTES);
        header.copy_from_slice(&self.header);
        explicit.copy_from_slice(&self.nonce[NONCE_BYTES - explicit.len()..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::tests::keys;

    fn sealer(version: TlsVersion, suite: Suite) -> Sealer {
        Sealer::new(keys(version, suite), 1)
    }

    #[test]
    fn gcm_keys_ask_for_an_update_and_then_stop() {
        let mut sealer = sealer(TlsVersion::Tls13, Suite::Aes128Gcm);
        let mut out = [0; 100];
        assert!(!sealer.needs_key_update(u64::MAX));
        sealer.position = 5;
        assert!(sealer.needs_key_update(5) && !sealer.needs_key_update(6));
        sealer.position = GCM_RECORDS_SOFT;
        assert!(sealer.needs_key_update(u64::MAX));
        sealer.position = GCM_RECORDS_MAX;
        assert_eq!(sealer.seal(b"x", &mut out), Err(SealError::KeysExhausted));
        assert_eq!(sealer.seal_in_place(&mut out, 1), Err(SealError::KeysExhausted));
        assert!(sealer.seal_key_update(false, &mut out).is_ok());
        assert!(!sealer.needs_key_update(u64::MAX));
        assert!(sealer.seal(b"x", &mut out).is_ok());
    }

    #[test]
    fn tls12_keys_at_their_limit_can_only_say_goodbye() {
        let mut sealer = sealer(TlsVersion::Tls12, Suite::Aes256Gcm);
        let mut out = [0; 100];
        sealer.position = GCM_RECORDS_MAX;
        assert!(!sealer.needs_key_update(u64::MAX));
        assert_eq!(sealer.seal(b"x", &mut out), Err(SealError::KeysExhausted));
        assert_eq!(sealer.seal_key_update(false, &mut out), Err(SealError::NotTls13));
        assert_eq!(sealer.seal_alert(Alert::CloseNotify, &mut out), Ok(31));
    }

    #[test]
    fn refusal_uses_no_position_and_writes_nothing() {
        let mut sealer = sealer(TlsVersion::Tls13, Suite::Aes128Gcm);
        let mut out = [9; 26];
        assert_eq!(sealer.seal(b"12345", &mut out), Err(SealError::BufferTooSmall));
        assert_eq!(sealer.seal_in_place(&mut out, 5), Err(SealError::BufferTooSmall));
        assert_eq!(sealer.seal_copied(b"12345", &mut out), Err(SealError::BufferTooSmall));
        assert_eq!((sealer.position(), out), (1, [9; 26]));
    }

    #[test]
    fn in_place_and_out_of_place_make_the_same_record() {
        for (version, suite) in crate::secrets::tests::ALL {
            let (mut one, mut other) = (sealer(version, suite), sealer(version, suite));
            let plaintext = [5; 1000];
            let (mut out, mut in_place) = ([0; 1100], [0; 1100]);
            let bytes = one.seal(&plaintext, &mut out).unwrap();
            let front = other.front_bytes();
            in_place[front..front + 1000].copy_from_slice(&plaintext);
            assert_eq!(other.seal_in_place(&mut in_place, 1000), Ok(bytes));
            assert_eq!(out, in_place);
            assert_eq!(bytes as u64, one.sealed_bytes(1000));
            assert_eq!(bytes, front + 1000 + one.back_bytes());
        }
    }

    #[test]
    fn copying_first_makes_the_same_records() {
        for (version, suite) in crate::secrets::tests::ALL {
            for plaintext_bytes in [0, 1, PLAINTEXT_MAX, PLAINTEXT_MAX + 1, 3 * PLAINTEXT_MAX - 5] {
                let (mut one, mut other) = (sealer(version, suite), sealer(version, suite));
                let plaintext: Vec<u8> = (0..plaintext_bytes).map(|index| index as u8).collect();
                let sealed_bytes = one.sealed_bytes(plaintext_bytes as u64) as usize;
                let (mut out, mut copied) = (vec![0; sealed_bytes], vec![0; sealed_bytes]);
                assert_eq!(one.seal(&plaintext, &mut out), Ok(sealed_bytes));
                assert_eq!(other.seal_copied(&plaintext, &mut copied), Ok(sealed_bytes));
                assert!(out == copied && one.position() == other.position());
            }
        }
    }

    #[test]
    fn positions_of_old_keys_and_of_the_future_are_out_of_reach() {
        let mut sealer = sealer(TlsVersion::Tls13, Suite::Aes128Gcm);
        let (mut out, mut again) = ([0; 100], [0; 100]);
        let bytes = sealer.seal(b"frame", &mut out).unwrap();
        let sent = tag(&out[..bytes]);
        assert_eq!(sealer.reseal(1, b"frame", &mut again, &sent), Ok(bytes));
        assert_eq!(sealer.reseal(0, b"frame", &mut again, &sent), Err(ResealError::OutOfReach));
        assert_eq!(sealer.reseal(2, b"frame", &mut again, &sent), Err(ResealError::OutOfReach));
        sealer.seal_key_update(false, &mut out).unwrap();
        assert_eq!(sealer.reseal(1, b"frame", &mut again, &sent), Err(ResealError::OutOfReach));
    }
}
