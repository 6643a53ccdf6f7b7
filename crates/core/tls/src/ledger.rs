//! Records that can be made again until the peer has them, without keeping their bytes. Only a record's tag is kept.
//!
//! Our own TCP wants records in any order. Positions are reserved for a whole response before any of it is sealed
//! ([`Ledger::reserve`]). A record is made from its plaintext when it is wanted ([`Ledger::make`]), and again if it was
//! lost.
//!
//! A kernel socket takes bytes in order, so records are sealed in order ([`Ledger::seal`]). When the buffer of records that it did not take is taken
//! back, their tags are kept ([`Ledger::take_back`]), and they can be made again as above.
//!
//! Invariants:
//! - A position is sealed with one plaintext only: the first time keeps the tag; every later time compares tags, and wipes a record that came out
//!   different. That holds also for records that were made and then not sent.
//! - Former keys are kept until the peer has acknowledged everything that they sealed, and no longer.
//!
//! Refused: positions that were not reserved, or that were acknowledged.

use std::collections::VecDeque;

use crate::error::{Alert, ResealError, SealError};
use crate::record::{TAG_BYTES, tag};
use crate::seal::{EXPANDED_KEY_BYTES, Sealer};

/// The sending half of a connection.
pub struct Ledger {
    sealer: Sealer,
    /// `None` while no record can be requested: an idle viewer keeps no memory for it.
    past: Option<Box<Past>>,
}

/// The state for making records again.
struct Past {
    /// The first position that may be made.
    tags_start: u64,
    /// Former keys, oldest first: [`Sealer::position`] is where each was replaced by the next.
    former: VecDeque<Sealer>,
    /// Tags of the records from `tags_start` on; `None` for records that were not made, and for alerts and key updates.
    tags: VecDeque<Option<[u8; TAG_BYTES]>>,
}

/// A record that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// Bytes of the record.
    pub bytes: usize,
    /// Set if it had been made before.
    pub again: bool,
}

impl Ledger {
    /// Takes over the sending half from the handshake.
    pub fn new(sealer: Sealer) -> Self {
        Self { sealer, past: None }
    }

    /// Gives the sending half back. No record can be made again afterwards.
    pub fn into_sealer(self) -> Sealer {
        self.sealer
    }

    /// Bytes that one record adds to its plaintext ([`Sealer::record_overhead`]).
    pub fn record_overhead(&self) -> usize {
        self.sealer.record_overhead()
    }

    /// The position of the next reserved or sealed record.
    pub fn position(&self) -> u64 {
        self.sealer.position()
    }

    /// How many records may still be reserved before the keys should be changed, which is after `records_max` or a prudent number for the cipher. In
    /// TLS 1.2, which cannot change keys: before the keys are exhausted.
    pub fn records_left(&self, records_max: u64) -> u64 {
        self.sealer.records_left(records_max)
    }

    /// As [`Sealer::needs_key_update`].
    pub fn needs_key_update(&self, records_max: u64) -> bool {
        self.sealer.needs_key_update(records_max)
    }

    /// Seals `plaintext` in order ([`Sealer::seal`]). Records made before cannot be made again afterwards, and these
    /// only if [`Self::take_back`] keeps their tags.
    ///
    /// # Errors
    /// As [`Sealer::seal`].
    pub fn seal(&mut self, plaintext: &[u8], out: &mut [u8]) -> Result<usize, SealError> {
        let sealed_bytes = self.sealer.seal(plaintext, out)?;
        self.acknowledge_below(self.sealer.position());
        Ok(sealed_bytes)
    }

    /// As [`Self::seal`], in two passes ([`Sealer::seal_copied`]).
    ///
    /// # Errors
    /// As [`Sealer::seal`].
    pub fn seal_copied(&mut self, plaintext: &[u8], out: &mut [u8]) -> Result<usize, SealError> {
        let sealed_bytes = self.sealer.seal_copied(plaintext, out)?;
        self.acknowledge_below(self.sealer.position());
        Ok(sealed_bytes)
    }

