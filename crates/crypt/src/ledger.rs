//! Records for a transport that keeps no bytes: each can be made as often as it is asked for, until the peer has it.
//!
//! Positions are set aside for a whole response before any of it is sealed ([`Ledger::reserve`]); a record is made from its
//! plaintext when the transport wants it ([`Ledger::make`]), and again when it was lost. What is kept of it is its tag.
//!
//! Invariants:
//! - A position is sealed with one plaintext only: the first making keeps the tag, every later one compares, and wipes what
//!   came out different. That holds also for records that were made and then not sent.
//! - Keys that were changed are kept until the peer has acknowledged all that they sealed, and no longer.
//!
//! Refused: positions that nobody set aside, or that were acknowledged.

use std::collections::VecDeque;

use crate::error::{Alert, ResealError, SealError};
use crate::record::{TAG_BYTES, tag};
use crate::seal::{EXPANDED_KEY_BYTES, Sealer};

/// The sending half of a connection over such a transport.
pub struct Ledger {
    sealer: Sealer,
    /// Earlier keys, the oldest first: [`Sealer::position`] is where each was followed by the next.
    former: VecDeque<Sealer>,
    /// Tags of the records from `tags_start` on; none for those that were not made, and for alerts and key updates.
    tags: VecDeque<Option<[u8; TAG_BYTES]>>,
    tags_start: u64,
}

/// A record that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// Bytes of the record.
    pub bytes: usize,
    /// Whether it had been made before.
    pub again: bool,
}

impl Ledger {
    /// Takes the sending half over as the handshake left it.
    pub fn new(sealer: Sealer) -> Self {
        let tags_start = sealer.position();
        Self { sealer, former: VecDeque::new(), tags: VecDeque::new(), tags_start }
    }

    /// Bytes that one record adds to its plaintext ([`Sealer::record_overhead`]).
    pub fn record_overhead(&self) -> usize {
        self.sealer.record_overhead()
    }

    /// The position of what is set aside or sealed next.
    pub fn position(&self) -> u64 {
        self.sealer.position()
    }

    /// Records that may still be set aside before the keys should be changed, which is after `records_max` or what is
    /// prudent for the cipher; in TLS 1.2, which cannot change them, at all.
    pub fn records_left(&self, records_max: u64) -> u64 {
        self.sealer.records_left(records_max)
    }

    /// Sets positions aside for `records` records that follow each other. Returns the first.
    ///
    /// # Errors
    /// [`SealError::KeysExhausted`] at the AEAD limit; none is set aside then.
    pub fn reserve(&mut self, records: u64) -> Result<u64, SealError> {
        self.sealer.reserve(records)
    }

    /// Makes the record at `position` of `plaintext`, at the front of `out`, for the first time or again.
    ///
    /// # Errors
    /// [`ResealError::ChangedUnderUs`] if it was made before and came out different: `out` is wiped then, and the connection
    /// must end with nothing more of it sent. [`ResealError::OutOfReach`] for positions that were not set aside or were
    /// acknowledged, [`ResealError::BufferTooSmall`].
    ///
    /// # Panics
    /// If `plaintext` exceeds [`crate::PLAINTEXT_MAX`].
    pub fn make(
        &mut self,
        position: u64,
        plaintext: &[u8],
        out: &mut [u8],
    ) -> Result<Made, ResealError> {
        let index = position.checked_sub(self.tags_start).ok_or(ResealError::OutOfReach)?;
        let index = usize::try_from(index).map_err(|_| ResealError::OutOfReach)?;
        let sealer = self.former.iter().find(|former| position < former.position());
        let sealer = sealer.unwrap_or(&self.sealer);
        if let Some(Some(expected)) = self.tags.get(index) {
            let bytes = sealer.reseal(position, plaintext, out, expected)?;
            return Ok(Made { bytes, again: true });
        }
        let bytes = sealer.seal_reserved(position, plaintext, out)?;
        if self.tags.len() <= index {
            self.tags.resize(index + 1, None);
        }
        self.tags[index] = Some(tag(&out[..bytes]));
        Ok(Made { bytes, again: false })
    }

    /// The peer has everything below `position`: it is never made again, and what was kept for that is let go.
    pub fn acknowledge_below(&mut self, position: u64) {
        let count = position.saturating_sub(self.tags_start);
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(self.tags.len());
        self.tags.drain(..count);
        self.tags_start = self.tags_start.max(position);
        if self.tags.is_empty() {
            // An idle viewer keeps no room for tags.
            self.tags = VecDeque::new();
        }
        while self.former.front().is_some_and(|former| former.position() <= position) {
            self.former.pop_front();
        }
        if self.former.is_empty() {
            self.former = VecDeque::new();
        }
    }

    /// Earlier keys that are kept now.
    pub fn former_keys_count(&self) -> usize {
        self.former.len()
    }

    /// Bytes of memory that earlier keys take.
    pub fn former_keys_bytes(&self) -> usize {
        let expanded = self.former.len() * EXPANDED_KEY_BYTES;
        self.former.capacity() * size_of::<Sealer>() + expanded
    }

    /// Bytes of memory that it takes, its own size included.
    pub fn memory_bytes(&self) -> usize {
        let tags = self.tags.capacity() * size_of::<Option<[u8; TAG_BYTES]>>();
        size_of::<Self>() + EXPANDED_KEY_BYTES + self.former_keys_bytes() + tags
    }

    /// Tags that are kept now.
    pub fn tags_count(&self) -> usize {
        self.tags.len()
    }

    /// Seals an alert, whose bytes the caller keeps until they are acknowledged ([`Sealer::seal_alert`]).
    ///
    /// # Errors
    /// [`SealError::BufferTooSmall`].
    pub fn seal_alert(&mut self, alert: Alert, out: &mut [u8]) -> Result<usize, SealError> {
        self.sealer.seal_alert(alert, out)
    }

    /// Seals a key update, whose bytes the caller keeps until they are acknowledged, and moves on to the next keys for what
    /// is set aside from now on ([`Sealer::seal_key_update`]).
    ///
    /// # Errors
    /// [`SealError::NotTls13`], [`SealError::BufferTooSmall`].
    pub fn seal_key_update(
        &mut self,
        request_peer: bool,
        out: &mut [u8],
    ) -> Result<usize, SealError> {
        let (bytes, former) = self.sealer.change_keys(request_peer, out)?;
        self.former.push_back(former);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::tests::{ALL, keys};
    use crate::secrets::{Suite, Version};

    fn ledger() -> Ledger {
        Ledger::new(Sealer::new(keys(Version::Tls13, Suite::Aes128Gcm), 1))
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
        assert_eq!((ledger.tags_count(), ledger.tags.capacity()), (0, 0));
    }
}