    /// Keeps the tags of `records`, so that they can be made again. They are the last ones that [`Self::seal`] has
    /// sealed, in order.
    pub fn take_back<'a>(&mut self, records: impl Iterator<Item = &'a [u8]>) {
        let tags: VecDeque<_> = records.map(|record| Some(tag(record))).collect();
        let tags_start = self.sealer.position() - tags.len() as u64;
        self.past = Some(Box::new(Past { tags_start, former: VecDeque::new(), tags }));
    }

    /// Reserves positions for `records` consecutive records. Returns the first.
    ///
    /// # Errors
    /// [`SealError::KeysExhausted`] at the AEAD limit; nothing is reserved then.
    pub fn reserve(&mut self, records: u64) -> Result<u64, SealError> {
        let first = self.sealer.reserve(records)?;
        self.past_from(first);
        Ok(first)
    }

    /// Makes the record at `position` from `plaintext`, at the front of `out`, for the first time or again.
    ///
    /// # Errors
    /// [`ResealError::ChangedUnderUs`] if it was made before and came out different: `out` is wiped, and the connection
    /// must end without sending anything more of it. [`ResealError::OutOfReach`] for positions that were not reserved
    /// or were acknowledged, [`ResealError::BufferTooSmall`].
    ///
    /// # Panics
    /// If `plaintext` exceeds [`crate::PLAINTEXT_MAX`].
    pub fn make(
        &mut self,
        position: u64,
        plaintext: &[u8],
        out: &mut [u8],
    ) -> Result<Made, ResealError> {
        let past = self.past.as_deref_mut().ok_or(ResealError::OutOfReach)?;
        let index = position.checked_sub(past.tags_start).ok_or(ResealError::OutOfReach)?;
        let index = usize::try_from(index).map_err(|_| ResealError::OutOfReach)?;
        let former = past.former.iter().find(|former| position < former.position());
        let sealer = former.unwrap_or(&self.sealer);
        if let Some(Some(expected)) = past.tags.get(index) {
            let bytes = sealer.reseal(position, plaintext, out, expected)?;
            return Ok(Made { bytes, again: true });
        }
        let bytes = sealer.seal_reserved(position, plaintext, out)?;
        if past.tags.len() <= index {
            past.tags.resize(index + 1, None);
        }
        past.tags[index] = Some(tag(&out[..bytes]));
        Ok(Made { bytes, again: false })
    }

    /// Records that the peer has everything below `position`, and drops the state for making it again.
    pub fn acknowledge_below(&mut self, position: u64) {
        let Some(past) = &mut self.past else { return };
        past.forget_below(position);
        if past.former.is_empty() && past.tags_start >= self.sealer.position() {
            self.past = None;
        }
    }

    fn past_from(&mut self, position: u64) -> &mut Past {
        self.past.get_or_insert_with(|| {
            let (former, tags) = (VecDeque::new(), VecDeque::new());
            Box::new(Past { tags_start: position, former, tags })
        })
    }

    /// How many former keys are kept now.
    pub fn former_keys_count(&self) -> usize {
        self.past.as_ref().map_or(0, |past| past.former.len())
    }

    /// Bytes of memory that former keys take.
    pub fn former_keys_bytes(&self) -> usize {
        self.past.as_ref().map_or(0, |past| {
            past.former.capacity() * size_of::<Sealer>() + past.former.len() * EXPANDED_KEY_BYTES
        })
    }

    /// Bytes of memory, its own size included.
    pub fn memory_bytes(&self) -> usize {
        let past = self.past.as_ref().map_or(0, |past| {
            size_of::<Past>() + past.tags.capacity() * size_of::<Option<[u8; TAG_BYTES]>>()
        });
        size_of::<Self>() + EXPANDED_KEY_BYTES + self.former_keys_bytes() + past
    }

    /// How many tags are kept now.
    pub fn tags_count(&self) -> usize {
        self.past.as_ref().map_or(0, |past| past.tags.len())
    }

    /// Seals an alert. The caller keeps its bytes until they are acknowledged ([`Sealer::seal_alert`]).
    ///
    /// # Errors
    /// [`SealError::BufferTooSmall`].
    pub fn seal_alert(&mut self, alert: Alert, out: &mut [u8]) -> Result<usize, SealError> {
        self.sealer.seal_alert(alert, out)
    }

    /// Seals a record without data ([`Sealer::seal_nothing`]).
    ///
    /// # Errors
    /// [`SealError::BufferTooSmall`].
    pub fn seal_nothing(&mut self, out: &mut [u8]) -> Result<usize, SealError> {
        self.sealer.seal_nothing(out)
    }

    /// Seals a key update, and switches to the next keys for later reservations ([`Sealer::seal_key_update`]). The caller keeps the bytes until they
    /// are acknowledged.
    ///
    /// # Errors
    /// [`SealError::NotTls13`], [`SealError::BufferTooSmall`].
    pub fn seal_key_update(
        &mut self,
        request_peer: bool,
        out: &mut [u8],
    ) -> Result<usize, SealError> {
        let position = self.sealer.position();
        let (bytes, former) = self.sealer.change_keys(request_peer, out)?;
        self.past_from(position).former.push_back(former);
        Ok(bytes)
    }
}

impl Past {
    /// Drops the tags of all records below `position`, and the keys that sealed nothing from there on.
    fn forget_below(&mut self, position: u64) {
        let count = position.saturating_sub(self.tags_start);
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(self.tags.len());
        self.tags.drain(..count);
        self.tags_start = self.tags_start.max(position);
        while self.former.front().is_some_and(|former| former.position() <= position) {
            self.former.pop_front();
        }
        // A viewer who has acknowledged everything keeps no memory for more.
        if self.tags.is_empty() {
            self.tags = VecDeque::new();
        }
        if self.former.is_empty() {
            self.former = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::tests::{ALL, keys};
    use crate::secrets::{Suite, TlsVersion};

    fn ledger() -> Ledger {
        Ledger::new(Sealer::new(keys(TlsVersion::Tls13, Suite::Aes128Gcm), 1))
    }

    #[test]
    fn records_made_in_any_order_are_those_that_a_sealer_makes_in_order() {
        for (version, suite) in ALL {
            let mut sealer = Sealer::new(keys(version, suite), 1);
            let mut ledger = Ledger::new(Sealer::new(keys(version, suite), 1));
            let first = ledger.reserve(3).unwrap();
            let mut wanted = [[0; 100]; 3];
            for (record, plaintext) in wanted.iter_mut().zip([b"one", b"two", b"six"]) {
                sealer.seal(plaintext, record).unwrap();
            }
            for (offset, plaintext) in [(2, b"six"), (0, b"one"), (1, b"two"), (2, b"six")] {
                let mut made = [0; 100];
                ledger.make(first + offset as u64, plaintext, &mut made).unwrap();
                assert_eq!(made, wanted[offset], "{version:?} {suite:?}");
            }
        }
    }

    #[test]
    fn a_record_made_again_of_other_bytes_never_leaves() {
        let mut ledger = ledger();
        let at = ledger.reserve(1).unwrap();
        let mut out = [0; 100];
        assert!(!ledger.make(at, b"frame", &mut out).unwrap().again);
        assert!(ledger.make(at, b"frame", &mut out).unwrap().again);
        assert_eq!(ledger.make(at, b"fraud", &mut out), Err(ResealError::ChangedUnderUs));
        assert_eq!(out[..27], [0; 27]);
    }

    #[test]
    fn only_what_was_set_aside_and_not_acknowledged_is_made() {
        let mut ledger = ledger();
        let at = ledger.reserve(2).unwrap();
        let mut out = [0; 100];
        assert_eq!(ledger.make(at + 2, b"x", &mut out), Err(ResealError::OutOfReach));
        assert_eq!(ledger.make(at - 1, b"x", &mut out), Err(ResealError::OutOfReach));
        ledger.acknowledge_below(at + 1);
        assert_eq!(ledger.make(at, b"x", &mut out), Err(ResealError::OutOfReach));
        assert!(ledger.make(at + 1, b"x", &mut out).is_ok());
    }

    #[test]
    fn former_keys_are_kept_until_their_records_are_acknowledged() {
        let mut ledger = ledger();
        let at = ledger.reserve(2).unwrap();
        let (mut first, mut out) = ([0; 100], [0; 100]);
        ledger.make(at, b"before", &mut first).unwrap();
        ledger.seal_key_update(false, &mut out).unwrap();
        let after = ledger.reserve(1).unwrap();
        ledger.make(after, b"after", &mut out).unwrap();
        assert!(ledger.make(at, b"before", &mut out).unwrap().again);
        assert_eq!(out[..28], first[..28]);
        assert!(!ledger.make(at + 1, b"late", &mut out).unwrap().again);
        ledger.acknowledge_below(after);
        assert_eq!((ledger.former_keys_count(), ledger.tags_count()), (0, 1));
        assert!(ledger.make(after, b"after", &mut out).unwrap().again);
    }

    #[test]
    fn an_acknowledged_ledger_keeps_nothing() {
        let mut ledger = ledger();
        let at = ledger.reserve(100).unwrap();
        let mut out = [0; 100];
        for position in at..at + 100 {
            ledger.make(position, b"x", &mut out).unwrap();
        }
        assert_eq!(ledger.tags_count(), 100);
        ledger.acknowledge_below(at + 100);
        assert!(ledger.past.is_none());
    }

    #[test]
    fn what_was_sealed_in_order_and_taken_back_is_made_again_and_nothing_else() {
        let mut ledger = ledger();
        let (mut sent, mut taken_back, mut out) = ([0; 100], [0; 100], [0; 100]);
        ledger.seal(b"sent", &mut sent).unwrap();
        let at = ledger.position();
        let bytes = ledger.seal(b"frame", &mut taken_back).unwrap();
        assert_eq!(ledger.make(at, b"frame", &mut out), Err(ResealError::OutOfReach));
        ledger.take_back([&taken_back[..bytes]].into_iter());
        assert_eq!(ledger.make(at - 1, b"sent", &mut out), Err(ResealError::OutOfReach));
        assert_eq!(ledger.make(at, b"fraud", &mut out), Err(ResealError::ChangedUnderUs));
        assert_eq!(ledger.make(at, b"frame", &mut out), Ok(Made { bytes, again: true }));
        assert_eq!(out[..bytes], taken_back[..bytes]);
        ledger.acknowledge_below(ledger.position());
        assert!(ledger.past.is_none());
        ledger.seal(b"next", &mut out).unwrap();
        assert_eq!(ledger.position(), at + 2);
    }
}
